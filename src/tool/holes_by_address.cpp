#include "tool/holes_by_address.hpp"

#include <algorithm>

namespace berth::tool {

void holes_by_address::count(std::uint32_t at) {
  node& n = nodes_[at];
  n.largest = std::max({n.size, largest(n.left), largest(n.right)});
}

void holes_by_address::split(std::uint32_t at, bytes offset, std::uint32_t& low, std::uint32_t& high) {
  if (at == none) {
    low = high = none;
    return;
  }
  std::uint32_t part = none;
  if (nodes_[at].offset < offset) {
    split(nodes_[at].right, offset, part, high);
    nodes_[at].right = part;
    low = at;
  } else {
    split(nodes_[at].left, offset, low, part);
    nodes_[at].left = part;
    high = at;
  }
  count(at);
}

std::uint32_t holes_by_address::joined(std::uint32_t low, std::uint32_t high) {
  if (low == none || high == none) return low == none ? high : low;
  if (nodes_[low].priority > nodes_[high].priority) {
    nodes_[low].right = joined(nodes_[low].right, high);
    count(low);
    return low;
  }
  nodes_[high].left = joined(low, nodes_[high].left);
  count(high);
  return high;
}

void holes_by_address::insert(bytes offset, bytes size) {
  std::uint32_t made = static_cast<std::uint32_t>(nodes_.size());
  if (unused_.empty()) {
    nodes_.emplace_back();
  } else {
    made = unused_.back();
    unused_.pop_back();
  }
  nodes_[made] = {.offset = offset, .size = size, .largest = size, .priority = random_()};
  std::uint32_t low = none, high = none;
  split(root_, offset, low, high);
  root_ = joined(joined(low, made), high);
}

void holes_by_address::erase(bytes offset) {
  std::uint32_t low = none, rest = none, gone = none, high = none;
  split(root_, offset, low, rest);
  split(rest, offset + 1, gone, high);
  if (gone != none) unused_.push_back(gone);
  root_ = joined(low, high);
}

std::optional<bytes> holes_by_address::first(bytes size) const {
  if (largest(root_) < size) return std::nullopt;
  for (std::uint32_t at = root_;;) {
    const node& n = nodes_[at];
    if (largest(n.left) >= size) {
      at = n.left;
    } else if (n.size >= size) {
      return n.offset;
    } else {
      at = n.right;
    }
  }
}

}  // namespace berth::tool

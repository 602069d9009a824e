#include "trace/segment_map.hpp"

#include <algorithm>
#include <limits>

namespace berth::trace {
namespace {

std::uint64_t end_of(std::uint64_t address, bytes size) noexcept {
  return address + std::min(size, std::numeric_limits<std::uint64_t>::max() - address);
}

}  // namespace

void segment_map::add(std::uint64_t address, bytes size, bool is_private) {
  if (size != 0) whole_.insert_or_assign(address, range{end_of(address, size), is_private});
}

void segment_map::map(std::uint64_t address, bytes size) {
  std::uint64_t begin = address, end = end_of(address, size);
  if (begin == end) return;
  auto at = pages_.upper_bound(begin);
  if (at != pages_.begin() && std::prev(at)->second.end >= begin) --at;
  while (at != pages_.end() && at->first <= end) {
    begin = std::min(begin, at->first);
    end = std::max(end, at->second.end);
    at = pages_.erase(at);
  }
  pages_.emplace(begin, range{end});
}

void segment_map::unmap(std::uint64_t address, bytes size) {
  const std::uint64_t end = end_of(address, size);
  if (end == address) return;
  auto at = pages_.upper_bound(address);
  if (at != pages_.begin() && std::prev(at)->second.end > address) --at;
  while (at != pages_.end() && at->first < end) {
    const std::uint64_t left = at->first, right = at->second.end;
    at = pages_.erase(at);
    if (left < address) pages_.emplace(left, range{address});
    if (right > end) pages_.emplace(end, range{right});
  }
}

segment_map::holes segment_map::beside(std::vector<std::pair<std::uint64_t, std::uint64_t>> live, bytes request) const {
  std::ranges::sort(live);
  holes out;
  std::vector<bytes> sizes;
  const auto look_at = [&](const ranges& all) {
    std::size_t next = 0;
    std::uint64_t covered = 0;  // the furthest end of the blocks before `next`
    for (const auto& [begin, segment] : all) {
      const std::uint64_t end = segment.end;
      std::uint64_t free_from = begin;
      bool empty = true;
      bytes idle = 0;
      const auto note_hole = [&](std::uint64_t to) {
        if (to <= free_from) return;
        const bytes hole = to - free_from;
        idle += hole;
        sizes.push_back(hole);
        if (hole > out.largest) out.largest = hole, out.largest_at = free_from;
      };
      const auto take = [&](std::uint64_t from, std::uint64_t to) {
        if (to <= free_from || from >= to) return;
        empty = false;
        note_hole(from);
        free_from = to;
      };
      if (covered > begin) take(begin, std::min(covered, end));
      for (; next < live.size() && live[next].first < end; ++next) {
        covered = std::max(covered, live[next].second);
        take(std::max(live[next].first, begin), std::min(live[next].second, end));
      }
      note_hole(end);
      ++out.segments;
      out.idle += idle;
      if (empty) out.in_empty += idle;
      if (segment.is_private) out.in_private += idle;
    }
  };
  look_at(whole_);
  look_at(pages_);
  for (const bytes hole : sizes) out.unusable += hole < std::min(request, out.idle) ? hole : 0;
  return out;
}

}  // namespace berth::trace

#include "history.hpp"

#include <algorithm>
#include <iterator>

namespace ascend_simulator {

void join(order& into, const order& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

bool knows(const order& o, moment m) {
  return m.position == 0 || (m.stream < o.size() && o[m.stream] >= m.position);
}

void history::split(number at) {
  auto it = cells_.upper_bound(at);
  if (it == cells_.begin()) return;
  --it;
  if (it->first == at || it->second.end <= at) return;
  cell behind = it->second;
  it->second.end = at;
  cells_.emplace_hint(std::next(it), at, std::move(behind));
}

std::optional<conflict> history::look(number start, std::size_t size, const order& known, bool writes) const {
  if (size == 0) return std::nullopt;
  auto it = cells_.upper_bound(start);
  if (it != cells_.begin() && std::prev(it)->second.end > start) --it;
  for (; it != cells_.end() && it->first < start + size; ++it) {
    const cell& c = it->second;
    if (!knows(known, c.write.when)) return conflict{c.write, true};
    if (!writes) continue;
    for (const access& one : c.reads) {
      if (!knows(known, one.when)) return conflict{one, false};
    }
  }
  return std::nullopt;
}

std::optional<conflict> history::read(number start, std::size_t size, const order& known, access by) {
  if (size == 0) return std::nullopt;
  const auto found = look(start, size, known, false);
  split(start);
  split(start + size);
  number at = start;
  for (auto it = cells_.lower_bound(start); at < start + size;) {
    if (it == cells_.end() || it->first > at) {  // unused bytes
      const number end = it == cells_.end() ? start + size : std::min<number>(it->first, start + size);
      it = cells_.emplace_hint(it, at, cell{.end = end});
    }
    auto& reads = it->second.reads;
    const auto mine = std::ranges::find_if(reads, [&](const access& one) { return one.when.stream == by.when.stream; });
    if (mine != reads.end()) {
      *mine = by;
    } else {
      reads.push_back(by);
    }
    at = it->second.end;
    ++it;
  }
  return found;
}

std::optional<conflict> history::write(number start, std::size_t size, const order& known, access by) {
  if (size == 0) return std::nullopt;
  const auto found = look(start, size, known, true);
  forget(start, size);
  cells_.emplace(start, cell{.end = start + size, .write = by});
  return found;
}

std::optional<access> history::unfinished(number start, std::size_t size, const order& known) const {
  const auto found = look(start, size, known, true);
  return found ? std::optional{found->earlier} : std::nullopt;
}

void history::forget(number start, std::size_t size) {
  split(start);
  split(start + size);
  cells_.erase(cells_.lower_bound(start), cells_.lower_bound(start + size));
}

}  // namespace ascend_simulator

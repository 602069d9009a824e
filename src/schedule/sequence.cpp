#include "schedule/sequence.hpp"

#include <algorithm>
#include <utility>

namespace berth::schedule {

sequence::sequence(const net& n, std::vector<std::uint32_t> order)
    : net_{n},
      order_{std::move(order)},
      place_(n.size(), no_node),
      last_(n.root.size(), no_node),
      number_(n.root.size(), no_node),
      live_(order_.size() + 1, n.live_at_start()) {
  for (std::uint32_t i = 0; i < order_.size(); ++i) place_[order_[i]] = i;
  for (std::uint32_t r = 0; r < n.root.size(); ++r) {
    if (n.stays[r] != 0) continue;
    std::uint32_t last = 0;
    for (const std::uint32_t u : n.users[r]) last = std::max(last, place_[u]);
    last_[r] = last;
  }
  find_live(0, order_.size());
}

void sequence::find_live(std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) {
    live_[i + 1] = live_[i] + net_.makes[order_[i]];
    for (const std::uint32_t r : net_.uses[order_[i]]) live_[i + 1] -= last_[r] == i ? net_.root[r] : 0;
  }
}

bytes sequence::step(std::size_t place) const noexcept {
  const std::uint32_t v = order_[place];
  const bytes whole = live_[place] + net_.makes[v] + net_.extra[v];
  for (const std::uint32_t r : net_.takes[v]) {
    if (last_[r] == place) return whole - net_.root[r];
  }
  return whole;
}

std::vector<std::uint32_t> sequence::number_roots(std::size_t from, std::size_t to) {
  std::vector<std::uint32_t> found;
  for (std::size_t i = from; i < to; ++i) {
    for (const auto roots : {net_.uses[order_[i]], net_.made_by[order_[i]]}) {
      for (const std::uint32_t r : roots) {
        if (std::exchange(number_[r], 0) == no_node) found.push_back(r);
      }
    }
  }
  std::ranges::sort(found);
  for (std::uint32_t i = 0; i < found.size(); ++i) number_[found[i]] = i;
  return found;
}

net sequence::part(std::size_t from, std::size_t to) {
  const std::vector<std::uint32_t> roots = number_roots(from, to);
  net made;
  made.base = made.at_start = live_[from];
  rows producers;
  for (const std::uint32_t r : roots) {
    const std::uint32_t by = net_.producer[r];
    const bool there = by == no_node || place_[by] < from;
    if (there) made.base -= net_.root[r];
    made.root.push_back(net_.root[r]);
    made.stays.push_back(last_[r] >= to ? 1 : 0);
    made.producer.push_back(there ? no_node : place_[by] - static_cast<std::uint32_t>(from));
    producers.add({&made.producer.back(), there ? std::size_t{0} : 1});
  }
  std::vector<std::uint32_t> row;
  for (std::size_t i = from; i < to; ++i) {
    const std::uint32_t v = order_[i];
    made.makes.push_back(net_.makes[v]);
    made.extra.push_back(net_.extra[v]);
    row.clear();
    for (const std::uint32_t u : net_.before[v]) {
      if (place_[u] >= from && place_[u] < to) row.push_back(place_[u] - static_cast<std::uint32_t>(from));
    }
    made.before.add(row);
    row.clear();
    for (const std::uint32_t r : net_.uses[v]) row.push_back(number_[r]);
    made.uses.add(row);
    row.clear();
    for (const std::uint32_t r : net_.takes[v]) {
      if (made.stays[number_[r]] == 0) row.push_back(number_[r]);
    }
    made.takes.add(row);
  }
  for (const std::uint32_t r : roots) number_[r] = no_node;
  made.after = turned(made.before, to - from);
  made.users = turned(made.uses, roots.size());
  made.made_by = turned(producers, to - from);
  return made;
}

void sequence::put(std::size_t from, std::size_t to, std::span<const std::uint32_t> local) {
  const auto begin = order_.begin();
  const std::vector<std::uint32_t> inside(begin + static_cast<std::ptrdiff_t>(from),
                                          begin + static_cast<std::ptrdiff_t>(to));
  for (std::size_t i = from; i < to; ++i) {
    const std::uint32_t v = order_[i] = inside[local[i - from]];
    place_[v] = static_cast<std::uint32_t>(i);
    for (const std::uint32_t r : net_.uses[v]) {
      if (last_[r] >= from && last_[r] < to) last_[r] = static_cast<std::uint32_t>(i);
    }
  }
  find_live(from, to);
}

net part_of(const net& n, std::span<const std::uint32_t> done, std::span<const std::uint32_t> inside) {
  std::vector<std::uint32_t> order(done.begin(), done.end());
  order.insert(order.end(), inside.begin(), inside.end());
  return sequence{n, std::move(order)}.part(done.size(), done.size() + inside.size());
}

}  // namespace berth::schedule

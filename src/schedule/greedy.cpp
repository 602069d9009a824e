#include "schedule/greedy.hpp"

#include <array>

namespace berth::schedule {

std::vector<std::uint32_t> greedy_order(const net& n, const std::vector<std::uint32_t>& hint, rule by,
                                        std::uint64_t& looks_left) {
  std::vector<std::uint32_t> place(n.size());
  for (std::uint32_t i = 0; i < hint.size(); ++i) place[hint[i]] = i;
  std::vector<std::uint32_t> woken(n.size(), 0);  // when it was made ready
  std::vector<std::uint32_t> ready, order;
  walk w{n};
  for (const std::uint32_t v : hint) {
    if (w.ready(v)) ready.push_back(v);
  }
  const auto price = [&](std::uint32_t v) -> std::array<bytes, 3> {
    const bytes left = w.live_after(v);
    const bytes step = w.step(v);
    switch (by) {
      case rule::least_left: return {left, step, place[v]};
      case rule::least_step: return {step, left, place[v]};
      case rule::deepest: break;
    }
    if (left <= w.live()) return {0, left, place[v]};
    return {1 + n.size() - bytes{woken[v]}, left, place[v]};
  };
  while (!ready.empty()) {
    std::size_t best = 0;
    auto least = price(ready[0]);
    for (std::size_t i = 1; i < ready.size(); ++i) {
      const auto here = price(ready[i]);
      if (here >= least) continue;
      least = here;
      best = i;
    }
    if (looks_left <= ready.size()) return {};
    looks_left -= ready.size();
    const std::uint32_t v = ready[best];
    ready[best] = ready.back();
    ready.pop_back();
    w.run(v);
    order.push_back(v);
    for (const std::uint32_t u : n.after[v]) {
      if (!w.ready(u)) continue;
      woken[u] = static_cast<std::uint32_t>(order.size());
      ready.push_back(u);
    }
  }
  return order;
}

}  // namespace berth::schedule

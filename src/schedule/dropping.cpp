#include "schedule/dropping.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

#include "schedule/timeline.hpp"

namespace berth::schedule {
namespace {

using steps_list = std::vector<std::uint32_t>;

constexpr std::size_t tried_by_replay = 12;  // of the candidates at a peak, the most promising
constexpr std::size_t longest_chain = 64;    // nodes that run again for one value

// What was found.
struct dropped {
  steps_list steps;
  double cost = 0;  // of what runs again
  bytes peak = 0;

  // Within the aim the cheaper one, else the lower one.
  [[nodiscard]] bool better_than(const dropped& other, bytes aim) const {
    if (std::max(peak, aim) != std::max(other.peak, aim)) return peak < other.peak;
    return cost < other.cost;
  }
};

// A value dropped before the peak: `again` runs before step `before`, in this order.
struct candidate {
  steps_list again;
  std::uint32_t before = 0;
  double cost = 0;
  double promise = 0;  // bytes freed at the peak, for the cost
};

class dropper {
 public:
  // `thrift`: how much cost counts beside the bytes that it frees.
  dropper(const net& n, steps_list steps, bytes aim, const std::vector<double>& cost,
          const std::vector<std::uint8_t>& may, double thrift)
      : net_{n},
        steps_{std::move(steps)},
        aim_{aim},
        cost_{cost},
        may_{may},
        thrift_{thrift},
        line_{trace_steps(n, steps_)},
        traced_{steps_.size()} {}

  [[nodiscard]] std::uint64_t traced() const noexcept { return traced_; }

  dropped run(const std::atomic<bool>* stop) {
    const auto stopped = [&] { return stop != nullptr && stop->load(std::memory_order_relaxed); };
    // No more runs than nodes twice over: beyond that a budget is out of reach for this rule.
    const std::size_t most = 3 * steps_.size() + 16;
    while (line_.peak > aim_ && steps_.size() < most && !stopped() && improve()) {
    }
    remove_idle(stop);
    dropped made{std::move(steps_), 0, line_.peak};
    std::vector<std::uint8_t> ran(net_.size(), 0);
    for (const std::uint32_t v : made.steps) made.cost += std::exchange(ran[v], 1) != 0 ? cost_[v] : 0;
    return made;
  }

 private:
  [[nodiscard]] timeline trace(const steps_list& steps) {
    traced_ += steps.size();
    return trace_steps(net_, steps);
  }
  [[nodiscard]] double price(double cost) const { return std::pow(cost + 1e-9, thrift_); }

  // How much lies above the aim, over all steps.
  [[nodiscard]] double excess(const timeline& t) const {
    double sum = 0;
    for (const bytes b : t.live) sum += b > aim_ ? static_cast<double>(b - aim_) : 0;
    return sum;
  }

  // The stay of `root` that is there just before step `at`, from whom it could be read if it stayed so long.
  [[nodiscard]] const stay* latest(std::uint32_t root, std::uint32_t at) const {
    const stay* found = nullptr;
    for (const std::uint32_t s : stays_of_[root]) {
      const stay& it = line_.stays[s];
      if (it.born < at || net_.producer[root] == no_node) found = &it;
    }
    return found;
  }

  // Nodes that must run before step `at` so that `v` can run again there, v included; what would otherwise have to stay
  // over the peak for it is made again too. False: it cannot be, or the chain is too long.
  bool chain(std::uint32_t v, std::uint32_t at, std::uint32_t peak, candidate& c, bytes& held) const {
    if (may_[v] == 0 || c.again.size() >= longest_chain) return false;
    for (const std::uint32_t r : net_.uses[v]) {
      const stay* there = latest(r, at);
      if (there == nullptr) return false;
      if (there->last >= at) continue;
      const std::uint32_t p = net_.producer[r];
      if (p != no_node && std::ranges::find(c.again, p) != c.again.end()) continue;
      if (there->last >= peak) continue;  // stays a little longer, behind the peak
      const std::size_t before = c.again.size();
      if (p != no_node && chain(p, at, peak, c, held)) continue;
      c.again.resize(before);
      held += net_.root[r];  // it has to stay over the peak
    }
    c.again.push_back(v);
    return true;
  }

  [[nodiscard]] std::vector<candidate> candidates(std::uint32_t peak) {
    stays_of_.assign(net_.root.size(), {});
    for (std::uint32_t s = 0; s < line_.stays.size(); ++s) stays_of_[line_.stays[s].root].push_back(s);
    std::vector<candidate> all;
    for (const stay& s : line_.stays) {
      if (s.born >= peak || s.last <= peak || net_.producer[s.root] == no_node) continue;
      const auto next = std::ranges::lower_bound(s.uses, peak);
      if (next != s.uses.end() && *next == peak) continue;
      // What is wanted in the end only is made again at the end.
      const auto end = static_cast<std::uint32_t>(steps_.size());
      candidate c;
      c.before = next == s.uses.end() ? end : *next;
      bytes held = 0;
      if (!chain(net_.producer[s.root], c.before, peak, c, held) || held >= net_.root[s.root]) continue;
      for (const std::uint32_t v : c.again) c.cost += cost_[v];
      c.promise = static_cast<double>(net_.root[s.root] - held) / price(c.cost);
      all.push_back(std::move(c));
    }
    std::ranges::stable_sort(all, [](const candidate& a, const candidate& b) { return a.promise > b.promise; });
    return all;
  }

  bool improve() {
    const double before = excess(line_);
    const auto peak = static_cast<std::uint32_t>(std::ranges::max_element(line_.live) - line_.live.begin());
    double best = 0;
    std::optional<std::pair<steps_list, timeline>> chosen;
    const std::vector<candidate> all = candidates(peak);
    for (std::size_t i = 0; i < std::min(all.size(), tried_by_replay); ++i) {
      steps_list longer = steps_;
      longer.insert(longer.begin() + all[i].before, all[i].again.begin(), all[i].again.end());
      timeline line = trace(longer);
      const double gain = (before - excess(line)) / price(all[i].cost);
      if (gain <= best) continue;
      best = gain;
      chosen.emplace(std::move(longer), std::move(line));
    }
    if (!chosen) return false;
    std::tie(steps_, line_) = std::move(*chosen);
    return true;
  }

  // Runs that are not needed any more, the last first.
  void remove_idle(const std::atomic<bool>* stop) {
    const bytes most = std::max(aim_, line_.peak);
    std::vector<std::uint8_t> ran(net_.size(), 0);
    steps_list again;
    for (std::uint32_t i = 0; i < steps_.size(); ++i) {
      if (std::exchange(ran[steps_[i]], 1) != 0) again.push_back(i);
    }
    for (std::size_t k = again.size(); k-- > 0 && !(stop != nullptr && stop->load(std::memory_order_relaxed));) {
      steps_list shorter = steps_;
      shorter.erase(shorter.begin() + again[k]);
      timeline line = trace(shorter);
      if (line.peak > most) continue;
      steps_ = std::move(shorter);
      line_ = std::move(line);
    }
  }

  const net& net_;
  steps_list steps_;
  bytes aim_;
  const std::vector<double>& cost_;
  const std::vector<std::uint8_t>& may_;
  double thrift_;
  timeline line_;
  std::uint64_t traced_;                              // steps
  std::vector<std::vector<std::uint32_t>> stays_of_;  // by root, rising
};

// The steps less one to four of those that run a node again, near each other. What they made is then kept instead.
steps_list without_some(const steps_list& steps, std::uint32_t nodes, std::mt19937& random) {
  std::vector<std::uint8_t> ran(nodes, 0);
  steps_list again;
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    if (std::exchange(ran[steps[i]], 1) != 0) again.push_back(i);
  }
  const std::size_t from = random() % again.size();
  const std::size_t to = std::min<std::size_t>(from + 1 + random() % 4, again.size());
  steps_list fewer;
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    const auto at = std::ranges::lower_bound(again.begin() + static_cast<std::ptrdiff_t>(from),
                                             again.begin() + static_cast<std::ptrdiff_t>(to), i);
    if (at == again.begin() + static_cast<std::ptrdiff_t>(to) || *at != i) fewer.push_back(steps[i]);
  }
  return fewer;
}

}  // namespace

std::vector<std::uint32_t> drop_until(const net& n, const std::vector<std::uint32_t>& steps, bytes aim,
                                      const std::vector<double>& cost, const std::vector<std::uint8_t>& may,
                                      std::uint64_t& work, const std::atomic<bool>* stop) {
  constexpr double thrifts[] = {1, 0.5, 2};
  constexpr std::size_t least_rounds = 100, rounds_a_run = 4;  // without a gain, by what runs again
  const auto drop = [&](const steps_list& from, double thrift) {
    dropper d{n, from, aim, cost, may, thrift};
    dropped made = d.run(stop);
    work -= std::min(work, d.traced());
    return made;
  };
  dropped best = drop(steps, 1);
  std::size_t idle = 0;
  const auto take = [&](dropped made) {
    ++idle;
    if (!made.better_than(best, aim)) return;
    best = std::move(made);
    idle = 0;
  };
  const auto done = [&] {
    return work == 0 || best.steps.size() == steps.size() ||
           idle > least_rounds + rounds_a_run * (best.steps.size() - steps.size()) ||
           (stop != nullptr && stop->load(std::memory_order_relaxed));
  };
  for (const double thrift : {thrifts[1], thrifts[2]}) {
    if (!done()) take(drop(steps, thrift));
  }
  // Some of what runs again no longer does, and what is then missing is found anew.
  std::mt19937 random{1};
  while (!done()) {
    const steps_list fewer = without_some(best.steps, n.size(), random);
    take(drop(fewer, thrifts[random() % std::size(thrifts)]));
  }
  return std::move(best.steps);
}

}  // namespace berth::schedule

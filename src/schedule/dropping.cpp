#include "schedule/dropping.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

namespace berth::schedule {
namespace {

using steps_list = std::vector<std::uint32_t>;

constexpr std::size_t tried_by_replay = 12;  // of the candidates at a peak, the most promising
constexpr std::size_t longest_chain = 64;    // nodes that run again for one value

// A result of the search.
struct dropped {
  steps_list steps;
  double cost = 0;  // of nodes that run again
  bytes peak = 0;

  // Prefers the cheaper one within the aim, else the lower one.
  [[nodiscard]] bool better_than(const dropped& other, bytes aim) const {
    if (std::max(peak, aim) != std::max(other.peak, aim)) return peak < other.peak;
    return cost < other.cost;
  }
};

// A value dropped before the peak: `again` runs before step `before`, in this order. If it is a copy in, and was not
// copied out before, the copy out runs before step `out_at`, and only there.
struct candidate {
  steps_list again;
  std::uint32_t before = 0;
  std::uint32_t out_at = no_node;
  double cost = 0;
  double promise = 0;  // bytes freed at the peak, for the cost
};

// Removes the copies out without a later copy in.
void remove_orphans(const net& n, steps_list& steps) {
  std::vector<std::uint8_t> comes_in(n.root.size(), 0);
  std::size_t kept = steps.size();
  for (std::size_t i = steps.size(); i-- > 0;) {
    const step_meaning it = meaning_of(n, steps[i]);
    if (it.kind == step_kind::out && comes_in[it.index] == 0) continue;
    if (it.kind == step_kind::in) comes_in[it.index] = 1;
    steps[--kept] = steps[i];
  }
  steps.erase(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(kept));
}

// Returns, by step, whether it only serves to free memory and may be removed.
std::vector<std::uint8_t> repeats_of(const net& n, const steps_list& steps) {
  std::vector<std::uint8_t> ran(n.size(), 0), made;
  for (const std::uint32_t s : steps) {
    const step_meaning it = meaning_of(n, s);
    made.push_back(it.kind == step_kind::in || (it.kind == step_kind::node && std::exchange(ran[s], 1) != 0) ? 1 : 0);
  }
  return made;
}

class dropper {
 public:
  // `thrift`: the weight of cost against the freed bytes.
  dropper(const means& by, steps_list steps, bytes aim, double thrift)
      : by_{by},
        net_{by.n},
        steps_{std::move(steps)},
        aim_{aim},
        thrift_{thrift},
        line_{trace_steps(by.n, steps_)},
        traced_{steps_.size()} {}

  [[nodiscard]] std::uint64_t traced() const noexcept { return traced_; }

  dropped run(const std::atomic<bool>* stop) {
    // Adds at most twice as many steps: beyond that a budget is out of reach for this rule.
    const std::size_t most = 3 * steps_.size() + 16;
    while (line_.peak > aim_ && steps_.size() < most && !stopped(stop) && improve()) {
    }
    remove_idle(stop);
    if (by_.link && by_.link->overlap) slide(stop);
    const double cost = extra();
    return {std::move(steps_), cost, line_.peak};
  }

 private:
  [[nodiscard]] timeline trace(const steps_list& steps) {
    traced_ += steps.size();
    return trace_steps(net_, steps);
  }
  [[nodiscard]] double extra() const { return extra_cost_of(net_, steps_, by_.cost, by_.link); }
  [[nodiscard]] double price(double cost) const { return std::pow(cost + 1e-9, thrift_); }

  // Returns the sum of bytes above the aim, over all steps.
  [[nodiscard]] double excess(const timeline& t) const {
    double sum = 0;
    for (const bytes b : t.live) sum += b > aim_ ? static_cast<double>(b - aim_) : 0;
    return sum;
  }

  // Returns the stay of `root` that exists just before step `at`, and from which it could be read if it lasted that
  // long.
  [[nodiscard]] const stay* latest(std::uint32_t root, std::uint32_t at) const {
    const stay* found = nullptr;
    for (const std::uint32_t s : stays_of_[root]) {
      const stay& it = line_.stays[s];
      if (it.born < at || (found == nullptr && net_.producer[root] == no_node)) found = &it;
    }
    return found;
  }

  // Collects the nodes that must run before step `at` so that `v` can run again there, v included. Operands that would
  // have to stay over the peak for it are recomputed too. Returns false if that is impossible, or if the chain is too
  // long with the nodes that `depth` calls above will add to it. So no call is without effect, nor deeper than the
  // longest chain.
  bool chain(std::uint32_t v, std::uint32_t at, std::uint32_t peak, candidate& c, bytes& held,
             std::size_t depth = 0) const {
    if (by_.again[v] == 0 || c.again.size() + depth >= longest_chain) return false;
    for (const std::uint32_t r : net_.uses[v]) {
      const stay* there = latest(r, at);
      if (there == nullptr) return false;
      if (there->last >= at) continue;
      const std::uint32_t p = net_.producer[r];
      if (p != no_node && std::ranges::find(c.again, p) != c.again.end()) continue;
      if (there->last >= peak) continue;  // stays a little longer, behind the peak
      const std::size_t before = c.again.size();
      if (p != no_node && chain(p, at, peak, c, held, depth + 1)) continue;
      c.again.resize(before);
      held += net_.root[r];  // it has to stay over the peak
    }
    c.again.push_back(v);
    return true;
  }

  // Runs the producer of `s` again.
  std::optional<candidate> run_again(const stay& s, std::uint32_t peak, std::uint32_t next) const {
    if (net_.producer[s.root] == no_node) return std::nullopt;
    candidate c;
    c.before = next;
    bytes held = 0;
    if (!chain(net_.producer[s.root], c.before, peak, c, held) || held >= net_.root[s.root]) return std::nullopt;
    for (const std::uint32_t v : c.again) c.cost += by_.cost[v];
    c.promise = static_cast<double>(net_.root[s.root] - held) / price(c.cost);
    return c;
  }

  // Copies it out as late as the steps before the peak allow, and in as early as those behind it do.
  std::optional<candidate> move(const stay& s, std::uint32_t peak, std::uint32_t next) const {
    if (!by_.link || by_.moves[s.root] == 0) return std::nullopt;
    const auto used = std::ranges::lower_bound(s.uses, peak);
    const bool initial = s.born == 0 && (steps_.empty() || !makes(steps_[0], s.root));
    std::uint32_t from = initial ? 0 : s.born + 1;  // the first step that might do without it
    for (auto u = used; u != s.uses.begin();) {
      if (is_out(*--u, s.root)) continue;
      from = *u + 1;
      break;
    }
    candidate c;
    std::uint32_t last = next;
    while (line_.live[last - 1] <= aim_) --last;
    c.before = last;
    c.again = {copy_in(net_, s.root)};
    std::uint32_t first = from;
    while (first < peak && line_.live[first] <= aim_) ++first;
    const bool out_before = outs_of_[s.root] < first;
    if (!out_before) c.out_at = first;
    const double takes = time_of(*by_.link, net_.root[s.root]);
    const double hidden_in = by_.link->overlap ? worked_[next] - worked_[last] : 0;
    const double hidden_out = by_.link->overlap ? worked_[first] - worked_[from] : 0;
    c.cost = std::max(0.0, takes - hidden_in) + (out_before ? 0 : std::max(0.0, takes - hidden_out)) + 0.001 * takes;
    c.promise = static_cast<double>(net_.root[s.root]) / price(c.cost);
    return c;
  }
  [[nodiscard]] bool is_out(std::uint32_t step, std::uint32_t root) const {
    return steps_[step] == copy_out(net_, root);
  }
  [[nodiscard]] bool makes(std::uint32_t step, std::uint32_t root) const {
    return step == copy_in(net_, root) || step == net_.producer[root];
  }

  [[nodiscard]] std::vector<candidate> candidates(std::uint32_t peak) {
    stays_of_.assign(net_.root.size(), {});
    for (std::uint32_t s = 0; s < line_.stays.size(); ++s) stays_of_[line_.stays[s].root].push_back(s);
    const auto end = static_cast<std::uint32_t>(steps_.size());
    outs_of_.assign(net_.root.size(), no_node);
    worked_.assign(1, 0);
    for (std::uint32_t i = 0; i < end; ++i) {
      const step_meaning it = meaning_of(net_, steps_[i]);
      if (it.kind == step_kind::out) outs_of_[it.index] = std::min(outs_of_[it.index], i);
      worked_.push_back(worked_.back() + (it.kind == step_kind::node ? by_.cost[it.index] : 0));
    }
    std::vector<candidate> all;
    for (const stay& s : line_.stays) {
      if (s.born >= peak && (s.born > 0 || peak > 0 || net_.producer[s.root] != no_node)) continue;
      if (s.last <= peak) continue;
      auto next = std::ranges::lower_bound(s.uses, peak);
      while (next != s.uses.end() && is_out(*next, s.root)) ++next;
      // A value needed only at the end is recomputed at the end.
      const std::uint32_t wanted = next == s.uses.end() ? end : *next;
      if (wanted == peak) continue;
      if (next == s.uses.end() && net_.stays[s.root] == 0) continue;  // for a copy out only
      if (auto c = run_again(s, peak, wanted)) all.push_back(std::move(*c));
      if (auto c = move(s, peak, wanted)) all.push_back(std::move(*c));
    }
    std::ranges::stable_sort(all, [](const candidate& a, const candidate& b) { return a.promise > b.promise; });
    return all;
  }

  [[nodiscard]] steps_list with(const candidate& c) const {
    steps_list longer;
    longer.reserve(steps_.size() + c.again.size() + 1);
    const std::uint32_t out = c.out_at == no_node ? no_node : copy_out(net_, meaning_of(net_, c.again.front()).index);
    for (std::uint32_t i = 0; i <= steps_.size(); ++i) {
      if (i == c.out_at) longer.push_back(out);
      if (i == c.before) longer.insert(longer.end(), c.again.begin(), c.again.end());
      if (i < steps_.size() && steps_[i] != out) longer.push_back(steps_[i]);
    }
    return longer;
  }

  bool improve() {
    const double before = excess(line_);
    const double spent = by_.link ? extra() : 0;
    const auto peak = static_cast<std::uint32_t>(std::ranges::max_element(line_.live) - line_.live.begin());
    if (before == 0) return false;  // the start or the end needs so much
    double best = 0;
    std::optional<std::pair<steps_list, timeline>> chosen;
    const std::vector<candidate> all = candidates(peak);
    for (std::size_t i = 0; i < std::min(all.size(), tried_by_replay); ++i) {
      steps_list longer = with(all[i]);
      timeline line = trace(longer);
      // While copies run, an added step may cost more or less than it does alone.
      const double cost =
          by_.link ? std::max(0.0, extra_cost_of(net_, longer, by_.cost, by_.link) - spent) : all[i].cost;
      const double gain = (before - excess(line)) / price(cost);
      if (gain <= best) continue;
      best = gain;
      chosen.emplace(std::move(longer), std::move(line));
    }
    if (!chosen) return false;
    std::tie(steps_, line_) = std::move(*chosen);
    return true;
  }

  // Removes runs and copies that are not needed any more, the last first.
  void remove_idle(const std::atomic<bool>* stop) {
    const bytes most = std::max(aim_, line_.peak);
    std::vector<std::uint8_t> repeats = repeats_of(net_, steps_);
    for (std::size_t i = steps_.size(); i-- > 0 && !stopped(stop);) {
      if (i >= steps_.size() || repeats[i] == 0) continue;
      steps_list shorter = steps_;
      shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(i));
      remove_orphans(net_, shorter);
      timeline line = trace(shorter);
      if (line.peak > most) continue;
      i -= std::min(i, steps_.size() - shorter.size() - 1);  // copies out went with it
      steps_ = std::move(shorter);
      line_ = std::move(line);
      repeats = repeats_of(net_, steps_);
    }
  }

  // Moves copies out later and copies in earlier within the available room, if that saves waiting.
  void slide(const std::atomic<bool>* stop) {
    const bytes most = std::max(aim_, line_.peak);
    double cost = extra();
    for (std::size_t k = 0; k < steps_.size() && !stopped(stop); ++k) {
      const step_meaning it = meaning_of(net_, steps_[k]);
      if (it.kind == step_kind::node || cost == 0) continue;
      const bytes size = net_.root[it.index];
      const bool in = it.kind == step_kind::in;
      const auto may_pass = [&](std::size_t other) {
        const step_meaning by = meaning_of(net_, steps_[other]);
        if (line_.live[other] + size > most || makes(steps_[other], it.index)) return false;
        return by.kind == step_kind::node
                   ? std::ranges::find(net_.uses[by.index], it.index) == net_.uses[by.index].end()
                   : by.index != it.index;
      };
      std::size_t to = k;
      while (in ? to > 0 && may_pass(to - 1) : to + 1 < steps_.size() && may_pass(to + 1)) in ? --to : ++to;
      if (to == k) continue;
      steps_list other = steps_;
      other.erase(other.begin() + static_cast<std::ptrdiff_t>(k));
      other.insert(other.begin() + static_cast<std::ptrdiff_t>(to), steps_[k]);
      timeline line = trace(other);
      const double then = extra_cost_of(net_, other, by_.cost, by_.link);
      if (line.peak > most || then >= cost) continue;
      steps_ = std::move(other);
      line_ = std::move(line);
      cost = then;
    }
  }

  const means& by_;
  const net& net_;
  steps_list steps_;
  bytes aim_;
  double thrift_;
  timeline line_;
  std::uint64_t traced_;  // steps
  // The results of the last candidates() call.
  std::vector<std::vector<std::uint32_t>> stays_of_;  // by root, rising
  std::vector<std::uint32_t> outs_of_;                // by root: the step of its first copy out
  std::vector<double> worked_;                        // by step: cost of the nodes before it
};

// Returns the steps without one to four of those that run a node again or copy a value in, near each other. Their
// values are then kept instead.
steps_list without_some(const net& n, const steps_list& steps, std::mt19937& random) {
  const std::vector<std::uint8_t> repeats = repeats_of(n, steps);
  std::size_t count = 0;
  for (const std::uint8_t r : repeats) count += r;
  const std::size_t from = random() % count;
  const std::size_t to = std::min<std::size_t>(from + 1 + random() % 4, count);
  steps_list fewer;
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    const bool goes = repeats[i] != 0 && at >= from && at < to;
    at += repeats[i];
    if (!goes) fewer.push_back(steps[i]);
  }
  remove_orphans(n, fewer);
  return fewer;
}

}  // namespace

std::vector<std::uint32_t> drop_until(const means& by, const std::vector<std::uint32_t>& steps, bytes aim,
                                      std::uint64_t& steps_left, const std::atomic<bool>* stop) {
  constexpr double thrifts[] = {1, 0.5, 2};
  constexpr std::size_t least_rounds = 100, rounds_a_run = 4;  // without a gain, by the number of repeated runs
  const auto drop = [&](const steps_list& from, double thrift) {
    dropper d{by, from, aim, thrift};
    dropped made = d.run(stop);
    steps_left -= std::min(steps_left, d.traced());
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
  if (by.link) take(drop(with_planned_copies(by, steps, aim, stop), 1));
  const auto done = [&] {
    return steps_left == 0 || best.steps.size() == steps.size() ||
           idle > least_rounds + rounds_a_run * (best.steps.size() - steps.size()) || stopped(stop);
  };
  for (const double thrift : {thrifts[1], thrifts[2]}) {
    if (!done()) take(drop(steps, thrift));
  }
  // Leaves out some of the added steps, and searches replacements.
  std::mt19937 random{1};
  while (!done()) {
    const steps_list fewer = without_some(by.n, best.steps, random);
    take(drop(fewer, thrifts[random() % std::size(thrifts)]));
  }
  return std::move(best.steps);
}

}  // namespace berth::schedule

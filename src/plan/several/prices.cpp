#include "plan/several/prices.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/policy.hpp"
#include "plan/subgradient.hpp"

namespace berth::plan {
namespace {

// A bundle keeps its height from one section to before another.
struct stretch {
  std::size_t begin = 0, end = 0;
  double height = 0;
};

class pricing {
 public:
  pricing(const std::vector<height_change>& changes, const std::vector<bundle>& bundles,
          const std::vector<std::vector<double>>& cost, const std::vector<std::optional<bytes>>& limits)
      : bundles_{bundles}, cost_{cost}, limits_{limits}, stretches_(bundles.size()) {
    for (std::size_t k = 0; k < changes.size(); ++k) {
      if (k != 0 && changes[k].at != changes[k - 1].at) ++sections_;
      std::vector<stretch>& own = stretches_[changes[k].bundle];
      if (!changes[k].first) own.back().end = sections_;
      if (!changes[k].last) own.push_back({sections_, sections_, static_cast<double>(changes[k].height)});
    }
  }

  [[nodiscard]] std::size_t prices() const { return sections_ * limits_.size(); }

  [[nodiscard]] std::uint64_t looks_a_round() const {
    std::uint64_t looks = prices();
    for (std::size_t u = 0; u < bundles_.size(); ++u) looks += stretches_[u].size() * cost_[u].size();
    return looks;
  }

  void set(const std::vector<double>& price) {
    const std::size_t memories = limits_.size();
    paid_before_.resize(price.size() + memories);
    for (std::size_t at = 0; at < price.size(); ++at) paid_before_[at + memories] = paid_before_[at] + price[at];
  }

  // Returns the price of bundle u's room in memory m.
  [[nodiscard]] double room(std::size_t u, index m) const {
    if (!limits_[m] || paid_before_.size() == limits_.size()) return 0;
    double paid = 0;
    for (const stretch& s : stretches_[u]) {
      paid += s.height * (paid_before_[s.end * limits_.size() + m] - paid_before_[s.begin * limits_.size() + m]);
    }
    return paid;
  }

  // Returns the rounding error: every sum has so many numbers at most, none larger than all of them together.
  [[nodiscard]] double rounding(double dearest, const std::vector<double>& price) const {
    const std::size_t memories = limits_.size();
    double all = dearest, a_byte = 0, numbers = static_cast<double>(prices() + bundles_.size());
    for (std::size_t at = 0; at < price.size(); ++at) {
      all += limits_[at % memories] ? price[at] * static_cast<double>(*limits_[at % memories]) : 0;
    }
    for (std::size_t m = 0; m < memories; ++m) a_byte = std::max(a_byte, paid_before_[price.size() + m]);
    for (const auto& own : stretches_) {
      for (const stretch& s : own) all += s.height * a_byte;
      numbers += static_cast<double>(own.size());
    }
    return std::numeric_limits<double>::epsilon() * numbers * all;
  }

  double relax(const std::vector<double>& price, std::vector<double>& excess) {
    const std::size_t memories = limits_.size();
    set(price);
    std::fill(excess.begin(), excess.end(), 0.0);
    double least_cost = 0;
    for (std::size_t u = 0; u < bundles_.size(); ++u) {
      double least = std::numeric_limits<double>::infinity();
      index where = 0;
      for (std::size_t k = 0; k < cost_[u].size(); ++k) {
        const index m = bundles_[u].memories[k];
        if (limits_[m] && bundles_[u].size > *limits_[m]) continue;
        const double paid = cost_[u][k] + room(u, m);
        if (paid >= least) continue;
        least = paid;
        where = m;
      }
      least_cost += least;
      if (std::isinf(least)) return least_cost;
      for (const stretch& s : stretches_[u]) {
        excess[s.begin * memories + where] += s.height;
        if (s.end < sections_) excess[s.end * memories + where] -= s.height;
      }
    }
    for (std::size_t at = memories; at < excess.size(); ++at) excess[at] += excess[at - memories];
    for (std::size_t at = 0; at < excess.size(); ++at) {
      const auto limit = limits_[at % memories];
      excess[at] = limit ? excess[at] - static_cast<double>(*limit) : 0;
      if (limit) least_cost -= price[at] * static_cast<double>(*limit);
    }
    return least_cost;
  }

 private:
  const std::vector<bundle>& bundles_;
  const std::vector<std::vector<double>>& cost_;
  const std::vector<std::optional<bytes>>& limits_;
  std::vector<std::vector<stretch>> stretches_;  // by bundle
  std::size_t sections_ = 0;
  std::vector<double> paid_before_;  // of a byte in memory m, until section s: [s * memories + m]
};

}  // namespace

memory_prices price_memories(const std::vector<height_change>& changes, const std::vector<bundle>& bundles,
                             const std::vector<std::vector<double>>& cost,
                             const std::vector<std::optional<bytes>>& limits, const patience& wait) {
  pricing all{changes, bundles, cost, limits};
  double dearest = 0;
  memory_prices found;
  found.room.resize(bundles.size());
  for (std::size_t u = 0; u < bundles.size(); ++u) {
    dearest += *std::max_element(cost[u].begin(), cost[u].end());
    found.least_cost += *std::min_element(cost[u].begin(), cost[u].end());
    found.room[u].resize(cost[u].size(), 0);
  }
  const std::uint64_t looks = all.looks_a_round();
  const auto relax = [&](const std::vector<double>& price, std::vector<double>& excess) -> std::optional<double> {
    if (wait.over(looks)) return {};
    return all.relax(price, excess);
  };
  double priced = 0;
  if (looks <= policy::price_looks / policy::memory_prices.rounds) {
    limit_prices by = price_limits(all.prices(), dearest, policy::memory_prices, relax);
    priced = by.least_cost;
    found.price = std::move(by.price);
  }
  all.set(found.price);
  found.rounding = all.rounding(dearest, found.price);
  found.least_cost = std::max(found.least_cost, priced - found.rounding);
  for (std::size_t u = 0; u < bundles.size(); ++u) {
    for (std::size_t k = 0; k < cost[u].size(); ++k) found.room[u][k] = all.room(u, bundles[u].memories[k]);
  }
  return found;
}

}  // namespace berth::plan

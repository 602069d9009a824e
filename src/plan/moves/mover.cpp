#include "plan/moves/mover.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/mix.hpp"
#include "plan/moves/prices.hpp"
#include "plan/moves/router.hpp"
#include "plan/policy.hpp"

namespace berth::plan {
namespace {

class random_numbers {
 public:
  std::size_t below(std::size_t n) {
    state_ += 0x9e3779b97f4a7c15U;
    return static_cast<std::size_t>(mix(state_) % n);
  }

 private:
  std::uint64_t state_ = 1;
};

double ideal_time(const moving_model& model, const moving_item& one, const use_in_period& u) {
  double least = infinite;
  for (const index m : one.memories) {
    const bool takes = !model.limits[m] || one.footprint <= *model.limits[m];
    if (takes && (!u.memory || *u.memory == m)) least = std::min(least, u.touched * model.cost[m]);
  }
  return least;
}

double ideal_time(const moving_model& model, const moving_item& one) {
  double sum = 0;
  for (const use_in_period& u : one.uses) sum += ideal_time(model, one, u);
  return sum;
}

double ideal_time(const moving_model& model) {
  double sum = 0;
  for (const moving_item& one : model.items) sum += ideal_time(model, one);
  return sum;
}

class mover {
 public:
  mover(const moving_model& model, effort level, std::uint64_t most_visits, const patience& wait)
      : model_{model}, effort_{level}, wait_{wait}, most_visits_{most_visits}, router_{model} {
    for (index m = 0; m < model.memories(); ++m) {
      if (model.limits[m]) limited_.push_back(m);
    }
    for (const moving_item& one : model.items) uses_ += one.uses.size();
  }

  [[nodiscard]] std::uint64_t visits() const { return router_.visits() + played_; }

  [[nodiscard]] bool over() const { return wait_over() || visits() >= most_visits_; }

  // Takes the residences if they keep the limits and are cheaper than the best so far.
  void consider(const std::vector<residence>& where) {
    if (std::any_of(where.begin(), where.end(), [](const residence& legs) { return legs.empty(); })) return;
    lay(where);
    for (const index m : limited_) {
      if (!live_.stays_within(m, 0, model_.periods(), *model_.limits[m])) return;
    }
    replay();
    keep();
  }

  // Prices every byte in a memory with a limit alike.
  [[nodiscard]] room_prices flat(double price) const {
    std::vector<double> prices(model_.memories() * model_.periods(), 0);
    for (const index m : limited_) {
      std::fill_n(prices.begin() + static_cast<std::ptrdiff_t>(m * model_.periods()), model_.periods(), price);
    }
    return {std::move(prices), model_.periods()};
  }

  // Inserts all items in this order, at these prices of room. An item without room goes first, and the insertion begins
  // anew.
  void construct(std::vector<index> order, const room_prices& price) {
    price_ = price;
    for (int attempt = 0; attempt < 16; ++attempt) {
      clear();
      replay();
      auto at = order.begin();
      std::uint64_t replayed = looks();
      bool moved = false;  // since then
      for (; at != order.end() && insert(*at, 1); ++at) {
        if (wait_over() || (!best_.where.empty() && effort_ != effort::fast && over())) return;
        moved = moved || where_[*at].size() > 1;
        if (moved && policy::replays_share * (looks() - replayed) >= looks_a_replay()) {
          replay();
          replayed = looks();
          moved = false;
        }
      }
      if (at == order.end()) {
        replay();
        keep();
        return;
      }
      if (at == order.begin() || over()) return;
      std::rotate(order.begin(), at, at + 1);
    }
  }

  // Removes a few items that are in each other's way, and inserts them again; keeps what does not cost more.
  void improve(double least_cost) {
    price_ = {};
    if (best_.where.empty()) return;
    lay(best_.where);
    replay();
    improved_ = visits();
    while (!over() && best_.timing.cost() > least_cost && visits() - improved_ <= most_visits_ / 4) {
      const std::vector<index> few = neighbours();
      if (few.empty()) return;
      const double before = timing_.cost();
      const bytes copied_before = timing_.copied;
      saved_.clear();
      for (const index i : few) {
        saved_.push_back(where_[i]);
        live_.take(model_, model_.items[i], where_[i]);
        where_[i].clear();
      }
      constexpr double weights[] = {1, 1, 2, infinite};
      bool whole = true;
      const std::size_t polite = few.size() > 1 ? random_.below(few.size()) : 0;
      if (polite > 0 && !limited_.empty()) raise_prices();
      for (std::size_t k = 0; k < few.size() && whole; ++k) {
        if (k == polite) price_ = {};
        replay();
        whole = insert(few[k], weights[random_.below(4)]);
      }
      price_ = {};
      if (whole) replay();
      const bool better =
          whole && (timing_.cost() < before || (timing_.cost() == before && timing_.copied <= copied_before));
      if (better) {
        keep();
        continue;
      }
      for (std::size_t k = 0; k < few.size(); ++k) {
        live_.take(model_, model_.items[few[k]], where_[few[k]]);
        where_[few[k]] = saved_[k];
        live_.put(model_, model_.items[few[k]], saved_[k]);
      }
      replay();
    }
  }

  [[nodiscard]] bool found() const { return !best_.where.empty(); }

  [[nodiscard]] const timed_residences& best() const { return best_; }
  [[nodiscard]] timed_residences take_best() { return std::move(best_); }

 private:
  [[nodiscard]] std::uint64_t looks() const { return router_.looks() + looks_; }

  // Reports the looks since the last call to the wait.
  [[nodiscard]] bool wait_over() const { return wait_.over(looks() - std::exchange(told_, looks())); }

  void clear() {
    looks_ += cleared();
    where_.assign(model_.items.size(), {});
    live_ = occupation{model_};
  }

  void lay(const std::vector<residence>& where) {
    looks_ += cleared() + items();
    where_ = where;
    live_ = occupation{model_, where};
  }

  [[nodiscard]] std::uint64_t cleared() const {
    return items() + model_.memories() * model_.periods() / policy::numbers_cleared_a_look;
  }

  [[nodiscard]] std::uint64_t items() const { return model_.items.size(); }

  void replay() {
    play(model_, where_, timing_);
    played_ += model_.periods();
    looks_ += looks_a_replay();
  }

  [[nodiscard]] std::uint64_t looks_a_replay() const {
    return items() + uses_ + model_.periods() + model_.links.size() * model_.periods() / policy::numbers_cleared_a_look;
  }

  // Makes the first few items pay for bytes of a limited memory in the periods around tight_, until improve(). Without
  // prices, early items take the room they like best, however small their gain.
  void raise_prices() {
    looks_ += model_.memories() * model_.periods() / policy::numbers_cleared_a_look;
    const index m = limited_[random_.below(limited_.size())];
    const auto periods = static_cast<std::size_t>(model_.periods());
    const double dearest = *std::max_element(model_.cost.begin(), model_.cost.end());
    constexpr double parts[] = {0.03, 0.25, 1, 8};
    const double price = dearest * parts[random_.below(4)];
    const std::size_t before = random_.below(4), after = random_.below(8);
    std::vector<double> prices(model_.memories() * periods, 0);
    for (std::size_t k = tight_ - std::min<std::size_t>(tight_, before); k < std::min(periods, tight_ + after); ++k) {
      prices[m * periods + k] = price;
    }
    price_ = {std::move(prices), model_.periods()};
  }

  bool insert(index i, double stall_weight) {
    where_[i] = router_.route(model_.items[i], live_, timing_, stall_weight, price_);
    if (where_[i].empty() && stall_weight == infinite) {
      where_[i] = router_.route(model_.items[i], live_, timing_, 1, price_);
    }
    live_.put(model_, model_.items[i], where_[i]);
    looks_ += policy::looks_a_routed_item;
    return !where_[i].empty();
  }

  void keep() {
    const bool better = best_.where.empty() || timing_.cost() < best_.timing.cost() ||
                        (timing_.cost() == best_.timing.cost() && timing_.copied < best_.timing.copied);
    if (!better) return;
    looks_ += 4 * items() + model_.links.size() * model_.periods() / policy::numbers_cleared_a_look;
    best_.where = where_;
    best_.timing = timing_;
    improved_ = visits();
  }

  // Returns an item that costs more than it must, and some in a limited memory near one of its uses, in insertion
  // order. Returns nothing if all items are as cheap as possible.
  std::vector<index> neighbours() {
    std::vector<index> unhappy;
    looks_ += 2 * items() + uses_;
    for (index i = 0; i < where_.size(); ++i) {
      double over = 0;
      for (const use_in_period& u : model_.items[i].uses) {
        over += time_of(model_, where_[i], u) - ideal_time(model_, model_.items[i], u);
      }
      if (over > 0 || where_[i].size() > 1) unhappy.push_back(i);
    }
    if (unhappy.empty()) return {};
    const index pivot = unhappy[random_.below(unhappy.size())];
    const moving_item& one = model_.items[pivot];
    std::uint32_t at = one.first + static_cast<std::uint32_t>(random_.below(one.last - one.first));
    if (!one.uses.empty()) at = one.uses[random_.below(one.uses.size())].period;
    tight_ = at;
    const std::uint32_t reach = 1 + static_cast<std::uint32_t>(random_.below(4));
    std::vector<index> beside;
    for (index i = 0; i < where_.size(); ++i) {
      if (i == pivot || model_.items[i].first > at + reach || model_.items[i].last + reach <= at) continue;
      const bool in_the_way = std::any_of(where_[i].begin(), where_[i].end(), [&](const leg& l) {
        return model_.limits[l.memory] && l.begin <= at + reach && l.end + reach > at;
      });
      if (in_the_way || model_.items[i].uses.empty() || random_.below(2) == 0) beside.push_back(i);
    }
    std::vector<index> few{pivot};
    for (std::size_t k = random_.below(7); k > 0 && !beside.empty(); --k) {
      const std::size_t chosen = random_.below(beside.size());
      few.push_back(beside[chosen]);
      beside.erase(beside.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
    if (random_.below(2) == 0) {
      for (std::size_t k = few.size(); k > 1; --k) std::swap(few[k - 1], few[random_.below(k)]);
    }
    return few;
  }

  const moving_model& model_;
  const effort effort_;
  const patience& wait_;
  std::uint64_t most_visits_;
  router router_;
  std::uint64_t played_ = 0;        // periods
  std::uint64_t looks_ = 0;         // beside the router's
  mutable std::uint64_t told_ = 0;  // of all looks
  std::uint64_t uses_ = 0;          // of all items
  std::uint64_t improved_ = 0;      // visits when the best was found
  std::vector<residence> where_;
  std::vector<residence> saved_;
  occupation live_{model_};
  playout timing_;
  room_prices price_;
  std::vector<index> limited_;  // memories
  std::size_t tight_ = 0;       // period
  random_numbers random_;
  timed_residences best_;
};

// Sorts by the time that the fastest memories save, for each byte and period that they are taken.
std::vector<index> by_gain(const moving_model& model) {
  std::vector<double> gain(model.items.size());
  for (std::size_t i = 0; i < gain.size(); ++i) {
    const moving_item& one = model.items[i];
    double touched = 0;
    for (const use_in_period& u : one.uses) touched += u.touched;
    gain[i] = touched / (1 + static_cast<double>(one.footprint) * static_cast<double>(one.last - one.first));
  }
  std::vector<index> order(gain.size());
  std::iota(order.begin(), order.end(), index{0});
  std::stable_sort(order.begin(), order.end(), [&](index a, index b) { return gain[a] > gain[b]; });
  return order;
}

std::vector<index> by_size(const moving_model& model) {
  std::vector<index> order(model.items.size());
  std::iota(order.begin(), order.end(), index{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](index a, index b) { return model.items[a].footprint > model.items[b].footprint; });
  return order;
}

std::vector<index> by_birth(const moving_model& model) {
  std::vector<index> order(model.items.size());
  std::iota(order.begin(), order.end(), index{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](index a, index b) { return model.items[a].first < model.items[b].first; });
  return order;
}

}  // namespace

timed_residences find_residences(const moving_model& model, const std::vector<residence>& start,
                                 std::uint64_t most_visits, const options& o, const patience& wait,
                                 std::uint64_t& visits) {
  const patience search = wait.for_looks(policy::residence_looks, o.work);
  const patience pricing = wait.for_looks(policy::residence_looks / 4, o.work);
  mover m{model, o.work, most_visits, search};
  if (!start.empty()) m.consider(start);
  const double dearest = model.cost.empty() ? 0 : *std::max_element(model.cost.begin(), model.cost.end());
  bool enough = false;
  for (const double price : {0.0, 0.1 * dearest, 8 * dearest}) {
    for (const auto order : {by_gain, by_size, by_birth}) {
      if (enough) break;
      m.construct(order(model), m.flat(price));
      enough = m.found() && (o.work == effort::fast || m.over());
    }
  }
  timed_residences best;
  if (o.work == effort::fast || !m.found()) {
    best = m.take_best();
    best.least_cost = ideal_time(model);
  } else {
    const limit_prices prices = price_room(model, m.best().timing.cost(), most_visits / 4, pricing, visits);
    const room_prices found{prices.price, model.periods()};
    m.construct(by_gain(model), found);
    m.construct(by_size(model), found);
    m.improve(prices.least_cost);
    best = m.take_best();
    const double priced = pricing.was_over() ? std::max(prices.least_cost, ideal_time(model)) : prices.least_cost;
    best.least_cost = std::min(priced, best.timing.cost());
  }
  visits += m.visits();
  return best;
}

bool send_away(const moving_model& model, index memory, const std::vector<index>& items, timed_residences& found) {
  for (const index i : items) found.where[i].clear();
  occupation live{model, found.where};
  play(model, found.where, found.timing);
  router routes{model};
  for (const index i : items) {
    moving_item elsewhere = model.items[i];
    std::erase(elsewhere.memories, memory);
    if (elsewhere.memories.empty()) return false;
    found.where[i] = routes.route(elsewhere, live, found.timing, 1, {});
    if (found.where[i].empty()) return false;
    live.put(model, elsewhere, found.where[i]);
  }
  play(model, found.where, found.timing);
  return true;
}

}  // namespace berth::plan

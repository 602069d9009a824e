#include "schedule/levels.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>

#include "schedule/sequence.hpp"
#include "schedule/valley.hpp"

namespace berth::schedule {
namespace {

using word = std::uint64_t;

constexpr std::uint64_t states_a_turn = 1024;   // of one direction
constexpr std::size_t most_suspects = 1;        // nodes queried for their need, at each state
constexpr std::uint64_t edges_per_state = 200;  // edges that cuts visit in the time of a state
constexpr std::uint64_t gain_of_answer = 20, most_credit = 2000;
constexpr std::size_t most_memory = std::size_t{512} << 20;

// Sets of nodes, one after the other, each of the same number of words.
class sets {
 public:
  sets(std::size_t words, std::size_t count) : words_{words}, bits_(words * count, 0) {}
  [[nodiscard]] word* operator[](std::size_t i) noexcept { return bits_.data() + i * words_; }
  [[nodiscard]] const word* operator[](std::size_t i) const noexcept { return bits_.data() + i * words_; }
  void append(const word* set) { bits_.insert(bits_.end(), set, set + words_); }

 private:
  std::size_t words_;
  std::vector<word> bits_;
};

bool has(const word* set, std::uint32_t v) noexcept {
  return (set[v / 64] >> (v % 64) & 1) != 0;
}
void put(word* set, std::uint32_t v) noexcept {
  set[v / 64] |= word{1} << (v % 64);
}
void take(word* set, std::uint32_t v) noexcept {
  set[v / 64] &= ~(word{1} << (v % 64));
}

enum class search_status : std::uint8_t { found, exhausted, paused };

// The states of one direction.
class search {
 public:
  search(const net& n, bool backward, bytes from, bytes limit)
      : net_{n},
        backward_{backward},
        before_of_{backward_ ? n.after : n.before},
        after_of_{backward_ ? n.before : n.after},
        words_{std::max<std::size_t>((n.size() + 63) / 64, 1)},
        before_{words_, n.size()},
        users_{words_, n.root.size()},
        states_{words_, 0},
        here_(words_),
        table_(1024, none),
        place_(n.size()),
        suspects_(n.size()),
        limit_{limit} {
    for (std::uint32_t v = 0; v < n.size(); ++v) {
      suspects_[v] = v;
      for (const std::uint32_t p : before_of_[v]) put(before_[v], p);
    }
    for (std::uint32_t r = 0; r < n.root.size(); ++r) {
      for (const std::uint32_t u : n.users[r]) put(users_[r], u);
    }
    proved_ = std::max({n.live_at_start(), n.live_at_end(), n.at_start});
    level_ = std::max(proved_, from);
    add(here_.data(), backward_ ? n.live_at_end() : n.live_at_start(), none, {});
  }

  // Spends up to `share` of the states. Paused: those are spent, or it was stopped, or memory is exhausted.
  search_status advance(std::uint64_t share, std::uint64_t& states_left, const std::atomic<bool>* stop) {
    const std::uint64_t least = states_left - std::min(states_left, share);
    for (;;) {
      if (proved_ >= limit_ || (open_.empty() && !raise())) return search_status::exhausted;
      const std::uint32_t at = open_.back();
      if (count_[at] == net_.size()) return search_status::found;
      if (states_left <= least || full() || stopped(stop)) return search_status::paused;
      open_.pop_back();
      --states_left;
      expand(at, states_left);
    }
  }

  // Called when the other direction has proved that no order has a lower peak.
  void learn(bytes proved) {
    proved_ = std::max(proved_, proved);
    level_ = std::max(level_, proved_);
    reopen();
  }
  [[nodiscard]] bytes proved() const noexcept { return proved_; }
  [[nodiscard]] bool full() const noexcept { return live_.size() >= most_memory / 2 / (words_ * sizeof(word) + 56); }
  // Returns the order found.
  [[nodiscard]] std::vector<std::uint32_t> order() const { return order_to(open_.back()); }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;

  struct way {
    std::uint32_t first = 0;  // in steps_
    std::uint32_t count = 0;
  };
  struct child {
    bytes live = 0;
    std::uint32_t node = 0;
  };

  bool inside(const word* small, const word* large) const noexcept {
    for (std::size_t w = 0; w < words_; ++w) {
      if ((small[w] & ~large[w]) != 0) return false;
    }
    return true;
  }
  bool apart(const word* a, const word* b) const noexcept {
    for (std::size_t w = 0; w < words_; ++w) {
      if ((a[w] & b[w]) != 0) return false;
    }
    return true;
  }
  // Does the same as inside(), with v counted as run.
  bool inside_with(const word* small, const word* large, std::uint32_t v) const noexcept {
    for (std::size_t w = 0; w < words_; ++w) {
      const word own = w == v / 64 ? word{1} << (v % 64) : 0;
      if ((small[w] & ~(large[w] | own)) != 0) return false;
    }
    return true;
  }

  // Returns true if v, behind `set`, is the last to use root r; backward, the first.
  [[nodiscard]] bool ends(const word* set, std::uint32_t r, std::uint32_t v) const noexcept {
    return backward_ ? apart(users_[r], set) : inside_with(users_[r], set, v);
  }
  // Backward, the roots that v uses are live once v has run.
  [[nodiscard]] bytes wakes(const word* set, std::uint32_t v) const noexcept {
    bytes sum = 0;
    for (const std::uint32_t r : net_.uses[v]) {
      if (net_.stays[r] == 0 && apart(users_[r], set)) sum += net_.root[r];
    }
    return sum;
  }
  [[nodiscard]] bytes step(const word* set, bytes live, std::uint32_t v) const noexcept {
    const bytes whole = live + net_.extra[v] + (backward_ ? wakes(set, v) : net_.makes[v]);
    for (const std::uint32_t r : net_.takes[v]) {
      if (ends(set, r, v)) return whole - net_.root[r];
    }
    return whole;
  }
  [[nodiscard]] bytes after(const word* set, bytes live, std::uint32_t v) const noexcept {
    if (backward_) return live + wakes(set, v) - net_.makes[v];
    bytes left = live + net_.makes[v];
    for (const std::uint32_t r : net_.uses[v]) {
      if (net_.stays[r] == 0 && inside_with(users_[r], set, v)) left -= net_.root[r];
    }
    return left;
  }

  [[nodiscard]] std::size_t hash(const word* set) const noexcept {
    word h = 0x9E3779B97F4A7C15u;
    for (std::size_t w = 0; w < words_; ++w) {
      h = (h ^ set[w]) * 0xBF58476D1CE4E5B9u;
      h ^= h >> 29;
    }
    return static_cast<std::size_t>(h ^ (h >> 32));
  }

  // Opens a state that was not known before, with the nodes that led to it.
  void add(const word* set, bytes live, std::uint32_t parent, std::span<const std::uint32_t> path) {
    if (live_.size() * 2 >= table_.size()) grow();
    std::size_t slot = hash(set) & (table_.size() - 1);
    for (; table_[slot] != none; slot = (slot + 1) & (table_.size() - 1)) {
      if (std::equal(set, set + words_, states_[table_[slot]])) return;
    }
    const auto id = static_cast<std::uint32_t>(live_.size());
    table_[slot] = id;
    states_.append(set);
    live_.push_back(live);
    parent_.push_back(parent);
    path_.push_back({static_cast<std::uint32_t>(steps_.size()), static_cast<std::uint32_t>(path.size())});
    steps_.insert(steps_.end(), path.begin(), path.end());
    count_.push_back((parent == none ? 0 : count_[parent]) + static_cast<std::uint32_t>(path.size()));
    taken_.push_back(0);
    open_.push_back(id);
  }
  [[nodiscard]] std::span<const std::uint32_t> path_to(std::uint32_t id) const noexcept {
    return {steps_.data() + path_[id].first, path_[id].count};
  }
  void grow() {
    std::vector<std::uint32_t> larger(table_.size() * 2, none);
    for (std::uint32_t id = 0; id < live_.size(); ++id) {
      std::size_t slot = hash(states_[id]) & (larger.size() - 1);
      while (larger[slot] != none) slot = (slot + 1) & (larger.size() - 1);
      larger[slot] = id;
    }
    table_ = std::move(larger);
  }

  // Moves to the next level at which a state waits.
  bool raise() {
    if (waiting_.empty() || std::get<0>(waiting_.top()) >= limit_) return false;
    level_ = std::get<0>(waiting_.top());
    proved_ = level_;
    reopen();
    return true;
  }
  void reopen() {
    while (!waiting_.empty() && std::get<0>(waiting_.top()) <= level_) {
      open_.push_back(std::get<2>(waiting_.top()));
      waiting_.pop();
    }
  }

  // Searches a path from `here_` without loss (see the header), of at most `longest` nodes; false: none found.
  bool descend(bytes floor, bytes live, std::uint32_t v, std::uint32_t& tries) {
    if (tries == 0 || step(here_.data(), live, v) > level_) return false;
    --tries;
    const bytes next = after(here_.data(), live, v);
    put(here_.data(), v);
    trail_.push_back(v);
    if (next <= floor) {
      valley_ = next;
      return true;
    }
    for (const std::uint32_t u : after_of_[v]) {
      if (inside(before_[u], here_.data()) && descend(floor, next, u, tries)) return true;
    }
    take(here_.data(), v);
    trail_.pop_back();
    return false;
  }

  // Cuts are expensive if they seldom give an answer: then they are tried only now and then.
  bool worth_asking() { return credit_ != 0 || ++unasked_ % 128 == 0; }

  // Returns true if some node that is still to run needs more than the level in any order (I2). The state then waits
  // for that level. The nodes of the last answers are tried first, and one of the others in turn.
  bool blocked(std::uint32_t at, std::uint64_t& states_left) {
    rest_.clear();
    done_.clear();
    for (std::uint32_t v = 0; v < net_.size(); ++v) {
      if (!has(here_.data(), v)) {
        place_[v] = static_cast<std::uint32_t>(rest_.size());
        rest_.push_back(v);
      } else if (!backward_) {
        done_.push_back(v);
      }
    }
    const net part = part_of(net_, done_, rest_);
    std::uint64_t edges = std::numeric_limits<std::uint64_t>::max();
    std::size_t asked = 0;
    bytes needed = 0;
    const auto ask = [&](std::size_t i) {
      ++asked;
      needed = least_step(part, place_[suspects_[i]], edges);
      if (needed <= level_) return false;
      std::rotate(suspects_.begin(), suspects_.begin() + static_cast<std::ptrdiff_t>(i),
                  suspects_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return true;
    };
    bool found = false;
    for (std::size_t i = 0; i < suspects_.size() && asked < most_suspects && !found; ++i) {
      if (!has(here_.data(), suspects_[i])) found = ask(i);
    }
    for (std::size_t tries = 0; tries < suspects_.size() && asked < most_suspects + 1 && !found; ++tries) {
      turn_ = (turn_ + 1) % suspects_.size();
      if (!has(here_.data(), suspects_[turn_])) found = ask(turn_);
    }
    const std::uint64_t spent =
        (std::numeric_limits<std::uint64_t>::max() - edges) / edges_per_state + rest_.size() / 8;
    states_left -= std::min(states_left, spent);
    // The saving of an answer is unknown. It is estimated as the states below one, which is more if few nodes have run.
    credit_ += found ? gain_of_answer : 0;
    credit_ -= std::min(credit_, spent);
    credit_ = std::min(credit_, most_credit);
    if (found && needed < limit_) waiting_.push({needed, count_[at], at});
    return found;
  }

  void expand(std::uint32_t at, std::uint64_t& states_left) {
    const bytes live = live_[at];
    std::copy(states_[at], states_[at] + words_, here_.begin());
    if (worth_asking() && blocked(at, states_left)) return;
    ready_.clear();
    for (std::size_t w = 0; w < words_; ++w) {
      const word all = w + 1 < words_ || net_.size() % 64 == 0 ? ~word{0} : (word{1} << (net_.size() % 64)) - 1;
      for (word rest = all & ~here_[w]; rest != 0; rest &= rest - 1) {
        const auto v = static_cast<std::uint32_t>(w * 64 + static_cast<std::size_t>(std::countr_zero(rest)));
        if (inside(before_[v], here_.data())) ready_.push_back(v);
      }
    }
    // First the nodes that go down at once, then those that go down in the end.
    for (const std::uint32_t longest : {1u, 64u}) {
      for (const std::uint32_t v : ready_) {
        std::uint32_t tries = longest;
        trail_.clear();
        if (!descend(live, live, v, tries)) continue;
        add(here_.data(), valley_, at, trail_);
        return;
      }
    }
    bytes next = max_bytes;
    children_.clear();
    for (const std::uint32_t v : ready_) {
      const bytes needs = step(here_.data(), live, v);
      if (needs > level_)
        next = std::min(next, needs);
      else if (needs > taken_[at] || taken_[at] == 0)
        children_.push_back({after(here_.data(), live, v), v});
    }
    taken_[at] = level_;
    if (next < limit_) waiting_.push({next, count_[at], at});
    // The one that leaves least live is opened last, and so expanded first.
    std::ranges::sort(
        children_, [](const child& a, const child& b) { return std::tie(b.live, b.node) < std::tie(a.live, a.node); });
    for (const child& c : children_) {
      put(here_.data(), c.node);
      add(here_.data(), c.live, at, {&c.node, 1});
      take(here_.data(), c.node);
    }
  }

  [[nodiscard]] std::vector<std::uint32_t> order_to(std::uint32_t at) const {
    std::vector<std::uint32_t> order;
    for (; at != none; at = parent_[at]) {
      const auto path = path_to(at);
      order.insert(order.end(), path.rbegin(), path.rend());
    }
    if (!backward_) std::ranges::reverse(order);
    return order;
  }

  using wait = std::tuple<bytes, std::uint32_t, std::uint32_t>;  // level, nodes that have run, state

  const net& net_;
  bool backward_;  // from the end
  const rows& before_of_;
  const rows& after_of_;
  std::size_t words_;
  sets before_, users_;  // by node, by root
  // By state.
  sets states_;
  std::vector<bytes> live_, taken_;  // taken_: steps up to here have been tried
  std::vector<std::uint32_t> parent_, count_;
  std::vector<way> path_;             // from its parent
  std::vector<std::uint32_t> steps_;  // of all paths

  std::vector<word> here_;
  std::vector<std::uint32_t> table_, open_, ready_, trail_, done_, rest_;
  std::vector<child> children_;
  std::priority_queue<wait, std::vector<wait>, std::greater<>> waiting_;
  std::vector<std::uint32_t> place_, suspects_;
  std::size_t turn_ = 0;
  std::uint64_t credit_ = most_credit;
  std::uint64_t unasked_ = 0;
  bytes level_ = 0;
  bytes proved_ = 0;  // no order has a lower peak
  bytes limit_, valley_ = 0;
};

}  // namespace

levels_answer search_levels(const net& n, bytes from, bytes limit, std::uint64_t& states_left,
                            const std::atomic<bool>* stop) {
  // If less is live at the end than at the begin, a search from the start has valleys ahead.
  const bool first = n.live_at_end() < n.live_at_start();
  std::array<std::optional<search>, 2> both;
  bytes proved = 0;
  for (std::size_t turn = 0;; ++turn) {
    auto& side = both[turn % 2];
    if (!side) side.emplace(n, first == (turn == 0), from, limit);
    side->learn(proved);
    switch (side->advance(states_a_turn, states_left, stop)) {
      case search_status::found: return {side->order(), side->proved()};
      case search_status::exhausted: return {{}, limit};
      case search_status::paused: break;
    }
    proved = side->proved();
    const bool full = both[0]->full() && both[1] && both[1]->full();
    if (states_left == 0 || full || stopped(stop)) return {{}, proved};
  }
}

}  // namespace berth::schedule

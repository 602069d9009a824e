#include "schedule/levels.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <tuple>

namespace berth::schedule {
namespace {

using word = std::uint64_t;

// Sets of nodes, one after the other, each of the same number of words.
class sets {
 public:
  sets(std::size_t words, std::size_t count) : words_{words}, bits_(words * count, 0) {}
  [[nodiscard]] word* operator[](std::size_t i) noexcept { return bits_.data() + i * words_; }
  [[nodiscard]] const word* operator[](std::size_t i) const noexcept { return bits_.data() + i * words_; }
  [[nodiscard]] std::size_t words() const noexcept { return words_; }
  void append(const word* set) { bits_.insert(bits_.end(), set, set + words_); }
  void drop_last() { bits_.resize(bits_.size() - words_); }

 private:
  std::size_t words_;
  std::vector<word> bits_;
};

void put(word* set, std::uint32_t v) noexcept {
  set[v / 64] |= word{1} << (v % 64);
}
void take(word* set, std::uint32_t v) noexcept {
  set[v / 64] &= ~(word{1} << (v % 64));
}

class search {
 public:
  search(const net& n, bytes from, bytes limit)
      : net_{n},
        words_{std::max<std::size_t>((n.size() + 63) / 64, 1)},
        before_{words_, n.size()},
        users_{words_, n.root.size()},
        states_{words_, 0},
        here_(words_),
        table_(1024, none),
        from_{from},
        limit_{limit} {
    for (std::uint32_t v = 0; v < n.size(); ++v) {
      for (const std::uint32_t p : n.before[v]) put(before_[v], p);
    }
    for (std::uint32_t r = 0; r < n.root.size(); ++r) {
      for (const std::uint32_t u : n.users[r]) put(users_[r], u);
    }
  }

  levels_answer run(std::uint64_t& work) {
    bytes live = net_.base;
    for (std::uint32_t r = 0; r < net_.root.size(); ++r) {
      if (net_.producer[r] == no_node) live += net_.root[r];
    }
    level_ = std::max(live, net_.at_start);
    if (level_ >= limit_) return {{}, limit_};
    proved_ = level_;
    level_ = std::max(level_, from_);
    add(here_.data(), live, none, {});
    for (;;) {
      if (open_.empty() && !raise()) return {{}, limit_};
      const std::uint32_t at = open_.back();
      open_.pop_back();
      if (count_[at] == net_.size()) return {order_to(at), proved_};
      if (work == 0) return {{}, proved_};
      --work;
      expand(at);
    }
  }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;

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
  // As inside(), with v counted as run.
  bool inside_with(const word* small, const word* large, std::uint32_t v) const noexcept {
    for (std::size_t w = 0; w < words_; ++w) {
      const word own = w == v / 64 ? word{1} << (v % 64) : 0;
      if ((small[w] & ~(large[w] | own)) != 0) return false;
    }
    return true;
  }

  [[nodiscard]] bytes step(const word* set, bytes live, std::uint32_t v) const noexcept {
    const bytes whole = live + net_.makes[v] + net_.extra[v];
    for (const std::uint32_t r : net_.takes[v]) {
      if (inside_with(users_[r], set, v)) return whole - net_.root[r];
    }
    return whole;
  }
  [[nodiscard]] bytes after(const word* set, bytes live, std::uint32_t v) const noexcept {
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

  // A state that was not known before is opened, with the nodes that led to it.
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
    count_.push_back((parent == none ? 0 : count_[parent]) + static_cast<std::uint32_t>(path.size()));
    taken_.push_back(0);
    path_.add(path);
    open_.push_back(id);
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

  // The next level at which a state waits.
  bool raise() {
    if (waiting_.empty() || std::get<0>(waiting_.top()) >= limit_) return false;
    level_ = std::get<0>(waiting_.top());
    proved_ = level_;
    while (!waiting_.empty() && std::get<0>(waiting_.top()) == level_) {
      open_.push_back(std::get<2>(waiting_.top()));
      waiting_.pop();
    }
    return true;
  }

  // A path from `here_` along which nothing is lost (see the header), of at most `longest` nodes; false: none found.
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
    for (const std::uint32_t u : net_.after[v]) {
      if (inside(before_[u], here_.data()) && descend(floor, next, u, tries)) return true;
    }
    take(here_.data(), v);
    trail_.pop_back();
    return false;
  }

  void expand(std::uint32_t at) {
    const bytes live = live_[at];
    std::copy(states_[at], states_[at] + words_, here_.begin());
    ready_.clear();
    for (std::size_t w = 0; w < words_; ++w) {
      const word all = w + 1 < words_ || net_.size() % 64 == 0 ? ~word{0} : (word{1} << (net_.size() % 64)) - 1;
      for (word rest = all & ~here_[w]; rest != 0; rest &= rest - 1) {
        const auto v = static_cast<std::uint32_t>(w * 64 + static_cast<std::size_t>(std::countr_zero(rest)));
        if (inside(before_[v], here_.data())) ready_.push_back(v);
      }
    }
    // Whatever goes down at once, then whatever goes down in the end.
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
      const auto path = path_[at];
      order.insert(order.end(), path.rbegin(), path.rend());
    }
    std::ranges::reverse(order);
    return order;
  }

  using wait = std::tuple<bytes, std::uint32_t, std::uint32_t>;  // level, nodes that have run, state

  const net& net_;
  std::size_t words_;
  sets before_, users_;  // by node, by root
  // By state.
  sets states_;
  std::vector<bytes> live_, taken_;  // taken_: steps up to here have been tried
  std::vector<std::uint32_t> parent_, count_;
  rows path_;  // from its parent

  std::vector<word> here_;
  std::vector<std::uint32_t> table_, open_, ready_, trail_;
  std::vector<child> children_;
  std::priority_queue<wait, std::vector<wait>, std::greater<>> waiting_;
  bytes level_ = 0;
  bytes proved_ = 0;  // no order has a lower peak
  bytes from_, limit_;
  bytes valley_ = 0;
};

}  // namespace

levels_answer search_levels(const net& n, bytes from, bytes limit, std::uint64_t& work) {
  return search{n, from, limit}.run(work);
}

}  // namespace berth::schedule

#include "plan/greedy/outward.hpp"

#include <algorithm>
#include <numeric>

#include "plan/greedy/frontier.hpp"
#include "plan/mix.hpp"
#include "plan/policy.hpp"

namespace berth::plan {
namespace {

// How the first stack is sorted: by which of its ends a buffer is nearer to, by death, or by birth.
enum class split : std::uint8_t { nearer, death, birth };

// One direction of time.
struct side {
  std::vector<passed> stack;
  std::vector<passed> order;
};

class outward {
 public:
  outward(const instance& in, const patience& wait) : in_{in}, wait_{wait} {
    const std::vector<units> heights = section_heights(in);
    peak_ = static_cast<std::uint32_t>(std::max_element(heights.begin(), heights.end()) - heights.begin());
    std::uint64_t lives = 0;
    for (const item& it : in.items) lives += range(it).last - range(it).first;
    mean_life_ = static_cast<std::int64_t>(lives / in.items.size() + 1);
    for (std::uint32_t i = 0; i < in.items.size(); ++i) {
      const section_range& r = range(in.items[i]);
      (r.first > peak_ ? after_ : r.last <= peak_ ? before_ : stack_).push_back(i);
    }
    const auto forwards = [&](std::uint32_t a, std::uint32_t b) {
      return std::pair{first(a), a} < std::pair{first(b), b};
    };
    const auto backwards = [&](std::uint32_t a, std::uint32_t b) {
      return std::pair{last(b), a} < std::pair{last(a), b};
    };
    std::sort(after_.begin(), after_.end(), forwards);
    std::sort(before_.begin(), before_.end(), backwards);
  }

  // Returns the looks so far. After the first pass that is what one takes.
  [[nodiscard]] std::uint64_t looks() const noexcept { return looks_; }
  [[nodiscard]] bool was_cut() const noexcept { return cut_; }

  // Returns the offsets of one pass; of no use where was_cut(). Ends early above `limit`, and is then of no use either.
  std::vector<units> run(std::size_t particles, split how, std::uint64_t seed, units limit) {
    std::vector<units> offsets(in_.items.size(), 0);
    sort_stack(how);
    random_ = mix(seed);
    cut_ = false;
    looks_ += in_.items.size();
    for (const bool forwards : {true, false}) {
      if (!cut_) sweep(forwards, particles, limit, offsets);
    }
    return offsets;
  }

 private:
  // A part of the way: what it placed where, and the part before.
  struct part {
    std::uint32_t before;
    std::vector<units> at;
  };
  struct particle {
    frontier live;
    std::uint32_t last = no_item;  // part
  };

  [[nodiscard]] const section_range& range(const item& it) const { return in_.ranges[it.ranges_first]; }
  [[nodiscard]] std::uint32_t first(std::uint32_t i) const { return range(in_.items[i]).first; }
  [[nodiscard]] std::uint32_t last(std::uint32_t i) const { return range(in_.items[i]).last; }

  [[nodiscard]] passed in_time(std::uint32_t i, bool forwards) const {
    const item& it = in_.items[i];
    const std::uint32_t birth = forwards ? first(i) : in_.sections - last(i);
    const std::uint32_t death = forwards ? last(i) : in_.sections - first(i);
    return {i, birth, death, it.size, it.alignment};
  }

  void sort_stack(split how) {
    const auto by_death = [&](std::uint32_t i) {
      return how == split::death || (how == split::nearer && last(i) - peak_ > peak_ - first(i));
    };
    std::sort(stack_.begin(), stack_.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (by_death(a) != by_death(b)) return by_death(a);
      const bool less = by_death(a) ? last(a) > last(b) : first(a) > first(b);
      const bool more = by_death(a) ? last(a) < last(b) : first(a) < first(b);
      return less != more ? less : a < b;
    });
  }

  // Advances one particle over items [from, to).
  void advance(particle& p, bool forwards, const std::vector<std::uint32_t>& order, std::size_t from, std::size_t to,
               bool noisy, std::vector<part>& parts) {
    preference by{.mean_life = mean_life_};
    if (noisy) {
      random_ = mix(random_ + 1);
      by.noise = policy::outward_noise;
      by.waste = policy::outward_wastes[random_ % policy::outward_wastes.size()];
    }
    part made{p.last, {}};
    made.at.reserve(to - from);
    const std::uint64_t before = p.live.looks();
    for (std::size_t k = from; k < to; ++k) made.at.push_back(p.live.add(in_time(order[k], forwards), by, random_));
    looks_ += p.live.looks() - before;
    p.last = static_cast<std::uint32_t>(parts.size());
    parts.push_back(std::move(made));
  }

  void sweep(bool forwards, std::size_t particles, units limit, std::vector<units>& offsets) {
    const std::vector<std::uint32_t>& order = forwards ? after_ : before_;
    std::vector<particle> now(1);
    for (const std::uint32_t i : stack_) offsets[i] = now[0].live.stack(in_time(i, forwards));
    looks_ += policy::looks_a_stacked_item * stack_.size();
    if (wait_.over(policy::looks_a_stacked_item * stack_.size())) return void(cut_ = true);
    const std::size_t length =
        particles == 1 ? policy::outward_part_alone
                       : std::max<std::size_t>(policy::fewest_in_a_part, stack_.size() / policy::parts_of_a_stack);
    std::vector<part> parts;
    std::vector<std::size_t> starts;
    for (std::size_t from = 0; from < order.size(); from += length) {
      const std::size_t to = std::min(order.size(), from + length), kept = now.size();
      while (now.size() < particles) now.push_back(now[now.size() % kept]);
      starts.push_back(from);
      const std::uint64_t before = looks_;
      for (particle& p : now) advance(p, forwards, order, from, to, particles > 1, parts);
      if (wait_.over(looks_ - before)) return void(cut_ = true);
      std::erase_if(now, [limit](const particle& p) { return p.live.top() >= limit; });
      if (now.empty()) return void(cut_ = true);
      keep_lowest(now, std::max<std::size_t>(1, particles / 3));
    }
    for (std::uint32_t at = now[0].last, k = static_cast<std::uint32_t>(starts.size()); at != no_item;
         at = parts[at].before) {
      --k;
      for (std::size_t i = 0; i < parts[at].at.size(); ++i) offsets[order[starts[k] + i]] = parts[at].at[i];
    }
  }

  // Keeps the `most` particles of the lowest tops, the best one first.
  static void keep_lowest(std::vector<particle>& now, std::size_t most) {
    std::vector<std::uint32_t> rank(now.size());
    std::iota(rank.begin(), rank.end(), 0U);
    std::sort(rank.begin(), rank.end(), [&](std::uint32_t a, std::uint32_t b) {
      const frontier &x = now[a].live, &y = now[b].live;
      if (x.top() != y.top()) return x.top() < y.top();
      return x.gaps() != y.gaps() ? x.gaps() < y.gaps() : a < b;
    });
    rank.resize(std::min(rank.size(), most));
    std::vector<particle> out;
    out.reserve(rank.size());
    for (const std::uint32_t k : rank) out.push_back(std::move(now[k]));
    now = std::move(out);
  }

  const instance& in_;
  const patience& wait_;
  std::uint32_t peak_ = 0;
  std::int64_t mean_life_ = 1;
  std::vector<std::uint32_t> stack_, after_, before_;
  std::uint64_t random_ = 0;
  std::uint64_t looks_ = 0;
  bool cut_ = false;
};

}  // namespace

bool lower_outwards(const instance& in, layout& best, units goal, std::uint64_t most_looks, const patience& wait) {
  if (!has_lifetimes_only(in) || in.items.size() < 2 || wait.over(in.items.size())) return false;
  outward by{in, wait};
  bool lowered = false;
  std::size_t particles = 1;
  for (std::uint64_t pass = 0; best.arena > goal; ++pass) {
    const auto how = static_cast<split>(pass % 3);
    const std::uint64_t before = by.looks();
    std::vector<units> offsets = by.run(particles, how, pass, best.arena);
    if (!by.was_cut()) {
      best.offsets = std::move(offsets);
      best.arena = arena_of(in, best.offsets);
      best.solver = particles == 1 ? "outward" : "particles";
      lowered = true;
    }
    if (wait.was_over()) break;
    // One pass for each way to sort the stack, then more particles, while the next pass is within the limit.
    const std::uint64_t took = std::max<std::uint64_t>(1, by.looks() - before);
    std::size_t next = particles;
    if (pass >= 2) next = std::min<std::size_t>(particles == 1 ? 4 : 2 * particles, policy::most_particles);
    if (next * in.items.size() > policy::most_particle_items) next = particles;
    if (by.looks() + took * next / particles > most_looks) break;
    particles = next;
  }
  return lowered;
}

}  // namespace berth::plan

// Kept apart from every solver: of src/plan it uses nothing but the count of looks (patience.hpp), and computes in
// bytes on the problem as given.
#include "berth/plan/certificate.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "berth/plan/evaluate.hpp"
#include "berth/plan/refutation.hpp"
#include "plan/patience.hpp"
#include "plan/verify/within.hpp"

namespace berth::plan {
namespace {

std::span<const interval> lifetimes(const buffer& b) {
  return b.lifetimes.empty() ? std::span{&b.live, 1} : std::span{b.lifetimes};
}

bool alive(const buffer& b, tick at) {
  const auto lives = lifetimes(b);
  return std::any_of(lives.begin(), lives.end(), [at](const interval& t) { return t.lower <= at && at < t.upper; });
}

bool overlap(const buffer& a, const buffer& b) {
  const auto x = lifetimes(a), y = lifetimes(b);
  for (std::size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    if (x[i].lower < y[j].upper && y[j].lower < x[i].upper) return true;
    if (x[i].upper <= y[j].upper) {
      ++i;
    } else {
      ++j;
    }
  }
  return false;
}

// A range of addresses in which a buffer may not lie.
struct address_range {
  bytes lo = 0;
  bytes hi = 0;
};

// Answers, hole by hole, which sums some of the lengths make. Adds its work to `looks`.
class length_sums {
 public:
  length_sums(const std::vector<bytes>& lengths, std::uint64_t& looks) : lengths_{lengths}, looks_{looks} {
    looks_ += lengths.size();
    for (const bytes l : lengths) {
      unit_ = std::gcd(unit_, l);
      all_ += l;
    }
  }

  // Returns the largest sum that is at most `room`; at least that.
  bytes most_that_fits(bytes room) {
    if (all_ <= room) return all_;
    const std::size_t cells = room / unit_;
    constexpr std::size_t most_cells = 1 << 14;
    if (cells > most_cells) return cells * unit_;
    if (cells >= largest_.size()) tabulate(std::min(most_cells, std::max(cells, 2 * largest_.size())));
    return largest_[cells] * unit_;
  }

 private:
  void tabulate(std::size_t cells) {
    constexpr std::size_t cells_a_look = 8;
    std::vector<bool> reached(cells + 1, false);
    reached[0] = true;
    for (const bytes l : lengths_) {
      const std::size_t n = l / unit_;
      looks_ += 1 + cells / cells_a_look;
      for (std::size_t c = cells; c >= n; --c) {
        if (reached[c - n]) reached[c] = true;
      }
    }
    largest_.assign(cells + 1, 0);
    for (std::size_t c = 1; c <= cells; ++c) largest_[c] = reached[c] ? c : largest_[c - 1];
  }

  const std::vector<bytes>& lengths_;
  std::uint64_t& looks_;
  bytes unit_ = 0;
  bytes all_ = 0;
  std::vector<std::size_t> largest_;  // by cells of room, how many are reached
};

class proof_verifier {
 public:
  proof_verifier(const problem& p, bytes lower_bound, const certificate& proof, const patience& wait, searches by,
                 std::span<const refutation> refuted)
      : p_{p},
        lower_bound_{lower_bound},
        proof_{proof},
        wait_{wait},
        searches_{by},
        refuted_{refuted},
        apart_{pairs_of(p)} {
    for (index i = 0; i < p.buffers.size(); ++i) {
      if (p.buffers[i].alias_group) members_of_[*p.buffers[i].alias_group].push_back(i);
    }
    std::set<index> groups;  // one pinned member stands for its group: head_of() looks at all that share its base
    for (index i = 0; i < p.buffers.size(); ++i) {
      if (!p.buffers[i].offset) continue;
      if (!p.buffers[i].alias_group || groups.insert(*p.buffers[i].alias_group).second) pinned_.push_back(i);
    }
  }

  std::optional<objection> run() {
    std::map<index, bytes> proved, claimed;  // by memory
    for (at_ = 0; at_ < proof_.size(); ++at_) {
      const argument& why = proof_[at_];
      if (why.memory.has_value() != proof_[0].memory.has_value()) {
        return object("some arguments name a memory and some do not");
      }
      if (why.memory && *why.memory >= std::max<std::size_t>(1, p_.memories.size())) {
        return object("an argument is about a memory that the problem does not have");
      }
      const index memory = why.memory.value_or(0);
      claimed[memory] = std::max(claimed[memory], why.bound);
      if (why.kind == argument::kind::search) {
        if (searches_ == searches::are_trusted) proved[memory] = std::max(proved[memory], why.bound);
        continue;
      }
      if (auto wrong = stack(why)) return wrong;
      if (over()) return {};
      proved[memory] = std::max(proved[memory], why.bound);
    }
    for (const refutation& r : refuted_) {
      if (!proof_.empty() && p_.memories.size() > 1 && r.memory.has_value() != proof_[0].memory.has_value()) {
        at_ = 0;
        return object("the arguments name no memory, and the log does");
      }
      proved[r.memory.value_or(0)] = std::max(proved[r.memory.value_or(0)], r.bound);
    }
    const auto total = [](const std::map<index, bytes>& by_memory) {
      bytes sum = 0;
      for (const auto& [memory, bound] : by_memory) sum = checked_add(sum, bound).value_or(max_bytes);
      return sum;
    };
    at_ = proof_.empty() ? 0 : proof_.size() - 1;
    if (total(proved) >= lower_bound_) return {};
    return object(total(claimed) >= lower_bound_ ? "the rest of the bound is what a search found, and is not checked"
                                                 : "the arguments prove less than the bound",
                  {}, {}, total(proved));
  }

 private:
  struct member {
    bytes length = 0;  // the step times the fewest multiples of it that the buffer covers
    bytes head = 0;
  };

  // Returns the pairs that may not share bytes, in order, sorted by counting, first by the greater of the two.
  static std::vector<std::pair<index, index>> pairs_of(const problem& p) {
    std::vector<std::pair<index, index>> pairs, other;
    const auto add = [&](const pair& of) { pairs.emplace_back(std::min(of.a, of.b), std::max(of.a, of.b)); };
    for (const pair& s : p.separations) add(s);
    if (p.conflicts) {
      for (const pair& c : *p.conflicts) add(c);
    }
    other.resize(pairs.size());
    for (const auto by : {&std::pair<index, index>::second, &std::pair<index, index>::first}) {
      std::vector<std::size_t> place(p.buffers.size(), 0);
      for (const auto& of : pairs) ++place[of.*by];
      std::exclusive_scan(place.begin(), place.end(), place.begin(), std::size_t{0});
      for (const auto& of : pairs) other[place[of.*by]++] = of;
      pairs.swap(other);
    }
    return pairs;
  }

  // Reports the looks since the last call to the wait.
  bool over() const { return wait_.over(std::exchange(looks_, 0)); }

  objection object(const char* rule, std::optional<index> a = {}, std::optional<index> b = {}, bytes number = 0) const {
    return {rule, at_, a, b, number};
  }

  bool conflict(index a, index b) const {
    looks_ += 1 + p_.buffers[a].lifetimes.size() + p_.buffers[b].lifetimes.size();
    const auto group = p_.buffers[a].alias_group;
    if (a == b || (group && group == p_.buffers[b].alias_group)) return false;
    if (p_.footprint(a) == 0 || p_.footprint(b) == 0) return false;
    if (std::binary_search(apart_.begin(), apart_.end(), std::pair{std::min(a, b), std::max(a, b)})) return true;
    return !p_.conflicts && overlap(p_.buffers[a], p_.buffers[b]);
  }

  // Calls `visit` with buffer i and all that share its base.
  template <class Visitor>
  void for_each_sharer(index i, const Visitor& visit) const {
    ++looks_;
    if (!p_.buffers[i].alias_group) return visit(i);
    const std::vector<index>& sharers = members_of_.at(*p_.buffers[i].alias_group);
    looks_ += sharers.size();
    for (const index m : sharers) visit(m);
  }

  std::optional<bytes> pin_of(index i) const {
    std::optional<bytes> pin;
    for_each_sharer(i, [&](index m) {
      if (p_.buffers[m].offset) pin = p_.buffers[m].offset;
    });
    return pin;
  }

  bytes reach_of(index i) const {
    bytes reach = 0;
    for_each_sharer(i, [&](index m) { reach = std::max(reach, p_.footprint(m)); });
    return reach;
  }

  // Returns the largest divisor of `step` that divides the base of buffer i: the step's share in each alignment it
  // obeys, put together.
  bytes share_of(bytes step, index i, const memory* place) const {
    bytes obeyed = place == nullptr ? 1 : std::gcd(step, place->alignment);
    for_each_sharer(i, [&](index m) { obeyed = std::lcm(obeyed, std::gcd(step, p_.alignment_of(m))); });
    return obeyed;
  }

  // Returns whether buffer i can live in no other memory than m.
  bool only_in(index i, index m) const {
    if (const auto& named = p_.buffers[i].memories; named.size() == 1) return named[0] == m;
    for (index other = 0; other < p_.memories.size(); ++other) {
      if (other == m) continue;
      bool shut_out = false;
      for_each_sharer(i, [&](index k) {
        const buffer& b = p_.buffers[k];
        const memory& there = p_.memories[other];
        looks_ += b.memories.size();
        shut_out |= !b.memories.empty() && std::find(b.memories.begin(), b.memories.end(), other) == b.memories.end();
        shut_out |= b.offset && !is_aligned(*b.offset, there.alignment);
        shut_out |= b.offset && there.capacity && *b.offset + p_.footprint(k) > *there.capacity;
      });
      if (!shut_out) return false;
    }
    return true;
  }

  // Returns the first multiple of `share` at which buffer i and its sharers are clear of all fixed ranges in its
  // memory.
  bytes head_of(index i, bytes share, const memory* place, const std::vector<index>& pinned) const {
    std::vector<address_range> forbidden;  // bases
    // Forbids the bases at which a member of this size meets [lo, hi). Smaller members need no ranges of their own.
    const auto forbid = [&](bytes size, bytes lo, bytes hi) {
      if (size != 0 && lo < hi) forbidden.push_back({lo < size ? 0 : lo - size + 1, hi});
    };
    if (place != nullptr) {
      const bytes reach = reach_of(i);
      looks_ += place->reserved.size();
      for (const auto& [lo, hi] : place->reserved) forbid(reach, lo, std::min(hi, max_address));
    }
    for (const index q : pinned) {
      bytes size = 0, height = 0;  // of members that conflict with a part of q's group, and of such parts
      for_each_sharer(i, [&](index m) {
        if (over()) return;
        for_each_sharer(q, [&](index part) {
          if (!conflict(m, part)) return;
          size = std::max(size, p_.footprint(m));
          height = std::max(height, p_.footprint(part));
        });
      });
      forbid(size, *p_.buffers[q].offset, *p_.buffers[q].offset + height);
    }
    std::sort(forbidden.begin(), forbidden.end(),
              [](const address_range& a, const address_range& b) { return a.lo < b.lo; });
    bytes base = 0;
    for (const address_range& f : forbidden) {
      if (f.lo > base) break;  // the rest starts higher
      base = std::max(base, align_up(f.hi, share));
    }
    return base;
  }

  // Collects the stack's members. Returns the first fault.
  std::optional<objection> collect(const argument& why, std::vector<index>& members) const {
    if (why.at) {
      if (p_.conflicts) return object("a tick, where the problem gives conflicts instead of lifetimes");
      std::map<index, index> largest;  // by alias group
      for (index i = 0; i < p_.buffers.size(); ++i) {
        const buffer& b = p_.buffers[i];
        looks_ += 1 + b.lifetimes.size();
        if (i % 1024 == 0 && over()) return {};
        if (p_.footprint(i) == 0 || !alive(b, *why.at)) continue;
        if (why.memory && p_.memories.size() > 1 && !only_in(i, *why.memory)) continue;
        if (!b.alias_group) {
          members.push_back(i);
        } else if (const auto [known, first] = largest.emplace(*b.alias_group, i); !first) {
          if (p_.footprint(i) > p_.footprint(known->second)) known->second = i;
        }
      }
      for (const auto& [group, i] : largest) members.push_back(i);
    }
    for (const index i : why.buffers) {
      if (i >= p_.buffers.size()) return object("an argument names a buffer that the problem does not have");
      if (why.memory && p_.memories.size() > 1 && !only_in(i, *why.memory)) {
        return object("a buffer of the stack may live in another memory", i);
      }
      if (over()) return {};
      for (const index other : members) {
        if (!conflict(i, other)) return object("two buffers of the stack do not conflict", i, other);
      }
      members.push_back(i);
    }
    return {};
  }

  std::optional<objection> stack(const argument& why) const {
    std::vector<index> members;
    if (auto wrong = collect(why, members)) return wrong;
    bytes bound = 0;
    for (const index i : members) bound += p_.footprint(i);
    if (!p_.max_slab && (p_.memories.size() <= 1 || why.memory)) {
      const memory* place = p_.memories.empty() ? nullptr : &p_.memories[why.memory.value_or(0)];
      if (why.step == 0) return object("a step of zero");
      if (why.step > max_address) return object("a step above 2^62 bytes");
      // A pin holds in any memory its buffer lives in: it blocks this one only if it can be in no other.
      std::vector<index> pinned = pinned_;
      looks_ += pinned.size();
      if (p_.memories.size() > 1) std::erase_if(pinned, [&](index i) { return over() || !only_in(i, *why.memory); });
      const bytes reached = height(members, pinned, why.step, place);
      bound = why.step == 1 ? std::max(bound, reached) : reached;
    }
    if (bound < why.bound && !wait_.was_over())
      return object("the stack proves less than the argument says", {}, {}, bound);
    return {};
  }

  // Returns the least arena of one memory that holds the stack.
  bytes height(const std::vector<index>& stacked, const std::vector<index>& pinned, bytes step,
               const memory* place) const {
    constexpr std::size_t most_head_work = 10'000'000;
    const std::size_t fixed = pinned.size() + (place == nullptr ? 0 : place->reserved.size());
    const bool with_heads = stacked.size() * fixed <= most_head_work;
    bytes bound = 0;
    std::vector<address_range> blocks;
    std::vector<member> free;
    std::vector<bytes> lengths;
    // The most that a highest member saves of its counted length, and the least that one adds to it.
    bytes most_spared = 0, least_added = max_bytes;
    for (const index i : stacked) {
      if (over()) return 0;
      const bytes reach = reach_of(i);
      if (const auto pin = pin_of(i)) {
        bound = std::max(bound, *pin + reach);
        if (p_.footprint(i) != 0) blocks.push_back({*pin, *pin + p_.footprint(i)});
        continue;
      }
      if (p_.footprint(i) == 0) continue;
      const bytes share = share_of(step, i, place);
      const bytes length = (p_.footprint(i) + share - 1) / step * step;
      const bytes below = length + step, above = reach + share;
      most_spared = std::max(most_spared, below - std::min(below, above));
      least_added = std::min(least_added, above - std::min(below, above));
      if (length == 0) continue;
      free.push_back({length, with_heads ? align_up(head_of(i, share, place, pinned), step) : 0});
      lengths.push_back(length);
    }
    std::sort(blocks.begin(), blocks.end(), [](const address_range& a, const address_range& b) { return a.lo < b.lo; });
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      if (k > 0 && blocks[k].lo < blocks[k - 1].hi) return max_bytes;
      if (place == nullptr) continue;
      looks_ += place->reserved.size();
      for (const auto& [lo, hi] : place->reserved) {
        if (lo < hi && blocks[k].lo < hi && lo < blocks[k].hi) return max_bytes;
      }
    }
    if (free.empty()) return bound;
    const auto arena = [&](bytes end) {
      return most_spared == 0 ? end + least_added : end - std::min(end, most_spared);
    };

    std::sort(free.begin(), free.end(), [](const member& a, const member& b) { return a.head < b.head; });
    bytes end = 0;
    for (const member& m : free) end = std::max(end, m.head) + m.length;
    bound = std::max(bound, arena(end));

    if (place != nullptr) {
      for (const auto& [lo, hi] : place->reserved)
        blocks.push_back({std::min(lo, max_address), std::min(hi, max_address)});
    }
    std::sort(blocks.begin(), blocks.end(), [](const address_range& a, const address_range& b) { return a.lo < b.lo; });
    bytes left = std::accumulate(lengths.begin(), lengths.end(), bytes{0});
    bytes start = 0;
    length_sums sums{lengths, looks_};
    for (const address_range& b : blocks) {
      ++looks_;
      if (over()) return 0;
      const bytes lo = align_up(b.lo, step);
      const bytes taken = lo > start ? sums.most_that_fits(lo - start) : 0;
      if (taken >= left) break;
      left -= taken;
      start = std::max(start, align_up(b.hi, step));
    }
    return std::max(bound, arena(start + left));
  }

  const problem& p_;
  const bytes lower_bound_;
  const certificate& proof_;
  const patience& wait_;
  const searches searches_;
  const std::span<const refutation> refuted_;
  mutable std::uint64_t looks_ = 0;  // since the wait was told
  const std::vector<std::pair<index, index>> apart_;
  std::map<index, std::vector<index>> members_of_;  // by alias group
  std::vector<index> pinned_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<objection> verify_bound_within(const problem& p, bytes lower_bound, const certificate& proof,
                                             const patience& wait, searches by, std::span<const refutation> refuted) {
  auto found = proof_verifier{p, lower_bound, proof, wait, by, refuted}.run();
  if (wait.was_over()) return {};
  return found;
}

patience bound_patience(const problem& p) {
  // Some seconds. The planner's proofs take some looks a buffer, or one for each pair of sharers of two bases.
  constexpr std::uint64_t most_looks = std::uint64_t{1} << 27, looks_a_buffer = 1 << 10;
  return patience::of_looks(most_looks + looks_a_buffer * p.buffers.size());
}

std::optional<objection> verify_bound(const problem& p, bytes lower_bound, const certificate& proof) {
  return verify_bound(p, lower_bound, proof, {});
}

std::optional<objection> verify_bound(const problem& p, bytes lower_bound, const certificate& proof,
                                      const std::vector<refutation>& proved) {
  if (!p.dimensions.empty()) {
    const auto largest = at_most(p);
    return largest ? verify_bound(*largest, lower_bound, proof, proved) : objection{.rule = largest.error().what};
  }
  const patience wait = bound_patience(p);
  auto found = verify_bound_within(p, lower_bound, proof, wait, searches::prove_nothing, proved);
  if (wait.was_over()) return objection{.rule = "the arguments are more than can be checked"};
  return found;
}

}  // namespace berth::plan

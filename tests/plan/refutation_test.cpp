// The checker of refutation logs beside brute force, and logs that were tampered with.
#include "berth/plan/refutation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iomanip>
#include <random>
#include <sstream>

#include "berth/plan/solve.hpp"
#include "plan/model/conflicts.hpp"
#include "plan/model/instance.hpp"
#include "support/sanitizers.hpp"

namespace berth::plan {
namespace {

unsigned below(std::mt19937& random, unsigned n) {
  return static_cast<unsigned>(random() % n);
}

// Small problems of every kind that a log covers. Mostly the bound of the stacks is below the least arena.
problem small_problem(std::mt19937& random) {
  problem p;
  const unsigned n = 3 + below(random, 4), kind = below(random, 8), scale = below(random, 3) == 0 ? 6 : 1;
  for (unsigned i = 0; i < n; ++i) {
    const auto lower = static_cast<tick>(below(random, 7));
    buffer b{.size = (1 + below(random, 11)) * scale, .live = {lower, lower + 1 + static_cast<tick>(below(random, 5))}};
    if ((kind & 1) != 0 && below(random, 2) != 0) b.alignment = 1 + below(random, 4);
    if (kind >= 4 && below(random, 3) == 0) {
      b.lifetimes = {b.live, {b.live.upper + 1, b.live.upper + 2 + static_cast<tick>(below(random, 3))}};
    }
    if (kind == 5 && below(random, 3) == 0) b.alias_group = below(random, 2);
    p.add(b);
  }
  if ((kind & 2) != 0) {
    buffer& b = p.buffers[below(random, n)];
    if (!b.alias_group) b.offset = below(random, 6) * std::max<bytes>(b.alignment, 1);
  }
  const auto pairs = [&](unsigned many) {
    std::vector<pair> out;
    for (unsigned k = 0; k < many; ++k) {
      const unsigned a = below(random, n);
      out.push_back({a, (a + 1 + below(random, n - 1)) % n});
    }
    return out;
  };
  if (kind == 6) p.conflicts = pairs(2 * n);
  if (kind >= 6) p.separations = pairs(2);
  if (below(random, 3) == 0) p.memories = {{.name = "m", .reserved = {{4, 7}, {6, 9}}}};
  return p;
}

// The least arena over all orders of first fit. Shares nothing with the checker or the search.
class by_brute_force {
 public:
  explicit by_brute_force(const problem& p) : p_{p}, at_(p.buffers.size(), none) {
    for (index a = 0; a < p.buffers.size(); ++a) {
      for (index b = 0; b < p.buffers.size(); ++b) apart_.push_back(a != b && conflict(a, b) ? 1 : 0);
    }
  }

  bytes least() {
    for (index i = 0; i < p_.buffers.size(); ++i) {
      if (p_.buffers[i].offset) {
        at_[i] = *p_.buffers[i].offset;
      } else {
        order_.push_back(i);
      }
    }
    bytes best = none;
    do {
      best = std::min(best, arena());
    } while (std::next_permutation(order_.begin(), order_.end()));
    return best;
  }

 private:
  static constexpr bytes none = ~bytes{0};

  bool conflict(index a, index b) const {
    const buffer &x = p_.buffers[a], &y = p_.buffers[b];
    if (x.alias_group && x.alias_group == y.alias_group) return false;
    const auto listed = [&](const std::vector<pair>& all) {
      return std::any_of(all.begin(), all.end(),
                         [&](const pair& c) { return (c.a == a && c.b == b) || (c.a == b && c.b == a); });
    };
    if (listed(p_.separations)) return true;
    if (p_.conflicts) return listed(*p_.conflicts);
    for (tick t = 0; t < 40; ++t) {
      if (lives(x, t) && lives(y, t)) return true;
    }
    return false;
  }
  static bool lives(const buffer& b, tick t) {
    const std::vector<interval> all = b.lifetimes.empty() ? std::vector{b.live} : b.lifetimes;
    return std::any_of(all.begin(), all.end(), [t](const interval& l) { return l.lower <= t && t < l.upper; });
  }

  bool is_clear(index i, bytes x, const std::vector<bytes>& at) const {
    if (x % p_.alignment_of(i) != 0) return false;
    if (!p_.memories.empty()) {
      for (const auto& [lo, hi] : p_.memories[0].reserved) {
        if (x < hi && lo < x + p_.footprint(i)) return false;
      }
    }
    for (index j = 0; j < p_.buffers.size(); ++j) {
      if (at[j] == none || apart_[i * p_.buffers.size() + j] == 0) continue;
      if (x < at[j] + p_.footprint(j) && at[j] < x + p_.footprint(i)) return false;
    }
    return true;
  }

  bytes arena() const {
    std::vector<bytes> at = at_;
    for (const index first : order_) {
      if (at[first] != none) continue;
      std::vector<index> sharers{first};
      for (index j = 0; j < p_.buffers.size(); ++j) {
        if (j != first && p_.buffers[first].alias_group && p_.buffers[j].alias_group == p_.buffers[first].alias_group)
          sharers.push_back(j);
      }
      bytes x = 0;
      const auto clear = [&](index i) { return is_clear(i, x, at); };
      while (!std::all_of(sharers.begin(), sharers.end(), clear)) ++x;
      for (const index i : sharers) at[i] = x;
    }
    bytes end = 0;
    for (index i = 0; i < at.size(); ++i) end = std::max(end, at[i] + p_.footprint(i));
    return end;
  }

  const problem& p_;
  std::vector<char> apart_;  // by pair
  std::vector<bytes> at_;
  std::vector<index> order_;
};

bool pins_are_clear(const problem& p) {
  for (index i = 0; i < p.buffers.size(); ++i) {
    const auto& at = p.buffers[i].offset;
    if (!at || p.memories.empty()) continue;
    for (const auto& [lo, hi] : p.memories[0].reserved) {
      if (*at < hi && lo < *at + p.footprint(i)) return false;
    }
  }
  return true;
}

// A claim that no plan has an arena below `bound`, as a search would make it.
plan claim_of(bytes bound) {
  plan claim;
  claim.lower_bound_bytes = bound;
  claim.proof = {{.kind = argument::kind::search, .bound = bound}};
  return claim;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + '\n';
  return out;
}

// One change: a line gone, doubled, exchanged with another, or a number in it changed.
std::string tampered(std::mt19937& random, const std::string& log, unsigned buffers) {
  std::vector<std::string> lines = lines_of(log);
  const std::size_t first = 3, at = first + random() % (lines.size() - first);
  switch (random() % 5) {
    case 0: lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 1: lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), lines[at]); break;
    case 2: std::swap(lines[at], lines[first + random() % (lines.size() - first)]); break;
    case 3: lines[at] = std::string{"pehs"[random() % 4]} + " " + std::to_string(random() % buffers); break;
    default: lines[at].back() = static_cast<char>('0' + random() % 10);
  }
  return joined(lines);
}

// Three buffers of which the sizes leave a gap: a search is needed to see that 12 is too little.
problem with_a_gap(std::mt19937& random, std::string& log, bytes& least) {
  for (;;) {
    problem p = small_problem(random);
    if (!validate(p) || !pins_are_clear(p)) continue;
    least = by_brute_force{p}.least();
    const auto got = refute(p, claim_of(least), 100'000);
    if (!got || lines_of(*got).size() < 12) continue;
    log = *got;
    return p;
  }
}

}  // namespace

// Below the least arena the search writes a log that the checker accepts; the same log proves nothing more.
TEST(refutation, of_the_least_arena_is_accepted_and_of_more_is_not) {
  std::mt19937 random(5);
  unsigned accepted = 0, steps = 0;
  for (unsigned round = 0; round < 400; ++round) {
    const problem p = small_problem(random);
    if (!validate(p) || !pins_are_clear(p)) continue;
    const bytes least = by_brute_force{p}.least();
    const auto log = refute(p, claim_of(least), 100'000);
    ASSERT_TRUE(log) << round << ": " << log.error().what;
    std::vector<refutation> proved;
    const auto fault = check_refutations(p, *log, proved);
    ASSERT_FALSE(fault) << round << ": line " << fault->line << ": " << fault->rule << "\n" << *log;
    ASSERT_EQ(proved.size(), 1U);
    EXPECT_EQ(proved[0].bound, least);
    EXPECT_FALSE(verify_bound(p, least, {}, proved));
    EXPECT_TRUE(verify_bound(p, least + 1, {}, proved));
    ++accepted;
    steps += lines_of(*log).size() > 8;
    EXPECT_FALSE(refute(p, claim_of(least + 1), 100'000)) << "a bound above the least arena";
    std::vector<std::string> lines = lines_of(*log);
    lines[1] = "bound " + std::to_string(least + 1);
    EXPECT_TRUE(check_refutations(p, joined(lines), proved));
    EXPECT_EQ(proved.size(), 1U);
  }
  EXPECT_GT(accepted, 150U);
  EXPECT_GT(steps, 12U);
}

// An accepted log has a true bound, whatever its lines say.
TEST(refutation, tampered_logs_prove_nothing_false) {
  std::mt19937 random(6);
  unsigned tried = 0, rejected = 0;
  for (unsigned round = 0; round < support::cases(60); ++round) {
    std::string log;
    bytes least = 0;
    const problem p = with_a_gap(random, log, least);
    const auto buffers = static_cast<unsigned>(p.buffers.size());
    std::vector<std::string> above = lines_of(log);
    above[1] = "bound " + std::to_string(least + 1);
    for (int k = 0; k < 40; ++k) {
      std::vector<refutation> proved;
      EXPECT_TRUE(check_refutations(p, tampered(random, joined(above), buffers), proved)) << "a false bound";
      ++tried;
      rejected += check_refutations(p, tampered(random, log, buffers), proved).has_value();
    }
  }
  EXPECT_GT(rejected, tried * 8 / 10);
}

TEST(refutation, that_is_cut_off_is_rejected_at_its_last_line) {
  std::mt19937 random(7);
  std::string log;
  bytes least = 0;
  const problem p = with_a_gap(random, log, least);
  const std::vector<std::string> lines = lines_of(log);
  for (std::size_t keep = 2; keep < lines.size(); ++keep) {
    std::vector<refutation> proved;
    const auto fault =
        check_refutations(p, joined({lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(keep)}), proved);
    ASSERT_TRUE(fault) << keep;
    EXPECT_EQ(fault->line, keep);
    EXPECT_TRUE(proved.empty());
  }
  std::vector<refutation> proved;
  const auto within = check_refutations(p, std::string_view{log}.substr(0, log.size() - 1), proved);
  ASSERT_TRUE(within);
  EXPECT_STREQ(within->rule, "the log ends within a line");
  const auto more = check_refutations(p, log + lines.back() + "\n", proved);
  ASSERT_TRUE(more);
  EXPECT_EQ(more->line, lines.size() + 1);
  EXPECT_TRUE(check_refutations(p, "", proved));
}

TEST(refutation, of_another_problem_is_rejected_at_its_first_line) {
  std::mt19937 random(8);
  std::string log;
  bytes least = 0;
  problem p = with_a_gap(random, log, least);
  p.buffers[0].size += 1;
  std::vector<refutation> proved;
  const auto fault = check_refutations(p, log, proved);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->line, 1U);
  EXPECT_STREQ(fault->rule, "the log is of another problem");
}

namespace {

// The line of the fault of a log whose lines from the third on are these.
std::uint64_t fault_line(const problem& p, const std::string& rest, const char* rule) {
  std::ostringstream first;
  first << "berth-refutation/1 " << std::hex << std::setw(16) << std::setfill('0') << fingerprint_of(p) << '\n';
  std::vector<refutation> proved;
  const auto fault = check_refutations(p, first.str() + rest, proved);
  if (!fault) return 0;
  EXPECT_STREQ(fault->rule, rule);
  return fault->line;
}

}  // namespace

// Written by hand.
TEST(refutation, steps_that_do_not_hold_are_rejected_at_their_lines) {
  problem p;
  p.add({.size = 4, .live = {0, 2}});
  p.add({.size = 4, .live = {1, 3}});
  p.add({.size = 4, .live = {2, 4}});
  EXPECT_EQ(fault_line(p, "bound 8\nof all\nclique 0 1\ns 0\n", ""), 0U);  // true
  EXPECT_EQ(fault_line(p, "bound 9\nof all\nclique 0 1\ns 0\n", "a clique ends within the bound"), 5U);
  EXPECT_EQ(fault_line(p, "bound 8\nof all\nclique 0 2\ns 0\n", "two buffers of a clique do not conflict"), 4U);
  EXPECT_EQ(fault_line(p, "bound 8\nof all\nclique 0 0 1\ns 0\n", "two buffers of a clique do not conflict"), 4U);
  EXPECT_EQ(fault_line(p, "bound 8\nof all\ns 0\n", "a clique is not known"), 4U);
  EXPECT_EQ(fault_line(p, "bound 8\nof all\np 3\n", "a number is too large"), 4U);
  EXPECT_EQ(fault_line(p, "bound 8\nof all\np x\n", "not a number"), 4U);
  EXPECT_EQ(fault_line(p, "bound 99999999999999999999\nof all\n", "not a number"), 2U);
  EXPECT_EQ(fault_line(p, "bound 9223372036854775807\nof all\n", "a number is too large"), 2U);
  EXPECT_EQ(fault_line(p, "bound 8\nof all\np 0\np 0\n", "a buffer is placed that is not open"), 5U);
  EXPECT_EQ(fault_line(p, "bound 8\nof all\nh 0\n", "a hole can be entered, or there is none"), 4U);
  EXPECT_EQ(fault_line(p, "bound 8\nof all\ne 0\n", "a buffer ends within the bound"), 4U);
  EXPECT_EQ(fault_line(p, "bound 8\nof 0 1\nclique 0 2\n", "a buffer is none of its block's"), 4U);
  EXPECT_EQ(fault_line(p, "bound 8 memory 0\nof all\n", "the line goes on behind its end"), 2U);
  // A lemma that is used in its own proof, and one that is used too often.
  EXPECT_EQ(fault_line(p, "bound 8\nof all\nk 0 1\nl 0\n", "a lemma is used that does not hold there"), 5U);
  p.max_slab = 100;
  EXPECT_EQ(fault_line(p, "bound 8\nof all\n", "a problem that is cut into slabs has no refutations"), 1U);
}

// A search proves something in each of two memories.
TEST(refutation, of_several_memories_has_a_block_for_each) {
  std::mt19937 random(9);
  unsigned checked = 0;
  for (int round = 0; round < 40; ++round) {
    std::string none;
    bytes first = 0, second = 0;
    problem p = with_a_gap(random, none, first), q = with_a_gap(random, none, second);
    if (p.conflicts || q.conflicts || !p.memories.empty() || !q.memories.empty()) continue;
    const auto own = static_cast<index>(p.buffers.size());
    for (buffer& b : p.buffers) b.memories = {0};
    for (buffer b : q.buffers) {
      b.memories = {1};
      if (b.alias_group) *b.alias_group += 4;
      p.add(b);
    }
    for (const pair& s : q.separations) p.separations.push_back({s.a + own, s.b + own});
    p.memories = {{.name = "a"}, {.name = "b"}};
    if (!validate(p)) continue;
    plan claim;
    claim.lower_bound_bytes = first + second;
    claim.proof = {{.kind = argument::kind::search, .bound = first, .memory = 0},
                   {.kind = argument::kind::search, .bound = second, .memory = 1}};
    const auto log = refute(p, claim, 100'000);
    ASSERT_TRUE(log) << log.error().what;
    std::vector<refutation> proved;
    const auto fault = check_refutations(p, *log, proved);
    ASSERT_FALSE(fault) << fault->line << " " << fault->rule;
    ASSERT_EQ(proved.size(), 2U);
    EXPECT_FALSE(verify_bound(p, first + second, claim.proof, proved));
    EXPECT_TRUE(verify_bound(p, first + second + 1, claim.proof, proved));
    EXPECT_TRUE(verify_bound(p, first + second, claim.proof));
    p.buffers[0].memories = {0, 1};  // the fingerprint differs, too
    proved.clear();
    EXPECT_TRUE(check_refutations(p, *log, proved));
    ++checked;
  }
  EXPECT_GT(checked, 5U);
}

// A log proves what a plan says a search proved.
TEST(refutation, of_plans_proved_by_search_is_accepted) {
  std::mt19937 random(10);
  unsigned by_search = 0;
  for (unsigned round = 0; round < support::cases(400); ++round) {
    problem p;
    const unsigned n = 8 + below(random, 9);
    for (unsigned i = 0; i < n; ++i) {
      const auto lower = static_cast<tick>(below(random, 8));
      p.add({.size = 1 + below(random, 30),
             .live = {lower, lower + 1 + static_cast<tick>(below(random, 6))},
             .alignment = round % 2 != 0 ? 1U << below(random, 4) : 0});
    }
    if (round % 5 == 0) p.buffers[0].offset = 8;
    const auto got = solve(p);
    ASSERT_TRUE(got);
    const auto log = refute(p, *got, 1'000'000);
    ASSERT_TRUE(log) << log.error().what;
    if (lines_of(*log).size() == 1) {
      EXPECT_FALSE(verify_bound(p, got->lower_bound(), got->proof)) << "nothing is left to a search";
      continue;
    }
    ++by_search;
    std::vector<refutation> proved;
    const auto fault = check_refutations(p, *log, proved);
    ASSERT_FALSE(fault) << fault->line << " " << fault->rule;
    EXPECT_FALSE(verify_bound(p, got->lower_bound(), got->proof, proved));
    EXPECT_TRUE(verify_bound(p, got->lower_bound(), got->proof));
  }
  EXPECT_GT(by_search, support::cases(20) / 2);
}

}  // namespace berth::plan

// The same problem and options give the same plan on every run and with any number of threads.
//
// BERTH_PROBLEMS=1000 tries so many problems instead of the usual few; five minutes of one core.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <random>
#include <string>

#include "berth/plan/solve.hpp"
#include "plan/model/within.hpp"
#include "support/sanitizers.hpp"

namespace berth::plan {
namespace {

class draws {
 public:
  explicit draws(std::uint64_t seed) : random_{seed} {}
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  pair two_of(std::size_t n) {
    const std::uint64_t a = below(n);
    return {static_cast<index>(a), static_cast<index>((a + 1 + below(n - 1)) % n)};
  }

 private:
  std::mt19937_64 random_;
};

problem plain(draws& d) {
  problem p;
  const std::uint64_t n = d.between(20, 110), moments = n / 2 + 2;
  for (std::uint64_t i = 0; i < n; ++i) {
    const auto lower = static_cast<tick>(d.below(moments));
    p.add({.size = d.between(1, 2000), .live = {lower, lower + 1 + static_cast<tick>(d.below(8))}});
  }
  return p;
}

struct feature {
  const char* name;
  std::function<void(problem&, draws&)> add;
};

bytes total(const problem& p) {
  bytes sum = 0;
  for (const buffer& b : p.buffers) sum += b.size;
  return sum;
}

void each(problem& p, draws& d, std::uint64_t share, const std::function<void(buffer&)>& change) {
  for (buffer& b : p.buffers) {
    if (d.one_in(share)) change(b);
  }
}

const feature features[] = {
    {"nothing", [](problem&, draws&) {}},
    {"alignments", [](problem& p, draws& d) { each(p, d, 3, [&](buffer& b) { b.alignment = 1ULL << d.below(9); }); }},
    {"lifetimes",
     [](problem& p, draws& d) {
       each(p, d, 3, [&](buffer& b) {
         b.lifetimes = {b.live, {b.live.upper + 2, b.live.upper + 3 + static_cast<tick>(d.below(4))}};
       });
     }},
    {"groups", [](problem& p, draws& d) { each(p, d, 4, [&](buffer& b) { b.alias_group = d.below(9); }); }},
    {"pins", [](problem& p, draws& d) { each(p, d, 12, [&](buffer& b) { b.offset = 256 * d.below(40); }); }},
    {"hints", [](problem& p, draws& d) { each(p, d, 3, [&](buffer& b) { b.hint = 64 * d.below(200); }); }},
    {"penalties",
     [](problem& p, draws& d) {
       for (int k = 0; k < 20; ++k) {
         const pair of = d.two_of(p.buffers.size());
         p.reuse_penalties.push_back({of.a, of.b, static_cast<double>(d.between(1, 3))});
       }
     }},
    {"separations",
     [](problem& p, draws& d) {
       for (int k = 0; k < 12; ++k) p.separations.push_back(d.two_of(p.buffers.size()));
     }},
    {"conflicts",
     [](problem& p, draws& d) {
       p.conflicts.emplace();
       for (std::size_t k = 0; k < 4 * p.buffers.size(); ++k) p.conflicts->push_back(d.two_of(p.buffers.size()));
     }},
    {"reserved",
     [](problem& p, draws& d) {
       p.memories.resize(1);
       for (int k = 0; k < 3; ++k) {
         const bytes at = d.below(9000);
         p.memories[0].reserved.push_back({at, at + d.between(1, 400)});
       }
     }},
    {"memories",
     [](problem& p, draws& d) {
       p.memories = {{.name = "a", .capacity = total(p) / d.between(20, 40), .cost = 1},
                     {.name = "b", .capacity = total(p) / d.between(8, 20), .cost = 2},
                     {.name = "c", .cost = 5}};
     }},
    {"slabs", [](problem& p, draws& d) { p.max_slab = d.between(2500, 16'000); }},
};

// Returns all of a plan but the time it took.
std::string written(const result<plan>& got) {
  if (!got) return std::string{"error "} + std::string{got.error().what};
  std::string out{name(got->status)};
  out += " " + std::string{got->solver} + " " + std::to_string(got->arena_bytes) + " " +
         std::to_string(got->lower_bound_bytes) + " work " + std::to_string(got->work);
  for (const bytes at : got->offsets) out += " " + std::to_string(at);
  for (const index m : got->memory_of) out += " m" + std::to_string(m);
  for (const index s : got->slab_of) out += " s" + std::to_string(s);
  return out;
}

std::uint64_t problems() {
  const char* const wanted = std::getenv("BERTH_PROBLEMS");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : support::cases(36);
}

}  // namespace

// Each problem is planned under limits that end within the search, which threads share. They limit looks, as those of
// one stage beside others, and search nodes.
TEST(determinism, plans_depend_on_neither_threads_nor_run) {
  std::uint64_t planned = 0;
  for (std::uint64_t k = 0; k < problems(); ++k) {
    const feature& f = features[k % std::size(features)];
    draws d{k};
    problem p = plain(d);
    f.add(p, d);
    if (d.one_in(4)) p.alignment = 64;
    if (!validate(p)) continue;
    const std::uint64_t looks = d.between(100'000, 600'000), nodes = d.between(500, 4000);
    const auto limited = [&](unsigned threads, bool by_looks) {
      const options o{.node_limit = by_looks ? 0 : nodes, .threads = threads};
      return written(solve_within(p, o, by_looks ? patience::of_looks(looks) : patience{}));
    };
    for (const bool by_looks : {true, false}) {
      const std::string first = limited(1, by_looks);
      ASSERT_FALSE(first.starts_with("error")) << first << ", problem " << k << " with " << f.name;
      for (const unsigned threads : {1U, 2U, 3U, 8U}) {
        for (int run = 0; run < 2; ++run) {
          ASSERT_EQ(limited(threads, by_looks), first)
              << "problem " << k << " with " << f.name << ", " << threads << " threads, run " << run;
        }
      }
    }
    ++planned;
  }
  EXPECT_GE(planned, problems() / 2);
}

// Other processors and compilers give these plans too. A change of the planner that changes plans changes the number.
TEST(determinism, plans_are_those_of_other_machines) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (std::uint64_t k = 0; k < std::size(features); ++k) {
    draws d{1000 + k};
    problem p = plain(d);
    features[k].add(p, d);
    ASSERT_TRUE(validate(p)) << features[k].name;
    for (const char c : written(solve_within(p, {}, patience::of_looks(200'000)))) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    }
  }
  EXPECT_EQ(hash, 4159113524599705034ULL);
}

}  // namespace berth::plan

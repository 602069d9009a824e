#include "plan/search/search.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <random>

#include "berth/plan/verify.hpp"
#include "plan/bound/bounds.hpp"
#include "plan/search/fold.hpp"
#include "plan/search/narrow.hpp"
#include "plan/search/skyline.hpp"
#include "plan/single/single.hpp"
#include "support/sanitizers.hpp"

namespace berth::plan {
namespace {

units least_arena(const problem& p, const instance& in) {
  return thorough_bound(p, in, quick_bound(p, in)).value;
}

// The least arena by trying every order of the items with first fit. Some order is that of a plan of least sum of
// offsets, sorted by offset; first fit in that order does no worse. Independent of the search.
std::optional<units> oracle(const instance& in, const conflict_graph& g) {
  std::vector<std::uint32_t> open;
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    if (in.items[i].pin == no_offset) open.push_back(i);
  }
  std::optional<units> best;
  do {
    std::vector<units> at(in.items.size(), no_offset);
    for (std::uint32_t i = 0; i < in.items.size(); ++i) at[i] = in.items[i].pin;
    for (const std::uint32_t i : open) {
      units x = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (const conflict& c : g.of(i)) {
          if (at[c.other] == no_offset || x >= at[c.other] + c.other_height || at[c.other] >= x + c.height) continue;
          x = round_up(at[c.other] + c.other_height, in.items[i].alignment);
          moved = true;
        }
      }
      at[i] = x;
    }
    const units arena = arena_of(in, at);
    if (!best || arena < *best) best = arena;
  } while (std::next_permutation(open.begin(), open.end()));
  return best;
}

struct shape {
  bool alignments, pins, groups, lifetimes, separations, conflicts;
};

problem random_problem(std::mt19937& random, const shape& s) {
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  problem p;
  p.granularity = below(4) == 0 ? 2 : 1;
  const unsigned n = 2 + below(6);
  for (unsigned i = 0; i < n; ++i) {
    buffer b{.size = below(12)};
    const auto lower = static_cast<tick>(below(8));
    b.live = {lower, lower + 1 + static_cast<tick>(below(5))};
    if (s.lifetimes && below(2))
      b.lifetimes = {b.live, {b.live.upper + 1, b.live.upper + 2 + static_cast<tick>(below(3))}};
    if (s.alignments && below(2)) b.alignment = 1 + below(4);
    if (s.groups && below(3) == 0) b.alias_group = below(2);
    p.add(b);
  }
  if (s.pins && below(2)) {
    const unsigned k = below(n);
    if (!p.buffers[k].alias_group) p.buffers[k].offset = below(6) * std::max<bytes>(p.buffers[k].alignment, 1);
  }
  const auto pairs = [&](unsigned many) {
    std::vector<pair> out;
    for (unsigned k = 0; k < many; ++k) {
      const pair c{below(n), below(n)};
      if (c.a != c.b) out.push_back(c);
    }
    return out;
  };
  if (s.separations) p.separations = pairs(2);
  if (s.conflicts) p.conflicts = pairs(2 * n);
  if (below(4) == 0) p.memories = {{.name = "m", .reserved = {{4, 7}}}};
  return p;
}

switches switches_of(unsigned bits) {
  return {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, (bits & 16) != 0};
}

// By index.
std::vector<std::int64_t> falling(const instance& in) {
  std::vector<std::int64_t> priority(in.items.size());
  std::iota(priority.rbegin(), priority.rend(), 0);
  return priority;
}

void expect_layout(const instance& in, const conflict_graph& g, const std::vector<units>& at, units capacity) {
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    if (i < in.own_items) {
      EXPECT_LE(at[i] + in.items[i].size, capacity);
    }
    EXPECT_EQ(at[i] % in.items[i].alignment, 0);
    if (in.items[i].pin != no_offset) {
      EXPECT_EQ(at[i], in.items[i].pin);
    }
    for (const conflict& c : g.of(i)) {
      EXPECT_TRUE(at[i] + c.height <= at[c.other] || at[c.other] + c.other_height <= at[i]) << i << " and " << c.other;
    }
  }
}

constexpr shape shapes[] = {
    {false, false, false, false, false, false}, {true, false, false, false, false, false},
    {true, true, false, false, false, false},   {false, false, true, true, false, false},
    {true, true, true, true, true, false},      {true, true, true, false, true, true},
};

bool pins_clash(const conflict_graph& g, const instance& in) {
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    for (const conflict& c : g.of(i)) {
      const units a = in.items[i].pin;
      const units b = in.items[c.other].pin;
      if (a != no_offset && b != no_offset && a < b + c.other_height && b < a + c.height) return true;
    }
  }
  return false;
}

}  // namespace

// After every single decision every invariant of search.hpp holds, under every product of the switches.
TEST(search, keeps_its_invariants) {
  std::mt19937 random(7);
  std::uint64_t decisions = 0;
  for (int round = 0; round < 600; ++round) {
    const problem p = random_problem(random, shapes[round % std::size(shapes)]);
    if (!validate(p)) continue;
    const instance in = make_instance(p);
    const conflict_graph g = make_conflicts(in);
    if (pins_clash(g, in)) continue;
    const units bound = least_arena(p, in);
    for (unsigned bits = static_cast<unsigned>(round) % 4; bits < 32; bits += 4) {
      const strategy how{falling(in), static_cast<focus>(bits / 4 % 3), bits % 3 == 0, bits % 5 == 0 ? 3U : 0U, 2,
                         bits};
      failed_states failed{10};
      search one{in, g, bound, how, switches_of(bits), failed};
      while (one.run(1) == search_status::paused) {
        ASSERT_EQ(one.check(), "") << "round " << round << " switches " << bits << " node " << one.nodes();
      }
      decisions += one.nodes();
    }
  }
  EXPECT_GT(decisions, 10'000U);
}

// At the optimum the search finds a layout and one unit below it exhausts, under every product of the switches.
TEST(search, is_complete_under_every_product_of_switches) {
  std::mt19937 random(1);
  int below_bound = 0;
  for (int round = 0; round < 1000; ++round) {
    const problem p = random_problem(random, shapes[round % std::size(shapes)]);
    if (!validate(p)) continue;
    const instance in = make_instance(p);
    const conflict_graph g = make_conflicts(in);
    if (pins_clash(g, in)) continue;
    const units best = *oracle(in, g);
    EXPECT_LE(least_arena(p, in), best);
    if (best == 0) continue;
    if (best > least_arena(p, in)) ++below_bound;
    // A third of the products each round: the whole takes minutes under a sanitizer.
    for (unsigned bits = static_cast<unsigned>(round) % 3; bits < 32; bits += 3) {
      for (const focus where : {focus::lowest, focus::slack, focus::fewest}) {
        const bool corners = (bits + round) % 2 == 0;
        const strategy how{falling(in), where, corners, bits % 3 == 0 ? 5U : 0U, corners ? 3 : 0, bits};
        failed_states failed{10};
        search fits{in, g, best, how, switches_of(bits), failed};
        ASSERT_EQ(fits.run(1'000'000), search_status::found) << "round " << round << " switches " << bits;
        expect_layout(in, g, fits.offsets(), best);
        fits.tell(failed);
        search below{in, g, best - 1, how, switches_of(bits), failed};
        ASSERT_EQ(below.run(1'000'000), search_status::exhausted) << "round " << round << " switches " << bits;
      }
    }
  }
  EXPECT_GT(below_bound, 50);  // enough cases that the cheap bounds do not decide
}

TEST(search, a_pause_changes_nothing) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    const problem p = random_problem(random, shapes[round % 2]);
    const instance in = make_instance(p);
    const conflict_graph g = make_conflicts(in);
    failed_states one{10};
    failed_states other{10};
    search whole{in, g, least_arena(p, in), {falling(in), focus::slack, true, 0, 0, 0}, {}, one};
    search parts{in, g, least_arena(p, in), {falling(in), focus::slack, true, 0, 0, 0}, {}, other};
    const search_status expected = whole.run(100'000);
    search_status got = search_status::paused;
    while (got == search_status::paused) got = parts.run(1);
    EXPECT_EQ(got, expected);
    EXPECT_EQ(parts.nodes(), whole.nodes());
    EXPECT_EQ(parts.offsets(), whole.offsets());
  }
}

TEST(single, is_optimal_on_small_problems_of_every_shape) {
  std::mt19937 random(3);
  for (int round = 0; round < 1500; ++round) {
    problem p = random_problem(random, shapes[round % std::size(shapes)]);
    if (!validate(p)) continue;
    const instance in = make_instance(p);
    const conflict_graph g = make_conflicts(in);
    const plan got = solve_single(p, {});
    if (pins_clash(g, in)) {
      EXPECT_EQ(got.status, status::infeasible);
      continue;
    }
    ASSERT_EQ(got.status, status::optimal) << round;
    EXPECT_EQ(verify(p, got), std::nullopt);
    const bytes best = static_cast<bytes>(*oracle(in, g)) * in.unit;
    EXPECT_EQ(got.arena(), best);
    EXPECT_EQ(got.lower_bound(), best);
    if (best == 0 || !p.memories.empty()) continue;
    p.capacity = best - 1;
    if (validate(p)) {
      EXPECT_EQ(solve_single(p, {}).status, status::infeasible);
    }
    p.capacity = best;
    EXPECT_EQ(solve_single(p, {}).status, status::optimal);
  }
}

namespace {

// Cuts a full rectangle of sections by bytes into pieces: max-live is the height everywhere, so the optimum is known.
void guillotine(std::mt19937& random, problem& p, tick t0, tick t1, bytes y0, bytes y1, int depth) {
  const bool wide = t1 - t0 > 1;
  const bool tall = y1 - y0 > 1;
  if (depth == 0 || (!wide && !tall)) {
    p.add({.size = y1 - y0, .live = {t0, t1}});
    return;
  }
  if (wide && (!tall || random() % 2)) {
    const tick cut = t0 + 1 + static_cast<tick>(random() % static_cast<unsigned>(t1 - t0 - 1));
    guillotine(random, p, t0, cut, y0, y1, depth - 1);
    guillotine(random, p, cut, t1, y0, y1, depth - 1);
  } else {
    const bytes cut = y0 + 1 + random() % (y1 - y0 - 1);
    guillotine(random, p, t0, t1, y0, cut, depth - 1);
    guillotine(random, p, t0, t1, cut, y1, depth - 1);
  }
}

// Four arms around a centre, again within the centre: no guillotine cut exists.
void pinwheel(problem& p, tick t0, tick t1, bytes y0, bytes y1) {
  const auto w = (t1 - t0) / 3;
  const auto h = (y1 - y0) / 3;
  if (w < 1 || h < 1) {
    p.add({.size = y1 - y0, .live = {t0, t1}});
    return;
  }
  p.add({.size = h, .live = {t0, t1 - w}});
  p.add({.size = y1 - y0 - h, .live = {t1 - w, t1}});
  p.add({.size = h, .live = {t0 + w, t1}});
  p.add({.size = y1 - y0 - h, .live = {t0, t0 + w}});
  pinwheel(p, t0 + w, t1 - w, y0 + h, y1 - h);
}

}  // namespace

TEST(single, reaches_the_known_optimum_of_guillotine_tilings) {
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    problem p;
    guillotine(random, p, 0, 24, 0, 100, 5);
    std::shuffle(p.buffers.begin(), p.buffers.end(), random);
    const plan got = solve_single(p, {});
    EXPECT_EQ(verify(p, got), std::nullopt);
    EXPECT_TRUE(got.optimal());
    EXPECT_EQ(got.arena(), 100U);
  }
}

TEST(single, reaches_the_known_optimum_of_pinwheels) {
  problem p;
  pinwheel(p, 0, 81, 0, 810);
  const plan got = solve_single(p, {});
  EXPECT_EQ(verify(p, got), std::nullopt);
  EXPECT_TRUE(got.optimal());
  EXPECT_EQ(got.arena(), 810U);
}

// Returns a tiling of at most eight pieces. If `twisted`, two pieces have exchanged their ends: the sections are as
// full as before, but a fold may be a wrong guess.
problem small_tiling(std::mt19937& random, bool twisted) {
  problem p;
  guillotine(random, p, 0, 8, 0, 12, 3);
  buffer& a = p.buffers[random() % p.buffers.size()];
  buffer& b = p.buffers[random() % p.buffers.size()];
  if (twisted && a.size == b.size && a.live.lower < b.live.upper && b.live.lower < a.live.upper) {
    std::swap(a.live.upper, b.live.upper);
  }
  return p;
}

// Narrowing ends at the optimum under every product of the switches, folding among them.
TEST(narrow, reaches_the_optimum_under_every_product_of_switches) {
  std::mt19937 random(9);
  int folded = 0;
  for (int round = 0; round < 120; ++round) {
    const bool tiled = round % 2 != 0;
    const problem p =
        tiled ? small_tiling(random, round % 4 == 3) : random_problem(random, shapes[round / 2 % std::size(shapes)]);
    if (!validate(p)) continue;
    const instance in = make_instance(p);
    const conflict_graph g = make_conflicts(in);
    if (in.items.size() > 7 || pins_clash(g, in)) continue;
    const units best = *oracle(in, g);
    constexpr unsigned each = support::sanitized ? 4 : 1;
    for (unsigned bits = static_cast<unsigned>(round / 2) % each; bits < 64; bits += each) {
      narrowing_options how{.nodes = 1'000'000, .rules = switches_of(bits)};
      how.rules.folding = (bits & 32) != 0;
      layout none;
      none.arena = best + 5;
      const narrowed got = find_least_arena(in, g, none, least_arena(p, in), how);
      ASSERT_EQ(got.best.arena, best) << "round " << round << " switches " << bits;
      ASSERT_EQ(got.bound, best) << "round " << round << " switches " << bits;
      expect_layout(in, g, got.best.offsets, best);
      folded += got.best.solver == "search/folded";
    }
  }
  EXPECT_GT(folded, static_cast<int>(support::cases(100)));
}

// A layout of the clumps is one of the items, for any folds and however wrong the guess.
TEST(folding, unfolds_to_a_layout) {
  std::mt19937 random(6);
  std::size_t folded_away = 0;
  for (int round = 0; round < 400; ++round) {
    problem p;
    const auto height = static_cast<bytes>(round % 2 != 0 ? 12 : 1000);
    guillotine(random, p, 0, 12, 0, height, 6);
    pinwheel(p, 12, 39, 0, height);
    if (round % 4 == 0) p.buffers.resize(p.buffers.size() - 1);
    std::shuffle(p.buffers.begin(), p.buffers.end(), random);
    const instance in = make_instance(p);
    const conflict_graph g = make_conflicts(in);
    const folding f{in, static_cast<units>(height / in.unit), static_cast<std::uint64_t>(round % 3)};
    const instance clumps = f.folded();
    ASSERT_EQ(clumps.items.size(), f.clumps_left());
    folded_away += in.items.size() - clumps.items.size();
    const layout found = try_orders(clumps, 0, 0, effort::normal, {}, {});
    expect_layout(in, g, f.unfold(found.offsets), found.arena);
  }
  EXPECT_GT(folded_away, 400U * 8);
}

TEST(folding, leaves_a_quarter_of_a_tiling_whose_sums_leave_no_choice) {
  std::mt19937 random(7);
  std::size_t items = 0;
  std::size_t clumps = 0;
  for (int round = 0; round < 20; ++round) {
    problem q;
    guillotine(random, q, 0, 100'000, 0, 100'000'000, 8);
    const instance in = make_instance(q);
    const folding f{in, static_cast<units>(100'000'000 / in.unit), 0};
    items += in.items.size();
    clumps += f.clumps_left();
  }
  EXPECT_LT(clumps, items / 4);
}

// Some 250 and 500 pieces. All ten reach their optimum; without folding eight do.
TEST(folding, solves_large_tilings_within_normal_effort) {
  std::mt19937 random(8);
  int optimal = 0;
  for (int round = 0; round < 10; ++round) {
    problem p;
    guillotine(random, p, 0, 100'000, 0, 100'000'000, 8 + round % 2);
    std::shuffle(p.buffers.begin(), p.buffers.end(), random);
    const plan got = solve_single(p, {});
    EXPECT_EQ(verify(p, got), std::nullopt);
    optimal += got.optimal();
  }
  EXPECT_GE(optimal, 9);
}

// Tilings whose optimum is known, along time and against it: what is found is a layout within the capacity.
TEST(skylines, find_layouts_of_tilings_without_room) {
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    problem p;
    guillotine(random, p, 0, 40, 0, round % 2 != 0 ? 200 : 200'000, 6);
    std::shuffle(p.buffers.begin(), p.buffers.end(), random);
    const instance in = make_instance(p);
    const units bound = least_arena(p, in);
    ASSERT_TRUE(skylines::apply_to(in, bound));
    skylines beam{in, bound, static_cast<std::uint64_t>(round)};
    ASSERT_EQ(beam.run(300'000), search_status::found) << round;
    expect_layout(in, make_conflicts(in), beam.offsets(), bound);
    EXPECT_EQ(beam.run(1), search_status::found);
  }
}

// `pieces` buffers that fill 60 ticks by 256 bytes: the largest is cut again and again, so that all end alike.
problem evenly_cut(std::mt19937& random, std::size_t pieces) {
  std::vector<buffer> all{{.size = 256, .live = {0, 60}}};
  while (all.size() < pieces) {
    const auto area = [](const buffer& b) { return b.size * (b.live.upper - b.live.lower); };
    buffer& low = *std::max_element(all.begin(), all.end(), [&](auto& a, auto& b) { return area(a) < area(b); });
    buffer high = low;
    if (low.live.upper - low.live.lower > 1 && (low.size == 1 || random() % 2 != 0)) {
      low.live.upper = high.live.lower = low.live.lower + 1 + random() % (low.live.upper - low.live.lower - 1);
    } else {
      low.size = 1 + random() % (low.size - 1);
      high.size -= low.size;
    }
    all.push_back(high);
  }
  std::shuffle(all.begin(), all.end(), random);
  problem p;
  for (const buffer& b : all) p.add(b);
  return p;
}

// No order by size tells alike pieces where to go.
TEST(skylines, find_layouts_of_evenly_cut_tilings) {
  std::mt19937 random(14);
  for (std::uint64_t round = 0; round < 10; ++round) {
    const problem p = evenly_cut(random, 150);
    const instance in = make_instance(p);
    const units bound = least_arena(p, in);
    skylines beam{in, bound, round};
    ASSERT_EQ(beam.run(20'000), search_status::found) << round;
    expect_layout(in, make_conflicts(in), beam.offsets(), bound);
  }
}

// They never say that there is none; with room to waste all that they find is a layout, too.
TEST(skylines, find_layouts_with_room_and_prove_nothing) {
  std::mt19937 random(12);
  int found = 0;
  for (unsigned round = 0; round < support::cases(300); ++round) {
    const problem p = random_problem(random, shapes[0]);
    if (!validate(p)) continue;
    const instance in = make_instance(p);
    const conflict_graph g = make_conflicts(in);
    const units least = least_arena(p, in);
    if (in.items.empty() || !skylines::apply_to(in, least)) continue;
    for (units capacity = least; capacity < least + 12; capacity += 4) {
      skylines beam{in, capacity, 7};
      const search_status got = beam.run(3000);
      if (got == search_status::found) {
        expect_layout(in, g, beam.offsets(), capacity);
        ++found;
      } else {
        EXPECT_EQ(got, search_status::paused);
        EXPECT_EQ(beam.nodes(), 3000U);
      }
    }
  }
  EXPECT_GT(found, static_cast<int>(support::cases(400)));
}

TEST(skylines, are_left_out_where_something_else_is_asked) {
  std::mt19937 random(13);
  for (int round = 0; round < 300; ++round) {
    const problem p = random_problem(random, shapes[4]);
    if (!validate(p)) continue;
    const instance in = make_instance(p);
    if (skylines::apply_to(in, 100)) {
      EXPECT_TRUE(has_lifetimes_only(in));
      for (const item& it : in.items) EXPECT_EQ(it.alignment, 1);
    }
  }
  problem p;
  p.add({.size = (bytes{1} << 41) + 1, .live = {0, 1}});
  p.add({.size = 2, .live = {0, 1}});
  p.add({.size = 3, .live = {1, 2}});
  EXPECT_FALSE(skylines::apply_to(make_instance(p), units{1} << 41));
}

TEST(skylines, a_pause_changes_nothing) {
  std::mt19937 random(14);
  for (int round = 0; round < 6; ++round) {
    problem p;
    guillotine(random, p, 0, 40, 0, 300, 7);
    const instance in = make_instance(p);
    const units bound = least_arena(p, in);
    skylines whole{in, bound, 3, 4};
    skylines parts{in, bound, 3, 4};
    const search_status expected = whole.run(20'000);
    search_status got = search_status::paused;
    while (got == search_status::paused && parts.nodes() < 20'000) got = parts.run(1 + random() % 7);
    if (got == search_status::paused) continue;
    EXPECT_EQ(got, expected);
    EXPECT_EQ(parts.nodes(), whole.nodes());
    EXPECT_EQ(parts.offsets(), whole.offsets());
  }
}

// Beams are only tried from some fifty items on: narrowing reaches the same optimum with them and without, whatever
// the constraints.
TEST(narrow, beams_change_no_optimum) {
  std::mt19937 random(15);
  int by_beams = 0;
  for (int round = 0; round < 40; ++round) {
    problem p;
    guillotine(random, p, 0, 60, 0, 120, 7);
    std::shuffle(p.buffers.begin(), p.buffers.end(), random);
    if (round % 4 == 1) p.buffers[0].alignment = 2;
    if (round % 4 == 2) p.separations = {{0, 1}};
    if (round % 4 == 3) p.memories = {{.name = "m", .reserved = {{120, 130}}}};
    if (!validate(p)) continue;
    const instance in = make_instance(p);
    const conflict_graph g = make_conflicts(in);
    const units bound = least_arena(p, in);
    for (const bool beams : {true, false}) {
      layout none;
      none.arena = bound + 12;
      narrowing_options how{.nodes = 6000};
      how.rules.skylines = beams;
      how.rules.folding = false;
      const narrowed got = find_least_arena(in, g, none, bound, how, {});
      if (got.best.offsets.empty()) continue;
      expect_layout(in, g, got.best.offsets, got.best.arena);
      EXPECT_LE(got.nodes, 6000U);
      by_beams += got.best.solver == "skylines";
      EXPECT_TRUE(beams || got.best.solver != "skylines");
    }
  }
  EXPECT_GT(by_beams, 0);
}

TEST(single, an_empty_buffer_pinned_beyond_the_capacity_is_infeasible) {
  problem p;
  p.capacity = 8;
  p.add({.size = 4, .live = {0, 1}});
  p.add({.size = 0, .live = {0, 1}, .offset = 16});
  ASSERT_TRUE(validate(p));
  EXPECT_EQ(solve_single(p, {}).status, status::infeasible);
  p.capacity = 16;
  EXPECT_EQ(solve_single(p, {}).status, status::optimal);
}

TEST(single, the_node_limit_decides_the_answer_and_not_the_threads) {
  std::mt19937 random(5);
  for (int round = 0; round < 4; ++round) {
    problem p;
    guillotine(random, p, 0, 60, 0, 1000, 6 + round % 3);
    for (const std::uint64_t limit : {1U, 100U, 1000U, 20'000U}) {
      const plan one = solve_single(p, {.work = effort::best, .node_limit = limit});
      EXPECT_LE(one.work, limit);
      EXPECT_LE(one.arena(), solve_single(p, {.work = effort::fast}).arena());
      for (const unsigned threads : {2U, 3U, 16U}) {
        const plan same = solve_single(p, {.work = effort::best, .node_limit = limit, .threads = threads});
        EXPECT_EQ(one.offsets, same.offsets);
        EXPECT_EQ(one.work, same.work);
        EXPECT_EQ(one.lower_bound(), same.lower_bound());
      }
    }
  }
}

}  // namespace berth::plan

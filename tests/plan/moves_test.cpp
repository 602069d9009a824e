#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <map>
#include <string>

#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "plan/moves/prices.hpp"
#include "plan/moves_network.hpp"
#include "plan/moves_oracle.hpp"

namespace berth::plan {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// A fast memory of 10 bytes; every byte touched in the slow one takes a unit of time. Copies take half a unit a byte.
struct two_memories {
  problem p;

  two_memories() {
    p.memories = {{.name = "fast", .capacity = 10}, {.name = "slow", .cost = 1}};
    p.links = {{.from = 0, .to = 1, .bandwidth = 2}, {.from = 1, .to = 0, .bandwidth = 2}};
  }
  index add(bytes size, interval live, std::vector<use> uses) {
    for (use& u : uses) u.touched = static_cast<double>(size);
    return p.add({.size = size, .live = live, .uses = std::move(uses)});
  }
  void steps(tick first, tick last, double duration) {
    for (tick at = first; at < last; ++at) p.steps.push_back({at, duration});
  }
};

// x is needed at both ends of its life, and all of the fast memory for y in between.
two_memories a_buffer_in_the_way() {
  two_memories made;
  made.add(8, {0, 8}, {{.at = 0, .write = true}, {.at = 7}});
  made.add(8, {3, 5}, {{.at = 3, .write = true}, {.at = 4}});
  made.steps(0, 8, 4);
  return made;
}

TEST(moves, a_buffer_leaves_for_a_while) {
  const two_memories made = a_buffer_in_the_way();
  const auto answer = *solve(made.p);
  EXPECT_EQ(answer.unmoved, 16);
  EXPECT_EQ(answer.access, 0);
  EXPECT_EQ(answer.stall, 0);
  EXPECT_EQ(answer.copied, 16);  // out and in again
  ASSERT_EQ(answer.stays.size(), 4);
  EXPECT_EQ(answer.stays[0].memory, 0);
  EXPECT_EQ(answer.stays[1].memory, 1);
  EXPECT_EQ(answer.stays[2].memory, 0);
  EXPECT_LE(answer.stays[0].live.upper, 3);
  EXPECT_GE(answer.stays[2].live.lower, 5);
  ASSERT_EQ(answer.moves.size(), 2);
  EXPECT_GE(answer.moves[0].during.lower, 1);  // it is written at tick 0
  EXPECT_LE(answer.moves[1].during.upper, 7);
}

TEST(moves, what_is_not_written_is_not_written_back) {
  two_memories made;
  made.add(8, {0, 12}, {{.at = 0, .write = true, .memory = 1}, {.at = 3}, {.at = 4}, {.at = 10}, {.at = 11}});
  made.add(8, {6, 8}, {{.at = 6, .write = true}, {.at = 7}});
  made.steps(0, 12, 5);
  const auto answer = *solve(made.p);
  EXPECT_EQ(answer.cost, 8);     // where it has to be born
  EXPECT_EQ(answer.copied, 16);  // in twice, never out
  made.p.buffers[0].uses[2].write = true;
  const auto written = *solve(made.p);
  EXPECT_EQ(written.cost, 8);
  EXPECT_EQ(written.copied, 24);
}

TEST(moves, a_copy_that_is_not_done_is_waited_for) {
  two_memories made;
  made.add(8, {0, 6}, {{.at = 0, .write = true, .memory = 1}, {.at = 3}, {.at = 4}, {.at = 5}});
  made.steps(0, 6, 1);
  const auto answer = *solve(made.p);
  EXPECT_EQ(answer.access, 8);
  EXPECT_EQ(answer.stall, 2);  // 4 units of copying, 2 steps of 1 beside it
  ASSERT_EQ(answer.moves.size(), 1);
  EXPECT_EQ(answer.moves[0].during, (interval{1, 3}));
  EXPECT_EQ(answer.moves[0].begin, 9);
  EXPECT_EQ(answer.moves[0].done, 13);
}

TEST(moves, without_links_it_is_the_plan_of_whole_lives) {
  two_memories made = a_buffer_in_the_way();
  made.p.links.clear();
  const auto answer = *solve(made.p);
  EXPECT_EQ(answer.cost, answer.unmoved);
  EXPECT_TRUE(answer.moves.empty());
  EXPECT_EQ(answer.stays.size(), 2);
}

TEST(moves, uses_may_demand_what_only_moves_can_give) {
  two_memories made;
  made.add(8, {0, 4}, {{.at = 0, .write = true, .memory = 1}, {.at = 3, .memory = 0}});
  const auto answer = *solve(made.p);
  EXPECT_FALSE(answer.unmoved);
  EXPECT_EQ(answer.copied, 8);
  made.p.links.pop_back();
  const auto none = *solve(made.p);
  EXPECT_FALSE(none.has_offsets());
  EXPECT_EQ(none.status, status::unknown);
}

TEST(moves, groups_pins_and_several_lives_stay) {
  two_memories made = a_buffer_in_the_way();
  made.p.buffers[0].offset = 0;
  EXPECT_TRUE(solve(made.p)->moves.empty());
  made.p.buffers[0].offset.reset();
  made.p.buffers[0].lifetimes = {{0, 1}, {7, 8}};
  const auto holes = *solve(made.p);
  EXPECT_TRUE(holes.moves.empty());
  EXPECT_EQ(holes.cost, 0);  // its bytes are free in between
  made.p.buffers[0].lifetimes.clear();
  made.p.buffers[0].alias_group = 0;
  EXPECT_TRUE(solve(made.p)->moves.empty());
}

// A route costs as much as its life is long.
TEST(moves, prices_tell_the_wait_of_every_period) {
  two_memories made;
  for (index i = 0; i < 20; ++i) made.add(8, {0, 500}, {{.at = 0, .write = true}, {.at = 499}});
  made.steps(0, 500, 1);
  const patience wait = patience::of_looks(500'000);
  std::uint64_t visits = 0;
  (void)price_room(model_of(made.p), 1e6, ~std::uint64_t{0}, wait, visits);
  EXPECT_TRUE(wait.was_over());
}

// In two memories nothing shares bytes, and a pair that is named again is the same pair.
TEST(moves, only_stays_in_one_memory_are_kept_apart) {
  two_memories made;
  made.add(8, {0, 8}, {});
  made.add(8, {0, 8}, {});
  made.p.separations = {{0, 1}, {1, 0}, {0, 1}};
  made.p.reuse_penalties = {{0, 1, 2}, {0, 1, 3}};
  const std::vector<stay> stays{{.buffer = 0, .memory = 1, .live = {0, 3}},
                                {.buffer = 0, .memory = 0, .live = {2, 8}},
                                {.buffer = 1, .memory = 0, .live = {0, 5}},
                                {.buffer = 1, .memory = 1, .live = {4, 7}},
                                {.buffer = 1, .memory = 0, .live = {6, 8}}};
  const problem apart = problem_of_stays(made.p, stays);
  std::vector<std::pair<index, index>> pairs, paid;
  for (const pair& s : apart.separations) pairs.emplace_back(s.a, s.b);
  for (const reuse_penalty& r : apart.reuse_penalties) paid.emplace_back(r.a, r.b);
  const std::vector<std::pair<index, index>> once{{1, 2}, {1, 4}, {0, 3}};
  EXPECT_EQ(pairs, once);
  EXPECT_EQ(paid, (std::vector<std::pair<index, index>>{{1, 2}, {1, 4}, {0, 3}, {1, 2}, {1, 4}, {0, 3}}));
}

// Each penalty would count for every two stays of its buffers in one memory.
TEST(moves, of_too_many_pairs_are_not_made) {
  two_memories made = a_buffer_in_the_way();
  made.p.reuse_penalties.assign(600'000, {0, 1, 1});
  const auto whole = *solve(made.p, {.work = effort::fast});
  EXPECT_TRUE(whole.moves.empty());
  EXPECT_EQ(whole.cost, whole.unmoved);
  two_memories forced;
  for (int k = 0; k < 2; ++k) {
    forced.add(4, {0, 4}, {{.at = 0, .write = true, .memory = 1}, {.at = 3, .memory = 0}});
  }
  EXPECT_FALSE(solve(forced.p, {.work = effort::fast})->moves.empty());
  forced.p.reuse_penalties = made.p.reuse_penalties;
  const auto none = *solve(forced.p, {.work = effort::fast});
  EXPECT_EQ(none.status, status::unknown);
  EXPECT_EQ(none.reason, "separations and penalties name too many pairs of stays");
}

// Returns two buffers that move between the memories, `stays` times each, at the same ticks and side by side.
std::pair<two_memories, plan> two_that_go_to_and_fro(index stays) {
  two_memories made;
  plan answer;
  const tick end = 2 * static_cast<tick>(stays) + 1;
  for (index b = 0; b < 2; ++b) {
    made.add(4, {0, end}, {});
    for (index k = 0; k < stays; ++k) {
      const auto me = static_cast<index>(answer.stays.size());
      const tick begin = 2 * static_cast<tick>(k);
      answer.stays.push_back({b, k % 2, {begin, k + 1 == stays ? end : begin + 3}, k == 0 ? 0 : begin + 1});
      answer.offsets.push_back(4 * b);
      answer.memory_of.push_back(k % 2);
      if (k == 0) continue;
      answer.moves.push_back({b, me - 1, me, {begin, begin + 1}, 0, 0});
      answer.copied += 4;
    }
  }
  made.p.links[0].bandwidth = made.p.links[1].bandwidth = 1e12;  // copies take no time to speak of
  answer.status = status::feasible;
  answer.arena_bytes = 16;
  return {made, answer};
}

// A file of a megabyte can name as many pairs of stays as a machine cannot hold.
TEST(moves, the_check_of_many_stays_looks_at_no_pair_of_them) {
  auto [made, answer] = two_that_go_to_and_fro(2'150);
  made.p.separations.assign(1'000, {0, 1});
  made.p.reuse_penalties.assign(40'000, {0, 1, 1});
  EXPECT_FALSE(verify(made.p, answer));
  answer.reuse_penalty = 1;
  EXPECT_STREQ(verify(made.p, answer)->rule, "the reuse penalty is not what the plan says");
  answer.reuse_penalty = 0;
  answer.offsets[3] = 8;  // the first buffer's second stay in the slow memory, above the other's
  EXPECT_STREQ(verify(made.p, answer)->rule, "the arena is not what the plan says");
  answer.arena_bytes = 20;
  EXPECT_FALSE(verify(made.p, answer));
  answer.offsets[3] = 7;
  EXPECT_STREQ(verify(made.p, answer)->rule, "two buffers overlap in time and place");
}

// Stays at different times may share bytes, but not if their buffers are separated.
TEST(moves, the_check_counts_the_pairs_of_stays_that_share_bytes) {
  std::mt19937 random(11);
  const auto upto = [&](unsigned most) { return static_cast<unsigned>(random() % (most + 1)); };
  std::map<std::string, int> found;
  for (int k = 0; k < 1000; ++k) {
    auto made = moves_oracle::small_problem(random);
    if (upto(1) == 0) made.separations = {{1, 0}, {0, 1}};
    if (upto(1) == 0) made.reuse_penalties = {{0, 1, 2}, {1, 0, 0.5}};
    auto answer = *solve(made, {.work = effort::fast});
    if (!answer.has_offsets() || answer.stays.empty()) continue;
    const auto any = [&] { return upto(static_cast<unsigned>(answer.offsets.size()) - 1); };
    answer.offsets[any()] = answer.offsets[any()] + upto(2);
    if (upto(3) == 0) answer.reuse_penalty += 2;
    const auto verify_stays = [&] {
      plan places = answer;
      places.cost = places.cost_bound = 0;
      places.stays.clear();
      places.moves.clear();
      return verify(problem_of_stays(made, answer.stays), places);
    };
    if (upto(1) == 0) {
      const auto says = verify_stays();
      const bool arena = says && says->rule == std::string{"the arena is not what the plan says"};
      if (arena) answer.arena_bytes = says->number;
    }
    const auto listed = verify_stays();
    const auto counted = verify(made, answer);
    ++found[listed ? listed->rule : ""];
    ASSERT_EQ(counted.has_value(), listed.has_value());
    if (!listed) continue;
    EXPECT_STREQ(counted->rule, listed->rule);
    if (counted->a == no_buffer) continue;
    EXPECT_EQ(counted->a, answer.stays[listed->a].buffer);
  }
  for (const char* rule : {"", "two separated buffers share bytes", "the reuse penalty is not what the plan says",
                           "two buffers overlap in time and place", "the arena is not what the plan says"}) {
    EXPECT_GT(found[rule], 0) << rule;
  }
}

// With three memories a plan may make two copies at once, after which both serve the next tick.
TEST(moves, the_bound_knows_of_copies_at_the_same_time) {
  problem p;
  p.memories = {{.name = "a", .capacity = 10}, {.name = "b", .capacity = 10, .cost = 1}, {.name = "slow", .cost = 5}};
  p.links = {{.from = 2, .to = 0, .bandwidth = 1e9}, {.from = 2, .to = 1, .bandwidth = 1e9}};
  p.add({.size = 1, .live = {0, 2}});
  p.buffers[0].uses = {{.at = 0, .memory = 2}, {.at = 1, .touched = 1000}, {.at = 1, .memory = 1}};
  plan both;
  both.stays = {{.buffer = 0, .memory = 2, .live = {0, 1}, .ready = 0},
                {.buffer = 0, .memory = 0, .live = {0, 2}, .ready = 1},
                {.buffer = 0, .memory = 1, .live = {0, 2}, .ready = 1}};
  both.moves = {{.buffer = 0, .from = 0, .to = 1, .during = {0, 1}, .begin = 0, .done = 1e-9},
                {.buffer = 0, .from = 0, .to = 2, .during = {0, 1}, .begin = 0, .done = 1e-9}};
  both.cost = both.stall = 1e-9;
  both.copied = 2;
  const plan places = *solve(problem_of_stays(p, both.stays));
  both.offsets = places.offsets;
  both.memory_of = places.memory_of;
  both.arena_bytes = places.arena_bytes;
  both.status = status::feasible;
  const auto wrong = verify(p, both);
  ASSERT_FALSE(wrong) << wrong->rule;
  for (const effort work : {effort::fast, effort::normal, effort::best}) {
    EXPECT_LE(solve(p, {.work = work})->cost_bound, both.cost);
  }
}

// Pins that clash fill a memory without a capacity, too: one of them moves on.
TEST(moves, what_clashes_in_a_memory_without_a_capacity_moves) {
  problem p;
  p.memories = {{.name = "a"}, {.name = "b", .cost = 1}};
  p.links = {{.from = 1, .to = 0, .bandwidth = 1}};
  p.add({.size = 4, .live = {0, 10}});
  for (int i = 0; i < 2; ++i) p.add({.size = 8, .live = {0, 10}, .offset = 0});
  p.buffers[0].uses = {{.at = 0, .write = true, .memory = 1}, {.at = 9, .memory = 0}};
  p.buffers[1].uses = p.buffers[2].uses = {{.at = 1, .touched = 8}};
  for (const effort work : {effort::fast, effort::normal}) {
    const auto answer = *solve(p, {.work = work});
    EXPECT_TRUE(answer.has_offsets()) << answer.reason;
    EXPECT_EQ(answer.access, 8);
  }
}

// The cheapest residences do not fit by address here, nor do those with lower limits.
TEST(moves, are_found_where_those_of_effort_fast_fit) {
  problem p;
  p.alignment = 2;
  p.max_slab = 6;
  p.memories = {{.name = "fast", .capacity = 4}, {.name = "slow", .cost = 2}};
  p.add({.size = 4, .live = {1, 6}});
  p.add({.size = 4, .live = {0, 3}});
  p.separations = {{0, 1}};
  p.links = {{.from = 0, .to = 1, .bandwidth = 2, .latency = 0.5}, {.from = 1, .to = 0, .bandwidth = 4}};
  p.steps = {{0, 5}, {1, 5}, {2, 3}, {3, 1}, {6, 0}};
  p.buffers[0].uses = {{.at = 1, .touched = 4, .write = true}, {.at = 2, .touched = 4},
                       {.at = 4, .touched = 4, .memory = 1},   {.at = 4, .touched = 4, .memory = 0},
                       {.at = 5, .touched = 4, .write = true}, {.at = 5, .touched = 4, .memory = 1}};
  p.buffers[1].uses = {{.at = 0, .touched = 4, .write = true},
                       {.at = 1, .touched = 4, .write = true},
                       {.at = 2, .touched = 4, .write = true}};
  for (const effort work : {effort::fast, effort::normal}) {
    EXPECT_TRUE(solve(p, {.work = work})->has_offsets());
  }
}

// Weights that lie in the slow memory from the start and are read once: each life is as long as the run.
TEST(moves, of_many_long_lives_are_found) {
  const auto made = moves_network::make({.layers = 2000, .share = 0.5, .compute = 1, .seed = 3});
  const auto answer = *solve(made, {.work = effort::fast});
  EXPECT_GE(answer.moves.size(), 400);
  EXPECT_LT(answer.cost, 0.9 * *answer.unmoved);
  EXPECT_FALSE(answer.deadline_hit);
}

// A limit that the slow memory keeps even with all buffers in it is no limit.
TEST(moves, do_not_change_where_the_slow_memory_has_a_limit_that_nothing_reaches) {
  for (const unsigned layers : {50U, 300U}) {
    moves_network::shape shape{.layers = layers, .share = 0.5, .compute = 1, .seed = 3};
    const auto without = moves_network::make(shape);
    shape.slow_capacity = bytes{1} << 40;
    const auto with = moves_network::make(shape);
    const auto a = *solve(without), b = *solve(with);
    EXPECT_GT(a.moves.size(), 0);
    EXPECT_EQ(a.cost, b.cost);
    EXPECT_EQ(a.cost_bound, b.cost_bound);
    EXPECT_EQ(a.moves.size(), b.moves.size());
  }
}

TEST(moves, the_same_on_every_run) {
  std::mt19937 random(5);
  for (int k = 0; k < 5; ++k) {
    const auto made = moves_oracle::small_problem(random);
    const auto a = *solve(made), b = *solve(made, {.threads = 3});
    EXPECT_EQ(a.stays, b.stays);
    EXPECT_EQ(a.offsets, b.offsets);
  }
}

TEST(moves, refuses_what_means_nothing) {
  const two_memories good = a_buffer_in_the_way();
  const auto says = [&](auto&& change) -> std::string {
    two_memories bad = good;
    change(bad);
    const auto answer = solve(bad.p);
    return answer ? "" : answer.error().what;
  };
  EXPECT_EQ(says([](auto&) {}), "");
  EXPECT_EQ(says([](auto& m) { m.p.buffers[0].size = max_bytes; }), "buffer: size exceeds 2^62 bytes");
  EXPECT_EQ(says([](auto& m) { m.p.memories.clear(); }), "problem: moves without memories");
  EXPECT_EQ(says([](auto& m) { m.p.conflicts.emplace(); }),
            "problem: moves need lifetimes, and it has conflicts instead");
  EXPECT_EQ(says([](auto& m) { m.p.buffers[0].uses[0].touched = -1; }),
            "buffer: the bytes that a use touches are not a number from 0 to 1e100");
  EXPECT_EQ(says([](auto& m) { m.p.buffers[0].uses[1].at = 8; }), "buffer: is used outside of its lifetime");
  EXPECT_EQ(says([](auto& m) { std::swap(m.p.buffers[0].uses[0], m.p.buffers[0].uses[1]); }),
            "buffer: its uses are not in the order of their ticks");
  EXPECT_EQ(says([](auto& m) { m.p.buffers[0].uses[0].memory = 2; }),
            "buffer: a use is in a memory in which it may not live");
  EXPECT_EQ(says([](auto& m) { m.p.steps[1].duration = infinite; }),
            "step: its duration is not a number from 0 to 1e100");
  EXPECT_EQ(says([](auto& m) { m.p.steps[1].at = 0; }), "step: not after the one before it");
  EXPECT_EQ(says([](auto& m) { m.p.steps.back().at = std::numeric_limits<tick>::max(); }),
            "step: is at the last tick there is");
  EXPECT_EQ(says([](auto& m) { m.p.links[1].to = 2; }), "link: of a memory there is not");
  EXPECT_EQ(says([](auto& m) { m.p.links[1].to = 1; }), "link: from a memory to itself");
  for (const double wrong : {0.0, 1e-101, 1e101}) {
    EXPECT_EQ(says([wrong](auto& m) { m.p.links[1].bandwidth = wrong; }),
              "link: its bandwidth is not a number from 1e-100 to 1e100");
  }
  EXPECT_EQ(says([](auto& m) { m.p.links[1].latency = -1; }), "link: its latency is not a number from 0 to 1e100");
  EXPECT_EQ(says([](auto& m) { m.p.links.push_back(m.p.links[0]); }), "link: a second one between the same memories");
}

TEST(moves, far_ticks_and_no_buffers) {
  two_memories made;
  EXPECT_TRUE(solve(made.p)->has_offsets());
  constexpr tick least = std::numeric_limits<tick>::min(), most = std::numeric_limits<tick>::max();
  made.add(10, {least, most}, {{.at = least, .write = true}, {.at = most - 1}});
  made.add(10, {-1, 1}, {{.at = 0, .write = true}});
  made.p.steps = {{least + 1, 10}, {most - 2, 10}};
  const auto answer = *solve(made.p);
  EXPECT_EQ(answer.cost, 0);
  EXPECT_EQ(answer.copied, 20);
}

// The check, told of each thing that can be wrong.
TEST(moves, the_check_sees_what_is_wrong) {
  const two_memories made = a_buffer_in_the_way();
  const auto good = *solve(made.p);
  const auto says = [&](auto&& change) -> std::string {
    plan bad = good;
    change(bad);
    const auto found = verify(made.p, bad);
    return found ? found->rule : "";
  };
  EXPECT_EQ(says([](auto&) {}), "");
  EXPECT_EQ(says([](auto& a) { a.stays[0].buffer = 2; }), "a stay of a buffer there is not");
  EXPECT_EQ(says([](auto& a) { a.stays[0].memory = 2; }), "a stay in a memory in which its buffer may not live");
  EXPECT_EQ(says([](auto& a) { a.stays[0].live.upper = 0; }), "a stay is empty or reversed");
  EXPECT_EQ(says([](auto& a) { a.stays[1].ready = -1; }), "a stay is ready outside of it");
  EXPECT_EQ(says([](auto& a) { a.moves[0].to = 9; }), "a move does not join two stays");
  EXPECT_EQ(says([](auto& a) { a.moves[0].to = 3; }), "a move joins stays that are not its buffer's");
  EXPECT_EQ(says([](auto& a) { a.moves[1] = a.moves[0]; }), "a second move into one stay");
  EXPECT_EQ(says([](auto& a) { a.moves.clear(); }), "a stay into which nothing is copied");
  EXPECT_EQ(says([](auto& a) { a.stays[0].ready = 1; }), "a first stay does not begin with the life");
  EXPECT_EQ(says([](auto& a) { a.stays[2].live.upper = 9; }), "a stay outside of its buffer's life");
  EXPECT_EQ(says([](auto& a) { a.stays[2].live.upper = 7; }), "a buffer's contents are nowhere for a while");
  EXPECT_EQ(says([](auto& a) { a.stays[2].memory = 1; }), "a buffer is twice in one memory");
  EXPECT_EQ(says([](auto& a) { a.moves[0].during.upper = a.moves[0].during.lower; }), "a move takes no tick");
  EXPECT_EQ(says([](auto& a) { ++a.moves[0].during.upper; }), "a stay does not begin with the move into it");
  EXPECT_EQ(says([](auto& a) { a.moves[1].from = 0; }), "the source of a move is not there throughout");
  EXPECT_EQ(says([](auto& a) { a.offsets[0] = 1; }), "the arena is not what the plan says");
  EXPECT_EQ(says([](auto& a) { a.moves[0].begin = 0, a.moves[0].done = 4; }), "a move begins before its tick");
  EXPECT_EQ(says([](auto& a) { a.moves[0].done -= 1; }), "a move does not take the time of its link");
  EXPECT_EQ(says([](auto& a) { a.cost += 1; }), "the cost is not access and stall");
  EXPECT_EQ(says([](auto& a) { a.access += 1; }), "the access time is not what the plan says");
  EXPECT_EQ(says([](auto& a) { a.stall += 1; }), "the stall is not what the plan says");
  EXPECT_EQ(says([](auto& a) { a.copied += 1; }), "the bytes copied are not what the plan says");
  EXPECT_EQ(says([](auto& a) { a.cost_bound = 1; }), "the plan costs less than its bound");
  EXPECT_EQ(says([](auto& a) { a.cost_bound = std::numeric_limits<double>::quiet_NaN(); }),
            "the plan costs less than its bound");

  two_memories other = made;
  other.p.links.pop_back();
  EXPECT_STREQ(verify(other.p, good)->rule, "there is no link for a move");
  other = made;
  other.p.memories[0].capacity = 7;
  EXPECT_STREQ(verify(other.p, good)->rule, "a buffer ends beyond the capacity");
  other = made;
  other.p.buffers[0].uses.insert(other.p.buffers[0].uses.begin() + 1,
                                 {.at = good.moves[0].during.lower, .write = true});
  EXPECT_STREQ(verify(other.p, good)->rule, "a write leaves a stale copy in another stay");
  other.p.buffers[0].uses[1] = {.at = 4, .memory = 0};
  EXPECT_STREQ(verify(other.p, good)->rule, "a use does not find its buffer");
}

// Two buffers must go out through one link at the same time.
TEST(moves, a_link_serves_one_copy_at_a_time) {
  two_memories made;
  made.add(4, {0, 3}, {{.at = 0, .write = true, .memory = 0}, {.at = 2, .memory = 1}});
  made.add(4, {0, 3}, {{.at = 0, .write = true, .memory = 0}, {.at = 2, .memory = 1}});
  auto answer = *solve(made.p);
  ASSERT_EQ(answer.moves.size(), 2);
  EXPECT_EQ(answer.stall, 4);
  answer.moves[1].begin = answer.moves[0].begin;
  answer.moves[1].done = answer.moves[0].done;
  EXPECT_STREQ(verify(made.p, answer)->rule, "two moves are on one link at a time");
}

// Costs never less than the best of all plans, never more than without moves, and finds a plan if there is one.
RC_GTEST_PROP(moves, agrees_with_trying_all_plans, ()) {
  std::mt19937 random(*rc::gen::arbitrary<std::uint32_t>());
  const auto made = moves_oracle::small_problem(random);
  bool given_up = false;
  const auto least = moves_oracle::least_cost(made, 1e5, &given_up);
  const auto answer = *solve(made, {.node_limit = 100'000});
  if (!answer.has_offsets()) return;
  RC_ASSERT(!verify(made, answer));
  RC_ASSERT(answer.cost_bound <= answer.cost + 1e-9);
  if (answer.unmoved) RC_ASSERT(answer.cost <= *answer.unmoved);
  if (given_up) return;
  RC_ASSERT(least.has_value());
  RC_ASSERT(answer.cost >= *least - 1e-9);
  RC_ASSERT(answer.cost_bound <= *least + 1e-9);
}

// The results on problems that never change: a search that got worse shows here.
TEST(moves, most_tiny_problems_are_solved_exactly) {
  std::mt19937 random(7);
  int compared = 0, exact = 0;
  for (int k = 0; k < 300; ++k) {
    const auto made = moves_oracle::small_problem(random);
    bool given_up = false;
    const auto least = moves_oracle::least_cost(made, 1e5, &given_up);
    if (given_up || !least) continue;
    const auto answer = *solve(made, {.node_limit = 100'000});
    ++compared;
    exact += answer.has_offsets() && answer.cost <= *least + 1e-9 ? 1 : 0;
  }
  EXPECT_GT(compared, 200);
  EXPECT_GE(exact * 100, compared * 98);
}

}  // namespace
}  // namespace berth::plan

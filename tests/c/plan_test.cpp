#include "berth/plan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "berth/plan/evaluate.hpp"
#include "berth/plan/solve.hpp"
#include "c/plan_client.h"
#include "c/sized.hpp"

namespace {

struct problem_handle {
  explicit problem_handle(const berth_problem_options* options = nullptr) {
    EXPECT_EQ(berth_problem_create(options, &handle), BERTH_OK) << berth_error_text();
  }
  problem_handle(const problem_handle&) = delete;
  problem_handle& operator=(const problem_handle&) = delete;
  ~problem_handle() { berth_problem_destroy(handle); }
  berth_problem* handle = nullptr;
};

using berth::support::sized;

// Three buffers, each in conflict with the next.
void fill(berth_problem* p) {
  const std::uint64_t size[] = {100, 200, 300};
  const std::int64_t lower[] = {0, 1, 2};
  const std::int64_t upper[] = {2, 3, 4};
  ASSERT_EQ(berth_problem_add_many(p, 3, size, lower, upper), BERTH_OK) << berth_error_text();
}

berth_plan_summary summary_of(const berth_plan* plan) {
  auto s = sized<berth_plan_summary>();
  EXPECT_EQ(berth_plan_summarize(plan, &s), BERTH_OK) << berth_error_text();
  return s;
}

TEST(c_plan, a_client_in_c_plans) {
  EXPECT_STREQ(plan_client(), "");
}

RC_GTEST_PROP(c_plan, offsets_are_those_of_cpp, ()) {
  berth::plan::problem p;
  p.alignment = *rc::gen::element<berth::bytes>(1, 64);
  const auto n = *rc::gen::inRange(1, 30);
  problem_handle c;
  auto options = sized<berth_problem_options>();
  options.alignment = p.alignment;
  berth_problem_destroy(c.handle);
  RC_ASSERT(berth_problem_create(&options, &c.handle) == BERTH_OK);
  for (int i = 0; i < n; ++i) {
    berth::plan::buffer b;
    b.size = *rc::gen::inRange<berth::bytes>(0, 1000);
    b.live.lower = *rc::gen::inRange(-20, 20);
    b.live.upper = b.live.lower + *rc::gen::inRange(1, 10);
    if (*rc::gen::inRange(0, 4) == 0) b.alignment = *rc::gen::element<berth::bytes>(16, 48);
    if (*rc::gen::inRange(0, 6) == 0) b.hint = *rc::gen::inRange<berth::bytes>(0, 2000);
    auto buffer = sized<berth_buffer>();
    buffer.size = b.size;
    buffer.lower = b.live.lower;
    buffer.upper = b.live.upper;
    buffer.alignment = b.alignment;
    if (b.hint) {
      buffer.fields = BERTH_HAS_HINT;
      buffer.hint = *b.hint;
    }
    std::uint32_t index = 0;
    RC_ASSERT(berth_problem_add(c.handle, &buffer, &index) == BERTH_OK);
    RC_ASSERT(index == p.add(b));
  }
  const auto expected = berth::plan::solve(p);
  RC_ASSERT(static_cast<bool>(expected));
  berth_plan* plan = nullptr;
  RC_ASSERT(berth_solve(c.handle, nullptr, &plan) == BERTH_OK);
  std::vector<std::uint64_t> offsets(static_cast<std::size_t>(n));
  RC_ASSERT(berth_plan_offsets(plan, offsets.data(), offsets.size()) == BERTH_OK);
  RC_ASSERT(std::equal(offsets.begin(), offsets.end(), expected->offsets.begin()));
  const berth_plan_summary s = summary_of(plan);
  RC_ASSERT(s.arena == expected->arena());
  RC_ASSERT(s.lower_bound == expected->lower_bound());
  RC_ASSERT(berth_verify(c.handle, offsets.data(), nullptr, nullptr, offsets.size()) == BERTH_OK);
  berth_plan_destroy(plan);
}

TEST(c_plan, every_constraint_arrives) {
  auto options = sized<berth_problem_options>();
  options.granularity = 32;
  options.tail_pad = 32;
  problem_handle p{&options};
  auto b = sized<berth_buffer>();
  b.size = 10;
  const berth_interval lives[] = {{0, 1}, {5, 6}};
  b.lifetimes = lives;
  b.lifetime_count = 2;
  b.fields = BERTH_HAS_OFFSET;
  b.offset = 640;
  ASSERT_EQ(berth_problem_add(p.handle, &b, nullptr), BERTH_OK);
  auto group = sized<berth_buffer>();
  group.size = 100;
  group.lower = 1;
  group.upper = 3;
  group.fields = BERTH_HAS_ALIAS_GROUP;
  group.alias_group = 1;
  ASSERT_EQ(berth_problem_add(p.handle, &group, nullptr), BERTH_OK);
  group.lower = 2;
  group.upper = 4;
  ASSERT_EQ(berth_problem_add(p.handle, &group, nullptr), BERTH_OK);
  auto apart = sized<berth_buffer>();
  apart.size = 64;
  apart.lower = 10;
  apart.upper = 11;
  ASSERT_EQ(berth_problem_add(p.handle, &apart, nullptr), BERTH_OK);
  const std::uint32_t separated[][2] = {{0, 3}, {1, 3}};
  ASSERT_EQ(berth_problem_add_separations(p.handle, separated, 2), BERTH_OK);
  ASSERT_EQ(berth_problem_add_reuse_penalty(p.handle, 0, 2, 2.5), BERTH_OK);
  berth_plan* plan = nullptr;
  ASSERT_EQ(berth_solve(p.handle, nullptr, &plan), BERTH_OK) << berth_error_text();
  std::uint64_t at[4];
  ASSERT_EQ(berth_plan_offsets(plan, at, 4), BERTH_OK);
  EXPECT_EQ(at[0], 640u);
  EXPECT_EQ(at[1], at[2]);  // 160 bytes, rounded and padded
  EXPECT_GE(at[3], 160u);
  EXPECT_EQ(summary_of(plan).arena, 640u + 64u);
  EXPECT_EQ(berth_plan_check_bound(plan, p.handle), BERTH_OK) << berth_error_text();
  berth_plan_destroy(plan);
}

TEST(c_plan, memories_and_conflicts) {
  problem_handle p;
  auto small = sized<berth_memory>();
  small.capacity = 100;
  small.cost = 1;
  auto large = sized<berth_memory>();
  large.cost = 10;
  const std::uint64_t reserved[] = {0, 64};
  large.reserved = reserved;
  large.reserved_count = 1;
  ASSERT_EQ(berth_problem_add_memory(p.handle, &small, nullptr), BERTH_OK);
  std::uint32_t second = 0;
  ASSERT_EQ(berth_problem_add_memory(p.handle, &large, &second), BERTH_OK);
  EXPECT_EQ(second, 1u);
  auto b = sized<berth_buffer>();
  b.size = 80;
  b.upper = 1;
  ASSERT_EQ(berth_problem_add(p.handle, &b, nullptr), BERTH_OK);
  ASSERT_EQ(berth_problem_add(p.handle, &b, nullptr), BERTH_OK);
  const std::uint32_t one[][2] = {{0, 1}};
  ASSERT_EQ(berth_problem_add_conflicts(p.handle, one, 1), BERTH_OK);
  berth_plan* plan = nullptr;
  ASSERT_EQ(berth_solve(p.handle, nullptr, &plan), BERTH_OK) << berth_error_text();
  std::uint32_t where[2];
  std::uint64_t at[2];
  ASSERT_EQ(berth_plan_memories(plan, where, 2), BERTH_OK);
  ASSERT_EQ(berth_plan_offsets(plan, at, 2), BERTH_OK);
  EXPECT_NE(where[0], where[1]);
  EXPECT_EQ(at[where[0] == 1 ? 0 : 1], 64u);
  EXPECT_EQ(berth_verify(p.handle, at, where, nullptr, 2), BERTH_OK) << berth_error_text();
  std::swap(where[0], where[1]);
  EXPECT_EQ(berth_verify(p.handle, at, where, nullptr, 2), BERTH_REFUSED);
  EXPECT_EQ(berth_verify(p.handle, at, nullptr, nullptr, 2), BERTH_INVALID);
  berth_plan_destroy(plan);
}

TEST(c_plan, what_does_not_fit_is_a_plan_without_offsets) {
  auto options = sized<berth_problem_options>();
  options.capacity = 400;
  problem_handle p{&options};
  fill(p.handle);
  berth_plan* plan = nullptr;
  ASSERT_EQ(berth_solve(p.handle, nullptr, &plan), BERTH_OK);
  const berth_plan_summary s = summary_of(plan);
  EXPECT_EQ(s.outcome, BERTH_INFEASIBLE);
  EXPECT_EQ(s.lower_bound, 500u);
  EXPECT_STRNE(s.reason, "");
  std::uint64_t offsets[3] = {7, 7, 7};
  EXPECT_EQ(berth_plan_offsets(plan, offsets, 3), BERTH_NO_OFFSETS);
  EXPECT_EQ(offsets[0], 7u);
  berth_plan_destroy(plan);
}

TEST(c_plan, replan_keeps_what_it_can) {
  problem_handle p;
  fill(p.handle);
  const std::uint64_t before[] = {300, 0, BERTH_NEW_BUFFER};
  berth_plan* plan = nullptr;
  std::size_t moved = 9;
  ASSERT_EQ(berth_replan(p.handle, nullptr, before, 3, &plan, &moved), BERTH_OK) << berth_error_text();
  EXPECT_EQ(moved, 0u);
  std::uint64_t at[3];
  ASSERT_EQ(berth_plan_offsets(plan, at, 3), BERTH_OK);
  EXPECT_EQ(at[0], 300u);
  EXPECT_EQ(at[1], 0u);
  berth_plan_destroy(plan);
  plan = nullptr;
  EXPECT_EQ(berth_replan(p.handle, nullptr, before, 2, &plan, nullptr), BERTH_INVALID);
  EXPECT_EQ(plan, nullptr);
}

// x takes 64 bytes a row, y 4 bytes a row and 8 more; z takes their place.
TEST(c_plan, dimensions_are_those_of_cpp) {
  problem_handle c;
  fill(c.handle);
  berth::plan::problem p;
  const std::uint32_t rows[] = {0};
  const berth_size_term x[] = {{64, rows, 1}}, y[] = {{4, rows, 1}, {8, nullptr, 0}};
  std::uint32_t index = 9;
  ASSERT_EQ(berth_problem_add_dimension(c.handle, 1, 8, &index), BERTH_OK);
  EXPECT_EQ(index, 0u);
  ASSERT_EQ(berth_problem_set_size(c.handle, 0, x, 1), BERTH_OK);
  ASSERT_EQ(berth_problem_set_size(c.handle, 1, y, 2), BERTH_OK);
  EXPECT_EQ(berth_problem_set_size(c.handle, 3, y, 2), BERTH_INVALID);
  EXPECT_EQ(berth_problem_set_size(c.handle, 1, y, 0), BERTH_INVALID);
  const std::uint32_t none[] = {1};
  const berth_size_term unknown[] = {{1, none, 1}};
  EXPECT_EQ(berth_problem_set_size(c.handle, 1, unknown, 1), BERTH_INVALID);
  p.dimensions = {{"", 1, 8}};
  p.add({.live = {0, 2}, .terms = {{64, {0}}}});
  p.add({.live = {1, 3}, .terms = {{4, {0}}, {8, {}}}});
  p.add({.size = 300, .live = {2, 4}});
  berth_plan* plan = nullptr;
  ASSERT_EQ(berth_solve(c.handle, nullptr, &plan), BERTH_OK) << berth_error_text();
  const auto expected = berth::plan::solve(p).value();
  EXPECT_EQ(summary_of(plan).arena, expected.arena());
  const std::uint64_t together[] = {0, 0, 0};
  EXPECT_EQ(berth_verify(c.handle, together, nullptr, nullptr, 3), BERTH_REFUSED)
      << "at the largest values they overlap";
  EXPECT_EQ(berth_plan_check_bound(plan, c.handle), BERTH_OK) << berth_error_text();
  for (const std::uint64_t n : {1, 3, 8}) {
    std::vector<berth::bytes> at(3);
    const berth::bytes values[] = {n};
    const auto arena = berth::plan::evaluate(p, expected, values, at);
    std::uint64_t offsets[3], needed = 0;
    ASSERT_EQ(berth_plan_evaluate(plan, c.handle, &n, 1, offsets, 3, &needed), BERTH_OK) << berth_error_text();
    EXPECT_EQ(needed, *arena);
    EXPECT_EQ(std::vector<berth::bytes>(offsets, offsets + 3), at);
  }
  const std::uint64_t nine = 9;
  std::uint64_t offsets[3] = {7, 7, 7}, needed = 7;
  EXPECT_EQ(berth_plan_evaluate(plan, c.handle, &nine, 1, offsets, 3, &needed), BERTH_INVALID);
  EXPECT_EQ(berth_plan_evaluate(plan, c.handle, &nine, 1, offsets, 2, &needed), BERTH_INVALID);
  problem_handle other;
  EXPECT_EQ(berth_plan_evaluate(plan, other.handle, &nine, 1, offsets, 3, &needed), BERTH_INVALID);
  EXPECT_EQ(offsets[0], 7u);
  berth_plan_destroy(plan);
}

// A buffer is born in the slow memory and used in the fast one.
TEST(c_plan, moves_are_those_of_cpp) {
  problem_handle c;
  berth::plan::problem p;
  p.memories = {{.capacity = 10}, {.cost = 1}};
  p.links = {{1, 0, 2, 0.5}};
  p.steps = {{0, 1}, {3, 2}};
  p.add({.size = 8,
         .live = {0, 4},
         .uses = {{.at = 0, .touched = 8, .write = true, .memory = 1}, {.at = 3, .touched = 8}}});
  auto fast = sized<berth_memory>(), slow = sized<berth_memory>();
  fast.capacity = 10;
  slow.cost = 1;
  ASSERT_EQ(berth_problem_add_memory(c.handle, &fast, nullptr), BERTH_OK);
  ASSERT_EQ(berth_problem_add_memory(c.handle, &slow, nullptr), BERTH_OK);
  ASSERT_EQ(berth_problem_add_link(c.handle, 1, 0, 2, 0.5), BERTH_OK);
  ASSERT_EQ(berth_problem_add_step(c.handle, 0, 1), BERTH_OK);
  ASSERT_EQ(berth_problem_add_step(c.handle, 3, 2), BERTH_OK);
  const std::uint64_t size = 8;
  const std::int64_t lower = 0, upper = 4;
  ASSERT_EQ(berth_problem_add_many(c.handle, 1, &size, &lower, &upper), BERTH_OK);
  const berth_use uses[] = {{0, 8, 1, 1}, {3, 8, 0, BERTH_ANY_MEMORY}};
  ASSERT_EQ(berth_problem_add_uses(c.handle, 0, uses, 2), BERTH_OK);
  EXPECT_EQ(berth_problem_add_uses(c.handle, 1, uses, 2), BERTH_INVALID);
  berth_plan* plan = nullptr;
  ASSERT_EQ(berth_solve(c.handle, nullptr, &plan), BERTH_OK) << berth_error_text();
  const auto expected = berth::plan::solve(p).value();
  ASSERT_EQ(expected.moves.size(), 1u);
  const berth_plan_summary s = summary_of(plan);
  EXPECT_EQ(s.cost, expected.cost);
  EXPECT_EQ(s.cost_bound, expected.cost_bound);
  EXPECT_EQ(s.access + s.stall, s.cost);
  EXPECT_EQ(s.copied, 8u);
  ASSERT_EQ(s.stays, 2u);
  ASSERT_EQ(s.moves, 1u);
  berth_stay stays[2];
  berth_move move;
  std::uint64_t offsets[2];
  ASSERT_EQ(berth_plan_stays(plan, stays, 2), BERTH_OK);
  ASSERT_EQ(berth_plan_moves(plan, &move, 1), BERTH_OK);
  EXPECT_EQ(berth_plan_offsets(plan, offsets, 2), BERTH_OK);
  EXPECT_EQ(berth_plan_stays(plan, stays, 1), BERTH_INVALID);
  EXPECT_EQ(berth_plan_moves(plan, nullptr, 1), BERTH_INVALID);
  EXPECT_EQ(stays[1].memory, 0u);
  EXPECT_EQ(stays[1].lower, expected.stays[1].live.lower);
  EXPECT_EQ(stays[1].ready, expected.stays[1].ready);
  EXPECT_EQ(move.from, 0u);
  EXPECT_EQ(move.to, 1u);
  EXPECT_EQ(move.begin, expected.moves[0].begin);
  EXPECT_EQ(berth_plan_check_bound(plan, c.handle), BERTH_OK) << berth_error_text();
  problem_handle other;
  EXPECT_EQ(berth_plan_check_bound(plan, other.handle), BERTH_INVALID);
  const std::uint64_t at[] = {0};
  const std::uint32_t in[] = {1};
  EXPECT_EQ(berth_verify(c.handle, at, in, nullptr, 1), BERTH_INVALID) << "its plans have stays";
  berth_plan_destroy(plan);
  ASSERT_EQ(berth_problem_add_step(c.handle, 1, 1), BERTH_OK);  // not after the one before it
  EXPECT_EQ(berth_solve(c.handle, nullptr, &plan), BERTH_INVALID);
}

// --- bad input

TEST(c_plan, handles_that_are_none) {
  berth_plan* plan = nullptr;
  EXPECT_EQ(berth_solve(nullptr, nullptr, &plan), BERTH_NO_SUCH_HANDLE);
  EXPECT_NE(std::string{berth_error_text()}.find("null"), std::string::npos);
  int nothing = 0;
  EXPECT_EQ(berth_solve(reinterpret_cast<berth_problem*>(&nothing), nullptr, &plan), BERTH_NO_SUCH_HANDLE);
  berth_problem* p = nullptr;
  ASSERT_EQ(berth_problem_create(nullptr, &p), BERTH_OK);
  EXPECT_EQ(berth_error_text()[0], '\0');
  std::uint64_t offset = 0;
  EXPECT_EQ(berth_plan_offsets(reinterpret_cast<berth_plan*>(p), &offset, 1), BERTH_NO_SUCH_HANDLE);
  berth_problem_destroy(p);
  EXPECT_EQ(berth_problem_validate(p), BERTH_NO_SUCH_HANDLE);
  berth_problem_destroy(p);  // says so, and does nothing
  EXPECT_NE(berth_error_text()[0], '\0');
  // Its slot serves another, which the old handle does not name.
  problem_handle another;
  EXPECT_EQ(berth_problem_validate(p), BERTH_NO_SUCH_HANDLE);
  EXPECT_EQ(plan, nullptr);
}

TEST(c_plan, structs_of_other_versions) {
  struct newer {
    berth_problem_options known;
    std::uint64_t more = 0;
  } options;
  options.known = {};
  options.known.struct_size = sizeof options;
  berth_problem* p = nullptr;
  ASSERT_EQ(berth_problem_create(&options.known, &p), BERTH_OK);
  berth_problem_destroy(p);
  p = nullptr;
  options.more = 1;
  EXPECT_EQ(berth_problem_create(&options.known, &p), BERTH_NEWER_CALLER);
  options.known.struct_size = 8;
  EXPECT_EQ(berth_problem_create(&options.known, &p), BERTH_INVALID);
  options.known.struct_size = SIZE_MAX;
  EXPECT_EQ(berth_problem_create(&options.known, &p), BERTH_INVALID);
  EXPECT_EQ(p, nullptr);
}

TEST(c_plan, what_means_nothing_is_refused_and_changes_nothing) {
  problem_handle p;
  fill(p.handle);
  auto b = sized<berth_buffer>();
  b.size = 1;
  b.lower = 3;
  b.upper = 3;
  b.fields = 64;
  EXPECT_EQ(berth_problem_add(p.handle, &b, nullptr), BERTH_NEWER_CALLER);
  b.fields = 0;
  b.lifetime_count = 1;
  EXPECT_EQ(berth_problem_add(p.handle, &b, nullptr), BERTH_INVALID);
  b.lifetime_count = 0;
  const std::uint32_t anywhere[] = {0};
  b.memories = anywhere;
  b.memory_count = SIZE_MAX;
  EXPECT_EQ(berth_problem_add(p.handle, &b, nullptr), BERTH_INVALID);
  EXPECT_STREQ(berth_error_text(), "buffer: too many memories");
  b.memories = nullptr;
  b.memory_count = 0;
  EXPECT_EQ(berth_problem_add(p.handle, nullptr, nullptr), BERTH_INVALID);
  EXPECT_EQ(berth_problem_add_many(p.handle, 1, nullptr, nullptr, nullptr), BERTH_INVALID);
  const std::uint64_t one[] = {1};
  const std::int64_t tick[] = {0};
  EXPECT_EQ(berth_problem_add_many(p.handle, SIZE_MAX, one, tick, tick), BERTH_INVALID);
  const std::uint32_t pairs[][2] = {{0, 1}};
  for (const std::size_t many : {SIZE_MAX, SIZE_MAX / 8, PTRDIFF_MAX / sizeof *pairs + 1}) {
    EXPECT_EQ(berth_problem_add_conflicts(p.handle, pairs, many), BERTH_INVALID);
    EXPECT_EQ(berth_problem_add_separations(p.handle, pairs, many), BERTH_INVALID);
  }
  EXPECT_EQ(berth_problem_validate(p.handle), BERTH_OK);
  ASSERT_EQ(berth_problem_add(p.handle, &b, nullptr), BERTH_OK);
  EXPECT_EQ(berth_problem_validate(p.handle), BERTH_INVALID);
  EXPECT_EQ(berth_error_index(), 3u);
  berth_plan* plan = nullptr;
  EXPECT_EQ(berth_solve(p.handle, nullptr, &plan), BERTH_INVALID);
  auto options = sized<berth_solve_options>();
  options.effort = 7;
  EXPECT_EQ(berth_solve(p.handle, &options, &plan), BERTH_INVALID);
  options.effort = 0;
  options.deadline_s = -1;
  EXPECT_EQ(berth_solve(p.handle, &options, &plan), BERTH_INVALID);
  EXPECT_EQ(plan, nullptr);
}

TEST(c_plan, verify_names_the_rule) {
  problem_handle p;
  fill(p.handle);
  const std::uint64_t overlapping[] = {0, 50, 400};
  EXPECT_EQ(berth_verify(p.handle, overlapping, nullptr, nullptr, 3), BERTH_REFUSED);
  EXPECT_NE(std::string{berth_error_text()}.find("overlap"), std::string::npos);
  const std::uint32_t none[] = {0, 0, 0};
  const std::uint64_t good[] = {300, 0, 200};
  EXPECT_EQ(berth_verify(p.handle, good, none, none, 3), BERTH_OK) << berth_error_text();
  const std::uint32_t no_such_memory[] = {0, 5, 0};
  EXPECT_EQ(berth_verify(p.handle, good, no_such_memory, nullptr, 3), BERTH_REFUSED);
}

TEST(c_plan, nothing_in_several_slabs_and_memories_is_right) {
  auto options = sized<berth_problem_options>();
  options.max_slab = 64;
  problem_handle p{&options};
  EXPECT_EQ(berth_verify(p.handle, nullptr, nullptr, nullptr, 0), BERTH_OK) << berth_error_text();
}

// --- callbacks and threads

TEST(c_plan, progress_is_called_by_the_caller_and_may_stop) {
  struct seen {
    std::thread::id by;
    int calls = 0;
  } by_caller;
  problem_handle p;
  // A packing that takes long: tall and short items that all overlap in part.
  std::uint64_t state = 1;
  const auto draw = [&](std::uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  for (int i = 0; i < 300; ++i) {
    auto b = sized<berth_buffer>();
    b.size = 1000 + draw(9000);
    b.lower = static_cast<std::int64_t>(draw(200));
    b.upper = b.lower + 1 + static_cast<std::int64_t>(draw(60));
    ASSERT_EQ(berth_problem_add(p.handle, &b, nullptr), BERTH_OK);
  }
  auto options = sized<berth_solve_options>();
  options.effort = BERTH_EFFORT_BEST;
  options.node_limit = std::uint64_t{1} << 40;
  options.context = &by_caller;
  options.progress = [](void* context, std::uint64_t, std::uint64_t, std::uint64_t) {
    auto& s = *static_cast<seen*>(context);
    s.by = std::this_thread::get_id();
    return ++s.calls >= 3 ? 1 : 0;
  };
  berth_plan* plan = nullptr;
  ASSERT_EQ(berth_solve(p.handle, &options, &plan), BERTH_OK) << berth_error_text();
  EXPECT_EQ(by_caller.by, std::this_thread::get_id());
  EXPECT_EQ(by_caller.calls, 3);
  EXPECT_EQ(summary_of(plan).deadline_hit, 1);
  EXPECT_EQ(summary_of(plan).outcome, BERTH_FEASIBLE);
  berth_plan_destroy(plan);
}

TEST(c_plan, handles_destroyed_while_others_use_them) {
  berth_problem* p = nullptr;
  ASSERT_EQ(berth_problem_create(nullptr, &p), BERTH_OK);
  fill(p);
  std::atomic<int> others{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        berth_plan* plan = nullptr;
        const berth_status s = berth_solve(p, nullptr, &plan);
        if (s == BERTH_OK) {
          berth_plan_destroy(plan);
        } else if (s != BERTH_NO_SUCH_HANDLE) {
          ++others;
        }
      }
    });
  }
  berth_problem_destroy(p);
  for (auto& t : threads) t.join();
  EXPECT_EQ(others, 0);
}

}  // namespace

#include "berth/plan/problem.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace berth::plan {
namespace {

problem two_buffers() {
  problem p;
  p.add({.name = "x", .size = 4, .live = {0, 2}});
  p.add({.name = "y", .size = 6, .live = {1, 3}});
  return p;
}

void expect_invalid(const problem& p, const std::string& what, std::uint64_t number, errc code = errc::invalid_input) {
  const auto ok = validate(p);
  ASSERT_FALSE(ok) << what;
  EXPECT_EQ(ok.error().what, what);
  EXPECT_EQ(ok.error().number, number) << what;
  EXPECT_EQ(ok.error().code, code) << what;
}

TEST(problem, accepts_what_means_something) {
  EXPECT_TRUE(validate(problem{}));
  problem p = two_buffers();
  EXPECT_TRUE(validate(p));
  p.buffers[0].size = 0;
  p.buffers[0].live = {std::numeric_limits<tick>::min(), std::numeric_limits<tick>::max()};
  p.buffers[1].lifetimes = {{-5, -3}, {-3, 0}, {7, 8}};
  p.buffers[1].live = {9, 1};  // replaced by the lifetimes
  EXPECT_TRUE(validate(p));
  p.capacity = 0;  // what does not fit is solve's business
  EXPECT_TRUE(validate(p));
}

TEST(problem, names_what_is_wrong_with_its_settings) {
  problem p = two_buffers();
  p.alignment = 0;
  expect_invalid(p, "problem: alignment is zero", 0);
  p = two_buffers();
  p.granularity = 0;
  expect_invalid(p, "problem: size granularity is zero", 0);
  p = two_buffers();
  p.granularity = max_bytes;
  expect_invalid(p, "problem: size granularity exceeds 2^62 bytes", max_bytes, errc::overflow);
  p = two_buffers();
  p.tail_pad = max_bytes;
  expect_invalid(p, "problem: tail pad exceeds 2^62 bytes", max_bytes, errc::overflow);
  p = two_buffers();
  p.max_slab = 0;
  expect_invalid(p, "problem: the largest slab is zero bytes", 0);
  p = two_buffers();
  p.capacity = 7;
  p.memories.resize(1);
  expect_invalid(p, "problem: a capacity of its own beside those of its memories", 7);
}

TEST(problem, names_the_buffer_at_fault) {
  const auto broken = [](auto&& change) {
    problem p = two_buffers();
    p.add({.name = "z", .size = 8, .live = {0, 9}});
    change(p, p.buffers[1]);
    return p;
  };
  expect_invalid(broken([](auto&, buffer& b) { b.live = {3, 3}; }), "buffer: lifetime is empty or reversed", 1);
  expect_invalid(broken([](auto&, buffer& b) { b.live = {4, 3}; }), "buffer: lifetime is empty or reversed", 1);
  expect_invalid(broken([](auto&, buffer& b) {
                   b.lifetimes = {{0, 1}, {2, 2}};
                 }),
                 "buffer: one of its lifetimes is empty or reversed", 1);
  expect_invalid(broken([](auto&, buffer& b) {
                   b.lifetimes = {{0, 3}, {2, 4}};
                 }),
                 "buffer: its lifetimes overlap or are out of order", 1);
  expect_invalid(broken([](auto&, buffer& b) { b.size = max_address + 1; }), "buffer: size exceeds 2^62 bytes", 1,
                 errc::overflow);
  expect_invalid(broken([](problem& p, buffer& b) {
                   p.granularity = 64;
                   b.size = max_bytes;
                 }),
                 "buffer: size exceeds 2^62 bytes", 1, errc::overflow);
  expect_invalid(broken([](auto&, buffer& b) { b.size = max_address - 3; }),
                 "buffer: the sizes up to this one exceed 2^62 bytes together", 1, errc::overflow);
  expect_invalid(broken([](problem& p, buffer& b) {
                   b.alignment = max_address;
                   p.buffers[0].alignment = max_address / 2;
                 }),
                 "buffer: the sizes and alignments up to this one exceed 2^62 bytes together", 1, errc::overflow);
  expect_invalid(broken([](auto&, buffer& b) {
                   b.alignment = 4;
                   b.offset = 6;
                 }),
                 "buffer: pinned at an offset that is not aligned", 1);
  expect_invalid(broken([](auto&, buffer& b) { b.offset = max_address + 1; }), "buffer: pinned beyond 2^62 bytes", 1,
                 errc::overflow);
  expect_invalid(broken([](auto&, buffer& b) { b.memories = {0}; }),
                 "buffer: names a memory that the problem does not have", 1);
  expect_invalid(broken([](problem& p, buffer& b) {
                   p.memories.resize(2);
                   b.memories = {1, 0, 1};
                 }),
                 "buffer: names one memory twice", 1);
  expect_invalid(broken([](problem& p, buffer& b) {
                   p.memories.resize(2);
                   p.memories[1].alignment = 8;
                   b.memories = {1};
                   b.offset = 4;
                 }),
                 "buffer: pinned at an offset that is not aligned", 1);
  expect_invalid(broken([](auto&, buffer& b) { b.alias_group = 3; }),
                 "buffer: its alias group is not below the number of buffers", 1);
}

// Whichever memory adds most, and where the largest alignment does not.
TEST(problem, alignments_of_buffers_and_memories_count_together) {
  problem p = two_buffers();
  p.memories.resize(3);
  p.memories[0].alignment = bytes{1} << 40;
  p.memories[1].alignment = (bytes{1} << 21) - 1;
  p.buffers[1].memories = {0};
  p.buffers[1].alignment = bytes{1} << 40;
  EXPECT_TRUE(validate(p));  // 2^61 together
  p.memories[1].alignment = (bytes{1} << 22) - 1;
  expect_invalid(p, "buffer: the sizes and alignments up to this one exceed 2^62 bytes together", 1, errc::overflow);
  p.memories[1].alignment = (bytes{1} << 22) + 1;
  expect_invalid(p, "buffer: its alignment and its memory's together exceed 2^62 bytes", 1, errc::overflow);
  p.memories[1].alignment = bytes{1} << 22;
  EXPECT_TRUE(validate(p));
}

// A hundred million pairs, in half a minute if each was looked at: without common factors, then with one.
TEST(problem, thousands_of_different_alignments_of_buffers_and_memories) {
  for (const bytes factor : {1, 2}) {
    problem p;
    for (bytes k = 0; k < 15'000; ++k) p.memories.push_back({.alignment = factor * ((1 << 18) + k)});
    for (bytes k = 0; k < 6'000; ++k) p.add({.size = 1, .live = {0, 1}, .alignment = factor * ((1 << 29) + 2 * k + 1)});
    EXPECT_TRUE(validate(p));
  }
}

TEST(problem, groups_have_one_base) {
  problem p = two_buffers();
  p.buffers[0].alias_group = p.buffers[1].alias_group = 1;
  EXPECT_TRUE(validate(p));
  p.buffers[0].offset = p.buffers[1].offset = 8;
  EXPECT_TRUE(validate(p));
  p.buffers[1].offset = 16;
  expect_invalid(p, "buffer: its alias group has two pins", 1);
  p.buffers[1].offset.reset();
  p.buffers[1].alignment = 3;
  expect_invalid(p, "buffer: its alias group's pin is not aligned", 1);
  p = two_buffers();
  p.memories.resize(3);
  p.buffers[0].alias_group = p.buffers[1].alias_group = 0;
  p.buffers[0].memories = {2, 0};
  p.buffers[1].memories = {0};
  EXPECT_TRUE(validate(p));
  p.buffers[1].memories = {1};
  expect_invalid(p, "buffer: shares no memory with the rest of its alias group", 1);
}

TEST(problem, names_the_memory_or_pair_at_fault) {
  problem p = two_buffers();
  p.memories.resize(2);
  p.memories[1].alignment = 0;
  expect_invalid(p, "memory: alignment is zero", 1);
  p.memories[1].alignment = 1;
  p.memories[1].reserved = {{0, 4}, {8, 8}};
  expect_invalid(p, "memory: a reserved range is empty or reversed", 1);
  p.memories[1].reserved.clear();
  p.memories[1].cost = std::numeric_limits<double>::quiet_NaN();
  expect_invalid(p, "memory: cost is not a number from 0 to 1e100", 1);

  p = two_buffers();
  p.separations = {{0, 1}, {1, 1}};
  expect_invalid(p, "separation: does not name two buffers", 1);
  p.separations = {{0, 2}};
  expect_invalid(p, "separation: does not name two buffers", 0);
  p.separations = {{0, 1}};
  p.buffers[0].alias_group = p.buffers[1].alias_group = 0;
  expect_invalid(p, "separation: keeps two members of one alias group apart", 0);

  p = two_buffers();
  p.conflicts.emplace().push_back({0, 7});
  expect_invalid(p, "conflict: does not name two buffers", 0);
  p.conflicts->clear();
  p.buffers[0].live = {5, 5};  // replaced by the conflicts
  EXPECT_TRUE(validate(p));

  p = two_buffers();
  p.reuse_penalties = {{0, 1, 1}, {0, 1, std::numeric_limits<double>::quiet_NaN()}};
  expect_invalid(p, "penalty: weight is not a number from 0 to 1e100", 1);
  p.reuse_penalties[1].weight = 1e101;  // sums of such are no numbers, and no plan of them verifies
  expect_invalid(p, "penalty: weight is not a number from 0 to 1e100", 1);
  p.reuse_penalties[1].weight = 1e100;
  EXPECT_TRUE(validate(p));
  p.reuse_penalties = {{0, 0, 1}};
  expect_invalid(p, "penalty: does not name two buffers", 0);
}

TEST(problem, footprint_follows_the_rules) {
  const rules::placement rule{.start_alignment = 64, .size_granularity = 32, .tail_pad = 32};
  problem p{rule};
  p.add({.size = 33, .live = {0, 1}});
  EXPECT_EQ(p.footprint(0), 96u);
  EXPECT_EQ(p.alignment_of(0), 64u);
  p.add({.size = 33, .live = {0, 1}, .granularity = 8, .tail_pad = 1});
  p.add({.size = 33, .live = {0, 1}, .tail_pad = 0});
  EXPECT_EQ(p.footprint(1), 41u);
  EXPECT_EQ(p.footprint(2), 64u);
  p.buffers[1].granularity = max_bytes;
  expect_invalid(p, "buffer: size granularity exceeds 2^62 bytes", 1, errc::overflow);
  p.buffers[1] = {.size = 1, .live = {0, 1}, .tail_pad = max_bytes};
  expect_invalid(p, "buffer: tail pad exceeds 2^62 bytes", 1, errc::overflow);
}

TEST(problem, stricter_rules_come_to_its_own) {
  const rules::placement rule{.start_alignment = 6, .size_granularity = 4, .tail_pad = 2};
  problem p{{.start_alignment = 4, .size_granularity = 6, .tail_pad = 1}};
  p.add({.size = 1, .live = {0, 1}});
  p.add({.size = 1, .live = {0, 1}, .alignment = 9, .granularity = 1, .tail_pad = 5});
  ASSERT_TRUE(make_stricter(p, rule));
  EXPECT_EQ(p.alignment, 12u);
  EXPECT_EQ(p.footprint(0), 14u);
  EXPECT_EQ(p.buffers[0].alignment, 0u);
  EXPECT_EQ(p.alignment_of(1), 18u);
  EXPECT_EQ(p.footprint(1), 9u);
  p.buffers[1].alignment = max_bytes;
  EXPECT_FALSE(make_stricter(p, {.start_alignment = 2}));
  EXPECT_EQ(p.alignment, 12u);
}
}  // namespace
}  // namespace berth::plan

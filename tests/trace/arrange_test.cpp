#include "trace/arrange.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

namespace {
using berth::trace::arrange;
using berth::trace::chunk;
using berth::trace::decode_records;
using berth::trace::forget_pairs;
using berth::trace::owners;
using berth::trace::record;
using berth::trace::settle;
using berth::trace::stretch;
using berth::trace::timed;

record make(record::kind_of_record kind, std::uint64_t address, std::uint64_t size = 1) {
  return {address, size << 2 | std::uint64_t{kind}, "", 0, 0};
}
constexpr auto a = record::allocate, f = record::free, stamp = record::stamp;

TEST(arrange, a_free_that_another_thread_stamped_too_early_follows_its_allocation) {
  const auto out = arrange({{make(f, 64), 1, 5, 20}, {make(a, 64), 0, 10, 12}});
  ASSERT_EQ(out.events.size(), 2u);
  EXPECT_EQ(out.events[0].what.kind(), a);
  EXPECT_EQ(out.events[1].what.kind(), f);
  EXPECT_GE(out.events[1].from, out.events[0].from);
  EXPECT_TRUE(out.orphans.empty());
}

TEST(arrange, a_free_that_was_certainly_earlier_is_of_an_older_block) {
  const auto other = arrange({{make(f, 64), 1, 5, 9}, {make(a, 64), 0, 10, 12}});
  ASSERT_EQ(other.events.size(), 1u);
  EXPECT_EQ(other.orphans.size(), 1u);
  const auto same = arrange({{make(f, 64), 0, 5, 20}, {make(a, 64), 0, 5, 20}});
  ASSERT_EQ(same.events.size(), 1u);
  EXPECT_EQ(same.events[0].what.kind(), a);
}

TEST(arrange, a_pair_that_came_and_went_before_the_block_that_is_alive_is_left_out) {
  const auto out = arrange({{make(f, 64), 1, 0, 20}, {make(a, 64, 2), 1, 0, 20}, {make(a, 64, 1), 0, 5, 20}});
  ASSERT_EQ(out.events.size(), 1u);
  EXPECT_EQ(out.events[0].what.size(), 2u);
  EXPECT_TRUE(out.orphans.empty());
}

TEST(arrange, an_address_given_out_again_waits_for_the_free) {
  const auto out = arrange({{make(a, 64, 1), 0, 1, 2}, {make(a, 64, 2), 1, 3, 9}, {make(f, 64, 1), 0, 4, 9}});
  ASSERT_EQ(out.events.size(), 3u);
  EXPECT_EQ(out.events[1].what.kind(), f);
  EXPECT_EQ(out.events[2].what.size(), 2u);
}

// Two blocks of one address whose order the stamps leave open: the sizes say whose each free is.
TEST(arrange, a_free_is_of_a_block_of_its_size) {
  const auto out = arrange(
      {{make(a, 64, 1), 0, 0, 20}, {make(a, 64, 2), 1, 1, 20}, {make(f, 64, 2), 2, 2, 20}, {make(f, 64, 1), 2, 3, 20}});
  ASSERT_EQ(out.events.size(), 4u);
  for (const std::size_t k : {0u, 2u}) EXPECT_EQ(out.events[k].what.size(), out.events[k + 1].what.size());
  EXPECT_TRUE(out.orphans.empty());
}

TEST(arrange, a_free_of_another_size_is_of_an_older_block) {
  const auto early = arrange({{make(f, 64, 2), 1, 5, 20}, {make(a, 64, 1), 0, 10, 20}});
  ASSERT_EQ(early.events.size(), 1u);
  EXPECT_EQ(early.events[0].what.kind(), a);
  EXPECT_EQ(early.orphans.size(), 1u);
  const auto late = arrange({{make(a, 64, 1), 0, 5, 20}, {make(f, 64, 2), 1, 10, 20}});
  ASSERT_EQ(late.events.size(), 1u);
  EXPECT_EQ(late.events[0].what.kind(), a);
  EXPECT_EQ(late.orphans.size(), 1u);
}

// The free of another block may be the only one left if records were dropped.
TEST(arrange, a_free_has_its_blocks_size) {
  const auto out = arrange({{make(a, 64, 1), 0, 1, 20}, {make(a, 64, 2), 0, 3, 20}, {make(f, 64, 3), 0, 4, 20}});
  ASSERT_EQ(out.events.size(), 3u);
  EXPECT_EQ(out.events[1].what.kind(), f);
  EXPECT_EQ(out.events[1].what.size(), 1u);
  EXPECT_EQ(out.events[2].what.size(), 2u);
}

TEST(arrange, a_free_that_never_comes_is_put_in) {
  const auto out = arrange({{make(a, 64, 1), 0, 1, 2}, {make(a, 64, 2), 0, 3, 4}});
  ASSERT_EQ(out.events.size(), 3u);
  EXPECT_EQ(out.events[1].what.kind(), f);
  EXPECT_EQ(out.events[1].what.size(), 1u);
}

// As where a pool is destroyed with its blocks, and another one lies there: what comes later is not put off to the end.
TEST(arrange, what_comes_after_a_free_that_never_came_keeps_its_place) {
  const auto out = arrange({{make(a, 64, 1), 0, 1, 2},
                            {make(a, 64, 2), 0, 3, 4},
                            {make(f, 64, 2), 0, 5, 6},
                            {make(a, 64, 3), 0, 7, 8},
                            {make(f, 64, 3), 0, 9, 10},
                            {make(a, 128), 0, 20, 21}});
  ASSERT_EQ(out.events.size(), 7u);
  const std::uint64_t sizes[] = {1, 1, 2, 2, 3, 3, 1};
  for (std::size_t k = 0; k < 7; ++k) EXPECT_EQ(out.events[k].what.size(), sizes[k]) << k;
  for (std::size_t k = 1; k < 6; k += 2) EXPECT_EQ(out.events[k].what.kind(), f);
  EXPECT_EQ(out.events[4].from, 7u);
  EXPECT_EQ(out.left_out, 0u);
  EXPECT_TRUE(out.orphans.empty());
}

// Threads take and free blocks of a few addresses; each stamps at random. Every address must see its events by turns,
// and the live blocks at the end must be right, whatever the stamps leave open.
RC_GTEST_PROP(arrange, finds_what_is_alive_whatever_the_stamps, ()) {
  const auto steps = *rc::gen::container<std::vector<std::pair<int, int>>>(
      rc::gen::pair(rc::gen::inRange(0, 3), rc::gen::inRange(0, 6)));
  const std::uint64_t sizes = *rc::gen::inRange<std::uint64_t>(1, 4);
  std::vector<timed> all;
  std::map<std::uint64_t, std::uint64_t> alive;  // and its size
  std::map<int, std::uint64_t> stamp_of;
  std::vector<std::vector<timed*>> of(3);
  std::uint64_t now = 1;
  all.reserve(steps.size());
  for (const auto& [thread, slot] : steps) {
    now += 2;
    if (slot == 5) {  // a stamp, which also ends what was open before
      for (timed* t : of[static_cast<std::size_t>(thread)]) t->until = std::min(t->until, now);
      stamp_of[thread] = now;
      continue;
    }
    const std::uint64_t address = 64 * static_cast<std::uint64_t>(slot + 1);
    const bool free = alive.contains(address);
    const std::uint64_t size = free ? alive[address] : 1 + now / 2 % sizes;
    all.push_back(
        {make(free ? f : a, address, size), static_cast<std::uint32_t>(thread), stamp_of[thread], UINT64_MAX});
    of[static_cast<std::size_t>(thread)].push_back(&all.back());
    if (free) {
      alive.erase(address);
    } else {
      alive[address] = size;
    }
  }
  std::ranges::stable_sort(all, {}, &timed::thread);  // as the chunks are read
  const std::size_t heard = all.size();
  const auto out = arrange(all);
  RC_ASSERT(out.orphans.empty());
  RC_ASSERT(out.events.size() + out.left_out == heard);
  RC_ASSERT(out.left_out % 2 == 0u);
  std::map<std::uint64_t, std::uint64_t> left;
  std::uint64_t last = 0;
  for (const timed& t : out.events) {
    RC_ASSERT(t.from >= last);
    last = t.from;
    if (t.what.kind() == a) {
      RC_ASSERT(left.emplace(t.what.address, t.what.size()).second);
    } else {
      RC_ASSERT(left.contains(t.what.address) && left[t.what.address] == t.what.size());
      left.erase(t.what.address);
    }
  }
  RC_ASSERT(left == alive);
}

// Against a map, in one thread's order.
RC_GTEST_PROP(forget_pairs, takes_out_exactly_the_pairs, ()) {
  const auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 40));
  static chunk c;
  c.count = 0;
  c.thread = 0;
  std::map<std::uint64_t, std::size_t> open;
  std::vector<record> expected;
  std::vector<bool> gone;
  std::vector<std::uint64_t> times;  // of each record
  std::uint64_t now = 0;
  const auto write = [](const record& r) { c.records[c.count++] = r; };
  write(make(stamp, 0));
  for (const int step : steps) {
    if (c.count + 1 >= chunk::most_records) break;
    if (step == 0) {
      write({++now, 0, "", 0, 0});
      continue;
    }
    const auto address = 64 * static_cast<std::uint64_t>(step / 2);
    const record r = make(step % 2 == 0 ? a : f, address, c.count);
    if (r.kind() == a) {
      open[address] = expected.size();
    } else if (const auto at = open.find(address); at != open.end()) {
      gone[at->second] = true;
      gone.push_back(true);
      open.erase(at);
    }
    expected.push_back(r);
    gone.resize(expected.size());
    times.push_back(now);
    write(r);
  }
  const auto forgotten = forget_pairs(c, nullptr);
  RC_ASSERT(forgotten == static_cast<std::size_t>(std::ranges::count(gone, true)));
  std::uint64_t time = 0;
  std::size_t next = 0;
  for (const record& r : c) {
    if (r.kind() == stamp) {
      time = r.address;
      continue;
    }
    while (next < expected.size() && gone[next]) ++next;
    RC_ASSERT(next < expected.size());
    RC_ASSERT(r.address == expected[next].address && r.size_and_kind == expected[next].size_and_kind);
    RC_ASSERT(time == times[next]);
    ++next;
  }
  while (next < expected.size() && gone[next]) ++next;
  RC_ASSERT(next == expected.size());
}

// Three threads write into chunks of eight records, which are closed, folded as the recorder does it, and settled, at
// random. The live blocks at the end must be right. So must the place of each request if every event has a stamp of its
// own.
struct history {
  std::vector<std::unique_ptr<chunk>> made;
  std::array<chunk*, 3> open{};
  std::vector<chunk*> full, residue;
  std::uint64_t now = 0;
  std::uint64_t forgotten = 0;
  std::uint64_t events_a_stamp = 1;

  chunk* fresh(std::uint32_t thread) {
    made.push_back(std::make_unique_for_overwrite<chunk>());
    made.back()->thread = thread;
    made.back()->count = 0;
    return made.back().get();
  }
  void write(std::uint32_t thread, const record& r) {
    chunk*& mine = open[thread];
    if (mine != nullptr && mine->count + 2 > 8) full.push_back(std::exchange(mine, nullptr));
    if (mine == nullptr) mine = fresh(thread);
    if (++now % events_a_stamp == 0 || mine->count == 0) mine->records[mine->count++] = make(stamp, now);
    mine->records[mine->count++] = r;
  }
  [[nodiscard]] std::vector<chunk*> all() const {
    std::vector<chunk*> out = residue;
    out.insert(out.end(), full.begin(), full.end());
    std::ranges::copy_if(open, std::back_inserter(out), [](const chunk* c) { return c != nullptr; });
    return out;
  }
  void fold() {
    if (full.empty()) return;
    owners among;
    for (const chunk* c : all()) among.note(c->begin(), c->end(), c->thread);
    forgotten += forget_pairs(*full.front(), &among);
    residue.push_back(full.front());
    full.erase(full.begin());
  }
  void settle_all() {
    std::vector<stretch> old, later;
    for (chunk* c : all()) {
      const bool is_old = std::ranges::find(residue, c) != residue.end();
      (is_old ? old : later).push_back({c->records.data(), c->records.data() + c->count, c->thread});
    }
    const auto kept = settle(old, later, {}, forgotten);
    residue.clear();
    for (const timed& t : kept) {
      if (residue.empty() || residue.back()->thread != t.thread) residue.push_back(fresh(t.thread));
      chunk& c = *residue.back();
      c.records[c.count++] = make(stamp, t.from);
      c.records[c.count++] = t.what;
    }
  }
};

RC_GTEST_PROP(folding, knows_what_is_alive, ()) {
  const auto steps = *rc::gen::container<std::vector<std::pair<int, int>>>(
      rc::gen::pair(rc::gen::inRange(0, 3), rc::gen::inRange(0, 12)));
  history h;
  h.events_a_stamp = *rc::gen::inRange<std::uint64_t>(1, 6);
  std::map<std::uint64_t, std::uint64_t> alive;  // its allocation's number, which stands in its size
  std::uint64_t number = 0;
  for (const auto& [thread, what] : steps) {
    if (what == 10) h.fold();
    if (what == 11) h.settle_all();
    if (what >= 10) continue;
    const std::uint64_t address = 64 * static_cast<std::uint64_t>(what / 3 + 1);
    ++number;
    if (alive.contains(address)) {
      h.write(static_cast<std::uint32_t>(thread), make(f, address, alive[address]));
      alive.erase(address);
    } else {
      h.write(static_cast<std::uint32_t>(thread), make(a, address, number));
      alive[address] = number;
    }
  }
  std::vector<timed> all;
  for (chunk* c : h.all()) decode_records({c->records.data(), c->records.data() + c->count, c->thread}, all);
  RC_ASSERT(all.size() + h.forgotten == number);
  const auto out = arrange(all);
  RC_ASSERT(out.orphans.empty());
  std::map<std::uint64_t, std::uint64_t> left;
  for (const timed& t : out.events) {
    if (t.what.kind() == a) {
      RC_ASSERT(left.emplace(t.what.address, t.what.size()).second);
    } else {
      RC_ASSERT(left.contains(t.what.address) && left[t.what.address] == t.what.size());
      left.erase(t.what.address);
    }
  }
  RC_ASSERT(left == alive);
}
}  // namespace

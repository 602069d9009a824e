#include "berth/guided_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "berth/onnxruntime.h"
#include "c/guided_client.h"
#include "c/pool_fixture.hpp"

namespace {

using berth::support::sized;

class c_guided_pool : public berth::support::pool_fixture {
 protected:
  c_guided_pool() { pool = create(); }

  berth_pool* create(const berth_solve_options* search = nullptr) {
    const berth_pool_options options = small();
    berth_pool* made = nullptr;
    EXPECT_EQ(berth_guided_pool_create(device, &options, search, &made), BERTH_OK) << berth_error_text();
    return made;
  }
  static void begin(berth_pool* of) { EXPECT_EQ(berth_guided_pool_begin_step(of), BERTH_OK) << berth_error_text(); }
  static void give(berth_pool* to, void* block) {
    EXPECT_EQ(berth_pool_free(to, block), BERTH_OK) << berth_error_text();
  }
  // Two requests of a step; what is not given back lives on.
  static std::vector<void*> take_both(berth_pool* from, berth_stream* on) {
    return {take(from, 1000, on), take(from, 5000, on)};
  }
  // So that the next step is planned.
  static void learn(berth_pool* p, berth_stream* on) {
    begin(p);
    for (void* block : take_both(p, on)) give(p, block);
    begin(p);
  }
  static berth_guided_pool_statistics guidance(berth_pool* of) {
    auto s = sized<berth_guided_pool_statistics>();
    EXPECT_EQ(berth_guided_pool_statistics_of(of, &s), BERTH_OK) << berth_error_text();
    return s;
  }
};

TEST(c_guided_pool_client, a_program_in_c_uses_all_of_it) {
  EXPECT_STREQ(guided_client(), "");
}

// The first block of a plan's memory has the address that all of it had as the pool's block.
TEST_F(c_guided_pool, a_free_of_the_block_at_a_parts_start_is_of_that_block) {
  learn(pool, stream);
  const auto blocks = take_both(pool, stream);
  ASSERT_EQ(guidance(pool).planned, 2u);
  ASSERT_EQ(statistics(pool).live_blocks, 1u);
  EXPECT_EQ(statistics(pool).live, guidance(pool).parts);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::uint64_t size = 0;
    EXPECT_EQ(berth_pool_size_of(pool, blocks[i], &size), BERTH_OK);
    EXPECT_EQ(size, i == 0 ? 1000u : 5000u);
  }
  for (void* block : blocks) {
    give(pool, block);
    EXPECT_EQ(berth_pool_free(pool, block), BERTH_INVALID);
    EXPECT_EQ(statistics(pool).live_blocks, 1u) << "the whole part went";
  }
  begin(pool);
  EXPECT_EQ(take_both(pool, stream), blocks);
  for (void* block : blocks) give(pool, block);
}

TEST_F(c_guided_pool, a_step_that_changes_for_good_is_learnt_again) {
  learn(pool, stream);
  for (void* block : take_both(pool, stream)) give(pool, block);
  EXPECT_EQ(berth_guided_pool_relearn(pool), BERTH_OK);
  for (int step = 0; step < 3; ++step) {
    begin(pool);
    give(pool, take(pool, 70'000, stream));
  }
  EXPECT_EQ(guidance(pool).planned, 2u + 2);
  EXPECT_EQ(guidance(pool).parts, guidance(pool).lower_bound);
}

// Steps as chance makes them: a greedy plan of some needs more than a search finds.
TEST_F(c_guided_pool, the_search_is_as_hard_as_was_asked) {
  const auto parts_of = [&](std::int32_t effort) {
    auto search = sized<berth_solve_options>();
    search.effort = effort;
    std::uint64_t sum = 0;
    for (unsigned seed = 1; seed <= 20; ++seed) {
      berth_pool* const searched = create(&search);
      std::mt19937 random{seed};
      std::vector<void*> out;
      begin(searched);
      for (int i = 0; i < 40; ++i) {
        out.push_back(take(searched, 1 + random() % 100'000, stream));
        if (out.size() < 6) continue;
        std::swap(out[random() % out.size()], out.back());
        give(searched, out.back());
        out.pop_back();
      }
      for (void* block : out) give(searched, block);
      begin(searched);
      sum += guidance(searched).parts;
      berth_pool_destroy(searched);
    }
    return sum;
  };
  EXPECT_GT(parts_of(BERTH_EFFORT_FAST), parts_of(BERTH_EFFORT_NORMAL));
}

TEST_F(c_guided_pool, another_streams_use_delays_the_place) {
  std::atomic<bool> open{false};
  berth_stream* other = nullptr;
  ASSERT_EQ(berth_stream_create(device, &other), BERTH_OK);
  learn(pool, stream);
  void* const block = take(pool, 1000, stream);
  EXPECT_EQ(guidance(pool).planned, 1u);
  const auto wait = [](void* gate) {
    while (!*static_cast<std::atomic<bool>*>(gate)) std::this_thread::yield();
  };
  EXPECT_EQ(berth_stream_call(other, wait, &open), BERTH_OK);
  EXPECT_EQ(berth_pool_use_on(pool, block, other), BERTH_OK) << berth_error_text();
  give(pool, block);
  begin(pool);
  void* const while_used = take(pool, 1000, stream);
  EXPECT_NE(while_used, block);
  open = true;
  EXPECT_EQ(berth_stream_synchronize(other), BERTH_OK);
  give(pool, while_used);
  begin(pool);
  void* const after = take(pool, 1000, stream);
  EXPECT_EQ(after, block);
  give(pool, after);
  berth_stream_destroy(other);
}

TEST_F(c_guided_pool, other_interfaces_of_a_pool_take_it) {
  berth_onnxruntime_options o{};
  o.struct_size = sizeof o;
  o.api_version = 17;
  o.info = reinterpret_cast<const OrtMemoryInfo*>(&o);
  OrtAllocator* allocator = nullptr;
  ASSERT_EQ(berth_onnxruntime_create(pool, stream, &o, &allocator), BERTH_OK) << berth_error_text();
  struct slots {
    std::uint32_t version;
    void* (*alloc)(void*, std::size_t);
    void (*free)(void*, void*);
  }* const engine = reinterpret_cast<slots*>(allocator);
  for (int step = 0; step < 4; ++step) {
    begin(pool);
    void* const a = engine->alloc(engine, 1000);
    void* const b = engine->alloc(engine, 5000);
    engine->free(engine, a);
    engine->free(engine, b);
  }
  EXPECT_EQ(guidance(pool).planned, 6u);
  std::uint64_t still_alive = 7;
  EXPECT_EQ(berth_onnxruntime_destroy(allocator, &still_alive), BERTH_OK);
  EXPECT_EQ(still_alive, 0u);
}

// --- bad input

TEST_F(c_guided_pool, handles_that_are_none_or_not_guided) {
  berth_pool* plain = nullptr;
  ASSERT_EQ(berth_pool_create(device, nullptr, &plain), BERTH_OK);
  berth_pool* const gone = create();
  berth_pool_destroy(gone);
  auto s = sized<berth_guided_pool_statistics>();
  s.steps = 77;
  EXPECT_EQ(berth_guided_pool_begin_step(plain), BERTH_INVALID);
  EXPECT_EQ(berth_guided_pool_relearn(plain), BERTH_INVALID);
  EXPECT_EQ(berth_guided_pool_statistics_of(plain, &s), BERTH_INVALID);
  EXPECT_NE(std::string{berth_error_text()}.find("not guided"), std::string::npos);
  for (berth_pool* none : {static_cast<berth_pool*>(nullptr), gone, reinterpret_cast<berth_pool*>(stream),
                           reinterpret_cast<berth_pool*>(std::uintptr_t{0x12345})}) {
    EXPECT_EQ(berth_guided_pool_begin_step(none), BERTH_NO_SUCH_HANDLE);
    EXPECT_EQ(berth_guided_pool_relearn(none), BERTH_NO_SUCH_HANDLE);
    EXPECT_EQ(berth_guided_pool_statistics_of(none, &s), BERTH_NO_SUCH_HANDLE);
  }
  EXPECT_EQ(s.steps, 77u);
  EXPECT_EQ(berth_guided_pool_statistics_of(pool, nullptr), BERTH_INVALID);
  s.struct_size = 8;
  EXPECT_EQ(berth_guided_pool_statistics_of(pool, &s), BERTH_INVALID);
  berth_pool_destroy(plain);
}

TEST_F(c_guided_pool, options_that_mean_nothing) {
  berth_pool* made = nullptr;
  EXPECT_EQ(berth_guided_pool_create(device, nullptr, nullptr, nullptr), BERTH_INVALID);
  EXPECT_EQ(berth_guided_pool_create(nullptr, nullptr, nullptr, &made), BERTH_NO_SUCH_HANDLE);
  auto options = sized<berth_pool_options>();
  options.kind = 9;
  EXPECT_EQ(berth_guided_pool_create(device, &options, nullptr, &made), BERTH_INVALID);
  auto search = sized<berth_solve_options>();
  search.effort = 9;
  EXPECT_EQ(berth_guided_pool_create(device, nullptr, &search, &made), BERTH_INVALID);
  search = sized<berth_solve_options>();
  search.deadline_s = -1;
  EXPECT_EQ(berth_guided_pool_create(device, nullptr, &search, &made), BERTH_INVALID);
  search = sized<berth_solve_options>();
  search.progress = [](void*, std::uint64_t, std::uint64_t, std::uint64_t) { return 0; };
  EXPECT_EQ(berth_guided_pool_create(device, nullptr, &search, &made), BERTH_INVALID);
  search = sized<berth_solve_options>();
  search.struct_size = 3;
  EXPECT_EQ(berth_guided_pool_create(device, nullptr, &search, &made), BERTH_INVALID);
  EXPECT_EQ(made, nullptr);
}

TEST_F(c_guided_pool, a_block_is_freed_to_its_own_pool_only) {
  berth_pool* plain = nullptr;
  ASSERT_EQ(berth_pool_create(device, nullptr, &plain), BERTH_OK);
  berth_pool* const beside = create();
  learn(pool, stream);
  learn(beside, stream);
  const auto mine = take_both(pool, stream), others = take_both(beside, stream);
  void* const plains = take(plain, 1000, stream);
  for (void* block : mine) {
    for (berth_pool* wrong : {plain, beside}) {
      EXPECT_EQ(berth_pool_free(wrong, block), BERTH_INVALID);
      EXPECT_EQ(berth_pool_use_on(wrong, block, stream), BERTH_INVALID);
    }
    EXPECT_EQ(berth_pool_free(pool, static_cast<char*>(block) + 64), BERTH_INVALID);
  }
  for (void* block : others) EXPECT_EQ(berth_pool_free(pool, block), BERTH_INVALID);
  EXPECT_EQ(berth_pool_free(pool, plains), BERTH_INVALID);
  EXPECT_EQ(berth_pool_free(pool, &plain), BERTH_INVALID);
  for (void* block : mine) give(pool, block);
  for (void* block : others) give(beside, block);
  give(plain, plains);
  berth_pool_destroy(beside);
  berth_pool_destroy(plain);
}

TEST_F(c_guided_pool, nothing_and_more_than_there_can_be) {
  learn(pool, stream);
  for (int i = 0; i < 3; ++i) {
    void* block = &block;
    EXPECT_EQ(berth_pool_allocate(pool, 0, stream, &block), BERTH_OK);
    EXPECT_EQ(block, nullptr);
    EXPECT_EQ(berth_pool_free(pool, nullptr), BERTH_OK);
    for (const std::uint64_t size : {std::uint64_t{1} << 63, UINT64_MAX, std::uint64_t{1} << 31}) {
      block = &block;
      EXPECT_NE(berth_pool_allocate(pool, size, stream, &block), BERTH_OK);
      EXPECT_NE(berth_pool_allocate_aligned(pool, size, 4096, stream, &block), BERTH_OK);
      EXPECT_EQ(block, &block);
    }
    EXPECT_NE(berth_pool_allocate_aligned(pool, 64, std::uint64_t{1} << 63, stream, &block), BERTH_OK);
  }
  const auto both = take_both(pool, stream);
  EXPECT_EQ(guidance(pool).planned, 2u);
  EXPECT_EQ(guidance(pool).broken_up, 0u);
  for (void* block : both) give(pool, block);
}

TEST_F(c_guided_pool, more_than_there_can_be_without_a_limit) {
  berth_pool* any = nullptr;
  ASSERT_EQ(berth_guided_pool_create(device, nullptr, nullptr, &any), BERTH_OK);
  learn(any, stream);
  const auto both = take_both(any, stream);
  void* block = nullptr;
  EXPECT_NE(berth_pool_allocate(any, std::uint64_t{1} << 63, stream, &block), BERTH_OK);
  EXPECT_EQ(block, nullptr);
  for (void* one : both) {
    std::memset(one, 1, 1000);
    give(any, one);
  }
  learn(any, stream);
  const auto before = guidance(any).planned;
  for (void* one : take_both(any, stream)) give(any, one);
  EXPECT_EQ(guidance(any).planned, before + 2);
  berth_pool_destroy(any);
}

// Blocks in a plan's memory and others; a line of the report names each.
TEST_F(c_guided_pool, destroyed_with_blocks_alive) {
  berth_pool* leaving = nullptr;
  ASSERT_EQ(berth_guided_pool_create(device, nullptr, nullptr, &leaving), BERTH_OK);
  void* const weight = take(leaving, 300, stream);
  learn(leaving, stream);
  const auto both = take_both(leaving, stream);
  testing::internal::CaptureStderr();
  berth_pool_destroy(leaving);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find(" 300 bytes"), std::string::npos) << told;
  EXPECT_NE(told.find(" 1000 bytes"), std::string::npos) << told;
  EXPECT_NE(told.find(" 5000 bytes"), std::string::npos) << told;
  EXPECT_EQ(berth_pool_free(leaving, weight), BERTH_NO_SUCH_HANDLE);
  EXPECT_EQ(berth_pool_free(leaving, both[0]), BERTH_NO_SUCH_HANDLE);
  EXPECT_EQ(berth_pool_free(pool, both[0]), BERTH_INVALID);
}

TEST_F(c_guided_pool, a_stream_that_ended) {
  berth_stream* brief = nullptr;
  ASSERT_EQ(berth_stream_create(device, &brief), BERTH_OK);
  learn(pool, brief);
  const auto both = take_both(pool, brief);
  ASSERT_EQ(guidance(pool).planned, 2u);
  berth_stream_destroy(brief);
  void* block = nullptr;
  EXPECT_EQ(berth_pool_allocate(pool, 1000, brief, &block), BERTH_NO_SUCH_HANDLE);
  EXPECT_EQ(berth_pool_use_on(pool, both[0], brief), BERTH_NO_SUCH_HANDLE);
  give(pool, both[0]);
  begin(pool);
  give(pool, both[1]);
  EXPECT_EQ(berth_pool_free(pool, both[1]), BERTH_INVALID);
  begin(pool);
  EXPECT_EQ(guidance(pool).streams_planned, 0u);
  EXPECT_EQ(statistics(pool).live_blocks, 0u);
  // More streams than there are plans for, one after another.
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(berth_stream_create(device, &brief), BERTH_OK);
    learn(pool, brief);
    for (void* one : take_both(pool, brief)) give(pool, one);
    berth_stream_destroy(brief);
    begin(pool);
  }
  EXPECT_EQ(guidance(pool).planned, 2u + 80);
  EXPECT_EQ(statistics(pool).live_blocks, 0u);
}

TEST_F(c_guided_pool, a_step_that_never_ends) {
  learn(pool, stream);
  for (int i = 0; i < 5000; ++i) {
    for (void* block : take_both(pool, stream)) give(pool, block);
  }
  const auto s = guidance(pool);
  EXPECT_EQ(s.steps, 2u);
  EXPECT_EQ(s.planned + s.elsewhere + s.passed, 2u + 10'000);
  EXPECT_EQ(statistics(pool).live_blocks, 1u);
  begin(pool);
  for (void* block : take_both(pool, stream)) give(pool, block);
  EXPECT_EQ(guidance(pool).planned, s.planned + 2);
}

TEST_F(c_guided_pool, a_step_begun_where_memory_is_short) {
  struct holding {
    berth_pool* pool = nullptr;
    void* spare = nullptr;
  } mine;
  auto options = sized<berth_pool_options>();
  options.limit = std::uint64_t{1} << 20;
  options.quiet = 1;
  options.context = &mine;
  options.pressure = [](void* context, std::uint64_t, std::uint32_t) {
    auto& h = *static_cast<holding*>(context);
    EXPECT_EQ(berth_guided_pool_begin_step(h.pool), BERTH_OK) << berth_error_text();
    if (h.spare == nullptr) return 0;
    EXPECT_EQ(berth_pool_free(h.pool, h.spare), BERTH_OK);
    h.spare = nullptr;
    return 1;
  };
  ASSERT_EQ(berth_guided_pool_create(device, &options, nullptr, &mine.pool), BERTH_OK);
  mine.spare = take(mine.pool, 900'000, stream);
  learn(mine.pool, stream);
  const auto both = take_both(mine.pool, stream);
  void* const large = take(mine.pool, 700'000, stream);
  void* block = nullptr;
  EXPECT_EQ(berth_pool_allocate(mine.pool, 900'000, stream, &block), BERTH_LIMIT);
  give(mine.pool, large);
  for (void* one : both) give(mine.pool, one);
  for (void* one : take_both(mine.pool, stream)) give(mine.pool, one);
  berth_pool_destroy(mine.pool);
}

// --- threads

TEST_F(c_guided_pool, two_threads_one_frees_what_the_other_takes) {
  std::atomic<int> wrong{0};
  std::atomic<void*> handed{nullptr};
  std::atomic<bool> done{false};
  std::thread taker{[&] {
    for (int step = 0; step < 300; ++step) {
      if (berth_guided_pool_begin_step(pool) != BERTH_OK) ++wrong;
      for (const std::uint64_t size : {1000, 5000, 2000}) {
        void* block = nullptr;
        if (berth_pool_allocate(pool, size, stream, &block) != BERTH_OK) ++wrong;
        std::memset(block, step & 255, 1000);
        void* free_here = handed.exchange(block);
        if (free_here != nullptr && berth_pool_free(pool, free_here) != BERTH_OK) ++wrong;
      }
    }
    done = true;
  }};
  std::thread giver{[&] {
    while (!done) {
      void* const block = handed.exchange(nullptr);
      if (block == nullptr) {
        std::this_thread::yield();
      } else if (berth_pool_free(pool, block) != BERTH_OK) {
        ++wrong;
      }
    }
  }};
  taker.join();
  giver.join();
  if (void* const last = handed.exchange(nullptr)) give(pool, last);
  EXPECT_EQ(wrong, 0);
  const auto s = guidance(pool);
  const bool watched = s.refusal[0] != '\0';
  EXPECT_EQ(s.planned + s.elsewhere + s.passed, watched ? 0u : 900u);
}

TEST_F(c_guided_pool, destroyed_while_others_use_it) {
  berth_pool* const shared = create();
  std::atomic<int> others{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      berth_stream* own = nullptr;
      if (berth_stream_create(device, &own) != BERTH_OK) ++others;
      for (int i = 0; i < 300; ++i) {
        void* block = nullptr;
        berth_status s = t == 0 && i % 8 == 0 ? berth_guided_pool_begin_step(shared) : BERTH_OK;
        if (s == BERTH_OK) s = berth_pool_allocate(shared, 100 + static_cast<unsigned>(i % 8), own, &block);
        if (s == BERTH_OK) s = berth_pool_free(shared, block);
        if (s != BERTH_OK && s != BERTH_NO_SUCH_HANDLE) ++others;
      }
      berth_stream_destroy(own);
    });
  }
  std::this_thread::yield();
  berth_pool_destroy(shared);
  for (auto& t : threads) t.join();
  EXPECT_EQ(others, 0);
}

}  // namespace

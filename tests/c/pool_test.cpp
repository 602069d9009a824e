#include "berth/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "berth/recorder.h"
#include "berth/trace/recorder.hpp"
#include "c/pool_client.h"
#include "c/pool_fixture.hpp"
#include "support/workloads.hpp"

namespace {

using berth::support::sized;

class c_pool : public berth::support::pool_fixture {
 protected:
  c_pool() {
    const berth_pool_options options = small();
    EXPECT_EQ(berth_pool_create(device, &options, &pool), BERTH_OK) << berth_error_text();
  }

  using pool_fixture::take;
  void* take(std::uint64_t size) { return take(pool, size, stream); }
};

std::string text_of(berth_status (*ask)(const berth_pool*, char*, size_t, size_t*), const berth_pool* pool) {
  size_t length = 0;
  EXPECT_EQ(ask(pool, nullptr, 0, &length), BERTH_OK) << berth_error_text();
  std::vector<char> room(length + 1);
  EXPECT_EQ(ask(pool, room.data(), room.size(), &length), BERTH_OK) << berth_error_text();
  return room.data();
}

TEST(c_pool_client, a_program_in_c_uses_all_of_it) {
  EXPECT_STREQ(pool_client(), "");
}

TEST_F(c_pool, a_block_comes_back_in_stream_order) {
  void* const first = take(1000);
  std::uint64_t size = 0;
  EXPECT_EQ(berth_pool_size_of(pool, first, &size), BERTH_OK);
  EXPECT_EQ(size, 1000u);
  EXPECT_EQ(berth_pool_free(pool, first), BERTH_OK);
  EXPECT_EQ(take(1000), first);
  EXPECT_EQ(statistics(pool).cache_hits, 1u);
  EXPECT_EQ(berth_pool_free(pool, first), BERTH_OK);
  EXPECT_EQ(berth_stream_synchronize(stream), BERTH_OK);
  std::uint64_t released = 0;
  EXPECT_EQ(berth_pool_trim(pool, 0, &released), BERTH_OK);
  EXPECT_GT(released, 0u);
  EXPECT_EQ(statistics(pool).reserved, 0u);
}

TEST_F(c_pool, holds_no_more_than_the_live_bytes_need_without_options) {
  berth_pool* all_defaults = nullptr;
  ASSERT_EQ(berth_pool_create(device, nullptr, &all_defaults), BERTH_OK) << berth_error_text();
  const auto clips = berth::workloads::clips(6, 400);
  EXPECT_TRUE(berth::workloads::play(
      clips, [&](std::uint64_t size, std::uint32_t) { return take(all_defaults, size, stream); },
      [&](void* block, std::uint64_t, std::uint32_t) { EXPECT_EQ(berth_pool_free(all_defaults, block), BERTH_OK); }));
  EXPECT_LE(statistics(all_defaults).reserved_peak, berth::workloads::bound(clips));
  berth_pool_destroy(all_defaults);
}

TEST_F(c_pool, size_zero_is_null_and_no_failure) {
  void* block = &block;
  ASSERT_EQ(berth_pool_allocate(pool, 0, stream, &block), BERTH_OK);
  EXPECT_EQ(block, nullptr);
  EXPECT_EQ(berth_pool_free(pool, block), BERTH_OK);
}

TEST_F(c_pool, what_does_not_fit_is_a_status_with_a_report) {
  EXPECT_EQ(text_of(berth_pool_out_of_memory_report, pool), "");
  void* const most = take(std::uint64_t{12} << 20);
  void* block = nullptr;
  EXPECT_EQ(berth_pool_allocate(pool, std::uint64_t{8} << 20, stream, &block), BERTH_LIMIT);
  EXPECT_EQ(block, nullptr);
  EXPECT_EQ(berth_error_index(), std::size_t{8} << 20);
  EXPECT_NE(text_of(berth_pool_out_of_memory_report, pool).find("pool_test.cpp"), std::string::npos);
  EXPECT_EQ(berth_pool_free(pool, most), BERTH_OK);
}

TEST_F(c_pool, texts_are_cut_where_the_room_ends) {
  const std::string whole = text_of(berth_pool_report, pool);
  char little[8] = "1234567";
  size_t length = 0;
  ASSERT_EQ(berth_pool_report(pool, little, 4, &length), BERTH_OK);
  EXPECT_EQ(length, whole.size());
  EXPECT_EQ(little, whole.substr(0, 3));
  EXPECT_EQ(little[4], '5');
  EXPECT_EQ(berth_pool_report(pool, nullptr, 4, &length), BERTH_INVALID);
}

TEST_F(c_pool, pressure_may_free_what_it_knows) {
  struct holding {
    berth_pool* pool = nullptr;
    void* spare = nullptr;
    std::vector<unsigned> attempts;
  } mine;
  auto options = sized<berth_pool_options>();
  options.limit = std::uint64_t{8} << 20;
  options.context = &mine;
  options.pressure = [](void* context, std::uint64_t, std::uint32_t attempt) {
    auto& h = *static_cast<holding*>(context);
    h.attempts.push_back(attempt);
    if (h.spare == nullptr) return 0;
    EXPECT_EQ(berth_pool_free(h.pool, h.spare), BERTH_OK);
    h.spare = nullptr;
    return 1;
  };
  ASSERT_EQ(berth_pool_create(device, &options, &mine.pool), BERTH_OK);
  ASSERT_EQ(berth_pool_allocate(mine.pool, std::uint64_t{6} << 20, stream, &mine.spare), BERTH_OK);
  void* block = nullptr;
  ASSERT_EQ(berth_pool_allocate(mine.pool, std::uint64_t{6} << 20, stream, &block), BERTH_OK) << berth_error_text();
  void* more = nullptr;
  EXPECT_EQ(berth_pool_allocate(mine.pool, std::uint64_t{6} << 20, stream, &more), BERTH_LIMIT);
  EXPECT_EQ(mine.attempts, (std::vector<unsigned>{1, 1}));
  EXPECT_EQ(berth_pool_free(mine.pool, block), BERTH_OK);
  berth_pool_destroy(mine.pool);
}

TEST_F(c_pool, a_stream_waits_for_another) {
  berth_stream* other = nullptr;
  ASSERT_EQ(berth_stream_create(device, &other), BERTH_OK);
  std::atomic<bool> open{false};
  std::vector<int> order;
  struct step {
    std::atomic<bool>* gate;
    std::vector<int>* order;
    int number;
  } first{&open, &order, 1}, second{nullptr, &order, 2};
  const auto run = [](void* context) {
    const step& s = *static_cast<step*>(context);
    while (s.gate != nullptr && !*s.gate) std::this_thread::yield();
    s.order->push_back(s.number);
  };
  ASSERT_EQ(berth_stream_call(stream, run, &first), BERTH_OK);
  ASSERT_EQ(berth_stream_wait_for(other, stream), BERTH_OK);
  ASSERT_EQ(berth_stream_call(other, run, &second), BERTH_OK);
  int done = 7;
  ASSERT_EQ(berth_stream_query(other, &done), BERTH_OK);
  EXPECT_EQ(done, 0);
  open = true;
  ASSERT_EQ(berth_stream_synchronize(other), BERTH_OK);
  ASSERT_EQ(berth_stream_query(other, &done), BERTH_OK);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  berth_stream_destroy(other);
}

// --- bad input

TEST_F(c_pool, a_wrong_free_is_a_status) {
  void* const block = take(1000);
  EXPECT_EQ(berth_pool_free(pool, static_cast<char*>(block) + 64), BERTH_INVALID);
  EXPECT_EQ(berth_pool_free(pool, &stream), BERTH_INVALID);
  EXPECT_EQ(berth_pool_use_on(pool, &stream, stream), BERTH_INVALID);
  EXPECT_EQ(berth_pool_free(pool, block), BERTH_OK);
  EXPECT_EQ(berth_pool_free(pool, block), BERTH_INVALID);
  EXPECT_NE(std::string{berth_error_text()}.find("freed"), std::string::npos);
  EXPECT_EQ(statistics(pool).frees, 1u);
  std::uint64_t size = 7;
  EXPECT_EQ(berth_pool_size_of(pool, block, &size), BERTH_INVALID);
  EXPECT_EQ(size, 7u);
}

TEST_F(c_pool, handles_that_are_none) {
  void* block = nullptr;
  EXPECT_EQ(berth_pool_allocate(nullptr, 1, stream, &block), BERTH_NO_SUCH_HANDLE);
  EXPECT_EQ(berth_pool_allocate(pool, 1, nullptr, &block), BERTH_NO_SUCH_HANDLE);
  EXPECT_EQ(berth_pool_allocate(reinterpret_cast<berth_pool*>(stream), 1, stream, &block), BERTH_NO_SUCH_HANDLE);
  EXPECT_EQ(berth_pool_allocate(pool, 1, stream, nullptr), BERTH_INVALID);
  EXPECT_EQ(berth_stream_create(reinterpret_cast<berth_device*>(pool), &stream), BERTH_NO_SUCH_HANDLE);
  berth_stream* gone = nullptr;
  ASSERT_EQ(berth_stream_create(device, &gone), BERTH_OK);
  berth_stream_destroy(gone);
  EXPECT_EQ(berth_pool_allocate(pool, 1, gone, &block), BERTH_NO_SUCH_HANDLE);
  EXPECT_EQ(berth_stream_synchronize(gone), BERTH_NO_SUCH_HANDLE);
  EXPECT_EQ(berth_stream_wait_for(stream, gone), BERTH_NO_SUCH_HANDLE);
  berth_stream_destroy(gone);
  EXPECT_STRNE(berth_error_text(), "");
  EXPECT_EQ(block, nullptr);
}

TEST_F(c_pool, streams_of_another_device) {
  berth_device* nothing = nullptr;
  berth_stream* elsewhere = nullptr;
  ASSERT_EQ(berth_device_open("null", &nothing), BERTH_OK) << berth_error_text();
  ASSERT_EQ(berth_stream_create(nothing, &elsewhere), BERTH_OK) << berth_error_text();
  void* block = nullptr;
  EXPECT_EQ(berth_pool_allocate(pool, 1, elsewhere, &block), BERTH_INVALID);
  void* const here = take(100);
  EXPECT_EQ(berth_pool_use_on(pool, here, elsewhere), BERTH_INVALID);
  EXPECT_EQ(berth_stream_wait_for(stream, elsewhere), BERTH_INVALID);
  EXPECT_EQ(berth_pool_free(pool, here), BERTH_OK);
  berth_stream_destroy(elsewhere);
  berth_device_close(nothing);
  EXPECT_EQ(berth_device_open("no such thing", &nothing), BERTH_INVALID);
  EXPECT_STRNE(berth_error_text(), "");
}

TEST_F(c_pool, options_that_mean_nothing) {
  berth_pool* made = nullptr;
  auto o = sized<berth_pool_options>();
  o.kind = 9;
  EXPECT_EQ(berth_pool_create(device, &o, &made), BERTH_INVALID);
  o.kind = 0;
  o.fraction = -1;
  EXPECT_EQ(berth_pool_create(device, &o, &made), BERTH_INVALID);
  o.fraction = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(berth_pool_create(device, &o, &made), BERTH_INVALID);
  o.fraction = 0;
  o.struct_size = 3;
  EXPECT_EQ(berth_pool_create(device, &o, &made), BERTH_INVALID);
  struct newer {
    berth_pool_options known;
    std::uint64_t more = 1;
  } later{sized<berth_pool_options>()};
  later.known.struct_size = sizeof later;
  EXPECT_EQ(berth_pool_create(device, &later.known, &made), BERTH_NEWER_CALLER);
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(berth_pool_create(device, nullptr, nullptr), BERTH_INVALID);
  void* block = nullptr;
  EXPECT_EQ(berth_pool_allocate_aligned(pool, 64, 48, stream, &block), BERTH_INVALID);
  EXPECT_NE(berth_pool_allocate(pool, UINT64_MAX, stream, &block), BERTH_OK);
  EXPECT_EQ(block, nullptr);
}

// A newer caller's struct has room for what this library does not know: it is zero then.
TEST_F(c_pool, a_newer_callers_statistics) {
  struct newer {
    berth_pool_statistics known;
    std::uint64_t more = 1;
  } s{};
  s.known.struct_size = sizeof s;
  ASSERT_EQ(berth_pool_statistics_of(pool, &s.known), BERTH_OK);
  EXPECT_EQ(s.known.struct_size, sizeof s);
  EXPECT_EQ(s.more, 0u);
  s.known.struct_size = 8;
  EXPECT_EQ(berth_pool_statistics_of(pool, &s.known), BERTH_INVALID);
}

TEST_F(c_pool, handles_destroyed_while_others_use_them) {
  berth_pool* shared = nullptr;
  auto options = sized<berth_pool_options>();
  options.quiet = 1;
  ASSERT_EQ(berth_pool_create(device, &options, &shared), BERTH_OK);
  std::atomic<int> others{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      berth_stream* own = nullptr;
      if (berth_stream_create(device, &own) != BERTH_OK) ++others;
      for (int i = 0; i < 500; ++i) {
        void* block = nullptr;
        berth_status s = berth_pool_allocate(shared, 100 + static_cast<unsigned>(i), own, &block);
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

// --- the recorder

TEST_F(c_pool, the_recorder_names_the_line_of_a_leak) {
  berth_recorder* recorder = nullptr;
  ASSERT_EQ(berth_recorder_create(1 << 20, &recorder), BERTH_OK) << berth_error_text();
  ASSERT_EQ(berth_recorder_start(recorder), BERTH_OK) << berth_error_text();
  ASSERT_EQ(berth_recorder_start(recorder), BERTH_OK);
  const int line = leak_one(pool, stream);
  ASSERT_EQ(berth_pool_free(pool, take(10)), BERTH_OK);
  ASSERT_EQ(berth_recorder_stop(recorder), BERTH_OK);
  (void)take(1);  // nobody listens
  size_t blocks = 0;
  std::uint64_t bytes = 0, dropped = 7;
  ASSERT_EQ(berth_recorder_leaks(recorder, &blocks, &bytes), BERTH_OK);
  EXPECT_EQ(blocks, 1u);
  EXPECT_EQ(bytes, 12345u);
  ASSERT_EQ(berth_recorder_dropped(recorder, &dropped), BERTH_OK);
  EXPECT_EQ(dropped, 0u);
  char text[4096];
  ASSERT_EQ(berth_recorder_leak_report(recorder, text, sizeof text, nullptr), BERTH_OK);
  EXPECT_NE(std::string{text}.find("pool_client.c:" + std::to_string(line)), std::string::npos) << text;

  const std::string path = testing::TempDir() + "c_pool_snapshot.json";
  ASSERT_EQ(berth_recorder_write(recorder, pool, path.c_str()), BERTH_OK) << berth_error_text();
  std::ifstream in{path};
  const std::string written{std::istreambuf_iterator<char>{in}, {}};
  EXPECT_NE(written.find("berth-snapshot/1"), std::string::npos);
  EXPECT_NE(written.find("12345"), std::string::npos);
  EXPECT_NE(written.find("reserved_peak"), std::string::npos);
  std::remove(path.c_str());
  EXPECT_EQ(berth_recorder_write(recorder, pool, (testing::TempDir() + "no/such/folder/x").c_str()), BERTH_IO);
  EXPECT_EQ(berth_recorder_write(recorder, nullptr, nullptr), BERTH_INVALID);
  berth_recorder_destroy(recorder);
  EXPECT_EQ(berth_recorder_start(recorder), BERTH_NO_SUCH_HANDLE);
}

TEST(c_recorder, one_listens_at_a_time) {
  berth_recorder *first = nullptr, *second = nullptr;
  ASSERT_EQ(berth_recorder_create(0, &first), BERTH_OK);
  ASSERT_EQ(berth_recorder_create(0, &second), BERTH_OK);
  ASSERT_EQ(berth_recorder_start(first), BERTH_OK);
  EXPECT_EQ(berth_recorder_start(second), BERTH_INVALID);
  EXPECT_EQ(berth_recorder_stop(second), BERTH_OK);  // which stops nobody
  EXPECT_EQ(berth_recorder_start(second), BERTH_INVALID);
  berth_recorder_destroy(first);
  EXPECT_EQ(berth_recorder_start(second), BERTH_OK);
  berth_recorder_destroy(second);
  berth::trace::recorder of_cpp{1 << 20};
  of_cpp.start();
  ASSERT_EQ(berth_recorder_create(0, &first), BERTH_OK);
  EXPECT_EQ(berth_recorder_start(first), BERTH_INVALID);
  of_cpp.stop();
  berth_recorder_destroy(first);
  EXPECT_NE(berth_recorder_create(UINT64_MAX, &first), BERTH_OK);
}

}  // namespace

// The allocator for ONNX Runtime against a stand-in for it, which knows the struct by its slots alone.
#include "berth/onnxruntime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "c/onnxruntime_slots.hpp"
#include "support/workloads.hpp"

// Freed bytes are filled, so that a count read there is not 0. Not inlined: g++ 12 takes free() in an inlined delete
// for a mistake.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* const block = operator new(size, std::nothrow)) return block;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, std::size_t size) noexcept {
  std::memset(block, 0x5a, size);
  std::free(block);
}

struct OrtKeyValuePairs {
  std::map<std::string, std::string> pairs;
};

namespace {

using slots = berth::support::onnxruntime_slots;

void create_pairs(OrtKeyValuePairs** out) {
  *out = new OrtKeyValuePairs;
}
void add_pair(OrtKeyValuePairs* to, const char* key, const char* value) {
  to->pairs[key] = value;
}

class onnxruntime : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(berth_device_open("host", &device_), BERTH_OK);
    ASSERT_EQ(berth_stream_create(device_, &stream_), BERTH_OK);
    berth_pool_options o{};
    o.struct_size = sizeof o;
    o.limit = std::uint64_t{64} << 20;
    o.quiet = 1;
    ASSERT_EQ(berth_pool_create(device_, &o, &pool_), BERTH_OK);
  }
  void TearDown() override {
    berth_pool_destroy(pool_);
    berth_stream_destroy(stream_);
    berth_device_close(device_);
  }

  berth_status create(std::uint32_t version, bool with_pairs = true) {
    berth_onnxruntime_options o{};
    o.struct_size = sizeof o;
    o.api_version = version;
    o.info = info_;
    if (with_pairs) o.create_pairs = create_pairs, o.add_pair = add_pair;
    const berth_status status = berth_onnxruntime_create(pool_, stream_, &o, &allocator_);
    engine_ = reinterpret_cast<slots*>(allocator_);
    return status;
  }
  [[nodiscard]] berth_onnxruntime_counts counts() const {
    berth_onnxruntime_counts c{};
    c.struct_size = sizeof c;
    EXPECT_EQ(berth_onnxruntime_counts_of(allocator_, &c), BERTH_OK);
    return c;
  }

  berth_device* device_ = nullptr;
  berth_stream* stream_ = nullptr;
  berth_pool* pool_ = nullptr;
  OrtAllocator* allocator_ = nullptr;
  slots* engine_ = nullptr;
  int info_is_opaque_ = 0;
  const OrtMemoryInfo* info_ = reinterpret_cast<const OrtMemoryInfo*>(&info_is_opaque_);
};

TEST_F(onnxruntime, has_the_slots_that_the_library_knows) {
  for (const std::uint32_t version : {1u, 17u, 18u, 22u, 23u, 24u, 25u, 30u}) {
    ASSERT_EQ(create(version), BERTH_OK);
    EXPECT_EQ(engine_->version, version);
    EXPECT_EQ(engine_->info(engine_), info_);
    EXPECT_EQ(engine_->reserve != nullptr, version >= 18) << version;
    EXPECT_EQ(engine_->get_stats != nullptr, version >= 23) << version;
    EXPECT_EQ(engine_->alloc_on_stream, nullptr);
    EXPECT_EQ(engine_->shrink != nullptr, version >= 25) << version;
    EXPECT_EQ(berth_onnxruntime_destroy(allocator_, nullptr), BERTH_OK);
  }
  ASSERT_EQ(create(25, false), BERTH_OK);
  EXPECT_EQ(engine_->get_stats, nullptr);
  EXPECT_EQ(berth_onnxruntime_destroy(allocator_, nullptr), BERTH_OK);
}

TEST_F(onnxruntime, blocks_come_and_go_and_are_counted) {
  ASSERT_EQ(create(25), BERTH_OK);
  void* const a = engine_->alloc(engine_, 1000);
  void* const b = engine_->reserve(engine_, 5000);
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a) % 64, 0u);
  std::memset(a, 1, 1000);
  OrtKeyValuePairs* stats = nullptr;
  EXPECT_EQ(engine_->get_stats(engine_, &stats), nullptr);
  EXPECT_EQ(stats->pairs["InUse"], "6000");
  EXPECT_EQ(stats->pairs["MaxInUse"], "6000");
  EXPECT_EQ(stats->pairs["NumAllocs"], "2");
  EXPECT_EQ(stats->pairs["NumReserves"], "1");
  EXPECT_EQ(stats->pairs["MaxAllocSize"], "5000");
  EXPECT_EQ(stats->pairs["Limit"], std::to_string(64 << 20));
  delete stats;
  engine_->free(engine_, a);
  engine_->free(engine_, b);
  engine_->free(engine_, nullptr);
  EXPECT_EQ(counts().frees, 2u);
  EXPECT_EQ(engine_->shrink(engine_), nullptr);
  berth_pool_statistics s{};
  s.struct_size = sizeof s;
  ASSERT_EQ(berth_pool_statistics_of(pool_, &s), BERTH_OK);
  EXPECT_EQ(s.reserved, 0u);
  std::uint64_t alive = 1;
  EXPECT_EQ(berth_onnxruntime_destroy(allocator_, &alive), BERTH_OK);
  EXPECT_EQ(alive, 0u);
}

TEST_F(onnxruntime, holds_no_more_than_the_live_bytes_need) {
  ASSERT_EQ(create(25), BERTH_OK);
  const auto clips = berth::workloads::clips(7, 400);
  EXPECT_TRUE(berth::workloads::play(
      clips, [&](std::uint64_t size, std::uint32_t) { return engine_->alloc(engine_, size); },
      [&](void* block, std::uint64_t, std::uint32_t) { engine_->free(engine_, block); }));
  berth_pool_statistics s{};
  s.struct_size = sizeof s;
  ASSERT_EQ(berth_pool_statistics_of(pool_, &s), BERTH_OK);
  EXPECT_LE(s.reserved_peak, berth::workloads::bound(clips));
  EXPECT_EQ(berth_onnxruntime_destroy(allocator_, nullptr), BERTH_OK);
}

TEST_F(onnxruntime, what_cannot_be_served_is_a_null_and_what_is_unknown_is_passed_over) {
  ASSERT_EQ(create(25), BERTH_OK);
  EXPECT_EQ(engine_->alloc(engine_, 0), nullptr);
  EXPECT_EQ(counts().failures, 0u);
  EXPECT_EQ(engine_->alloc(engine_, SIZE_MAX / 2 + 1), nullptr);
  EXPECT_EQ(engine_->alloc(engine_, SIZE_MAX), nullptr);
  EXPECT_EQ(engine_->alloc(engine_, std::size_t{65} << 20), nullptr);
  EXPECT_EQ(counts().failures, 3u);
  char report[64] = "";
  ASSERT_EQ(berth_pool_out_of_memory_report(pool_, report, sizeof report, nullptr), BERTH_OK);
  EXPECT_NE(report[0], '\0');
  void* const a = engine_->alloc(engine_, 100);
  int foreign = 0;
  testing::internal::CaptureStderr();
  engine_->free(engine_, &foreign);
  engine_->free(engine_, a);
  engine_->free(engine_, a);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("no live block of its pool"));
  EXPECT_EQ(counts().unknown_frees, 2u);
  EXPECT_EQ(counts().frees, 1u);
  EXPECT_EQ(berth_onnxruntime_destroy(allocator_, nullptr), BERTH_OK);
}

TEST_F(onnxruntime, sessions_of_several_threads_share_a_pool) {
  ASSERT_EQ(create(25), BERTH_OK);
  std::vector<std::thread> sessions;
  for (unsigned t = 0; t < 4; ++t) {
    sessions.emplace_back([this, t] {
      std::vector<unsigned char*> mine;
      for (unsigned i = 0; i < 300; ++i) {
        const std::size_t size = 1 + (i * 7919 + t * 104729) % 20000;
        auto* const p = static_cast<unsigned char*>(engine_->alloc(engine_, size));
        ASSERT_NE(p, nullptr);
        p[0] = p[size - 1] = static_cast<unsigned char>(t);
        mine.push_back(p);
        if (mine.size() == 20) {
          for (unsigned char* q : mine) {
            EXPECT_EQ(q[0], t);
            engine_->free(engine_, q);
          }
          mine.clear();
        }
      }
    });
  }
  for (std::thread& s : sessions) s.join();
  EXPECT_EQ(counts().allocations, 1200u);
  EXPECT_EQ(counts().frees, 1200u);
  EXPECT_EQ(berth_onnxruntime_destroy(allocator_, nullptr), BERTH_OK);
}

TEST_F(onnxruntime, outlives_the_handles_it_was_made_of) {
  ASSERT_EQ(create(25), BERTH_OK);
  berth_pool_destroy(pool_);
  berth_stream_destroy(stream_);
  pool_ = nullptr;
  stream_ = nullptr;
  void* const a = engine_->alloc(engine_, 100);
  ASSERT_NE(a, nullptr);
  ASSERT_NE(engine_->alloc(engine_, 100), nullptr);
  engine_->free(engine_, a);
  std::uint64_t alive = 0;
  EXPECT_EQ(berth_onnxruntime_destroy(allocator_, &alive), BERTH_OK);
  EXPECT_EQ(alive, 1u);
}

TEST_F(onnxruntime, its_stream_waits_for_work_when_it_is_destroyed) {
  ASSERT_EQ(create(25), BERTH_OK);
  std::atomic<bool> done{false};
  const auto take_long = [](void* done_at) {
    std::this_thread::sleep_for(std::chrono::milliseconds{300});
    *static_cast<std::atomic<bool>*>(done_at) = true;
  };
  ASSERT_EQ(berth_stream_call(stream_, take_long, &done), BERTH_OK);
  berth_stream_destroy(stream_);
  stream_ = nullptr;
  EXPECT_TRUE(done);
  EXPECT_EQ(berth_onnxruntime_destroy(allocator_, nullptr), BERTH_OK);
}

TEST_F(onnxruntime, bad_calls_are_refused) {
  berth_onnxruntime_options o{};
  o.struct_size = sizeof o;
  o.api_version = 25;
  o.info = info_;
  OrtAllocator* out = nullptr;
  EXPECT_EQ(berth_onnxruntime_create(pool_, stream_, &o, nullptr), BERTH_INVALID);
  EXPECT_EQ(berth_onnxruntime_create(nullptr, stream_, &o, &out), BERTH_NO_SUCH_HANDLE);
  EXPECT_EQ(berth_onnxruntime_create(pool_, nullptr, &o, &out), BERTH_NO_SUCH_HANDLE);
  EXPECT_EQ(berth_onnxruntime_create(pool_, stream_, nullptr, &out), BERTH_INVALID);
  o.api_version = 0;
  EXPECT_EQ(berth_onnxruntime_create(pool_, stream_, &o, &out), BERTH_INVALID);
  o.api_version = 25;
  o.add_pair = add_pair;
  EXPECT_EQ(berth_onnxruntime_create(pool_, stream_, &o, &out), BERTH_INVALID);
  o.add_pair = nullptr;
  o.info = nullptr;
  EXPECT_EQ(berth_onnxruntime_create(pool_, stream_, &o, &out), BERTH_INVALID);
  EXPECT_EQ(out, nullptr);
  int foreign = 0;
  EXPECT_EQ(berth_onnxruntime_destroy(reinterpret_cast<OrtAllocator*>(&foreign), nullptr), BERTH_INVALID);
  EXPECT_EQ(berth_onnxruntime_destroy(nullptr, nullptr), BERTH_OK);
  ASSERT_EQ(create(25), BERTH_OK);
  EXPECT_EQ(berth_onnxruntime_destroy(allocator_, nullptr), BERTH_OK);
  EXPECT_EQ(berth_onnxruntime_destroy(allocator_, nullptr), BERTH_INVALID);
}

TEST_F(onnxruntime, counts_are_asked_for_while_it_goes) {
  std::atomic<OrtAllocator*> shown{nullptr};
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread asks{[&] {
    while (!stop) {
      berth_onnxruntime_counts c{};
      c.struct_size = sizeof c;
      if (berth_onnxruntime_counts_of(shown, &c) == BERTH_OK && (c.allocations | c.frees | c.failures) != 0) ++wrong;
    }
  }};
  for (int i = 0; i < 50000 && wrong == 0; ++i) {
    if (create(25) != BERTH_OK) ++wrong;
    shown = allocator_;
    if (berth_onnxruntime_destroy(allocator_, nullptr) != BERTH_OK) ++wrong;
  }
  stop = true;
  asks.join();
  EXPECT_EQ(wrong, 0);
}

// The pool and the stream may go with it, which wait for work.
TEST_F(onnxruntime, is_not_destroyed_in_a_streams_work) {
  ASSERT_EQ(create(25), BERTH_OK);
  const auto destroys = [](void* it) {
    EXPECT_EQ(berth_onnxruntime_destroy(static_cast<OrtAllocator*>(it), nullptr), BERTH_INVALID);
  };
  ASSERT_EQ(berth_stream_call(stream_, destroys, allocator_), BERTH_OK);
  EXPECT_EQ(berth_stream_synchronize(stream_), BERTH_OK);
  EXPECT_EQ(berth_onnxruntime_destroy(allocator_, nullptr), BERTH_OK);
}

}  // namespace

// Threads that do everything at once that they may: enqueue on shared streams, free each other's blocks, free from host
// functions, replace streams, trim, fork. Limits are too tight, streams late, and a device's clocks move only when
// asked. The oracle is the memory: each block is filled with its byte in stream order and read back in stream order
// before it is freed. A block that came too early is so seen.
//
// Every round is another pool. BERTH_STRESS_SECONDS=60 BERTH_STRESS_SEED=7 build/bin/pool_stress_test; CI runs it under
// the sanitizers for a minute, and it was made to run for hours. A red round prints its seed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "berth/pool/pool.hpp"
#include "pool/quiet_device.hpp"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define UNDER_TSAN
#endif

namespace berth {
namespace {
using namespace literals;

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct held {
  void* data = nullptr;
  bytes size = 0;
  unsigned char byte = 0;
  std::shared_ptr<stream> on;
};

class world {
 public:
  world(unsigned seed, device d, const pool_options& options) : device_{std::move(d)}, pool_{device_, options} {
    for (auto& s : streams_) s = std::make_shared<stream>(device_);
    std::vector<std::jthread> workers;
    for (unsigned t = 0; t < 4; ++t) {
      workers.emplace_back([this, seed, t] { work(seed * 16 + t); });
    }
  }

  // Gives everything back and looks at the books.
  void end(const pool_options& options) {
    while (auto h = any()) give(*h, 1);
    while (in_flight_ != 0) std::this_thread::yield();
    for (auto& s : streams_) ASSERT_TRUE(s->synchronize());  // what a host function frees, later work may touch
    EXPECT_EQ(wrong_, 0);
    const pool_statistics s = pool_.statistics();
    EXPECT_EQ(s.live, 0u);
    EXPECT_EQ(s.live_blocks, 0u);
    EXPECT_EQ(s.allocations, s.frees);
    EXPECT_LE(s.reserved_peak, options.limit);
    EXPECT_EQ(s.reserved, s.free + s.cached);
    pool_.trim();
    EXPECT_EQ(pool_.statistics().reserved, 0u);
    allocations = s.allocations;
  }

  std::uint64_t allocations = 0;

 private:
  struct reading {
    world* in;
    held what;
    bool frees;
  };

  // In stream order. The block's stream must live on until its work is done, so the reading does not own it.
  static void read_back(void* context) {
    const std::unique_ptr<reading> r{static_cast<reading*>(context)};
    const auto* data = static_cast<const unsigned char*>(r->what.data);
    for (bytes i = 0; i < r->what.size; i += 61) r->in->wrong_ += data[i] != r->what.byte;
    r->in->wrong_ += data[r->what.size - 1] != r->what.byte;
    if (r->frees) r->in->pool_.free(r->what.data);
    --r->in->in_flight_;
  }
  static void doze(void*) { std::this_thread::sleep_for(std::chrono::microseconds{300}); }

  void read(stream& on, const held& h, bool frees) {
    ++in_flight_;
    held copy{h.data, h.size, h.byte, nullptr};
    ASSERT_TRUE(on.call(read_back, new reading{this, copy, frees}));
  }

  std::optional<held> any() {
    const std::lock_guard lock{mutex_};
    if (blocks_.empty()) return std::nullopt;
    std::swap(blocks_[pick_++ % blocks_.size()], blocks_.back());
    held h = std::move(blocks_.back());
    blocks_.pop_back();
    return h;
  }
  std::shared_ptr<stream> some_stream(std::uint32_t n) {
    const std::lock_guard lock{mutex_};
    return streams_[n % std::size(streams_)];
  }

  void give(const held& h, std::uint32_t how) {
    const std::shared_ptr<stream> other = some_stream(how / 4);
    if (how % 4 == 0 && other != h.on) {
      event met{device_};
      ASSERT_TRUE(h.on->record(met));
      ASSERT_TRUE(other->wait(met));
      pool_.use_on(h.data, *other).value();
      read(*other, h, false);
      pool_.free(h.data, h.size, *h.on);
    } else if (how % 4 == 1) {
      read(*h.on, h, true);  // a host function frees it
    } else {
      read(*h.on, h, false);
      pool_.free(h.data);
    }
  }

  void work(unsigned seed) {
    std::mt19937 random{seed};
    for (int i = 0; i < 400; ++i) {
      const auto what = random() % 64;
      const std::shared_ptr<stream> on = some_stream(static_cast<std::uint32_t>(random()));
      if (what < 28) {
        const bytes size = 1 + random() % (random() % 4 == 0 ? 500'000 : 3000);
        const bool special = random() % 16 == 0;
        const block_options options{.alignment = special ? bytes{4096} : 0, .no_stitch = special && random() % 2 == 0};
        const auto got = special ? pool_.allocate_raw(size, *on, options) : pool_.allocate_raw(size, *on);
        if (!got) {
          if (auto h = any()) give(*h, static_cast<std::uint32_t>(random()));
          continue;
        }
        const auto byte = static_cast<unsigned char>(random());
        ASSERT_TRUE(on->fill(*got, std::byte{byte}, size));
        const std::lock_guard lock{mutex_};
        blocks_.push_back({*got, size, byte, on});
      } else if (what < 54) {
        if (auto h = any()) give(*h, static_cast<std::uint32_t>(random()));
      } else if (what < 58) {
        ASSERT_TRUE(on->call(doze, nullptr));
      } else if (what == 58) {
        (void)on->query();
      } else if (what == 59) {
        auto fresh = std::make_shared<stream>(device_);
        const std::lock_guard lock{mutex_};
        streams_[random() % std::size(streams_)] = std::move(fresh);  // the old one goes with its last block
      } else if (what == 60) {
        (void)pool_.trim(random() % 2 == 0 ? 0 : 1_MiB);
      } else if (what == 61) {
        (void)pool_.defragment();
      } else if (what == 62) {
        const pool_statistics s = pool_.statistics();
        if (s.live > s.live_rounded || s.live_rounded + s.cached + s.free != s.reserved) ++wrong_;
        (void)pool_.report();
      } else if (random() % 16 == 0) {
        fork_one();
      }
    }
  }

  // The child does what a forked child may (docs/decisions/0042): it writes in memory of its own, and leaves without
  // ending anything. The memory shared with its parent must not change by that.
  void fork_one() {
    const pid_t child = fork();
    if (child == 0) _exit(live_in_child());
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }

  [[nodiscard]] int live_in_child() const {
#ifndef UNDER_TSAN  // which ends a child that goes on
    if (device_ != device::host()) return 0;
    alarm(20);  // a child that hangs is a failure
    const bytes granule = device_.properties().granule;
    const bytes size = 4 * granule;
    const auto block = device_.allocate(size);
    const auto range = device_.reserve(size);
    const auto memory = device_.create_physical(size);
    if (!block || !range || !memory || !device_.map(*range, size, *memory, 0)) return 1;
    std::memset(*block, 0x11, size);
    std::memset(*range, 0x22, size);
    if (!device_.unmap(*range, size)) return 2;
    device_.destroy_physical(*memory, size);
    device_.release(*range, size);
    device_.free(*block, size);
#endif
    return 0;
  }

  device device_;
  std::atomic<int> wrong_{0};
  std::atomic<int> in_flight_{0};
  std::mutex mutex_;  // guards what follows
  std::shared_ptr<stream> streams_[4];
  std::vector<held> blocks_;
  std::size_t pick_ = 0;
  pool pool_;
};

TEST(pool_stress, threads_streams_limits_and_forks) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{number("BERTH_STRESS_SECONDS", 2)};
  auto seed = static_cast<unsigned>(number("BERTH_STRESS_SEED", 1));
  const pool_options shapes[] = {
      {.limit = 8_MiB},
      {.limit = 4_MiB, .wait_for_streams = true},
      {.limit = 4_MiB, .cache_bytes = 0},
      {.limit = 6_MiB, .release_threshold = 512_KiB, .stitch = false},
      {.limit = 8_MiB, .release_threshold = 2_MiB, .idle_release = std::chrono::milliseconds{2}},
      {.kind = memory_kind::pinned, .limit = 8_MiB, .wait_for_streams = true},
  };
  int rounds = 0;
  std::uint64_t allocations = 0;
  do {
    const pool_options& shape = shapes[seed % std::size(shapes)];
    const bool quiet = seed / std::size(shapes) % 2 != 0;
    SCOPED_TRACE("seed " + std::to_string(seed));
    world w{seed, quiet ? support::make_quiet(device::host()).device : device::host(), shape};
    w.end(shape);
    allocations += w.allocations;
    ++rounds;
    ++seed;
  } while (std::chrono::steady_clock::now() < until && !HasFailure());
  std::printf("%d rounds, %llu allocations\n", rounds, static_cast<unsigned long long>(allocations));
}

}  // namespace
}  // namespace berth

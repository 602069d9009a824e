// A pool on a device whose driver is a strict one of ours, which runs work at once or as late as it may. Runs the suite
// of every source of blocks, and blocks in stream order, stitched and moved, that hold their bytes. BERTH_DEVICE names
// the device; the library counts its mistakes.
#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <random>
#include <string_view>
#include <vector>

#include "berth/pool/guard.hpp"
#include "berth/pool/pool.hpp"
#include "conformance/pool_suite.hpp"
#include "support/sanitizers.hpp"

namespace berth {
namespace {

const char* device_name() {
  const char* const named = std::getenv("BERTH_DEVICE");
  return named != nullptr ? named : "host";
}

// A counter of the driver: what is live, or what was done wrong. 0 on the host.
std::uint64_t counted(const char* what) {
  const bool cuda = std::string_view{device_name()}.starts_with("cuda");
  void* library = dlopen(cuda ? "libcuda.so.1" : "libascendcl.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  const std::string name = std::string{cuda ? "fake_cuda_" : "ascend_simulator_"} + what;
  const auto count = reinterpret_cast<std::uint64_t (*)()>(dlsym(library, name.c_str()));
  return count != nullptr ? count() : 0;
}

class on_a_driver {
 public:
  memory_source& source() { return pool_; }
  stream& queue() { return queue_; }

 private:
  device device_ = device::open(device_name()).value();
  stream queue_{device_};
  pool pool_{device_, {.limit = bytes{256} << 20}};
};

struct held {
  block memory;
  bytes size;
  std::size_t on;
  std::byte value;
};

// A chunk is one piece of the driver's and one mapping without stitching; else one of each a granule.
TEST(driver_pool_chunks, are_one_piece_where_nothing_is_stitched) {
  const auto opened = device::open(device_name());
  ASSERT_TRUE(opened) << opened.error().what << ": run this program through ctest, which names the fake driver";
  if (!opened->properties().virtual_memory) GTEST_SKIP() << "this driver has no virtual memory";
  stream queue{*opened};
  const bytes size = 64 * opened->properties().granule;
  const auto pieces_of = [&](bool stitch) {
    const std::uint64_t before = counted("live");
    pool p{*opened, {.initial = size, .stitch = stitch}};
    auto block = p.allocate(size / 2, queue);  // whatever the rules add to it, the chunk has it
    EXPECT_TRUE(block && queue.fill(block->data(), std::byte{1}, size / 2));
    const std::uint64_t pieces = counted("live") - before;
    block->reset();
    EXPECT_TRUE(queue.synchronize());
    EXPECT_EQ(p.trim(), size);
    return pieces;
  };
  const std::uint64_t stitched = pieces_of(true);
  const std::uint64_t whole = pieces_of(false);
  EXPECT_EQ(stitched - whole, 2u * 64 - 2);
  EXPECT_LE(whole, 2u + 2);  // and the ranges of addresses, which follow the rules
  EXPECT_EQ(counted("mistakes"), 0u);
}

// Guards where the host does not reach the memory: zones and freed blocks are written and read through streams.
TEST(driver_guard, finds_what_queued_work_did_wrong) {
  const auto opened = device::open(device_name());
  ASSERT_TRUE(opened) << opened.error().what << ": run this program through ctest, which names the driver";
  std::vector<mistake_kind> found;
  const mistake_callback keep{
      [](void* to, const memory_mistake& m) { static_cast<std::vector<mistake_kind>*>(to)->push_back(m.kind); },
      &found};
  const rules::placement& rules = opened->properties().rules;
  constexpr bytes size = 1000;
  const bytes allowed = rules.tail_pad == 0 ? size : *rules.footprint(size);
  stream s{*opened};
  pool p{*opened, {.limit = bytes{64} << 20}};
  {
    guard_adaptor guard{p, {.go_on = true, .on_mistake = keep}};
    const auto used = [&](std::ptrdiff_t from, bytes length) {
      auto* const data = static_cast<std::byte*>(*guard.allocate_raw(size, s));
      EXPECT_TRUE(s.fill(data + from, std::byte{7}, length));
      EXPECT_TRUE(s.synchronize());
      guard.free(data, size, s);  // asks nothing of a device: check() does, as the next request would
      (void)guard.check();
      return data;
    };
    (void)used(0, allowed);
    EXPECT_TRUE(found.empty());
    (void)used(0, allowed + 1);
    EXPECT_EQ(found, std::vector{mistake_kind::overrun_behind});
    (void)used(-1, 8);
    EXPECT_EQ(found.size(), 2u);
    EXPECT_EQ(found.back(), mistake_kind::overrun_before);
    std::byte* const freed = used(0, size);
    EXPECT_TRUE(s.fill(freed + 500, std::byte{9}, 1));
    EXPECT_TRUE(s.synchronize());
    EXPECT_EQ(guard.check(), 1u);
    EXPECT_EQ(found.size(), 3u);
    EXPECT_EQ(found.back(), mistake_kind::write_after_free);
  }
  EXPECT_EQ(found.size(), 3u);
}

class driver_pool : public testing::TestWithParam<unsigned> {};

TEST_P(driver_pool, gives_no_block_too_early) {
  const auto opened = device::open(device_name());
  ASSERT_TRUE(opened) << opened.error().what << ": run this program through ctest, which names the driver";
  {
    std::mt19937 random{GetParam()};
    pool p{*opened, {.limit = bytes{48} << 20}};
    std::vector<stream> streams;
    for (int i = 0; i < 3; ++i) streams.emplace_back(*opened);
    constexpr bytes largest = bytes{6} << 20;
    std::array<void*, 3> pinned{};
    for (void*& one : pinned) one = opened->allocate(largest, memory_kind::pinned).value();
    std::vector<held> live;
    const auto give_back = [&](std::size_t i) {
      held& h = live[i];
      stream& s = streams[h.on];
      ASSERT_TRUE(s.copy(pinned[h.on], h.memory.data(), h.size));
      ASSERT_TRUE(s.synchronize());
      const auto* read = static_cast<const std::byte*>(opened->host_address(pinned[h.on]));
      for (bytes b = 0; b < h.size; b += 97) ASSERT_EQ(read[b], h.value);
      ASSERT_EQ(read[h.size - 1], h.value);
      std::swap(live[i], live.back());
      live.pop_back();
    };
    int given = 0;
    for (int step = 0; step < 400; ++step) {
      const auto on = static_cast<std::size_t>(random() % streams.size());
      if (live.empty() || random() % 5 < 3) {
        const bytes size = 1 + random() % (random() % 3 == 0 ? largest : bytes{20'000});
        auto got = p.allocate(size, streams[on]);
        if (!got) continue;  // the limit
        ++given;
        const auto value = static_cast<std::byte>(random());
        EXPECT_TRUE(is_aligned(reinterpret_cast<std::uintptr_t>(got->data()), 64));
        ASSERT_TRUE(streams[on].fill(got->data(), value, size));
        live.push_back({std::move(*got), size, on, value});
      } else {
        give_back(random() % live.size());
      }
      if (random() % 50 == 0) random() % 2 == 0 ? static_cast<void>(p.trim()) : static_cast<void>(p.defragment());
    }
    EXPECT_GT(given, 100);
    while (!live.empty()) give_back(0);
    EXPECT_EQ(p.statistics().live, 0u);
    for (void* one : pinned) opened->free(one, largest, memory_kind::pinned);
  }
  EXPECT_EQ(counted("live"), 0u);
  EXPECT_EQ(counted("mistakes"), 0u);
  EXPECT_EQ(counted("violations"), 0u);
}
INSTANTIATE_TEST_SUITE_P(seeds, driver_pool, testing::Range(0u, support::cases(6)));

}  // namespace

namespace conformance {
INSTANTIATE_TYPED_TEST_SUITE_P(on_a_driver, pool_suite, on_a_driver);
}  // namespace conformance
}  // namespace berth

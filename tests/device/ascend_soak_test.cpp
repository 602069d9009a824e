// Berth's pool on the simulator for a long time: several streams, blocks that change streams, stitching, trimming. The
// simulator is notified of each block given out and given back, so that it checks the rules of sub-allocation too. No
// violation is allowed, and no call for memory once the pool holds what it needs. BERTH_SOAK is the number of
// operations: 10^6 by hand, few by ctest.
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "berth/core/hook.hpp"
#include "berth/pool/pool.hpp"
#include "device/ascend_library.hpp"

namespace berth {
namespace {

void tell(void*, const memory_event& e) noexcept {
  if (e.kind == memory_event_kind::pool_allocate) BERTH_ASCEND_SIMULATOR(part_taken)(e.address, e.size);
  if (e.kind == memory_event_kind::pool_free) BERTH_ASCEND_SIMULATOR(part_given_back)(e.address);
}

std::uint64_t calls_for_memory() {
  std::uint64_t all = 0;
  for (const char* name : {"aclrtMalloc", "aclrtMallocPhysical", "aclrtMapMem", "aclrtReserveMemAddress"}) {
    all += BERTH_ASCEND_SIMULATOR(calls)(name);
  }
  return all;
}

std::string violations() {
  std::string text;
  ascend_simulator_violation one{};
  for (std::uint64_t i = 0; BERTH_ASCEND_SIMULATOR(get_violation)(i, &one) != 0 && i < 10; ++i) {
    text.append(one.kind).append(": ").append(one.call).append(": ").append(one.text).append("\n");
  }
  return text;
}

struct held {
  block memory;
  bytes size = 0;
  std::size_t on = 0;
};

// One operation; the sizes come from a few classes where `steady`.
void step(std::mt19937& random, pool& p, std::vector<stream>& streams, event& e, std::vector<held>& live, void* pinned,
          bool steady) {
  const std::size_t on = random() % streams.size();
  if (live.size() < 64 && random() % 2 == 0) {
    const bytes size =
        steady ? bytes{1} << (6 + random() % 12) : 1 + random() % (random() % 8 == 0 ? 4'000'000 : 40'000);
    auto got = p.allocate(size, streams[on]);
    if (!got) return;
    ASSERT_TRUE(streams[on].fill(got->data(), std::byte{1}, size));
    live.push_back({std::move(*got), size, on});
    return;
  }
  if (live.empty()) return;
  held& one = live[random() % live.size()];
  if (random() % 4 == 0 && on != one.on) {  // read on another stream, as the pool wants it: ordered both ways
    ASSERT_TRUE(streams[one.on].record(e) && streams[on].wait(e));
    ASSERT_TRUE(streams[on].copy(static_cast<std::byte*>(pinned) + 4096 * on, one.memory.data(),
                                 std::min<bytes>(one.size, 4096)));
    ASSERT_TRUE(streams[on].record(e) && streams[one.on].wait(e));
    return;
  }
  ASSERT_TRUE(streams[one.on].fill(one.memory.data(), std::byte{2}, one.size));
  std::swap(one, live.back());
  live.pop_back();
  if (!steady && random() % 500 == 0)
    random() % 2 == 0 ? static_cast<void>(p.trim()) : static_cast<void>(p.defragment());
}

TEST(ascend_soak, no_violation_and_no_call_in_steady_state) {
  const char* const wished = std::getenv("BERTH_SOAK");
  const long operations = wished != nullptr ? std::atol(wished) : 20'000;
  auto opened = device::open("ascend:0");
  ASSERT_TRUE(opened) << opened.error().what << ": run this program through ctest, which names the simulator";
  const hook listener{tell, nullptr};
  {
    const device d = *opened;
    std::vector<stream> streams;
    for (int i = 0; i < 4; ++i) streams.emplace_back(d);
    event e{d};
    void* pinned = d.allocate(bytes{4} * 4096, memory_kind::pinned).value();
    set_hook(&listener);
    {
      pool p{d, {.limit = bytes{64} << 20}};
      std::vector<held> live;
      std::mt19937 random{20261122};
      for (long i = 0; i < operations / 2; ++i) step(random, p, streams, e, live, pinned, false);
      live.clear();
      for (long i = 0; i < operations / 10; ++i) step(random, p, streams, e, live, pinned, true);
      const std::uint64_t before = calls_for_memory();
      for (long i = 0; i < operations * 4 / 10; ++i) step(random, p, streams, e, live, pinned, true);
      EXPECT_EQ(calls_for_memory(), before);
    }
    set_hook(nullptr);
    d.free(pinned, bytes{4} * 4096, memory_kind::pinned);
  }
  opened = error{errc::no_such_device, "closed"};
  EXPECT_EQ(violations(), "");
  EXPECT_EQ(BERTH_ASCEND_SIMULATOR(live)(), 0u);
}

}  // namespace
}  // namespace berth

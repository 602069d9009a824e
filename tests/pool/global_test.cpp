// A pool that is a global object. The constructor of another one uses it before anything of the library has been
// initialised, and the destructor after main. A second pool is made by the destructor of an object older than anything
// of the library.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "berth/pool/pool.hpp"

namespace {

struct early {
  berth::stream queue{berth::device::host()};
  berth::pool memory{berth::device::host()};
  void* block = nullptr;
  berth::bytes cached = 0;

  early() {
    memory.free(memory.allocate_raw(1000, queue).value());
    block = memory.allocate_raw(1000, queue).value();
    memory.free(memory.allocate_raw(5000, queue).value());
    cached = memory.statistics().cached;  // stops the caches
  }
  ~early() { memory.free(block); }
};

struct oldest {
  ~oldest() {
    const berth::device again = berth::device::host();
    const auto by_name = berth::device::open("host");
    berth::stream queue{again};
    berth::pool memory{again};
    if (by_name && *by_name == again && memory.allocate(1000, queue) && again.properties().name == "host") return;
    std::fputs("the host device is not there any more\n", stderr);
    std::_Exit(1);
  }
};

[[gnu::init_priority(101)]] oldest the_oldest;
[[gnu::init_priority(101)]] early the_early;  // before all that has no number

TEST(pool_global, allocates_before_main) {
  EXPECT_GE(the_early.cached, 5000u);
  EXPECT_EQ(the_early.memory.statistics().live_blocks, 1u);
  EXPECT_EQ(the_early.memory.statistics().cache_hits, 1u);
}

}  // namespace

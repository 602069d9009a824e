// Devices of a caller's own functions: the suite of devices, and what a caller may do wrong.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>

#include "../../examples/mmap_backend.h"
#include "berth/backend.h"
#include "berth/pool.h"
#include "berth/pool/pool.hpp"
#include "conformance/device_suite.hpp"
#include "support/device_work.hpp"
#include "support/forwarded_device.hpp"

namespace berth::conformance {
namespace {

result<device> open_own(std::string_view name) {
  static support::forwarded_device forwarded;
  static mmap_memory memories[2];
  if (name == "queues") return device::make(forwarded.functions(true, true));
  if (name == "threads") return device::make(forwarded.functions(true, false));
  if (name == "plain") return device::make(forwarded.functions(false, false));
  berth_backend b;
  if (mmap_backend(&memories[name == "mmap"], name != "mmap", &b) != BERTH_OK) return error{errc::unsupported, "memfd"};
  b.closed = nullptr;  // the suite opens it twice
  b.allocate = [](void* user, std::uint64_t size, std::int32_t, void** out) {
    return mmap_allocate(user, size, BERTH_MEMORY_DEVICE, out);
  };
  return device::make(b);
}
[[maybe_unused]] const bool replaced = (open_device = open_own, true);

}  // namespace
BERTH_DEVICE_SUITE(own, "queues", "threads", "plain", "mmap", "mmap_virtual");
}  // namespace berth::conformance

namespace berth {
namespace {

using support::forwarded_device;

TEST(own_device, a_wrong_struct_is_refused_with_the_member_that_is_wrong) {
  forwarded_device inner;
  struct {
    void (*spoil)(berth_backend&);
    const char* text;
  } const cases[] = {
      {[](berth_backend& b) { b.struct_size = 0; }, "struct_size"},
      {[](berth_backend& b) { b.struct_size -= 8; }, "struct_size"},
      {[](berth_backend& b) { b.struct_size = 1 << 20; }, "struct_size"},
      {[](berth_backend& b) { b.name = nullptr; }, "name"},
      {[](berth_backend& b) { b.name = ""; }, "name"},
      {[](berth_backend& b) { b.allocate = nullptr; }, "allocate"},
      {[](berth_backend& b) { b.free = nullptr; }, "free"},
      {[](berth_backend& b) { b.alignment = 48; }, "alignment"},
      {[](berth_backend& b) { b.alignment = std::uint64_t{1} << 62; }, "alignment"},
      {[](berth_backend& b) { b.total_memory = UINT64_MAX; }, "total_memory"},
      {[](berth_backend& b) { b.granule = 3000; }, "granule"},
      {[](berth_backend& b) { b.granule = 0; }, "granule"},
      {[](berth_backend& b) { b.unmap = nullptr; }, "unmap"},
      {[](berth_backend& b) { b.query_event = nullptr; }, "query_event"},
      {[](berth_backend& b) { b.create_queue = nullptr; }, "create_queue"},
  };
  for (const auto& one : cases) {
    berth_backend b = inner.functions(true, true);
    one.spoil(b);
    const auto made = device::make(b);
    ASSERT_FALSE(made) << one.text;
    EXPECT_EQ(made.error().code, errc::invalid_input) << one.text;
    EXPECT_NE(std::strstr(made.error().what, one.text), nullptr) << made.error().what;
  }
  berth_backend b = inner.functions(false, false);
  b.copy = [](void*, void*, void*, const void*, std::uint64_t) { return 0; };
  EXPECT_STREQ(device::make(b).error().what, "backend: copy, fill and call need queues");
  EXPECT_EQ(inner.closed, 0);
}

TEST(own_device, a_struct_of_a_newer_version_is_taken_unless_it_uses_what_is_new) {
  forwarded_device inner;
  struct {
    berth_backend known;
    std::uint64_t more;
  } newer{inner.functions(true, true), 0};
  newer.known.struct_size = sizeof newer;
  EXPECT_TRUE(device::make(newer.known));
  newer.more = 1;
  EXPECT_EQ(device::make(newer.known).error().code, errc::unsupported);
}

TEST(own_device, every_call_may_fail_by_a_status_or_an_exception) {
  using failing = forwarded_device::failing;
  for (auto* scenario : {support::a_bit_of_everything, support::a_bit_of_virtual_memory}) {
    for (const bool queues : {true, false}) {
      forwarded_device inner;
      const device own = device::make(inner.functions(true, queues)).value();
      inner.fail(0);
      ASSERT_TRUE(scenario(own));
      const std::uint64_t calls = inner.calls;
      for (std::uint64_t nth = 1; nth <= calls; ++nth) {
        for (const failing how : {failing::status, failing::throws, failing::throws_bad_alloc}) {
          inner.how = how;
          inner.fail(nth);
          const auto done = scenario(own);
          EXPECT_EQ(own.statistics().held, 0u) << nth;
          EXPECT_EQ(inner.inner.statistics().held, 0u) << nth;
          if (inner.calls < nth || (done && queues)) continue;  // a stream's last wait: its errors are lost
          ASSERT_FALSE(done) << nth;
          const errc expected = how == failing::throws_bad_alloc ? errc::out_of_memory : errc::device_failed;
          EXPECT_EQ(done.error().code, expected) << nth;
          if (how == failing::status) {
            EXPECT_EQ(done.error().number, 7u) << done.error().what;
          } else if (how == failing::throws) {
            EXPECT_STREQ(done.error().what, "own device: one of its functions threw an exception");
          }
        }
      }
      inner.fail(0);
      EXPECT_TRUE(scenario(own));
    }
  }
}

// Gives the addresses that a test sets.
struct scripted {
  void* next = nullptr;
  std::uint64_t next_handle = 1;
  int freed = 0;

  berth_backend functions() {
    berth_backend b{};
    b.struct_size = sizeof b;
    b.user = this;
    b.name = "scripted";
    b.alignment = 256;
    b.granule = 4096;
    b.allocate = [](void* user, std::uint64_t, std::int32_t, void** out) {
      *out = static_cast<scripted*>(user)->next;
      return 0;
    };
    b.free = [](void* user, void*, std::uint64_t, std::int32_t) { ++static_cast<scripted*>(user)->freed; };
    b.reserve = [](void* user, std::uint64_t, void** out) {
      *out = static_cast<scripted*>(user)->next;
      return 0;
    };
    b.release = [](void* user, void*, std::uint64_t) { ++static_cast<scripted*>(user)->freed; };
    b.create_physical = [](void* user, std::uint64_t, int, std::uint64_t* handle) {
      *handle = static_cast<scripted*>(user)->next_handle;
      return 0;
    };
    b.destroy_physical = [](void*, std::uint64_t, std::uint64_t) {};
    b.map = [](void*, void*, std::uint64_t, std::uint64_t, std::uint64_t) { return 0; };
    b.unmap = [](void*, void*, std::uint64_t) { return 0; };
    return b;
  }
};

void* at(std::uintptr_t number) {
  return reinterpret_cast<void*>(number);
}

TEST(own_device, a_wrong_answer_is_an_error_and_changes_nothing) {
  scripted script;
  const device own = device::make(script.functions()).value();
  const auto text_for = [&](void* next, bytes size) {
    script.next = next;
    const auto got = own.allocate(size);
    EXPECT_EQ(got.error().code, errc::device_failed);
    return std::string{got.error().what};
  };
  EXPECT_EQ(text_for(nullptr, 1), "own device: success, but a null address");
  EXPECT_EQ(text_for(at(UINTPTR_MAX - 255), 4096), "own device: addresses beyond the largest one");
  EXPECT_EQ(script.freed, 0);
  EXPECT_EQ(text_for(at(0x10080), 1), "own device: allocate gave a block that breaks its own alignment");
  EXPECT_EQ(script.freed, 1);

  script.next = at(0x10000);
  ASSERT_TRUE(own.allocate(4096));
  const std::string overlap = "own device: addresses that overlap memory given out before";
  EXPECT_EQ(text_for(at(0x10000), 1), overlap);
  EXPECT_EQ(text_for(at(0x10f00), 4096), overlap);
  EXPECT_EQ(text_for(at(0xf000), 8192), overlap);
  EXPECT_EQ(script.freed, 1);  // a live block may have them
  EXPECT_EQ(own.statistics().held, 4096u);

  script.next = at(0x20100);
  EXPECT_STREQ(own.reserve(4096).error().what, "own device: reserve gave a range that starts at no granule");
  EXPECT_EQ(script.freed, 2);
  ASSERT_TRUE(own.create_physical(4096));
  EXPECT_STREQ(own.create_physical(4096).error().what, "own device: a handle of physical memory that is in use");
  own.destroy_physical(1, 4096);
  own.free(at(0x10000), 4096);
}

// Memory that the CPU does not reach at its addresses: a device without queues copies where host_address() leads.
TEST(own_device, streams_without_queues_copy_where_the_cpu_reaches) {
  static char memory[4096];
  scripted script;
  script.next = at(0x40000);
  berth_backend b = script.functions();
  const device blind = device::make(b).value();
  b.host_address = [](void*, void* address) -> void* {
    return memory + (reinterpret_cast<std::uintptr_t>(address) - 0x40000);
  };
  const device own = device::make(b).value();
  {
    stream s{blind};
    void* const block = blind.allocate(4096).value();
    EXPECT_EQ(s.fill(block, std::byte{1}, 1).error().code, errc::unsupported);
    EXPECT_EQ(s.copy(block, memory, 1).error().code, errc::unsupported);
    blind.free(block, 4096);
  }
  stream s{own};
  auto* const block = static_cast<std::byte*>(own.allocate(4096).value());
  char seen = 0;
  ASSERT_TRUE(s.fill(block + 100, std::byte{9}, 2));
  ASSERT_TRUE(s.copy(&seen, block + 101, 1));
  ASSERT_TRUE(s.synchronize());
  EXPECT_EQ(seen, 9);
  EXPECT_EQ(memory[102], 0);
  own.free(block, 4096);
}

// A handle is an offset in the file. A second mapping of the file shows the same bytes.
TEST(own_device, memory_of_a_memfd_is_shared_by_its_file) {
  mmap_memory memory;
  berth_backend b;
  ASSERT_EQ(mmap_backend(&memory, 1, &b), BERTH_OK);
  const device own = device::make(b).value();
  const bytes granule = own.properties().granule;
  const std::uint64_t first = own.create_physical(granule).value();
  const std::uint64_t handle = own.create_physical(granule).value();
  auto* const range = static_cast<char*>(own.reserve(granule).value());
  ASSERT_TRUE(own.map(range, granule, handle, 0));
  range[5] = 42;
  void* const elsewhere = mmap(nullptr, granule, PROT_READ, MAP_SHARED, memory.file, static_cast<off_t>(handle));
  ASSERT_NE(elsewhere, MAP_FAILED);
  EXPECT_EQ(static_cast<const char*>(elsewhere)[5], 42);
  munmap(elsewhere, granule);
  ASSERT_TRUE(own.unmap(range, granule));
  own.release(range, granule);
  own.destroy_physical(handle, granule);
  own.destroy_physical(first, granule);
  EXPECT_EQ(memory.held, 0u);
}

TEST(own_device, a_queue_of_the_program_is_wrapped_and_not_destroyed) {
  forwarded_device inner;
  const device own = device::make(inner.functions(false, true)).value();
  stream mine{inner.inner};
  {
    stream wrapped = stream::wrap(own, &mine).value();
    EXPECT_EQ(wrapped.native(), &mine);
    int ran = 0;
    ASSERT_TRUE(wrapped.call([](void* n) { ++*static_cast<int*>(n); }, &ran));
    ASSERT_TRUE(wrapped.synchronize());
    EXPECT_EQ(ran, 1);
  }
  EXPECT_TRUE(mine.synchronize());
}

TEST(own_device, closes_once_with_its_last_user_and_two_of_one_struct_are_two) {
  forwarded_device inner;
  const berth_backend b = inner.functions(true, true);
  {
    std::optional<device> first = device::make(b).value();
    const device second = device::make(b).value();
    EXPECT_FALSE(*first == second);
    EXPECT_EQ(first->properties().name, second.properties().name);
    stream s{*first};
    pool p{*first};
    first.reset();
    auto block = p.allocate(5000, s).value();
    EXPECT_EQ(inner.closed, 0);
    EXPECT_EQ(second.statistics().held, 0u);
  }
  EXPECT_EQ(inner.closed, 2);
  EXPECT_EQ(inner.inner.statistics().held, 0u);
}

// The pool believes total_memory for its address space only; that the device is full is found by its own status.
TEST(own_device, a_wrong_total_is_an_error_of_the_request_alone) {
  for (const bool virtual_memory : {true, false}) {
    forwarded_device inner;
    inner.inner = device::open("null:16MiB").value();
    for (const bytes told : {bytes{1} << 20, bytes{1} << 40, bytes{1} << 62}) {
      berth_backend b = inner.functions(virtual_memory, true);
      b.total_memory = told;
      const device own = device::make(b).value();
      stream s{own};
      pool p{own};
      const auto none = p.allocate(bytes{64} << 20, s);
      ASSERT_FALSE(none);
      EXPECT_TRUE(none.error().code == errc::out_of_memory || none.error().code == errc::limit_exceeded)
          << none.error().what;
      EXPECT_TRUE(p.allocate(100000, s)) << told;
    }
  }
}

TEST(own_device, serves_pools_of_several_threads) {
  forwarded_device inner;
  const device own = device::make(inner.functions(true, true)).value();
  pool p{own};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      stream s{own};
      for (int i = 0; i < 200; ++i) {
        auto block = p.allocate(static_cast<bytes>(1000 + (i * 37 + t) % 5000), s);
        ASSERT_TRUE(block);
        ASSERT_TRUE(s.fill(block->data(), static_cast<std::byte>(t), block->size()));
      }
    });
  }
}

TEST(own_device, c_programs_make_one) {
  forwarded_device inner;
  berth_backend b = inner.functions(true, true);
  berth_device* made = nullptr;
  EXPECT_EQ(berth_device_make(nullptr, &made), BERTH_INVALID);
  EXPECT_EQ(berth_device_make(&b, nullptr), BERTH_INVALID);
  b.free = nullptr;
  EXPECT_EQ(berth_device_make(&b, &made), BERTH_INVALID);
  EXPECT_STREQ(berth_error_text(), "backend: free is null");
  EXPECT_EQ(made, nullptr);
  b = inner.functions(true, true);
  ASSERT_EQ(berth_device_make(&b, &made), BERTH_OK);
  berth_stream* on = nullptr;
  berth_pool* from = nullptr;
  void* block = nullptr;
  ASSERT_EQ(berth_stream_create(made, &on), BERTH_OK);
  ASSERT_EQ(berth_pool_create(made, nullptr, &from), BERTH_OK);
  ASSERT_EQ(berth_pool_allocate(from, 1000, on, &block), BERTH_OK);
  berth_device_close(made);  // its pool and stream keep it open
  EXPECT_EQ(berth_pool_free(from, block), BERTH_OK);
  EXPECT_EQ(inner.closed, 0);
  berth_pool_destroy(from);
  berth_stream_destroy(on);
  EXPECT_EQ(inner.closed, 1);
}

}  // namespace
}  // namespace berth

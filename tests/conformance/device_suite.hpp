// The suite of every device. A test program instantiates it with the names of its devices:
//
//   BERTH_DEVICE_SUITE(host, "host");
//
// A device that is not there skips, with the reason printed; one that is there and fails, fails.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "berth/device/device.hpp"
#include "berth/device/stream.hpp"

namespace berth::conformance {

// Opens the devices of the suite. A program whose devices have no name of Berth's replaces it before main().
inline result<device> (*open_device)(std::string_view name) = device::open;

// A gate that a host function on a stream waits at: it holds the stream back until the test opens it.
class gate {
 public:
  void open() noexcept {
    open_.store(true, std::memory_order_release);
    open_.notify_all();
  }
  static void pass(void* self) noexcept {
    auto& here = *static_cast<gate*>(self);
    here.reached_.store(true, std::memory_order_release);
    here.reached_.notify_all();
    here.open_.wait(false, std::memory_order_acquire);
  }
  void wait_until_reached() noexcept { reached_.wait(false, std::memory_order_acquire); }

 private:
  std::atomic<bool> open_{false};
  std::atomic<bool> reached_{false};
};

class device_suite : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto opened = open_device(GetParam());
    if (!opened) {
      const errc code = opened.error().code;
      ASSERT_TRUE(code == errc::no_such_device || code == errc::unsupported)
          << "a device that is there and does not open: " << opened.error().what << " " << opened.error().number;
      GTEST_SKIP() << GetParam() << ": " << opened.error().what << " (" << opened.error().number << ")";
    }
    device_.emplace(std::move(*opened));
  }

  [[nodiscard]] const device_properties& properties() const { return device_->properties(); }
  // A device without memory moves no bytes: what was enqueued is done, and there is nothing to look at.
  [[nodiscard]] bool has_memory() const { return properties().has_memory; }
  // Returns whether a host function can hold a stream back while the test goes on.
  [[nodiscard]] bool runs_asynchronously() const { return properties().has_memory; }

  void* allocate(bytes size, memory_kind kind = memory_kind::device) {
    auto block = device_->allocate(size, kind);
    EXPECT_TRUE(block) << block.error().what << " " << block.error().number;
    return block ? *block : nullptr;
  }
  std::vector<std::byte> read(stream& s, const void* from, bytes size) {
    std::vector<std::byte> to(size);
    EXPECT_TRUE(s.copy(to.data(), from, size));
    EXPECT_TRUE(s.synchronize());
    return to;
  }
  static std::vector<std::byte> pattern(bytes size, unsigned seed) {
    std::vector<std::byte> made(size);
    for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<std::byte>((i * 131 + seed * 29 + (i >> 8)) & 0xff);
    return made;
  }

  std::optional<device> device_;
};

TEST_P(device_suite, says_what_it_is) {
  EXPECT_FALSE(properties().name.empty());
  EXPECT_FALSE(properties().description.empty());
  EXPECT_GE(properties().rules.start_alignment, 1u);
  EXPECT_TRUE(is_power_of_two(properties().rules.copy_alignment));
  if (properties().virtual_memory) {
    EXPECT_TRUE(is_power_of_two(properties().granule));
    EXPECT_GT(properties().max_mappings, 0u);
  }
  const bool named = open_device == &device::open;
  const auto again = named ? device::open(properties().name) : open_device(GetParam());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->properties().total_memory, properties().total_memory);
}

TEST_P(device_suite, blocks_follow_the_rules_and_do_not_overlap) {
  struct held {
    std::uintptr_t start;
    bytes size;
    memory_kind kind;
  };
  std::vector<held> blocks;
  for (const memory_kind kind : {memory_kind::device, memory_kind::pinned}) {
    const rules::placement& rules = kind == memory_kind::device ? properties().rules : properties().pinned_rules;
    for (const bytes size : {bytes{1}, bytes{63}, bytes{64}, bytes{4097}, bytes{1} << 20, (bytes{3} << 20) + 5}) {
      const auto start = reinterpret_cast<std::uintptr_t>(allocate(size, kind));
      ASSERT_NE(start, 0u);
      EXPECT_TRUE(is_aligned(start, rules.start_alignment)) << size;
      for (const held& other : blocks) {
        EXPECT_TRUE(start + size <= other.start || other.start + other.size <= start);
      }
      blocks.push_back({start, size, kind});
    }
  }
  for (const held& one : blocks) device_->free(reinterpret_cast<void*>(one.start), one.size, one.kind);
}

TEST_P(device_suite, refuses_sizes_that_cannot_be) {
  EXPECT_EQ(device_->allocate(0).error().code, errc::invalid_input);
  EXPECT_EQ(device_->allocate(max_bytes).error().code, errc::overflow);
  const auto huge = device_->allocate(bytes{1} << 62);
  if (has_memory()) {
    ASSERT_FALSE(huge);
    EXPECT_EQ(huge.error().code, fits_size_t(bytes{1} << 62) ? errc::out_of_memory : errc::overflow);
  } else if (huge) {
    device_->free(*huge, bytes{1} << 62);
  }
  // The device still works.
  void* block = allocate(100);
  device_->free(block, 100);
}

TEST_P(device_suite, counts_what_it_gave) {
  const bytes before = device_->statistics().held;
  void* a = allocate(1000);
  void* b = allocate(500, memory_kind::pinned);
  EXPECT_EQ(device_->statistics().held, before + 1500);
  device_->free(a, 1000);
  device_->free(b, 500, memory_kind::pinned);
  EXPECT_EQ(device_->statistics().held, before);
}

TEST_P(device_suite, copies_and_fills_in_order) {
  constexpr bytes size = 100'003;
  stream s{*device_};
  void* a = allocate(size);
  void* b = allocate(size);
  const auto sent = pattern(size, 1);
  // Enqueued together, each undoes a part of the one before: any other order gives other bytes.
  ASSERT_TRUE(s.fill(a, std::byte{0x11}, size));
  ASSERT_TRUE(s.copy(a, sent.data(), size));
  ASSERT_TRUE(s.copy(b, a, size));
  ASSERT_TRUE(s.fill(static_cast<std::byte*>(b) + 10, std::byte{0x22}, 7));
  ASSERT_TRUE(s.fill(a, std::byte{0x33}, size));
  ASSERT_TRUE(s.copy(static_cast<std::byte*>(b) + 50'000, a, 13));
  const auto got = read(s, b, size);
  if (has_memory()) {
    auto expected = sent;
    std::fill_n(expected.begin() + 10, 7, std::byte{0x22});
    std::fill_n(expected.begin() + 50'000, 13, std::byte{0x33});
    EXPECT_EQ(got, expected);
  }
  ASSERT_TRUE(s.copy(b, nullptr, 0));
  ASSERT_TRUE(s.fill(nullptr, std::byte{}, 0));
  ASSERT_TRUE(s.synchronize());
  device_->free(a, size);
  device_->free(b, size);
}

TEST_P(device_suite, runs_host_functions_in_order_between_device_work) {
  stream s{*device_};
  struct step {
    std::vector<int>* order;
    int number;
  };
  std::vector<int> order;
  std::vector<step> steps;
  for (int i = 0; i < 1000; ++i) steps.push_back({&order, i});
  void* block = allocate(64);
  for (step& one : steps) {
    ASSERT_TRUE(s.fill(block, std::byte{1}, 64));
    ASSERT_TRUE(s.call(
        [](void* context) {
          const auto* self = static_cast<step*>(context);
          self->order->push_back(self->number);
        },
        &one));
  }
  ASSERT_TRUE(s.synchronize());
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
  device_->free(block, 64);
}

TEST_P(device_suite, host_functions_see_the_copies_before_them_and_copies_the_functions) {
  if (!has_memory()) GTEST_SKIP() << "no memory";
  constexpr bytes size = bytes{8} << 20;  // large enough for a function that does not wait to be too early
  stream s{*device_};
  void* block = allocate(size);
  void* pinned = allocate(size, memory_kind::pinned);
  struct look {
    std::byte* last;
    std::byte seen;
  } context{static_cast<std::byte*>(device_->host_address(pinned)) + size - 1, std::byte{0}};
  *context.last = std::byte{0};
  ASSERT_TRUE(s.fill(block, std::byte{7}, size));
  ASSERT_TRUE(s.copy(pinned, block, size));
  ASSERT_TRUE(s.call(
      [](void* c) {
        auto* self = static_cast<look*>(c);
        self->seen = *self->last;
        *self->last = std::byte{8};
      },
      &context));
  ASSERT_TRUE(s.copy(block, pinned, size));
  EXPECT_EQ(read(s, block, size).back(), std::byte{8});
  EXPECT_EQ(context.seen, std::byte{7});
  device_->free(block, size);
  device_->free(pinned, size, memory_kind::pinned);
}

TEST_P(device_suite, enqueuing_does_not_wait) {
  if (!runs_asynchronously()) GTEST_SKIP() << "operations complete at once";
  stream s{*device_};
  gate g;
  void* block = allocate(64);
  ASSERT_TRUE(s.call(gate::pass, &g));
  ASSERT_TRUE(s.fill(block, std::byte{1}, 64));
  const auto done = s.query();
  ASSERT_TRUE(done);
  EXPECT_FALSE(*done);  // we got here although the stream is held
  g.open();
  ASSERT_TRUE(s.synchronize());
  EXPECT_TRUE(*s.query());
  device_->free(block, 64);
}

TEST_P(device_suite, a_wait_orders_two_streams) {
  if (!runs_asynchronously()) GTEST_SKIP() << "operations complete at once";
  constexpr bytes size = 4096;
  stream writer{*device_};
  stream reader{*device_};
  event written{*device_};
  gate g;
  void* block = allocate(size);
  ASSERT_TRUE(writer.fill(block, std::byte{1}, size));
  ASSERT_TRUE(writer.call(gate::pass, &g));
  ASSERT_TRUE(writer.fill(block, std::byte{2}, size));
  ASSERT_TRUE(writer.record(written));
  // Into pinned memory: drivers may hold the caller up where they copy to memory that can be paged out.
  void* pinned = allocate(size, memory_kind::pinned);
  const auto* got = static_cast<const std::byte*>(device_->host_address(pinned));
  ASSERT_TRUE(reader.wait(written));
  ASSERT_TRUE(reader.copy(pinned, block, size));
  std::this_thread::sleep_for(std::chrono::milliseconds{20});  // time to go wrong
  EXPECT_FALSE(*reader.query());
  EXPECT_FALSE(*written.query());
  g.open();
  ASSERT_TRUE(reader.synchronize());
  EXPECT_TRUE(*written.query());
  EXPECT_TRUE(std::all_of(got, got + size, [](std::byte b) { return b == std::byte{2}; }));
  ASSERT_TRUE(writer.synchronize());
  device_->free(block, size);
  device_->free(pinned, size, memory_kind::pinned);
}

TEST_P(device_suite, a_wait_means_the_last_record_before_it) {
  if (!runs_asynchronously()) GTEST_SKIP() << "operations complete at once";
  stream first{*device_};
  stream second{*device_};
  stream waiter{*device_};
  event e{*device_};
  gate early;
  gate late;
  ASSERT_TRUE(first.call(gate::pass, &early));
  ASSERT_TRUE(first.record(e));
  ASSERT_TRUE(waiter.wait(e));
  // Recorded again, on a stream that does not come to it yet: the wait above is for the first record.
  ASSERT_TRUE(second.call(gate::pass, &late));
  ASSERT_TRUE(second.record(e));
  early.open();
  ASSERT_TRUE(waiter.synchronize());
  EXPECT_FALSE(*e.query());
  late.open();
  ASSERT_TRUE(e.synchronize());
  EXPECT_TRUE(*e.query());
  ASSERT_TRUE(second.synchronize());
}

TEST_P(device_suite, an_earlier_record_stays_waited_for_when_a_later_one_is_reached_first) {
  if (!runs_asynchronously()) GTEST_SKIP() << "operations complete at once";
  stream first{*device_};
  stream second{*device_};
  stream waiter{*device_};
  event e{*device_};
  gate g;
  ASSERT_TRUE(first.call(gate::pass, &g));
  ASSERT_TRUE(first.record(e));
  ASSERT_TRUE(waiter.wait(e));
  ASSERT_TRUE(second.record(e));
  ASSERT_TRUE(e.synchronize());  // the second record
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  EXPECT_FALSE(*waiter.query());
  g.open();
  ASSERT_TRUE(waiter.synchronize());
  ASSERT_TRUE(first.synchronize());
}

TEST_P(device_suite, an_event_never_recorded_is_no_wait) {
  stream s{*device_};
  const event e{*device_};
  ASSERT_TRUE(s.wait(e));
  EXPECT_TRUE(*e.query());
  EXPECT_TRUE(e.synchronize());
  EXPECT_TRUE(s.synchronize());
}

TEST_P(device_suite, an_event_may_go_while_it_is_waited_for) {
  stream a{*device_};
  stream b{*device_};
  gate g;
  if (runs_asynchronously()) {
    ASSERT_TRUE(a.call(gate::pass, &g));
  }
  {
    event e{*device_};
    ASSERT_TRUE(a.record(e));
    ASSERT_TRUE(b.wait(e));
  }
  g.open();
  EXPECT_TRUE(b.synchronize());
  EXPECT_TRUE(a.synchronize());
}

TEST_P(device_suite, a_stream_waits_for_its_work_when_it_goes) {
  if (!runs_asynchronously()) GTEST_SKIP() << "operations complete at once";
  std::atomic<int> done{0};
  gate g;
  std::shared_ptr<stream_clock> clock;
  {
    stream s{*device_};
    clock = s.clock();
    ASSERT_TRUE(s.call(gate::pass, &g));
    for (int i = 0; i < 300; ++i) {
      ASSERT_TRUE(s.call([](void* count) { static_cast<std::atomic<int>*>(count)->fetch_add(1); }, &done));
    }
    EXPECT_EQ(done.load(), 0);
    g.open();
  }
  EXPECT_EQ(done.load(), 300);
  EXPECT_EQ(clock->completed(), stream_clock::ended);
}

TEST_P(device_suite, streams_move) {
  stream a{*device_};
  const std::uint32_t id = a.id();
  stream b{std::move(a)};
  EXPECT_EQ(b.id(), id);
  b = stream{*device_};
  EXPECT_NE(b.id(), id);
  EXPECT_TRUE(b.synchronize());
}

TEST_P(device_suite, epochs_close_with_events_and_complete_with_them) {
  stream s{*device_};
  event e{*device_};
  EXPECT_EQ(s.epoch(), 1u);
  EXPECT_NE(s.id(), 0u);
  gate g;
  if (runs_asynchronously()) {
    ASSERT_TRUE(s.call(gate::pass, &g));
  }
  ASSERT_TRUE(s.record(e));
  EXPECT_EQ(s.epoch(), 2u);
  if (runs_asynchronously()) {
    EXPECT_EQ(s.completed(), 0u);
  }
  g.open();
  ASSERT_TRUE(e.synchronize());
  EXPECT_GE(s.completed(), 1u);
  const std::uint64_t open = s.epoch();
  ASSERT_TRUE(s.synchronize());
  EXPECT_GE(s.completed(), open);
  EXPECT_LT(s.completed(), s.epoch());  // what is enqueued now is not done
}

TEST_P(device_suite, ordered_behind_is_transitive) {
  stream a{*device_};
  stream b{*device_};
  stream c{*device_};
  stream apart{*device_};
  event ea{*device_};
  event eb{*device_};
  gate g;
  if (runs_asynchronously()) {
    ASSERT_TRUE(a.call(gate::pass, &g));
  }
  const std::uint64_t of_a = a.epoch();
  ASSERT_TRUE(a.record(ea));
  EXPECT_TRUE(a.ordered_behind(a.id(), a.epoch()));
  EXPECT_FALSE(b.ordered_behind(a.id(), of_a));
  ASSERT_TRUE(b.wait(ea));
  EXPECT_TRUE(b.ordered_behind(a.id(), of_a));
  EXPECT_FALSE(b.ordered_behind(a.id(), of_a + 1));
  const std::uint64_t of_b = b.epoch();
  ASSERT_TRUE(b.record(eb));
  ASSERT_TRUE(c.wait(eb));
  EXPECT_TRUE(c.ordered_behind(b.id(), of_b));
  EXPECT_TRUE(c.ordered_behind(a.id(), of_a));
  EXPECT_FALSE(c.ordered_behind(b.id(), b.epoch()));
  EXPECT_EQ(c.epoch_behind(a.id()), of_a);
  EXPECT_EQ(c.epoch_behind(b.id()), of_b);
  EXPECT_EQ(c.epoch_behind(c.id()), stream_clock::ended);
  EXPECT_EQ(apart.epoch_behind(a.id()), 0u);
  EXPECT_FALSE(apart.ordered_behind(a.id(), of_a));
  EXPECT_FALSE(a.ordered_behind(c.id(), 1));
  g.open();
  // A wait for c also shows the work done that c was behind.
  ASSERT_TRUE(c.synchronize());
  EXPECT_GE(b.completed(), of_b);
  EXPECT_GE(a.completed(), of_a);
}

TEST_P(device_suite, an_event_keeps_what_its_stream_knew_when_it_was_recorded) {
  stream a{*device_};
  stream b{*device_};
  stream c{*device_};
  event ea{*device_};
  event eb{*device_};
  ASSERT_TRUE(b.record(eb));  // before b knows of a
  const std::uint64_t of_a = a.epoch();
  ASSERT_TRUE(a.record(ea));
  ASSERT_TRUE(b.wait(ea));
  ASSERT_TRUE(c.wait(eb));
  EXPECT_FALSE(c.ordered_behind(a.id(), of_a));
  EXPECT_TRUE(c.synchronize());
}

TEST_P(device_suite, pinned_memory_has_two_addresses) {
  constexpr bytes size = 10'000;
  void* block = allocate(size, memory_kind::pinned);
  if (has_memory()) {
    auto* host = static_cast<std::byte*>(device_->host_address(block));
    ASSERT_NE(host, nullptr);
    EXPECT_EQ(device_->host_address(static_cast<std::byte*>(block) + 100), host + 100);
    const auto sent = pattern(size, 3);
    std::memcpy(host, sent.data(), size);
    stream s{*device_};
    void* copy = allocate(size);
    ASSERT_TRUE(s.copy(copy, block, size));
    ASSERT_TRUE(s.fill(block, std::byte{0}, size));
    ASSERT_TRUE(s.synchronize());
    EXPECT_EQ(host[size - 1], std::byte{0});
    EXPECT_EQ(read(s, copy, size), sent);
    device_->free(copy, size);
  } else {
    EXPECT_EQ(device_->host_address(block), nullptr);
  }
  device_->free(block, size, memory_kind::pinned);
  EXPECT_EQ(device_->host_address(block), nullptr);
}

TEST_P(device_suite, copies_between_its_own_memories_are_direct) {
  constexpr bytes size = 4096;
  stream s{*device_};
  void* pinned = allocate(size, memory_kind::pinned);
  void* block = allocate(size);
  const device_statistics before = device_->statistics();
  ASSERT_TRUE(s.copy(block, pinned, size));
  ASSERT_TRUE(s.synchronize());
  const device_statistics after = device_->statistics();
  EXPECT_EQ(after.direct_copies, before.direct_copies + 1);
  EXPECT_EQ(after.direct_bytes, before.direct_bytes + size);
  EXPECT_EQ(after.staged_copies, before.staged_copies);
  device_->free(pinned, size, memory_kind::pinned);
  device_->free(block, size);
}

// The first half goes back while the second stays; then the second.
TEST_P(device_suite, memory_can_be_split_and_given_back_in_parts) {
  if (!properties().virtual_memory) GTEST_SKIP() << "no virtual memory";
  const bytes granule = properties().granule;
  auto* base = static_cast<std::byte*>(device_->reserve(4 * granule).value());
  const std::uint64_t memory = device_->create_physical(4 * granule).value();
  const bytes held = device_->statistics().held;
  ASSERT_TRUE(device_->map(base, 4 * granule, memory, 0));
  auto* elsewhere = static_cast<std::byte*>(device_->reserve(3 * granule).value());
  ASSERT_TRUE(device_->map(elsewhere, 2 * granule, memory, 0));  // on both sides of a cut
  ASSERT_TRUE(device_->map(elsewhere + 2 * granule, granule, memory, 3 * granule));
  stream s{*device_};
  const auto sent = pattern(4 * granule, 5);
  ASSERT_TRUE(s.copy(base, sent.data(), 4 * granule));
  ASSERT_TRUE(s.synchronize());
  const auto rest = device_->split(memory, 4 * granule, granule);
  ASSERT_TRUE(rest);
  const auto last = device_->split(*rest, 3 * granule, 2 * granule);
  ASSERT_TRUE(last);
  const auto aliased = read(s, elsewhere, 3 * granule);
  if (has_memory()) {
    EXPECT_TRUE(std::equal(sent.begin(), sent.begin() + static_cast<std::ptrdiff_t>(2 * granule), aliased.begin()));
    EXPECT_TRUE(std::equal(sent.end() - static_cast<std::ptrdiff_t>(granule), sent.end(),
                           aliased.end() - static_cast<std::ptrdiff_t>(granule)));
  }
  ASSERT_TRUE(device_->unmap(elsewhere, 3 * granule));
  device_->release(elsewhere, 3 * granule);
  EXPECT_EQ(device_->statistics().held, held);
  ASSERT_TRUE(device_->unmap(base + granule, 2 * granule));
  device_->destroy_physical(*rest, 2 * granule);
  EXPECT_EQ(device_->statistics().held, held - 2 * granule);
  for (const bytes at : {bytes{0}, 3 * granule}) {
    const auto left = read(s, base + at, granule);
    if (has_memory()) {
      EXPECT_TRUE(std::equal(left.begin(), left.end(), sent.begin() + static_cast<std::ptrdiff_t>(at)));
    }
  }
  ASSERT_TRUE(device_->unmap(base, granule));
  ASSERT_TRUE(device_->unmap(base + 3 * granule, granule));
  device_->destroy_physical(memory, granule);
  device_->destroy_physical(*last, granule);
  EXPECT_EQ(device_->statistics().held, held - 4 * granule);
  device_->release(base, 4 * granule);
  const std::uint64_t whole = device_->create_physical(2 * granule, physical_form::whole).value();
  EXPECT_EQ(device_->split(whole, 2 * granule, granule).error().code, errc::unsupported);
  device_->destroy_physical(whole, 2 * granule);
}

TEST_P(device_suite, memory_can_be_mapped_aliased_and_moved) {
  if (!properties().virtual_memory) {
    EXPECT_EQ(device_->reserve(4096).error().code, errc::unsupported);
    GTEST_SKIP() << "no virtual memory";
  }
  const bytes granule = properties().granule;
  auto* base = static_cast<std::byte*>(device_->reserve(8 * granule).value());
  EXPECT_TRUE(is_aligned(reinterpret_cast<std::uintptr_t>(base), granule));
  const std::uint64_t memory = device_->create_physical(4 * granule).value();
  // The first half at 0, the second half at 4, and the first again at 6, in the other order.
  ASSERT_TRUE(device_->map(base, 2 * granule, memory, 0));
  ASSERT_TRUE(device_->map(base + 4 * granule, 2 * granule, memory, 2 * granule));
  ASSERT_TRUE(device_->map(base + 6 * granule, granule, memory, granule));
  ASSERT_TRUE(device_->map(base + 7 * granule, granule, memory, 0));
  stream s{*device_};
  const auto sent = pattern(2 * granule, 5);
  ASSERT_TRUE(s.copy(base, sent.data(), 2 * granule));
  ASSERT_TRUE(s.fill(base + 4 * granule, std::byte{9}, 2 * granule));
  auto aliased = read(s, base + 6 * granule, 2 * granule);
  if (has_memory()) {
    std::rotate(aliased.begin(), aliased.begin() + static_cast<std::ptrdiff_t>(granule), aliased.end());
    EXPECT_EQ(aliased, sent);
  }
  // Two whole mappings at once; then the bytes come back elsewhere.
  ASSERT_TRUE(device_->unmap(base + 6 * granule, 2 * granule));
  ASSERT_TRUE(device_->unmap(base, 2 * granule));
  ASSERT_TRUE(device_->map(base + 2 * granule, 2 * granule, memory, 0));
  const auto moved = read(s, base + 2 * granule, 4 * granule);
  if (has_memory()) {
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), moved.begin()));
    EXPECT_EQ(moved.back(), std::byte{9});
  }
  const bytes held = device_->statistics().held;
  device_->destroy_physical(memory, 4 * granule);  // mapped: lives until its last unmap
  EXPECT_EQ(device_->statistics().held, held);
  ASSERT_TRUE(device_->unmap(base + 2 * granule, 4 * granule));
  EXPECT_EQ(device_->statistics().held, held - 4 * granule);
  device_->release(base, 8 * granule);
}

TEST_P(device_suite, physical_memory_is_zero_or_old_but_never_shared) {
  if (!properties().virtual_memory || !has_memory()) GTEST_SKIP() << "no virtual memory";
  const bytes granule = properties().granule;
  auto* base = static_cast<std::byte*>(device_->reserve(16 * granule).value());
  stream s{*device_};
  std::vector<std::uint64_t> handles;
  for (unsigned i = 0; i < 16; ++i) {
    handles.push_back(device_->create_physical(granule).value());
    ASSERT_TRUE(device_->map(base + i * granule, granule, handles[i], 0));
    ASSERT_TRUE(s.fill(base + i * granule, static_cast<std::byte>(i + 1), granule));
    if (i % 3 == 2) {  // one in the middle goes and another comes
      ASSERT_TRUE(s.synchronize());
      ASSERT_TRUE(device_->unmap(base + (i - 1) * granule, granule));
      device_->destroy_physical(handles[i - 1], granule);
      handles[i - 1] = device_->create_physical(granule).value();
      ASSERT_TRUE(device_->map(base + (i - 1) * granule, granule, handles[i - 1], 0));
      ASSERT_TRUE(s.fill(base + (i - 1) * granule, static_cast<std::byte>(i), granule));
    }
  }
  const auto all = read(s, base, 16 * granule);
  for (unsigned i = 0; i < 16; ++i) EXPECT_EQ(all[i * granule + granule / 2], static_cast<std::byte>(i + 1)) << i;
  ASSERT_TRUE(device_->unmap(base, 16 * granule));
  for (const std::uint64_t handle : handles) device_->destroy_physical(handle, granule);
  device_->release(base, 16 * granule);
}

using device_suite_death = device_suite;

TEST_P(device_suite_death, mistakes_are_found) {
  void* block = allocate(128);
  EXPECT_DEATH(device_->free(block, 127), "device_suite.*contract: device: free of a block");
  EXPECT_DEATH(device_->free(block, 128, memory_kind::pinned), "contract: device: free of a block");
  device_->free(block, 128);
  EXPECT_DEATH(device_->free(block, 128), "contract: device: free of a block");
  int local = 0;
  EXPECT_DEATH(device_->free(&local, 4), "contract: device: free of a block");
}

TEST_P(device_suite_death, events_of_another_device_are_found) {
  const device other = device::open("null").value();
  stream s{*device_};
  event e{other};
  EXPECT_DEATH((void)s.record(e), "contract: record: the event belongs to another device");
  EXPECT_DEATH((void)s.wait(e), "contract: wait: the event belongs to another device");
}

TEST_P(device_suite_death, wrong_mappings_are_found) {
  if (!properties().virtual_memory) GTEST_SKIP() << "no virtual memory";
  const bytes granule = properties().granule;
  auto* base = static_cast<std::byte*>(device_->reserve(4 * granule).value());
  const std::uint64_t memory = device_->create_physical(2 * granule).value();
  ASSERT_TRUE(device_->map(base + granule, 2 * granule, memory, 0));
  EXPECT_DEATH((void)device_->map(base, 2 * granule, memory, 0), "mapped already");
  EXPECT_DEATH((void)device_->map(base + 2 * granule, granule, memory, 0), "mapped already");
  EXPECT_DEATH((void)device_->map(base + 3 * granule, 2 * granule, memory, 0), "not inside one reservation");
  EXPECT_DEATH((void)device_->map(base, granule, memory, 2 * granule), "pass the end");
  EXPECT_DEATH((void)device_->map(base, granule, memory + 12345, 0), "no such physical memory");
  EXPECT_DEATH((void)device_->map(base, granule - 1, memory, 0), "no multiple of the granule");
  const std::uint64_t whole = device_->create_physical(2 * granule, physical_form::whole).value();
  EXPECT_DEATH((void)device_->map(base, granule, whole, 0), "made to be mapped as a whole");
  device_->destroy_physical(whole, 2 * granule);
  EXPECT_DEATH((void)device_->map(base + 1, granule, memory, 0), "no multiple of the granule");
  EXPECT_DEATH((void)device_->unmap(base + granule, granule), "whole mappings");
  EXPECT_DEATH((void)device_->unmap(base, granule), "whole mappings");
  EXPECT_DEATH(device_->release(base, 4 * granule), "reservation with mappings");
  EXPECT_DEATH(device_->destroy_physical(memory, granule), "destroy_physical of a handle");
  ASSERT_TRUE(device_->unmap(base + granule, 2 * granule));
  EXPECT_DEATH(device_->release(base, 3 * granule), "no whole reservation");
  device_->destroy_physical(memory, 2 * granule);
  device_->release(base, 4 * granule);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(device_suite);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(device_suite_death);

#define BERTH_DEVICE_SUITE(label, ...)                                         \
  INSTANTIATE_TEST_SUITE_P(label, device_suite, testing::Values(__VA_ARGS__)); \
  INSTANTIATE_TEST_SUITE_P(label, device_suite_death, testing::Values(__VA_ARGS__))

}  // namespace berth::conformance

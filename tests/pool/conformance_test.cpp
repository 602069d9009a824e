#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <vector>

#include "../../examples/mmap_backend.h"
#include "berth/pool/adaptors.hpp"
#include "berth/pool/debug.hpp"
#include "berth/pool/guard.hpp"
#include "berth/pool/memory_resource.hpp"
#include "berth/pool/pool.hpp"
#include "conformance/pool_suite.hpp"
#include "pool/gate.hpp"
#include "support/forwarded_device.hpp"

namespace berth::conformance {
namespace {

class fixture_base {
 public:
  stream& queue() { return queue_; }

 protected:
  device host_ = device::host();
  stream queue_{host_};
  pool pool_{host_, {.limit = bytes{256} << 20}};
};

class plain : public fixture_base {
 public:
  memory_source& source() { return pool_; }
};
class cacheless : public fixture_base {
 public:
  memory_source& source() { return central_; }

 private:
  pool central_{host_, {.limit = bytes{256} << 20, .cache_bytes = 0}};
};
class pinned : public fixture_base {
 public:
  memory_source& source() { return pinned_; }

 private:
  pool pinned_{host_, {.kind = memory_kind::pinned, .limit = bytes{256} << 20}};
};
class stacked : public fixture_base {
 public:
  memory_source& source() { return tracking_; }

 private:
  std::FILE* sink_ = std::fopen("/dev/null", "w");
  logging_adaptor logging_{pool_, sink_};
  limit_adaptor limit_{logging_, bytes{64} << 20};
  counting_adaptor counting_{limit_};
  failing_adaptor failing_{counting_, 0};
  tracking_adaptor tracking_{failing_};
};

// Counts the bytes given out, and gives out `most` at most.
class counting_resource final : public std::pmr::memory_resource {
 public:
  explicit counting_resource(bytes most) : most_{most} {}
  bytes out = 0;

 private:
  void* do_allocate(std::size_t size, std::size_t alignment) override {
    if (out + size > most_) throw std::bad_alloc{};
    out += size;
    return std::pmr::new_delete_resource()->allocate(size, alignment);
  }
  void do_deallocate(void* data, std::size_t size, std::size_t alignment) override {
    out -= size;
    std::pmr::new_delete_resource()->deallocate(data, size, alignment);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  bytes most_;
};

class over_a_resource : public fixture_base {
 public:
  memory_source& source() { return over_; }

 private:
  counting_resource memory_{bytes{1} << 30};  // a sanitizer's new ends the program where it cannot have so much
  resource_source over_{memory_};
};

class guarded : public fixture_base {
 public:
  memory_source& source() { return guard_; }

 private:
  guard_adaptor guard_{pool_, {.quarantine = bytes{1} << 20}};
};
// A pool that found BERTH_DEBUG in its environment.
class watched : public fixture_base {
 public:
  memory_source& source() { return *pool_; }

 private:
  std::unique_ptr<pool> make() {
    set_debug({.guards = true, .quarantine = bytes{1} << 20});
    auto made = std::make_unique<pool>(host_, pool_options{.limit = bytes{256} << 20});
    end_debug();
    return made;
  }
  std::unique_ptr<pool> pool_ = make();
};

using all = testing::Types<plain, cacheless, pinned, stacked, over_a_resource, guarded, watched>;
INSTANTIATE_TYPED_TEST_SUITE_P(host, pool_suite, all);

// Pools on devices of a caller's own functions.
template <bool Virtual>
class on_mmap {
 public:
  memory_source& source() { return pool_; }
  stream& queue() { return queue_; }

 private:
  static device make(mmap_memory& memory) {
    berth_backend b;
    EXPECT_EQ(mmap_backend(&memory, Virtual, &b), BERTH_OK);
    return device::make(b).value();
  }
  mmap_memory memory_{};
  device device_ = make(memory_);
  stream queue_{device_};
  pool pool_{device_, {.limit = bytes{256} << 20}};
};
template <bool Virtual>
class on_queues {
 public:
  memory_source& source() { return pool_; }
  stream& queue() { return queue_; }

 private:
  support::forwarded_device forwarded_;
  device device_ = device::make(forwarded_.functions(Virtual, true)).value();
  stream queue_{device_};
  pool pool_{device_, {.limit = bytes{256} << 20}};
};
using own = testing::Types<on_mmap<false>, on_mmap<true>, on_queues<false>, on_queues<true>>;
INSTANTIATE_TYPED_TEST_SUITE_P(own, pool_suite, own);

TEST(adaptors, limit_counts_what_is_out) {
  stream queue{device::host()};
  pool p{device::host()};
  limit_adaptor limited{p, 1000};
  auto a = limited.allocate(600, queue);
  ASSERT_TRUE(a);
  const auto b = limited.allocate(401, queue);
  ASSERT_FALSE(b);
  EXPECT_EQ(b.error().code, errc::limit_exceeded);
  a->reset();
  EXPECT_EQ(limited.given_out(), 0u);
  EXPECT_TRUE(limited.allocate(1000, queue));
}

TEST(adaptors, failing_fails_the_nth_and_no_other) {
  stream queue{device::host()};
  pool p{device::host()};
  failing_adaptor failing{p, 3};
  EXPECT_TRUE(failing.allocate(10, queue));
  EXPECT_TRUE(failing.allocate(10, queue));
  EXPECT_FALSE(failing.allocate(10, queue));
  EXPECT_TRUE(failing.allocate(10, queue));
}

TEST(adaptors, tracking_knows_the_line) {
  stream queue{device::host()};
  pool p{device::host()};
  tracking_adaptor tracking{p};
  auto b = tracking.allocate(10, queue);
  const auto live = tracking.live_blocks();
  ASSERT_EQ(live.size(), 1u);
  EXPECT_EQ(live[0].data, b->data());
  EXPECT_EQ(live[0].site.line(), static_cast<std::uint32_t>(__LINE__ - 4));
  EXPECT_NE(std::string{live[0].site.file_name()}.find("conformance_test.cpp"), std::string::npos);
}

TEST(adaptors, logging_names_the_place_of_each_call) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = bytes{1} << 20}};
  char* text = nullptr;
  std::size_t length = 0;
  std::FILE* const to = open_memstream(&text, &length);
  ASSERT_NE(to, nullptr);
  logging_adaptor logging{p, to};
  constexpr std::uint32_t line = __LINE__;
  auto b = logging.allocate(10, queue);
  EXPECT_FALSE(logging.allocate(bytes{2} << 20, queue));
  std::fflush(to);
  const std::string said{text, length};
  char made[96];
  std::snprintf(made, sizeof made, "allocate %p 10 stream %u ", static_cast<void*>(b->data()), queue.id());
  b->reset();
  std::fclose(to);
  std::free(text);
  const auto place = [](std::uint32_t at) { return std::string{__FILE__} + ':' + std::to_string(at) + '\n'; };
  EXPECT_EQ(said, made + place(line + 1) + "failed 2097152 limit_exceeded " + place(line + 2));
}

TEST(adaptors, counting_counts) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = bytes{1} << 20}};
  counting_adaptor counting{p};
  {
    auto a = counting.allocate(100, queue);
    auto b = counting.allocate(50, queue);
    EXPECT_FALSE(counting.allocate(bytes{2} << 20, queue));
  }
  const call_counts c = counting.counts();
  EXPECT_EQ(c.allocations, 2u);
  EXPECT_EQ(c.frees, 2u);
  EXPECT_EQ(c.failures, 1u);
  EXPECT_EQ(c.live, 0u);
  EXPECT_EQ(c.live_peak, 150u);
}

TEST(memory_resource, standard_containers_live_in_a_pool) {
  stream queue{device::host()};
  pool p{device::host()};
  {
    source_resource resource{p, queue};
    std::pmr::vector<std::pmr::string> words{&resource};
    for (int i = 0; i < 1000; ++i) words.emplace_back("a word that is too long for the small string's buffer");
    EXPECT_GT(p.statistics().live, 50'000u);
  }
  EXPECT_EQ(p.statistics().live, 0u);
}

// Containers write at once, and work that is queued may still write a block that was freed.
TEST(source_resource, waits_for_what_is_queued_on_its_stream) {
  stream queue{device::host()};
  pool p{device::host()};
  source_resource resource{p, queue};
  auto* data = static_cast<std::byte*>(resource.allocate(4096));
  support::gate late;
  late.hold(queue);
  ASSERT_TRUE(queue.fill(data, std::byte{1}, 4096));
  resource.deallocate(data, 4096);
  std::jthread other{[&late] { late.open(); }};
  const std::pmr::vector<unsigned char> written(4096, 7, &resource);
  ASSERT_TRUE(queue.synchronize());
  EXPECT_EQ(std::ranges::count(written, 7), 4096);
}

TEST(resource_source, memory_goes_back_when_the_streams_that_use_it_are_done) {
  counting_resource memory{1000};
  stream queue{device::host()};
  stream other{device::host()};
  resource_source source{memory};
  support::gate late, later;
  late.hold(queue);
  later.hold(other);
  auto b = source.allocate(600, queue);
  ASSERT_TRUE(b);
  b->use_on(other).value();
  b->reset();
  EXPECT_GE(memory.out, 600u);
  EXPECT_EQ(source.pending(), 600u);
  late.open();
  ASSERT_TRUE(queue.synchronize());
  EXPECT_FALSE(source.allocate(600, queue));  // the other stream may use it yet
  later.open();
  ASSERT_TRUE(other.synchronize());
  EXPECT_TRUE(source.allocate(600, queue));
}

// A stream on which nothing is queued need not be asked: it uses nothing.
TEST(resource_source, memory_of_an_idle_stream_goes_back_at_once) {
  stream queue{device::host()};
  resource_source source{*std::pmr::new_delete_resource()};
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(source.allocate(4096, queue));
    EXPECT_EQ(source.pending(), 0u);
  }
}

TEST(resource_source, a_full_resource_is_asked_again_after_the_stream_is_done) {
  counting_resource memory{1000};
  stream queue{device::host()};
  resource_source source{memory};
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(source.allocate(600, queue));
  const auto none = source.allocate(1001, queue);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error(), (error{errc::out_of_memory, none.error().what, 1001}));
}

TEST(resource_source, the_destructor_gives_everything_back) {
  counting_resource memory{1000};
  stream queue{device::host()};
  {
    resource_source source{memory};
    EXPECT_TRUE(source.allocate(600, queue));
  }
  EXPECT_EQ(memory.out, 0u);
}

}  // namespace
}  // namespace berth::conformance

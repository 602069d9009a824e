#include "c/handles.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "c/objects.hpp"
#include "c/pool_fixture.hpp"
#include "in_child.hpp"

namespace berth::c {
namespace {

struct counted {
  explicit counted(std::atomic<int>& all) : alive{all} { ++alive; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() {
    whole = 0;
    --alive;
  }
  std::atomic<int>& alive;
  int whole = 7;
};

TEST(c_handles, name_one_object_of_one_table_once) {
  std::atomic<int> alive = 0;
  handles<counted> all{3};
  handles<counted> others{4};
  void* const first = all.add(std::make_shared<counted>(alive));
  void* const other = others.add(std::make_shared<counted>(alive));
  EXPECT_EQ(all.look_up(first)->whole, 7);
  EXPECT_TRUE(all.look_up(other) == nullptr);
  EXPECT_TRUE(all.look_up(nullptr) == nullptr);
  EXPECT_TRUE(all.look_up(reinterpret_cast<void*>(~std::uintptr_t{0})) == nullptr);
  EXPECT_FALSE(all.remove(other));
  EXPECT_TRUE(all.remove(first));
  EXPECT_FALSE(all.remove(first));
  EXPECT_EQ(alive, 1);
  void* const second = all.add(std::make_shared<counted>(alive));  // in the same slot
  EXPECT_NE(first, second);
  EXPECT_TRUE(all.look_up(first) == nullptr);
  EXPECT_FALSE(all.remove(first));
  EXPECT_TRUE(all.remove(second));
  EXPECT_TRUE(others.remove(other));
  EXPECT_EQ(alive, 0);
}

TEST(c_handles, an_object_goes_with_its_last_user) {
  std::atomic<int> alive = 0;
  handles<counted> all{3};
  void* const h = all.add(std::make_shared<counted>(alive));
  std::shared_ptr<counted> kept;
  {
    const auto used = all.look_up(h);
    kept = all.find(h);
    EXPECT_TRUE(all.remove(h));
    EXPECT_TRUE(all.look_up(h) == nullptr);
    EXPECT_EQ(used->whole, 7);
  }
  EXPECT_EQ(alive, 1);
  kept.reset();
  EXPECT_EQ(alive, 0);
}

TEST(c_handles, more_than_a_chunk) {
  std::atomic<int> alive = 0;
  handles<counted> all{3};
  std::vector<void*> given;
  for (int i = 0; i < 1000; ++i) given.push_back(all.add(std::make_shared<counted>(alive)));
  for (std::size_t i = 0; i < given.size(); i += 3) EXPECT_TRUE(all.remove(given[i]));
  for (std::size_t i = 0; i < given.size(); ++i) EXPECT_EQ(all.look_up(given[i]) == nullptr, i % 3 == 0) << i;
  for (std::size_t i = 0; i < given.size(); ++i) EXPECT_EQ(all.remove(given[i]), i % 3 != 0) << i;
  EXPECT_EQ(alive, 0);
}

// A look-up of handles that others give, take and use again sees a whole object or none.
TEST(c_handles, are_given_taken_and_used_by_many) {
  constexpr int rounds = 5000;
  std::atomic<int> alive = 0;
  std::atomic<int> taken = 0;
  handles<counted> all{3};
  std::atomic<void*> shown[4] = {};
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < rounds; ++i) {
          void* const old =
              shown[(t + static_cast<unsigned>(i)) % 4].exchange(all.add(std::make_shared<counted>(alive)));
          if (old != nullptr) (void)all.remove(old);  // or somebody below was first
          for (const auto& each : shown) {
            void* const h = each.load();
            if (const auto used = all.look_up(h); !(used == nullptr)) {
              EXPECT_EQ(used->whole, 7);
            }
            if (i % 16 != 0 || h == nullptr) continue;
            if (all.remove(h)) ++taken;
            EXPECT_FALSE(all.remove(h));
          }
        }
      });
    }
  }
  for (const auto& each : shown) (void)all.remove(each.load());
  EXPECT_EQ(alive, 0);
  EXPECT_GT(taken, 0);
}

// Work that is inside a call which uses the handle until the handle has been destroyed, and then does last().
template <class T, class Last>
struct work {
  handles<T>& table;
  void* handle;
  Last last;
  std::atomic<bool> inside{false};
  std::atomic<bool> done{false};

  void start(berth_stream* on) {
    ASSERT_EQ(berth_stream_call(
                  on, [](void* self) { static_cast<work*>(self)->run(); }, this),
              BERTH_OK);
    while (!inside) std::this_thread::yield();
  }
  void run() {
    {
      const auto used = table.look_up(handle);
      inside = true;
      while (!(table.look_up(handle) == nullptr)) std::this_thread::yield();
    }
    last();
    done = true;
  }
};
template <class T, class Last>
work(handles<T>&, void*, Last) -> work<T, Last>;

// The end of streams and pools waits for work: the destroying thread waits, whichever thread leaves last.
class c_destroy : public support::pool_fixture {
 protected:
  static void SetUpTestSuite() { alarm(60); }  // a deadlock is a failure
  static void TearDownTestSuite() { alarm(0); }
  c_destroy() { EXPECT_EQ(berth_pool_create(device, nullptr, &pool), BERTH_OK) << berth_error_text(); }

  static void refused(const char* kind) {
    const std::string said = berth_error_text();
    EXPECT_EQ(said.rfind(kind, 0), 0u) << said;
    EXPECT_NE(said.find("would wait for"), std::string::npos) << said;
  }
};

TEST_F(c_destroy, a_stream_that_its_own_work_uses) {
  berth_stream* own = nullptr;
  ASSERT_EQ(berth_stream_create(device, &own), BERTH_OK);
  int known = 0;
  work asks{streams(), static_cast<void*>(own),
            [&] { EXPECT_EQ(berth_stream_query(own, &known), BERTH_NO_SUCH_HANDLE); }};
  asks.start(own);
  berth_stream_destroy(own);
  EXPECT_TRUE(asks.done);
}

TEST_F(c_destroy, a_pool_that_work_on_its_memory_uses) {
  auto quiet = small();
  berth_pool* own = nullptr;
  ASSERT_EQ(berth_pool_create(device, &quiet, &own), BERTH_OK);
  void* const block = take(own, 1000, stream);
  work frees{pools(), static_cast<void*>(own), [&] { EXPECT_EQ(berth_pool_free(own, block), BERTH_NO_SUCH_HANDLE); }};
  frees.start(stream);
  berth_pool_destroy(own);
  EXPECT_TRUE(frees.done);
}

TEST_F(c_destroy, waits_for_all_who_use_it) {
  berth_stream* own = nullptr;
  ASSERT_EQ(berth_stream_create(device, &own), BERTH_OK);
  std::atomic<int> inside{0};
  std::atomic<int> left{0};
  std::vector<std::jthread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      {
        const auto used = streams().look_up(own);
        ++inside;
        while (!(streams().look_up(own) == nullptr)) std::this_thread::yield();
        EXPECT_FALSE(streams().remove(own));  // a second one has nothing to wait for
      }
      ++left;
    });
  }
  while (inside != 4) std::this_thread::yield();
  const std::weak_ptr<held_stream> object = streams().find(own);
  berth_stream_destroy(own);
  EXPECT_TRUE(object.expired());
  callers.clear();
  EXPECT_EQ(left, 4);
}

TEST_F(c_destroy, is_refused_in_a_streams_work) {
  struct {
    berth_stream* of;
    berth_pool* other;
  } both{stream, pool};
  const auto everything = [](void* context) {
    auto& its = *static_cast<decltype(both)*>(context);
    berth_stream_destroy(its.of);
    refused("stream");
    berth_pool_destroy(its.other);
    refused("pool");
    berth_pool_destroy(reinterpret_cast<berth_pool*>(its.of));
    EXPECT_STREQ(berth_error_text(), "pool: destroyed, or no such handle");
    berth_pool_destroy(nullptr);
    EXPECT_STREQ(berth_error_text(), "");
  };
  ASSERT_EQ(berth_stream_call(stream, everything, &both), BERTH_OK);
  EXPECT_EQ(berth_stream_synchronize(stream), BERTH_OK);
  EXPECT_EQ(berth_pool_free(pool, take(pool, 1000, stream)), BERTH_OK);
}

TEST_F(c_destroy, waiting_is_refused_in_a_streams_work) {
  berth_stream* other = nullptr;
  ASSERT_EQ(berth_stream_create(device, &other), BERTH_OK);
  struct {
    berth_stream* all[2];
    berth_status said[3];
  } waits{{stream, other}, {}};
  const auto in_work = [](void* context) {
    auto& w = *static_cast<decltype(waits)*>(context);
    for (int i = 0; i < 2; ++i) w.said[i] = berth_stream_synchronize(w.all[i]);
    w.said[2] = berth_stream_synchronize(nullptr);
  };
  ASSERT_EQ(berth_stream_call(stream, in_work, &waits), BERTH_OK);
  EXPECT_EQ(berth_stream_synchronize(stream), BERTH_OK);
  EXPECT_EQ(waits.said[0], BERTH_INVALID);
  EXPECT_EQ(waits.said[1], BERTH_INVALID);
  EXPECT_EQ(waits.said[2], BERTH_NO_SUCH_HANDLE);
  berth_stream_destroy(other);
}

// Host functions run at once here, in the call that enqueues them.
TEST_F(c_destroy, is_refused_in_work_on_the_null_device) {
  berth_device* none = nullptr;
  berth_stream* own = nullptr;
  ASSERT_EQ(berth_device_open("null", &none), BERTH_OK);
  ASSERT_EQ(berth_stream_create(none, &own), BERTH_OK);
  const auto destroys = [](void* itself) { berth_stream_destroy(static_cast<berth_stream*>(itself)); };
  ASSERT_EQ(berth_stream_call(own, destroys, own), BERTH_OK);
  EXPECT_EQ(berth_stream_synchronize(own), BERTH_OK) << "it stays";
  berth_stream_destroy(own);
  EXPECT_STREQ(berth_error_text(), "");
  berth_device_close(none);
}

TEST_F(c_destroy, is_refused_in_a_request_that_uses_it) {
  struct asked {
    berth_pool *own = nullptr, *other = nullptr;
    berth_stream *on = nullptr, *beside = nullptr;
    int times = 0;
  } all{.other = pool, .on = stream};
  ASSERT_EQ(berth_stream_create(device, &all.beside), BERTH_OK);
  auto options = small();
  options.context = &all;
  options.pressure = [](void* context, std::uint64_t, std::uint32_t) {
    auto& a = *static_cast<asked*>(context);
    ++a.times;
    berth_pool_destroy(a.own);
    refused("pool");
    berth_stream_destroy(a.on);
    refused("stream");
    berth_stream_destroy(a.beside);
    berth_pool_destroy(a.other);
    EXPECT_STREQ(berth_error_text(), "");
    return 0;
  };
  ASSERT_EQ(berth_pool_create(device, &options, &all.own), BERTH_OK);
  void* const most = take(all.own, options.limit / 4 * 3, stream);
  void* block = nullptr;
  EXPECT_EQ(berth_pool_allocate(all.own, options.limit / 2, stream, &block), BERTH_LIMIT);
  EXPECT_EQ(all.times, 1);
  EXPECT_EQ(berth_pool_free(all.own, most), BERTH_OK);
  berth_pool_destroy(all.own);
  EXPECT_STREQ(berth_error_text(), "");
  pool = nullptr;
}

// A thread that used it when the process forked never leaves in the child.
TEST_F(c_destroy, does_not_wait_in_a_child_for_threads_of_its_parent) {
  SKIP_UNDER_TSAN();
  const auto used = pools().look_up(pool);
  test::in_child([this] {
    berth_pool_destroy(pool);
    WANT(pools().look_up(pool) == nullptr);
    return 0;
  });
}

TEST(c_guarded, tells_each_exception_by_its_own_status) {
  const auto status_of_throwing = [](const auto& what) { return guarded([&]() -> berth_status { throw what; }); };
  EXPECT_EQ(status_of_throwing(std::bad_alloc{}), BERTH_NO_MEMORY);
  EXPECT_EQ(status_of_throwing(std::length_error{"vector"}), BERTH_NO_MEMORY);
  EXPECT_EQ(status_of_throwing(std::system_error{std::make_error_code(std::errc::resource_unavailable_try_again)}),
            BERTH_NO_MEMORY);
  EXPECT_EQ(status_of_throwing(bad_result{{errc::no_such_device, "none"}}), BERTH_NO_DEVICE);
  EXPECT_EQ(status_of_throwing(std::out_of_range{"map::at"}), BERTH_INTERNAL);
  EXPECT_STREQ(last_text(), "map::at");
}

}  // namespace
}  // namespace berth::c

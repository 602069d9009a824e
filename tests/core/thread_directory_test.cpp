#include "berth/core/thread_directory.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace {
struct entry {
  std::atomic<std::uintptr_t> owner{0};
};
using directory = berth::detail::thread_directory<entry>;

TEST(thread_directory, each_thread_finds_its_own_while_others_come_and_go) {
  const auto d = std::make_unique<directory>();
  constexpr int threads = 64;
  std::mutex adds;
  std::barrier all{threads};
  std::vector<std::jthread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      entry mine;
      for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(d->find(), nullptr);
        EXPECT_NE(d->at_home().owner.load(), berth::detail::thread_token());
        all.arrive_and_wait();
        {
          const std::lock_guard held{adds};
          EXPECT_TRUE(d->add(&mine));
        }
        all.arrive_and_wait();
        EXPECT_EQ(d->find(), &mine);
        entry& home = d->at_home();
        EXPECT_TRUE(&home == &mine || home.owner.load() != berth::detail::thread_token());
        all.arrive_and_wait();
        if (t % 2 == 0) {  // those probed past stay to be found
          const std::lock_guard held{adds};
          d->remove(&mine);
        }
        EXPECT_EQ(d->find(), t % 2 == 0 ? nullptr : &mine);
        all.arrive_and_wait();
        const std::lock_guard held{adds};
        if (t % 2 != 0) d->remove(&mine);
      }
      all.arrive_and_wait();  // nobody's entry ends before
    });
  }
}

TEST(thread_directory, a_thread_for_whom_there_is_no_room_goes_without) {
  const auto d = std::make_unique<directory>();
  std::vector<entry> all(5000);
  std::size_t added = 0;
  while (added < all.size() && d->add(&all[added])) ++added;  // one thread may have several
  EXPECT_EQ(added, 4096u);
  EXPECT_EQ(d->find(), all.data());
  std::jthread{[&] {
    entry mine;
    EXPECT_FALSE(d->add(&mine));
    EXPECT_EQ(mine.owner.load(), 0u);
    EXPECT_EQ(d->find(), nullptr);
  }}.join();
}
}  // namespace

#include "c/handles.hpp"

#include <gtest/gtest.h>

#include <thread>

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

// Whoever looks up handles that others give, take and use again sees a whole object or none.
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

}  // namespace
}  // namespace berth::c

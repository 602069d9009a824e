// A pool that cuts one block of AscendCL's in stream order, and the same pool with one mistake at a time. The simulator
// takes the pool without a word and catches every mistake by itself, by every schedule.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "simulator/ascend/bench_device.hpp"

namespace ascend_simulator_test {
namespace {

enum class mutation {
  none,
  reuses_without_waiting,
  records_before_the_last_use,
  waits_on_the_wrong_stream,
  drops_the_tail,
  aligns_to_32,
  cuts_too_short,
  takes_back_before_the_last_use,
  frees_before_the_streams_have_passed,
  unmaps_under_a_running_kernel,
};

struct expectation {
  mutation of;
  const char* name;
  const char* violation;
};
const expectation mutations[] = {
    {mutation::none, "none", nullptr},
    {mutation::reuses_without_waiting, "reuses_without_waiting", "race"},
    {mutation::records_before_the_last_use, "records_before_the_last_use", "race"},
    {mutation::waits_on_the_wrong_stream, "waits_on_the_wrong_stream", "race"},
    {mutation::drops_the_tail, "drops_the_tail", "part_tail"},
    {mutation::aligns_to_32, "aligns_to_32", "part_start"},
    {mutation::cuts_too_short, "cuts_too_short", "part_overlap"},
    {mutation::takes_back_before_the_last_use, "takes_back_before_the_last_use", "use_after_free"},
    {mutation::frees_before_the_streams_have_passed, "frees_before_the_streams_have_passed", "early_free"},
    {mutation::unmaps_under_a_running_kernel, "unmaps_under_a_running_kernel", "early_free"},
};

// First fit; a free range knows the event behind which it may be used.
class cutting_pool {
 public:
  cutting_pool(mutation m, aclrtStream wrong) : mutation_{m}, wrong_{wrong} {
    if (mapped()) {
      const aclrtPhysicalMemProp wanted = bench::on_device();
      EXPECT_EQ(aclrtReserveMemAddress(&base_, granule, 0, nullptr, 1), ACL_SUCCESS);
      EXPECT_EQ(aclrtMallocPhysical(&memory_, granule, &wanted, 0), ACL_SUCCESS);
      EXPECT_EQ(aclrtMapMem(base_, granule, 0, memory_, 0), ACL_SUCCESS);
    } else {
      EXPECT_EQ(aclrtMalloc(&base_, granule, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    }
    ranges_.push_back({0, granule, true, {}, nullptr});
  }
  cutting_pool(const cutting_pool&) = delete;
  cutting_pool& operator=(const cutting_pool&) = delete;
  ~cutting_pool() {
    const bool early = mutation_ == mutation::frees_before_the_streams_have_passed ||
                       mutation_ == mutation::unmaps_under_a_running_kernel;
    if (!early) {
      EXPECT_EQ(aclrtSynchronizeDevice(), ACL_SUCCESS);
    }
    if (mapped()) {
      aclrtUnmapMem(base_);
      aclrtFreePhysical(memory_);
      aclrtReleaseMemAddress(base_);
    } else {
      aclrtFree(base_);
    }
    for (aclrtEvent e : events_) aclrtDestroyEvent(e);
  }

  void* take(std::size_t bytes, aclrtStream on) {
    const std::size_t room = room_of(bytes);
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (!ranges_[i].free || ranges_[i].size < room) continue;
      const range rest{ranges_[i].start + room, ranges_[i].size - room, true, ranges_[i].freed, nullptr};
      ranges_[i].size = room;
      ranges_[i].free = false;
      ranges_[i].taken = bytes;
      for (const aclrtEvent e : ranges_[i].freed) {
        if (mutation_ == mutation::reuses_without_waiting) continue;
        aclrtStreamWaitEvent(mutation_ == mutation::waits_on_the_wrong_stream ? wrong_ : on, e);
      }
      ranges_[i].freed.clear();
      ranges_[i].early = event_on(on);
      if (rest.size != 0) ranges_.insert(ranges_.begin() + static_cast<std::ptrdiff_t>(i) + 1, rest);
      void* const start = bench::at(base_, ranges_[i].start);
      ascend_simulator_part_taken(start, bytes);
      return start;
    }
    return nullptr;
  }
  void give_back(void* start, aclrtStream on) {
    const auto at = static_cast<std::size_t>(static_cast<std::byte*>(start) - static_cast<std::byte*>(base_));
    const auto it = std::ranges::find(ranges_, at, &range::start);
    if (mutation_ == mutation::takes_back_before_the_last_use) {
      ascend_simulator_part_given_back(start);
      bench::fill(start, on, it->taken);
    } else {
      bench::fill(start, on, it->taken);
      ascend_simulator_part_given_back(start);
    }
    it->free = true;
    it->freed = {mutation_ == mutation::records_before_the_last_use ? it->early : event_on(on)};
    if (std::next(it) != ranges_.end() && std::next(it)->free) join(it, std::next(it));
    if (it != ranges_.begin() && std::prev(it)->free) join(std::prev(it), it);
  }

 private:
  struct range {
    std::size_t start = 0, size = 0;
    bool free = false;
    std::vector<aclrtEvent> freed{};
    aclrtEvent early = nullptr;
    std::size_t taken = 0;
  };
  [[nodiscard]] bool mapped() const { return mutation_ == mutation::unmaps_under_a_running_kernel; }
  [[nodiscard]] std::size_t room_of(std::size_t bytes) const {
    const std::size_t alignment = mutation_ == mutation::aligns_to_32 ? 32 : 64;
    std::size_t wanted = (bytes + 31) / 32 * 32 + 32;
    if (mutation_ == mutation::drops_the_tail) wanted = bytes;
    if (mutation_ == mutation::cuts_too_short) wanted = bytes - std::min<std::size_t>(bytes - 1, 128);
    return (wanted + alignment - 1) / alignment * alignment;
  }
  aclrtEvent event_on(aclrtStream s) {
    aclrtEvent e = nullptr;
    EXPECT_EQ(aclrtCreateEvent(&e), ACL_SUCCESS);
    EXPECT_EQ(aclrtRecordEvent(e, s), ACL_SUCCESS);
    events_.push_back(e);
    return e;
  }
  void join(std::vector<range>::iterator first, std::vector<range>::iterator second) {
    first->size += second->size;
    first->freed.insert(first->freed.end(), second->freed.begin(), second->freed.end());
    ranges_.erase(second);
  }

  const mutation mutation_;
  const aclrtStream wrong_;
  void* base_ = nullptr;
  aclrtDrvMemHandle memory_ = nullptr;
  std::vector<range> ranges_;
  std::vector<aclrtEvent> events_;
};

void random_traffic(bench& t, mutation m, unsigned seed) {
  cutting_pool pool{m, t.one};
  std::mt19937 random{seed};
  struct held {
    void* start;
    std::size_t bytes;
    aclrtStream on;
  };
  std::vector<held> live;
  const aclrtStream streams[] = {t.one, t.two};
  for (int step = 0; step < 300; ++step) {
    if (live.empty() || (live.size() < 40 && random() % 2 == 0)) {
      const std::size_t bytes = 1 + random() % 60'000;
      const aclrtStream on = streams[random() % 2];
      void* const start = pool.take(bytes, on);
      if (start == nullptr) continue;
      bench::fill(start, on, bytes);
      live.push_back({start, bytes, on});
    } else {
      std::swap(live[random() % live.size()], live.back());
      pool.give_back(live.back().start, live.back().on);
      live.pop_back();
    }
  }
  for (const held& one : live) pool.give_back(one.start, one.on);
}

class mutants : public testing::TestWithParam<expectation> {};

TEST_P(mutants, are_caught_each_by_itself) {
  const auto [of, name, violation] = GetParam();
  for (unsigned seed = 0; seed < 5; ++seed) {
    std::string said;
    {
      bench t;
      taken_violations();
      random_traffic(t, of, seed);
      said = taken_violations();
    }
    if (violation == nullptr) {
      EXPECT_EQ(said, "") << seed;
    } else {
      EXPECT_THAT(said, testing::HasSubstr(std::string{violation} + " ")) << seed;
    }
  }
  taken_violations();
}
INSTANTIATE_TEST_SUITE_P(mutation, mutants, testing::ValuesIn(mutations),
                         [](const auto& one) { return std::string{one.param.name}; });

}  // namespace
}  // namespace ascend_simulator_test

// Any steps on streams that are late, against an oracle that knows nothing of plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "berth/graph/guided_pool.hpp"
#include "pool/gate.hpp"
#include "pool/quiet_device.hpp"
#include "support/sanitizers.hpp"

namespace berth {
namespace {
using namespace literals;

// --- an oracle that knows nothing of plans: who is where, and whose work may still be there

// Holds streams back. Work behind a shut one is not done; more need not be known.
struct late_work {
  support::gate gate;
  bool open = false;
};
using late_works = std::vector<std::shared_ptr<late_work>>;

struct late_stream {
  explicit late_stream(const device& d) : queue{d} {}
  late_works all;  // outlive the stream
  stream queue;
  late_works behind;  // everything enqueued from now on is behind these

  void hold() {
    behind.push_back(all.emplace_back(std::make_shared<late_work>()));
    behind.back()->gate.hold(queue);
  }
  void wait_for(late_stream& other) {
    if (&other == this) return;
    event met{queue.get_device()};
    ASSERT_TRUE(other.queue.record(met));
    ASSERT_TRUE(queue.wait(met));
    behind.insert(behind.end(), other.behind.begin(), other.behind.end());
  }
  void let_go() {
    for (const auto& work : behind) {
      if (!std::exchange(work->open, true)) work->gate.open();
    }
    behind.clear();
  }
};

class watched {
 public:
  explicit watched(memory_source& source) : source_{source} {}

  void* take(bytes size, late_stream& s) {
    const auto made = source_.allocate_raw(size, s.queue);
    if (!made) return nullptr;
    const auto at = reinterpret_cast<std::uintptr_t>(*made);
    const auto next = live_.lower_bound(at);
    EXPECT_TRUE(next == live_.end() || next->first >= at + size) << "overlaps the next block";
    EXPECT_TRUE(next == live_.begin() || std::prev(next)->first + std::prev(next)->second.size <= at)
        << "overlaps the block before";
    std::vector<trace> rest;
    for (const trace& t : left_) {
      if (t.end <= at || t.begin >= at + size) {
        rest.push_back(t);
        continue;
      }
      const bool over = t.clock == s.queue.clock() || s.queue.ordered_behind(t.clock->id(), t.epoch) ||
                        std::ranges::all_of(t.behind, [](const auto& work) { return work->open; });
      EXPECT_TRUE(over) << "stream " << s.queue.id() << " got what stream " << t.clock->id() << " may still use";
      // The next block there is ordered behind this one, and so behind that work.
      if (t.begin < at) rest.push_back({t.begin, at, t.clock, t.epoch, t.behind});
      if (t.end > at + size) rest.push_back({at + size, t.end, t.clock, t.epoch, t.behind});
    }
    left_ = std::move(rest);
    live_[at] = {size, &s, {}};
    return *made;
  }
  void use_on(void* data, late_stream& s) {
    source_.use_on(data, s.queue).value();
    live_.at(reinterpret_cast<std::uintptr_t>(data)).others.push_back(&s);
  }
  void give(void* data) {
    const auto at = reinterpret_cast<std::uintptr_t>(data);
    const block_facts b = live_.at(at);
    live_.erase(at);
    std::erase_if(left_, [](const trace& t) { return t.clock->completed() >= t.epoch; });
    left_.push_back({at, at + b.size, b.on->queue.clock(), b.on->queue.epoch(), b.on->behind});
    for (late_stream* other : b.others) {
      left_.push_back({at, at + b.size, other->queue.clock(), other->queue.epoch(), other->behind});
    }
    source_.free(data, b.size, b.on->queue);
  }
  [[nodiscard]] std::size_t live() const { return live_.size(); }

 private:
  struct block_facts {
    bytes size = 0;
    late_stream* on = nullptr;
    std::vector<late_stream*> others;
  };
  struct trace {
    std::uint64_t begin = 0, end = 0;
    std::shared_ptr<stream_clock> clock;
    std::uint64_t epoch = 0;
    late_works behind;
  };

  memory_source& source_;
  std::map<std::uintptr_t, block_facts> live_;
  std::vector<trace> left_;
};

// --- a script of one step: blocks that are asked for and come back, some in the next step

struct call {
  bytes size = 0;  // 0: give back
  unsigned block = 0;
  unsigned on = 0;
};

std::vector<call> make_step(std::mt19937& random, unsigned streams) {
  std::vector<call> all;
  std::vector<unsigned> out;
  const unsigned count = 20 + random() % 60;
  for (unsigned i = 0; i < count; ++i) {
    while (!out.empty() && random() % 3 == 0) {
      std::swap(out[random() % out.size()], out.back());
      all.push_back({0, out.back(), 0});
      out.pop_back();
    }
    const bytes sizes[] = {64, 1000, 1000, 4096, 70'000, 1 + random() % 300'000};
    all.push_back({sizes[random() % std::size(sizes)], i, static_cast<unsigned>(random()) % streams});
    out.push_back(i);
  }
  std::ranges::shuffle(out, random);
  const unsigned kept = random() % 3 == 0 ? 2 : 0;  // these come back in the next step, or never
  while (out.size() > kept) {
    all.push_back({0, out.back(), 0});
    out.pop_back();
  }
  return all;
}

// Changes a step as another day may: leaves out, adds, resizes, swaps, ends early.
std::vector<call> changed(std::vector<call> s, std::mt19937& random) {
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (random() % 12 != 0) continue;
    switch (random() % 4) {
      case 0:
        if (s[i].size != 0) s[i].size = 1 + random() % (2 * s[i].size);
        break;
      case 1:
        s.insert(s.begin() + static_cast<std::ptrdiff_t>(i),
                 {1 + random() % 5000, 1000 + static_cast<unsigned>(i), s[i].on});
        break;
      case 2: s.erase(s.begin() + static_cast<std::ptrdiff_t>(i)); break;
      default:
        if (i > 0) std::swap(s[i], s[i - 1]);
    }
  }
  if (random() % 8 == 0) s.resize(s.size() / 2);
  return s;
}

// Any steps, on streams that are late, with blocks that stay, are used elsewhere, or come back when they should not.
void any_steps(unsigned seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  const auto quiet = support::make_quiet(device::host());
  std::deque<late_stream> streams;
  const unsigned count = 1 + random() % 3;
  for (unsigned i = 0; i < count; ++i) streams.emplace_back(quiet.device);
  const bool tight = random() % 4 == 0;  // then a request may wait for its stream, which nobody would let go
  pool p{quiet.device, {.limit = tight ? 2_MiB : 64_MiB, .report_leaks = false}};
  {
    plan::options quick;
    quick.work = plan::effort::fast;
    guided_pool guided{p, quick};
    watched memory{guided};
    std::map<unsigned, void*> blocks;
    const auto give = [&](std::map<unsigned, void*>::iterator at) {
      memory.give(at->second);
      blocks.erase(at);
    };
    std::vector<call> usual = make_step(random, count);
    for (int step = 0; step < 10; ++step) {
      if (random() % 8 == 0) {
        guided.relearn();
        if (random() % 2 == 0) usual = make_step(random, count);
      }
      guided.begin_step();
      for (const call& c : random() % 2 == 0 ? usual : changed(usual, random)) {
        late_stream& on = streams[c.on];
        late_stream& other = streams[random() % count];
        if (const auto at = blocks.find(c.block); at != blocks.end()) {
          if (c.size == 0 && random() % 64 == 0) continue;  // kept for longer
          if (random() % 32 == 0) memory.use_on(at->second, other);
          give(at);
        }
        if (c.size != 0) {
          if (void* const data = memory.take(c.size, on)) blocks[c.block] = data;
        }
        if (random() % 24 == 0 && !tight) on.hold();
        if (random() % 32 == 0) other.let_go();
        if (random() % 32 == 0) on.wait_for(other);
      }
    }
    for (late_stream& s : streams) s.let_go();
    while (!blocks.empty()) give(blocks.begin());
    EXPECT_EQ(memory.live(), 0u);
  }
  EXPECT_EQ(p.statistics().live, 0u);
}

TEST(guided_pool, no_step_breaks_the_order_of_streams_or_gives_memory_twice) {
  for (unsigned seed = 1; seed <= support::cases(60) && !testing::Test::HasFailure(); ++seed) any_steps(seed);
}

TEST(guided_pool, a_block_that_is_kept_keeps_its_place) {
  late_stream queue{device::host()};
  pool p{device::host(), {.limit = 256_MiB}};
  guided_pool guided{p};
  watched memory{guided};
  void* kept = nullptr;
  for (int i = 0; i < 6; ++i) {
    guided.begin_step();
    for (int k = 0; k < 10; ++k) {
      void* const data = memory.take(5000, queue);
      if (i == 2 && k == 4) {
        kept = data;
      } else {
        memory.give(data);
      }
    }
  }
  memory.give(kept);
  guided.begin_step();
  memory.give(memory.take(5000, queue));
}

}  // namespace
}  // namespace berth

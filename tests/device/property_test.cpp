// Random programs over several streams, against a graph of what must come before what; and random mappings, against
// a table of which bytes lie where.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "berth/device/stream.hpp"

namespace berth {
namespace {

// The oracle: one node per operation, edges from what it follows.
struct node {
  std::vector<std::size_t> after;  // the operation before it on its stream, and what its stream waited for
  std::size_t stream = 0;
  std::uint64_t epoch = 0;  // of its stream when it was enqueued
  bool records = false;     // closes that epoch
};

class program {
 public:
  program(const device& d, std::size_t streams, std::size_t events) : last_(streams), recorded_(events) {
    for (std::size_t i = 0; i < streams; ++i) streams_.emplace_back(d);
    for (std::size_t i = 0; i < events; ++i) events_.emplace_back(d);
  }

  void call(std::size_t s) {
    const std::size_t n = add(s, false);
    // The operation looks whether everything it must follow is done, then says that it is.
    steps_.push_back(std::make_unique<step>(step{this, n, ancestors(n)}));
    RC_ASSERT(streams_[s].call(step::run, steps_.back().get()).has_value());
  }

  void record(std::size_t s, std::size_t e) {
    const std::uint64_t closes = streams_[s].epoch();
    RC_ASSERT(streams_[s].record(events_[e]).has_value());
    RC_ASSERT(streams_[s].epoch() == closes + 1);
    recorded_[e] = add(s, true, closes) + 1;
  }

  void wait(std::size_t s, std::size_t e) {
    RC_ASSERT(streams_[s].wait(events_[e]).has_value());
    if (recorded_[e] != 0) waits_[s].push_back(recorded_[e] - 1);
  }

  void synchronize(std::size_t s) { RC_ASSERT(streams_[s].synchronize().has_value()); }

  void ask(std::size_t s, std::size_t e) {
    RC_ASSERT(streams_[s].query().has_value());
    RC_ASSERT(events_[e].query().has_value());
  }

  void check_completed() {
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      const std::uint64_t completed = streams_[s].completed();
      for (std::size_t n = 0; n < nodes_.size(); ++n) {
        if (nodes_[n].stream == s && !nodes_[n].records && nodes_[n].epoch <= completed) RC_ASSERT(done(n).load());
      }
    }
  }

  // ordered_behind must say exactly what the graph says: no less (memory would wait), no more (it would be shared).
  void check_order() {
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      const std::vector<std::size_t> known = ancestors(add(s, false));
      for (std::size_t t = 0; t < streams_.size(); ++t) {
        if (t == s) continue;
        std::uint64_t behind = 0;
        for (const std::size_t n : known) {
          if (nodes_[n].stream == t && nodes_[n].records) behind = std::max(behind, nodes_[n].epoch);
        }
        if (behind > 0) RC_ASSERT(streams_[s].ordered_behind(streams_[t].id(), behind));
        RC_ASSERT(!streams_[s].ordered_behind(streams_[t].id(), behind + 1));
      }
      nodes_.pop_back();
      last_[s] = before_probe_;
    }
  }

  void finish() {
    for (stream& s : streams_) RC_ASSERT(s.synchronize().has_value());
    RC_ASSERT(too_early_.load() == 0u);
  }

 private:
  struct step {
    program* self;
    std::size_t number;
    std::vector<std::size_t> follows;
    static void run(void* context) {
      const auto* s = static_cast<step*>(context);
      for (const std::size_t n : s->follows) {
        if (!s->self->nodes_is_record_[n] && !s->self->done(n).load()) s->self->too_early_.fetch_add(1);
      }
      s->self->done(s->number).store(true);
    }
  };

  std::size_t add(std::size_t s, bool records, std::uint64_t epoch = 0) {
    node made{.stream = s, .epoch = epoch != 0 ? epoch : streams_[s].epoch(), .records = records};
    if (last_[s] != 0) made.after.push_back(last_[s] - 1);
    made.after.insert(made.after.end(), waits_[s].begin(), waits_[s].end());
    before_probe_ = last_[s];
    nodes_.push_back(std::move(made));
    nodes_is_record_[nodes_.size() - 1] = records;
    last_[s] = nodes_.size();
    return nodes_.size() - 1;
  }

  std::vector<std::size_t> ancestors(std::size_t n) const {
    std::vector<bool> seen(nodes_.size());
    std::vector<std::size_t> found;
    std::vector<std::size_t> todo = nodes_[n].after;
    while (!todo.empty()) {
      const std::size_t one = todo.back();
      todo.pop_back();
      if (seen[one]) continue;
      seen[one] = true;
      found.push_back(one);
      todo.insert(todo.end(), nodes_[one].after.begin(), nodes_[one].after.end());
    }
    return found;
  }

  std::atomic<bool>& done(std::size_t n) { return done_[n]; }

  static constexpr std::size_t most = 4096;
  std::vector<node> nodes_;
  std::vector<char> nodes_is_record_ = std::vector<char>(most);  // never grows: workers read it
  std::unique_ptr<std::atomic<bool>[]> done_ { new std::atomic<bool>[ most ]() };
  std::vector<std::size_t> last_;      // of each stream: its last node + 1
  std::vector<std::size_t> recorded_;  // of each event: the node of its last record + 1
  std::map<std::size_t, std::vector<std::size_t>> waits_;
  std::size_t before_probe_ = 0;
  std::vector<std::unique_ptr<step>> steps_;
  std::atomic<std::uint64_t> too_early_{0};
  // Last, so that they go first: their work reads the above.
  std::vector<stream> streams_;
  std::vector<event> events_;
};

void run_random_program(const device& d) {
  const auto streams = *rc::gen::inRange<std::size_t>(2, 6);
  const auto events = *rc::gen::inRange<std::size_t>(1, 5);
  const auto length = *rc::gen::inRange<int>(0, 200);
  program p{d, streams, events};
  for (int i = 0; i < length; ++i) {
    const auto s = *rc::gen::inRange<std::size_t>(0, streams);
    const auto e = *rc::gen::inRange<std::size_t>(0, events);
    switch (*rc::gen::weightedElement<int>({{6, 0}, {4, 1}, {4, 2}, {1, 3}, {1, 4}})) {
      case 0: p.call(s); break;
      case 1: p.record(s, e); break;
      case 2: p.wait(s, e); break;
      case 3: p.synchronize(s); break;
      default: p.ask(s, e); break;
    }
    p.check_completed();
  }
  p.check_order();
  p.finish();
  p.check_completed();
}

// On the host, or on the device that BERTH_DEVICE names: ctest names those with a fake driver.
RC_GTEST_PROP(property, streams_keep_every_order_and_know_it, ()) {
  const char* named = std::getenv("BERTH_DEVICE");
  static const device tested = device::open(named != nullptr ? named : "host").value();
  run_random_program(tested);
}

RC_GTEST_PROP(property, null_streams_know_every_order, ()) {
  run_random_program(device::open("null").value());
}

// Every granule of a range and of the physical memory holds a number; the table says which number each address shows.
RC_GTEST_PROP(property, mapped_bytes_are_those_of_the_physical_memory, ()) {
  const device d = device::host();
  const bytes granule = d.properties().granule;
  constexpr std::size_t granules = 12;
  auto* base = static_cast<std::byte*>(d.reserve(granules * granule).value());
  struct physical {
    std::uint64_t handle;
    std::vector<std::uint64_t> value;
  };
  struct mapping {
    std::size_t memory, offset, count;
  };
  std::vector<physical> memories;
  std::map<std::size_t, mapping> mappings;  // by their first granule
  std::vector<bool> mapped(granules);
  std::uint64_t next_value = 1;

  const auto word = [&](std::size_t g) { return reinterpret_cast<std::uint64_t*>(base + g * granule + granule - 8); };
  const auto check = [&] {
    for (const auto& [start, m] : mappings) {
      for (std::size_t i = 0; i < m.count; ++i) {
        RC_ASSERT(*word(start + i) == memories[m.memory].value[m.offset + i]);
      }
    }
  };
  const auto length = *rc::gen::inRange<int>(0, 60);
  for (int step = 0; step < length; ++step) {
    const auto what = *rc::gen::inRange(0, 4);
    const auto at = *rc::gen::inRange<std::size_t>(0, granules);
    if (what == 0 && memories.size() < 6) {
      const auto count = *rc::gen::inRange<std::size_t>(1, 5);
      memories.push_back({d.create_physical(count * granule).value(), std::vector<std::uint64_t>(count)});
    } else if (what == 1 && !memories.empty() && !mapped[at]) {
      const auto memory = *rc::gen::inRange<std::size_t>(0, memories.size());
      const auto offset = *rc::gen::inRange<std::size_t>(0, memories[memory].value.size());
      std::size_t count = 0;
      while (at + count < granules && !mapped[at + count] && offset + count < memories[memory].value.size()) ++count;
      RC_ASSERT(d.map(base + at * granule, count * granule, memories[memory].handle, offset * granule).has_value());
      mappings[at] = {memory, offset, count};
      std::fill_n(mapped.begin() + static_cast<std::ptrdiff_t>(at), count, true);
    } else if (what == 2 && mappings.count(at) != 0) {
      const std::size_t count = mappings[at].count;
      RC_ASSERT(d.unmap(base + at * granule, count * granule).has_value());
      mappings.erase(at);
      std::fill_n(mapped.begin() + static_cast<std::ptrdiff_t>(at), count, false);
    } else if (what == 3 && mapped[at]) {
      const auto& [start, m] = *std::prev(mappings.upper_bound(at));
      *word(at) = memories[m.memory].value[m.offset + at - start] = next_value++;
    }
    check();
  }
  for (const auto& [start, m] : mappings) RC_ASSERT(d.unmap(base + start * granule, m.count * granule).has_value());
  for (const physical& p : memories) d.destroy_physical(p.handle, p.value.size() * granule);
  d.release(base, granules * granule);
}

}  // namespace
}  // namespace berth

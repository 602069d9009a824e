#include "plan/search/turns.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <vector>

#include "plan/policy.hpp"

namespace berth::plan {
namespace {

class table {
 public:
  explicit table(std::span<turn> turns) : turns_{turns}, settled_{turns.size()} {}

  // Runs the turns that no thread has begun, in their order, until none is left or the wait is over. A turn that ends
  // (found or exhausted) settles all turns behind it: those are no longer begun, and stop.
  void sit(const patience& wait) {
    for (std::size_t k = next_++; k < settled_; k = next_++) {
      turn& t = turns_[k];
      const std::uint64_t before = t.of->nodes();
      while (t.spent < t.nodes && t.got == search_status::paused && k < settled_) {
        if (wait.is_due()) stopped_ = true;
        if (stopped_) return;
        t.got = t.of->run(std::min(t.nodes - t.spent, policy::nodes_between_looks));
        t.spent = t.of->nodes() - before;
      }
      if (t.got == search_status::paused) continue;
      for (std::size_t first = settled_; k < first && !settled_.compare_exchange_weak(first, k);) {
      }
    }
  }

  [[nodiscard]] std::size_t settled() const { return settled_; }

 private:
  std::span<turn> turns_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> settled_;
  std::atomic<bool> stopped_{false};
};

}  // namespace

std::size_t take_turns(std::span<turn> turns, unsigned threads, const patience& wait) {
  table all{turns};
  // Without a free thread, a future's work is done when it is waited for: by then nothing is left to do.
  std::vector<std::future<void>> others;
  for (std::size_t k = 1; k < std::min<std::size_t>(threads, turns.size()); ++k) {
    others.push_back(std::async([&all] { all.sit(patience{}); }));
  }
  all.sit(wait);
  for (std::future<void>& o : others) o.get();
  return all.settled();
}

}  // namespace berth::plan

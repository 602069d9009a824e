// The records of a device about the order of its streams: the existing streams, and the nodes of their clocks.
//
// Clocks know streams by their ids. The table here maps an id to the stream's clock, to complete an epoch. A missing id
// belongs to a stream that has ended. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "berth/device/stream.hpp"
#include "device/vector_clock.hpp"

namespace berth::detail {

class order_records {
 public:
  // May throw bad_alloc.
  void add(stream_clock& clock) {
    const std::lock_guard lock{mutex_};
    streams_.emplace(clock.id(), &clock);
  }
  // Removes a stream that has ended.
  void remove(const stream_clock& clock) noexcept {
    const std::lock_guard lock{mutex_};
    streams_.erase(clock.id());
    ended_.fetch_add(1, std::memory_order_relaxed);
  }
  // Returns the number of streams that have ended so far.
  [[nodiscard]] std::uint64_t ended() const noexcept { return ended_.load(std::memory_order_relaxed); }

  // Completes the epochs of that clock, for existing streams.
  void complete(const vector_clock& done) noexcept {
    if (done.size() == 0) return;
    const std::lock_guard lock{mutex_};
    done.complete([this](std::uint32_t id, std::uint64_t epoch) {
      const auto it = streams_.find(id);
      if (it != streams_.end()) it->second->complete(epoch);
    });
  }
  // Makes the clock forget streams that have ended. It is unchanged if this throws bad_alloc.
  void sweep(vector_clock& clock) {
    const std::lock_guard lock{mutex_};
    clock.sweep(
        ended(), [this](std::uint32_t id) { return streams_.count(id) == 0; }, nodes_);
  }

  [[nodiscard]] epoch_nodes& nodes() noexcept { return nodes_; }

  // Called around a fork, so that all is consistent in the child.
  void lock() noexcept {
    mutex_.lock();
    nodes_.lock();
  }
  void unlock() noexcept {
    nodes_.unlock();
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;  // nodes_ locks its own behind it
  std::unordered_map<std::uint32_t, stream_clock*> streams_;
  std::atomic<std::uint64_t> ended_{0};
  epoch_nodes nodes_;
};

}  // namespace berth::detail

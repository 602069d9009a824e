// Tracks which work may touch a block: that of streams, up to the block's free. Clocks tell what is done. Only ask()
// queries a device. It is never called from a possible host function, nor with a lock that a free takes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "berth/device/stream.hpp"

namespace berth::detail {

struct used_stream {
  std::shared_ptr<stream_clock> clock;
  std::size_t blocks = 0;  // that name it
  // Recorded while the stream had work, one at a time.
  std::optional<event> last{};
  std::uint64_t recorded = 0;                   // the epochs that `last` closed
  std::uint64_t gave_up = stream_clock::ended;  // the epochs completed when a wait for it last failed
};

// The work of a stream up to an epoch, which is known once the block is freed.
struct stream_work {
  std::shared_ptr<stream_clock> clock;
  std::uint64_t until = stream_clock::ended;

  [[nodiscard]] bool done() const noexcept { return clock->completed() >= until; }
};

// The streams that blocks name, and some that no block names any more. Not thread-safe.
class used_streams {
 public:
  // May throw bad_alloc.
  [[nodiscard]] used_stream* of(const std::shared_ptr<stream_clock>& clock) {
    if (last_ != nullptr && last_->clock == clock) return last_;
    for (const auto& k : all_) {
      if (k->clock == clock) return last_ = k.get();
    }
    if (all_.size() > many) {
      std::erase_if(all_, [](const auto& k) { return k->blocks == 0; });
      last_ = nullptr;
    }
    all_.push_back(std::make_unique<used_stream>());
    all_.back()->clock = clock;
    return last_ = all_.back().get();
  }

  // Finds out whether that work is done; the clock then tells all readers. If the stream has work it records an event,
  // unless one is pending. May throw bad_alloc.
  void ask(const stream_work& use, const device& d) {
    used_stream& k = *of(use.clock);
    const auto look = [&k] {
      if (k.last && k.recorded > k.clock->completed()) (void)k.last->query();
    };
    look();
    if (use.done() || (k.last && k.recorded > k.clock->completed())) return;
    if (stream::query(*k.clock).value_or(false)) return;
    if (!k.last) {
      auto made = event::create(d);
      if (!made) return;
      k.last.emplace(std::move(*made));
    }
    const std::uint64_t closes = k.clock->epoch();
    if (stream::record(*k.clock, *k.last)) k.recorded = closes;
    look();
  }

  // Waits a moment for the work. After a wait without effect, does not wait again until the stream has advanced.
  // Queries the device if the clock alone is not enough. May throw bad_alloc.
  void wait_for(const stream_work& use, const device& d) {
    const auto is_done = [&use] { return use.done() || stream::idle(*use.clock); };
    if (of(use.clock)->gave_up == use.clock->completed()) return ask(use, d);
    for (unsigned turn = 0; turn < quick_looks && !is_done(); ++turn) std::this_thread::yield();
    for (const auto end = std::chrono::steady_clock::now() + a_moment; !is_done();) {
      ask(use, d);
      if (is_done()) return;
      if (std::chrono::steady_clock::now() >= end) {
        of(use.clock)->gave_up = use.clock->completed();
        return;
      }
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
  }

 private:
  static constexpr std::chrono::milliseconds a_moment{10};
  static constexpr unsigned quick_looks = 20;
  static constexpr std::size_t many = 64;  // the number at which those without blocks are forgotten
  std::vector<std::unique_ptr<used_stream>> all_;
  used_stream* last_ = nullptr;
};

}  // namespace berth::detail

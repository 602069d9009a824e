// Which work may touch a block that a guard knows: that of its stream and of those that use_on named, up to its free.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "berth/device/stream.hpp"

namespace berth::detail {

struct used_stream {
  std::shared_ptr<stream_clock> clock;
  std::size_t blocks = 0;  // that name it
  // Recorded for blocks that were freed while it had work, one at a time.
  std::optional<event> last{};
  std::uint64_t recorded = 0;  // closed by it
};

// The work of a stream up to an epoch, which is known once the block is freed.
struct block_use {
  used_stream* on = nullptr;
  std::uint64_t until = stream_clock::ended;

  [[nodiscard]] bool done() const noexcept {
    if (on->clock->completed() >= until) return true;
    if (on->last && on->recorded >= until) (void)on->last->query();  // moves the clock where no driver does
    return on->clock->completed() >= until || stream::idle(*on->clock);
  }
  // The block is freed while the stream has work: an event says when that is done, unless one is on its way.
  void close(const device& d) noexcept {
    used_stream& k = *on;
    until = k.clock->epoch();
    if (k.recorded > k.clock->completed() && k.last && !k.last->query().value_or(false)) return;
    if (!k.last) {
      auto made = event::create(d);
      if (!made) return;
      k.last.emplace(std::move(*made));
    }
    const std::uint64_t closes = k.clock->epoch();
    if (stream::record(*k.clock, *k.last)) k.recorded = closes;
  }
  // Finds out whether that is done, by events alone: the clock says it then, to all who look.
  void ask(const device& d) noexcept {
    const used_stream& k = *on;
    const auto look = [&k] {
      if (k.last && k.recorded > k.clock->completed()) (void)k.last->query();
    };
    look();
    if (k.clock->completed() >= until || k.recorded >= until) return;
    close(d);
    look();
  }
};

// Those that blocks name, and some that no block names any more. Not thread-safe.
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

 private:
  static constexpr std::size_t many = 64;  // before those without blocks are forgotten
  std::vector<std::unique_ptr<used_stream>> all_;
  used_stream* last_ = nullptr;
};

}  // namespace berth::detail

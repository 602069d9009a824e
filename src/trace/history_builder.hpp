// Events of another engine's log, made a history that holds what snapshots promise: an address is freed before it is
// allocated again, and what is freed was allocated.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "berth/trace/engine_log.hpp"

namespace berth::trace {

class history_builder {
 public:
  // False where more than 2^62 bytes would be alive; so are the others.
  [[nodiscard]] bool allocate(const event& e);
  // Of an address that was never heard of, the block was alive before the history.
  [[nodiscard]] bool free(const event& e);
  // A block of before the history, unless something was heard of its address already: then its site is that of the
  // block there, where that has none.
  [[nodiscard]] bool was_alive(const event& e);

  // So far, without those of before.
  [[nodiscard]] std::uint64_t events() const noexcept { return now_.size(); }

  // Sets history, alive_before, unmatched and the live bytes of the three moments. `failed` is as it was counted by
  // events() before.
  void finish(engine_log& out);

 private:
  struct block {
    bytes size;
    bool before;
    std::size_t event;  // in before_ or now_
  };
  void close(event by);

  std::vector<event> before_, now_;
  std::unordered_map<std::uint64_t, block> alive_;
  std::unordered_set<std::uint64_t> known_;  // addresses that something was heard of
  bytes before_bytes_ = 0;
  bytes live_ = 0;  // of what was allocated since
  bytes live_peak_ = 0;
  std::uint64_t unmatched_ = 0;
};

}  // namespace berth::trace

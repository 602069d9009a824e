// Turns events of another engine's log into a history that keeps the promises of snapshots. An address is freed before
// it is allocated again, and only allocated addresses are freed.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "berth/trace/engine_log.hpp"

namespace berth::trace {

class history_builder {
 public:
  // Each returns false if more than 2^62 bytes would be alive.
  [[nodiscard]] bool allocate(const event& e);
  // Frees a block. A block of an unknown address was alive before the history.
  [[nodiscard]] bool free(const event& e);
  // Adds a block from before the history, unless its address is known already. It then gives its site to the block
  // there, if that has none.
  [[nodiscard]] bool was_alive(const event& e);

  // Returns the number of events so far, without those of before.
  [[nodiscard]] std::uint64_t events() const noexcept { return now_.size(); }

  // Sets history, alive_before, unmatched and the live bytes of the three moments. Counts of `failed` come from
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

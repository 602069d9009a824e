// The recorder: listens to the event hook and keeps what it hears, so that leaks have a file and a line and a run can
// be replayed.
//
// Each thread writes records of 32 bytes into a buffer of its own; a full buffer goes to the recorder's store under a
// lock. Places are interned, and the clock is read for one event in 64. Beyond `capacity` records nothing more is kept
// and the loss is counted: a report says so.
//
// One recorder at a time listens (contract). It must be stopped, and no thread be inside an allocation, before it is
// destroyed. All members are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/hook.hpp"
#include "berth/trace/log.hpp"

namespace berth::trace {

struct leak {
  std::uint64_t address = 0;
  bytes size = 0;
  std::uint32_t stream = 0;
  source_location site;
};

class recorder {
 public:
  explicit recorder(std::size_t capacity = std::size_t{1} << 24);
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;
  ~recorder();  // stops

  void start();
  void stop() noexcept;

  // What pools gave out and got back, in the order of time (exact within a thread; between threads as near as the
  // stamps are). Blocks freed that were given out before the start are left out.
  [[nodiscard]] log to_log() const;
  // Blocks given out and not given back, by address. Exact where dropped() is 0.
  [[nodiscard]] std::vector<leak> leaks() const;
  // "SIZE bytes at ADDRESS, asked for at FILE:LINE" for each, then the sum; says where records were dropped.
  [[nodiscard]] std::string leak_report() const;
  [[nodiscard]] std::uint64_t dropped() const noexcept;

 private:
  struct state;
  static void hear(void* context, const memory_event& event) noexcept;
  std::unique_ptr<state> state_;
  hook hook_;
};

}  // namespace berth::trace

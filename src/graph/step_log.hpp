// The requests of one stream in one step, and the times of their frees: the data that a guided pool learns from.
//
// Two steps may be recorded. All of the first is kept. The second is recorded if blocks of the first are still
// allocated at its end. Only their frees are kept, so that blocks passed from step to step can be planned too.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "berth/core/bytes.hpp"

namespace berth::detail {

struct step_request {
  static constexpr std::uint32_t never = ~std::uint32_t{0};

  bytes size = 0;               // the requested size
  std::uint32_t until = never;  // it was freed before the request with this number, of the same step ...
  bool in_next = false;         // ... or of the next one
  std::uint32_t back = 0;       // how many of the log had been freed before it
  bool shared = false;          // another stream used it too
};

class step_log {
 public:
  static constexpr std::uint32_t most = std::uint32_t{1} << 20;  // requests in a step

  // Both may run out of memory, or of numbers: then the log is invalid, and no exception is thrown.
  void took(const void* data, bytes size) noexcept;
  void used_elsewhere(const void* data) noexcept;
  // Returns true if it was a block of the step.
  bool gave_back(const void* data) noexcept;

  // Ends the first step.
  void next() noexcept {
    in_next_ = true;
    count_ = 0;
  }
  [[nodiscard]] bool in_next() const noexcept { return in_next_; }
  [[nodiscard]] bool all_back() const noexcept { return out_.empty(); }
  [[nodiscard]] bool spoilt() const noexcept { return spoilt_; }
  [[nodiscard]] const std::vector<step_request>& requests() const noexcept { return requests_; }

 private:
  std::vector<step_request> requests_;
  std::unordered_map<const void*, std::uint32_t> out_;
  std::uint32_t count_ = 0;  // requests of the step being recorded
  std::uint32_t back_ = 0;
  bool in_next_ = false;
  bool spoilt_ = false;
};

}  // namespace berth::detail

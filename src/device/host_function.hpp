// The threads that run host functions, as far as backends report them: drivers' threads are unknown.
#pragma once

#include <cstdint>
#include <utility>

#include "device/process.hpp"

namespace berth::detail {

// Marks this thread, during its life, as one that runs a host function or may run one at any time.
class runs_host_functions {
 public:
  runs_host_functions() noexcept : before_{std::exchange(since_, process_generation() + 1)} {}
  runs_host_functions(const runs_host_functions&) = delete;
  runs_host_functions& operator=(const runs_host_functions&) = delete;
  ~runs_host_functions() { since_ = before_; }

  // In the child a thread that forked there is like any other: no stream's work runs there.
  [[nodiscard]] static bool here() noexcept { return since_ == process_generation() + 1; }

 private:
  static inline constinit thread_local std::uint32_t since_ = 0;  // process_generation() + 1, or 0
  const std::uint32_t before_;
};

}  // namespace berth::detail

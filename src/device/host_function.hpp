// Which threads run host functions, as far as backends say: those of drivers are not known.
#pragma once

#include <cstdint>
#include <utility>

#include "device/process.hpp"

namespace berth::detail {

// This thread runs a host function, or may run one at any time, while this is alive.
class runs_host_functions {
 public:
  runs_host_functions() noexcept : before_{std::exchange(since_, process_generation() + 1)} {}
  runs_host_functions(const runs_host_functions&) = delete;
  runs_host_functions& operator=(const runs_host_functions&) = delete;
  ~runs_host_functions() { since_ = before_; }

  // A thread that forked there goes on as any other in the child, where no stream's work runs.
  [[nodiscard]] static bool here() noexcept { return since_ == process_generation() + 1; }

 private:
  static inline constinit thread_local std::uint32_t since_ = 0;  // process_generation() + 1, or 0
  const std::uint32_t before_;
};

}  // namespace berth::detail

// berth plan --diff OLD: a plan beside a former one, as a gate: did the arena grow, and which buffers did it.
#pragma once

#include <string>
#include <vector>

#include "tool/holdings.hpp"
#include "tool/trace_input.hpp"

namespace berth::tool {

struct plan_diff {
  bytes arena_before = 0;
  bytes arena = 0;
  bytes allowed = 0;  // growth of the arena
  bytes peak_before = 0;
  bytes peak = 0;                           // alive at once; of lifetimes with gaps from the first to the last
  std::string kernels_before{}, kernels{};  // of plans with workspaces of different kernels; else empty
  std::vector<change> at_peaks;  // each buffer's bytes at the one peak and the other; they add up to the peak's growth

  [[nodiscard]] bool ok() const noexcept { return arena <= arena_before || arena - arena_before <= allowed; }
};

// Compares with a former plan. `growth`: "64KiB", or "5%" of the former arena. A former plan without an arena has its
// sizes rounded as the new problem rounds those of the same ids. Throws usage_error, and input_error if the file is no
// plan.
[[nodiscard]] plan_diff diff_to(const std::string& former, const model::problem_file& file, const plan_facts& now,
                                const std::string& growth);

// `"diff":{...}`
[[nodiscard]] std::string diff_json(const plan_diff& d);
void print(const plan_diff& d, const std::string& former);

}  // namespace berth::tool

// Remedies for a pool whose health is not excellent, each found by replaying its log under that option.
#pragma once

#include <string>
#include <vector>

#include "berth/trace/health.hpp"
#include "berth/trace/log.hpp"
#include "tool/progress_line.hpp"

namespace berth::tool {

struct advice {
  const char* threshold = "";  // as trace::threshold::name
  std::string cause;           // one sentence, of what was measured
  std::string option;          // "pool_options::limit"; empty: nothing that was tried helps
  bytes value = 0;
  double before = 0;  // the figure of a replay under the default options, and under this one
  double after = 0;
};

// Advises on each threshold that is not excellent and depends on the pool. Replays the log on a device without memory,
// once for each option and value that may help. Names an option only if the figure got better.
[[nodiscard]] std::vector<advice> advise(const trace::health& h, const trace::log& log, progress_line& line);

}  // namespace berth::tool

// What would have helped a pool whose health is not excellent, found by replaying its log under that option.
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

// For each threshold that is not excellent and depends on the pool. The log is replayed on a device without memory,
// once for each option and value that may help; an option is named only where the figure got better.
[[nodiscard]] std::vector<advice> advise(const trace::health& h, const trace::log& log, progress_line& line);

}  // namespace berth::tool

// Remedies of the pool's options, each found by replaying a log under that option.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "berth/pool/pool.hpp"
#include "berth/trace/snapshot.hpp"
#include "tool/playback.hpp"
#include "tool/progress_line.hpp"

namespace berth::tool {

struct advice {
  const char* threshold = "";  // as trace::threshold::name, or "idle"
  std::string cause;           // one sentence, of what was measured
  std::string option;          // "pool_options::limit"; empty: nothing that was tried helps
  bytes value = 0;
  double before = 0;  // the figure of a replay under the default options, and under this one
  double after = 0;
};

// Advises on pool hits that are not excellent, and on idle bytes above a tenth of the reserved ones at the peak. `now`
// is the replay under `options`. Replays the log once for each option and value that may help. Names an option only
// if the figure got better.
[[nodiscard]] std::vector<advice> advise(const trace::log& log, const playback& p, const replayed& now,
                                         const pool_options& options, progress_line& line);

// Returns the options of a replay that stands for a pool with these.
[[nodiscard]] pool_options replay_options(const std::optional<pool_options>& of, bytes peak_live);

}  // namespace berth::tool

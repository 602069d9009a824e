// Finds whether Berth's pool would have served the log of another engine's allocator, and with how much less. Replays
// it through the pool under ever tighter limits, on a device without memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "berth/trace/engine_log.hpp"
#include "tool/playback.hpp"
#include "tool/progress_line.hpp"

namespace berth::tool {

// Returns the smallest limit found under which the pool serves and reserves all, to a thousandth of it. Empty if it
// fails with ample room too.
[[nodiscard]] std::optional<bytes> smallest_limit(const playback& p, bytes peak_live);

// The last request that the engine's allocator failed: the one that ended the run, if one did.
struct failure {
  trace::failed_request request;
  trace::memory_use use;           // when it was made
  std::optional<bytes> available;  // what the allocator held and what the device still had; where the log says both
  // The event from which on no more than `available` was alive. Before it there was more memory, which others hold now,
  // so that no pool could have had this limit. The log is judged from there on, after all blocks alive then were
  // placed. 0: from the beginning.
  std::uint64_t since = 0;
  // The smallest limit found under which the pool serves all from `since` on, and the request. It is smallest_limit(),
  // or `available` if it serves all of that under it too.
  std::optional<bytes> needs;
  std::vector<std::string> settings;  // of the engine, tried in replays of the same (settings.hpp)
  // Empty if the log does not say how much there was.
  [[nodiscard]] std::optional<bool> survived() const {
    if (!available) return std::nullopt;
    return needs && *needs <= *available;
  }
};

// Empty if none failed.
[[nodiscard]] std::optional<failure> last_failure(const trace::engine_log& log, progress_line& line);

}  // namespace berth::tool

// Would Berth's pool have served what another engine's allocator did, and with how much less? Found by replaying its
// log through the pool under ever tighter limits, on a device without memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "berth/trace/engine_log.hpp"
#include "tool/playback.hpp"
#include "tool/progress_line.hpp"

namespace berth::tool {

// The smallest limit found under which the pool serves all of it, to a thousandth of it; what it reserves is no more.
// Empty where it fails with ample room too.
[[nodiscard]] std::optional<bytes> smallest_limit(const playback& p, bytes peak_live);

// The last request that the engine's allocator failed: the one that ended the run, where one did.
struct failure {
  trace::failed_request request;
  trace::memory_use use;           // when it was made
  std::optional<bytes> available;  // what the allocator held and what the device still had; where the log says both
  // The event from which on no more than `available` was alive. Before it there was more memory, which others hold now,
  // so that no pool could have had this limit: it is judged from there on, the blocks alive then placed first, one
  // after the other. 0: from the beginning.
  std::uint64_t since = 0;
  // The smallest limit found under which the pool serves all from `since` on, and the request: smallest_limit(), or
  // `available` where it serves all of that under it too.
  std::optional<bytes> needs;
  std::vector<std::string> settings;  // of the engine, tried in replays of the same (settings.hpp)
  // Empty where the log does not say what there was.
  [[nodiscard]] std::optional<bool> survived() const {
    if (!available) return std::nullopt;
    return needs && *needs <= *available;
  }
};

// Empty where none failed.
[[nodiscard]] std::optional<failure> last_failure(const trace::engine_log& log, progress_line& line);

}  // namespace berth::tool

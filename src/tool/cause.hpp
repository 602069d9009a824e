// Why a request failed, or why a pool holds what it holds: one cause with its figures, and what to do about it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "berth/trace/engine_log.hpp"
#include "tool/survival.hpp"

namespace berth::tool {

struct cause {
  const char* name = "";            // a key of --json
  std::string text;                 // one sentence, of what was measured
  std::vector<std::string> advice;  // in the words of the engine's own settings; a line each
};

// Returns the cause of the last failed request. The rules are tried in the order of docs/out-of-memory.md. O(n).
[[nodiscard]] cause cause_of(const trace::engine_log& log, const failure& f);

// Returns the cause of a failed request, of leaks or of idle memory in a pool. Empty if the snapshot shows none of
// them.
[[nodiscard]] std::optional<cause> cause_of(const trace::snapshot& s);

}  // namespace berth::tool

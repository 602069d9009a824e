// An allocation log: allocations and frees with their bytes, in program order. Recordings are kept in this form, to be
// replayed (`berth replay`) and looked at.
//
// The file form is CSV with the header `ev,id,size,stream,thread,t_us`. Blank lines and comments (#) may precede the
// header. ev is a (allocate) or f (free). An id names one block from its a to its f, and may be used again after that.
// Sizes are in bytes, as requested. t_us is the time in microseconds since the recording began. Blocks that were alive
// when it began come first, with t_us 0. The reader ignores further columns of a row.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"

namespace berth::trace {

struct log_entry {
  bool allocate = true;
  std::uint32_t stream = 0;
  std::uint32_t thread = 0;
  std::uint64_t id = 0;
  bytes size = 0;
  double t_us = 0;
};

using log = std::vector<log_entry>;

// Errors: invalid_input; the number is the line, counted from 1.
[[nodiscard]] result<log> parse_csv(std::string_view text);
[[nodiscard]] std::string to_csv(const log& l);

// The figures of a log that need no replay.
struct log_summary {
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  bytes peak_live = 0;
  bytes live_at_end = 0;
  std::uint64_t blocks_at_end = 0;
  std::uint64_t unmatched_frees = 0;  // of ids that are not alive; passed over
};
[[nodiscard]] log_summary summarize(const log& l);

}  // namespace berth::trace
#pragma GCC visibility pop

// An allocation log: who took and gave back how many bytes, in program order. The form in which a recording is kept,
// replayed (`berth replay`) and looked at.
//
// The file form is CSV with the header `ev,id,size,stream,thread,t_us`, before which blank lines and comments (#) may
// stand: ev is a (allocate) or f (free); an id names one block from its a to its f, and may be used again after that;
// sizes are in bytes, as asked for; t_us is the time in microseconds since the recording began. Blocks that were alive
// when it began come first, with t_us 0. What may follow t_us in a row is passed over.
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

// What can be said of a log without replaying it.
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

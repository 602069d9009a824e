// Recordings of memory in the forms in which they are kept: an allocation log, and a snapshot with more beside it.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/device/device.hpp"
#include "berth/pool/pool.hpp"
#include "berth/trace/health.hpp"

namespace berth::trace {

// --- an allocation log: allocations and frees with their bytes, in program order. Recordings are kept in this form, to
// be replayed (`berth replay`) and looked at.
//
// The file form is CSV with the header `ev,id,size,stream,thread,t_us`. Blank lines and comments (#) may precede the
// header. ev is a (allocate) or f (free). An id names one block from its a to its f, and may be used again after that.
// Sizes are in bytes, as requested. t_us is the time in microseconds since the recording began. Blocks that were alive
// when it began come first, with t_us 0. The reader ignores further columns of a row.

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

// --- a snapshot: the events of a recorder and the statistics of the pool and the device, as one file for `berth
// report` and `berth view`.
//
//   trace::snapshot s = recorder.take();  add(s, pool);
//
// The file form is one JSON object, berth-snapshot/1:
//   {"format":"berth-snapshot/1","ended":true,"forgotten":0,"dropped":0,
//    "pool":{...},"device":{...},"allocation":{"count":1,"mean_us":0.1,"longest_us":0.1},
//    "sites":[["main.cpp",12]],
//    "events":[["a",ADDRESS,SIZE,STREAM,THREAD,T_US,SITE],["f",ADDRESS,SIZE,STREAM,THREAD,T_US,SITE]]}
// `pool`, `device` and `allocation` hold the members of pool_statistics, device_statistics and allocation_times by
// their names, and are null if not measured. `options` holds the numbers of the pool's options, and `failed` the pool's
// last failed request as {"size":N,"pool":{...}}; older files lack both. SITE is the caller that allocated or freed,
// counted in `sites` from 1; 0 is unknown. Events are in order: an address is freed before it is allocated again.

struct site {
  std::string file;
  std::uint32_t line = 0;
};

struct event {
  bool allocate = true;
  std::uint32_t stream = 0;
  std::uint32_t thread = 0;
  std::uint32_t site = 0;  // in snapshot::sites, from 1; 0: unknown
  std::uint64_t address = 0;
  bytes size = 0;  // as asked for
  double t_us = 0;
};

struct snapshot {
  bool ended = false;           // the recording was stopped: what is alive then, nobody freed
  std::uint64_t forgotten = 0;  // events that are not here: blocks that had come and gone
  std::uint64_t dropped = 0;    // events lost: what is said of leaks may be wrong
  std::optional<pool_statistics> pool;
  std::optional<pool_options> options;  // of that pool; its callbacks are not kept
  std::optional<pool_failure> failed;   // by that pool
  std::optional<device_statistics> device;
  std::optional<allocation_times> allocation;
  std::vector<trace::site> sites;
  std::vector<event> events;
};

// Adds the pool's statistics, options and last failure, and the statistics of its device.
void add(snapshot& s, const pool& p);

[[nodiscard]] std::string to_json(const snapshot& s);

[[nodiscard]] measurements measure(const snapshot& s) noexcept;

// The events as an allocation log: blocks are numbered in the order of their allocation.
[[nodiscard]] log to_log(const snapshot& s);

// The allocations without a free, in the order they were made.
[[nodiscard]] std::vector<event> alive(const snapshot& s);

}  // namespace berth::trace
#pragma GCC visibility pop

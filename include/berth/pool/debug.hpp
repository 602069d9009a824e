// The memory debugger, enabled by an environment variable or by the program. Every pool made from then on has a guard
// around its blocks (guard.hpp) and appears in the report.
//
//   BERTH_DEBUG=guards,report=memory.txt ./program
//
// Words, separated by commas:
//
//   `guards`        Red zones and the quarantine. Without it the debugger only records blocks.
//                   It still finds foreign, double and wrong frees, and leaks.
//   `pages`         Implies guards. Puts an inaccessible page behind each block, and makes freed blocks inaccessible,
//                   on memory of the host. An overrun or a use after the free ends the program at the instruction,
//                   even with `warn`. A zone fills the gap that a block's alignment leaves behind it.
//   `quarantine=N`  Implies guards, except for 0. N is in bytes, or with KiB, MiB or GiB.
//                   The default is 64 MiB, or an eighth of what the pool may hold if that is less.
//   `every=N`       Checks everything after N calls of a pool.
//   `arenas`        Model runners plan with red zones behind every buffer, and check them after each node.
//                   They report which node wrote behind which value (arena_guard.hpp).
//                   The arena is larger, and a run waits for every node.
//   `scratch`, `scratch=N`
//                   Red zones of 64, or N, bytes around scratch blocks (scratch/scratch.hpp).
//                   The words `guards`, `pages` and `leaks` enable them too. A mistake stops the program, even with
//                   `warn`.
//   `warn`          Reports mistakes and continues. Without it the first one stops the program.
//   `leaks`         One line for each place (and stack) that left blocks alive at its pool's end.
//                   Overrides pool_options::report_leaks.
//   `stack`, `stack=N`
//                   Records the stack of each allocation: 12, or N return addresses. Reports and mistakes show it.
//                   Costs microseconds a block.
//   `live=N`, `bytes=N`, `age=SECONDS`
//                   An alarm, once a pool, if so many blocks or bytes are alive, or a block for so long.
//                   With report=FILE the report of that moment is written to FILE with "alarm" before its ending,
//                   as memory.alarm.txt. A later alarm replaces it.
//   `sample=1/N`    Guards one block in N, by chance, for long-running programs.
//                   Alarms, leaks and the report then cover those blocks alone.
//   `report=FILE`   Written when the program ends: text, or JSON if the name ends in .json. Links, pipes and devices
//                   are refused.
//   `signal`        Also writes the report at SIGUSR2, by a thread of its own.
//
// BERTH_DEBUG is read when the first pool is made, and ignored in a set-user-ID program. Unknown words are named on
// standard error, and the others apply. A report that cannot be written is reported at once, not at the end. In a
// program that replaces signal handling, set_debug() without `on_signal` leaves signals alone.
//
// The statistics of a watched pool count the pool's own blocks: with their red zones, and alive until they leave the
// quarantine. The zones and pages of its blocks may lift the pool above its limit (guard.hpp). A recorder receives the
// blocks as their users know them, and a free at the time of the user's free.
//
// A child of fork has the same options. It writes a report of its own, report.PID.json, if it makes pools or mistakes.
//
// Memory of other allocators that the program records (record_allocation) is in the report beside the pools.
//
// The report contains the allocations of every pool and the live memory by place (blocks, bytes, age, stream and
// thread). It also contains every mistake with its place. A report written while a mistake stops the program repeats
// each pool's figures of the last report. If there was none, it says that the pool was not counted yet.
#pragma once
#pragma GCC visibility push(default)

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/contract.hpp"
#include "berth/pool/guard.hpp"

namespace berth {

struct debug_options {
  bool guards = false;
  bool pages = false;
  bytes quarantine = max_bytes;  // as in guard_options
  std::uint64_t check_every = 0;
  bool warn = false;
  bool leaks = false;
  std::uint64_t live_alarm = 0;
  bytes bytes_alarm = 0;
  std::chrono::seconds age_alarm{0};
  unsigned stack_depth = 0;
  std::uint32_t sample = 1;
  std::string report{};  // a path; empty: no report
  bool on_signal = false;
  bool arenas = false;
  bytes scratch_zone = 0;  // set_debug() passes it to set_scratch_zone() if it is not 0
};

struct debug_words {
  debug_options options;
  std::vector<std::string> unknown;  // unknown words, or words with a bad value
};
[[nodiscard]] debug_words read_debug(std::string_view words);

// Sets the options for pools made from now on. BERTH_DEBUG is not read any more. Thread-safe.
void set_debug(const debug_options& o);
// Turns debugging off for pools made from now on, whatever was set.
void end_debug();

// Returns the options for pools made now; nothing if debugging is off. For code that guards its own memory.
[[nodiscard]] std::optional<debug_options> current_debug();
// Reports a mistake as a watched pool does: it appears in the report, and stops the program unless `warn` is set.
void tell_mistake(const memory_mistake& m);

// Returns the report as it would be written now. O(blocks of all watched pools).
[[nodiscard]] std::string debug_report(bool as_json = false);

// --- Memory of other allocators in Berth's records: malloc, cudaMalloc, aclrtMalloc, a program's own pool.
//
//     void* p = std::malloc(n);
//     berth::record_allocation(p, n);
//     ...
//     berth::record_free(p);
//     std::free(p);
//
// A recorder (berth/trace/recorder.hpp) keeps these blocks as it keeps those of pools. If debugging is on
// they stand in the report by place, and the record finds double frees and frees of unknown
// blocks. It counts towards live=N, bytes=N, and tells of leaks when the program ends if `leaks` is set. There are no
// red zones: the memory is not Berth's. `sample` does not hold here.
//
// Thread-safe: one lock. Cost: a lock and a hash table's look-up if debugging is on, else a lock.

// Records a block. Null does nothing. A block that is alive at this address ends: its free was not recorded. Records
// less, and says nothing, if there is no host memory for it.
void record_allocation(const void* address, bytes size, source_location site = source_location::current()) noexcept;

// Records a free, before the memory goes back. Null does nothing. Returns false for a mistake, which the debugger has
// told: it stops the program unless `warn` is set. Always true if debugging is off.
bool record_free(const void* address, source_location site = source_location::current()) noexcept;

}  // namespace berth
#pragma GCC visibility pop

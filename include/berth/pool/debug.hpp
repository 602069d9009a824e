// The memory debugger, switched on from outside or by the program: every pool made from then on has a guard around its
// blocks (guard.hpp) and stands in the report.
//
//   BERTH_DEBUG=guards,report=memory.txt ./program
//
// Words, separated by commas:
//   guards          red zones and the quarantine; without it blocks are only known: foreign, double and wrong frees and
//                   leaks are found still
//   pages           with guards (and switches them on): a page that nobody can touch behind each block, and freed
//                   blocks that nobody can touch, on memory of the host: an overrun or a use after the free ends the
//                   program at the instruction, whatever `warn` says. What a block's alignment leaves behind it is a
//                   zone
//   quarantine=N    with guards (and switches them on, but for 0): bytes, with KiB, MiB or GiB behind if one likes.
//                   Without it 64 MiB, or an eighth of what the pool may hold where that is less
//   every=N         everything is looked at after so many calls of a pool
//   arenas          model runners plan with red zones behind every buffer, and look at them after each node: which node
//                   wrote behind which value (arena_guard.hpp). The arena is larger, and a run waits for every node
//   scratch, scratch=N
//                   red zones of 64, or N, bytes round scratch blocks (scratch/watch.hpp); `guards`, `pages` and
//                   `leaks` do it too. A mistake stops the program, whatever `warn` says
//   warn            mistakes are written down and survived; without it the first one stops the program
//   leaks           a line for each place (and stack) that left blocks alive at its pool's end, whatever
//                   pool_options::report_leaks says
//   stack, stack=N  who asked for a block: 12, or N return addresses, in reports and mistakes; microseconds a block
//   live=N, bytes=N, age=SECONDS
//                   an alarm, once a pool, when so many blocks or bytes are alive, or a block for so long
//   sample=1/N      one block in N is guarded, by chance: for programs that run for long. Alarms, leaks and the report
//                   are of those blocks alone
//   report=FILE     written when the program ends: text, or JSON where the name ends in .json. Links, pipes and devices
//                   are refused
//   signal          and at SIGUSR2, by a thread of its own
// BERTH_DEBUG is read when the first pool is made, and ignored in a set-user-ID program. Unknown words are named on
// standard error, the others hold. A report that cannot be written is said so at once, not at the end. In a program
// that replaces signal handling, set_debug() without `on_signal` leaves signals alone.
//
// The statistics of a watched pool are of the pool's own blocks: with their red zones, and alive until they leave the
// quarantine. The pool may hold more than its limit, by the zones and pages of its blocks (guard.hpp). A recorder hears
// of the blocks as their users know them, and of a free when they gave the block back.
//
// A child of fork has the same options, and a report of its own, report.PID.json, if it makes pools or mistakes.
//
// The report has, of every pool, what was allocated, what is alive by place (with blocks, bytes, age, stream and
// thread), and every mistake with its place. One that is written as a mistake stops the program has of each pool what
// the last report before it had, or that it was not counted yet.
#pragma once
#pragma GCC visibility push(default)

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/pool/guard.hpp"

namespace berth {

struct debug_options {
  bool guards = false;
  bool pages = false;
  bytes quarantine = max_bytes;  // as of guard_options
  std::uint64_t check_every = 0;
  bool warn = false;
  bool leaks = false;
  std::uint64_t live_alarm = 0;
  bytes bytes_alarm = 0;
  std::chrono::seconds age_alarm{0};
  unsigned stack_depth = 0;
  std::uint32_t sample = 1;
  std::string report{};  // a path; empty: none
  bool on_signal = false;
  bool arenas = false;
  bytes scratch_zone = 0;  // set_debug() passes it to set_scratch_zone() if it is not 0
};

struct debug_words {
  debug_options options;
  std::vector<std::string> unknown;  // words that say nothing, or whose value is none
};
[[nodiscard]] debug_words read_debug(std::string_view words);

// For pools made from now on; BERTH_DEBUG is not read any more. Thread-safe.
void set_debug(const debug_options& o);
// For pools made from now on: nothing, whatever was set.
void end_debug();

// What holds for pools made now; nothing where nobody wants any debugging. For those who guard memory of their own.
[[nodiscard]] std::optional<debug_options> current_debug();
// Tells a mistake as a watched pool tells its own: it stands in the report, and stops the program unless `warn`.
void tell_mistake(const memory_mistake& m);

// The report as it would be written now. O(blocks of all watched pools).
[[nodiscard]] std::string debug_report(bool as_json = false);

}  // namespace berth
#pragma GCC visibility pop

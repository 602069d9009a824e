// Refutations: logs of exhausted searches, in a form that is checked without any search.
//
// A log proves that no plan of a problem has an arena below a bound. It shares no code with the solver: the checker
// knows the problem, the bound and the steps below. It is a text of lines. Numbers are decimal and one space apart.
// Buffers and memories are named by their index.
//
//   berth-refutation/1 FINGERPRINT   first line: fingerprint_of() the problem, 16 hexadecimal digits
//   bound B [memory M]               a block begins: no plan needs less than B bytes (M: of this memory, in a
//                                    problem of several)
//   of all | of I J ...              the block looks at these buffers only; one stands for all of its alias group
//   clique I J ...                   buffers of which any two conflict, numbered from 0 in each block
//   p I                              two cases: the buffer lies at its least offset, or above it (the steps of the
//                                    first case follow, then those of the second)
//   k I USES                         the same; the state that the first case leaves is a lemma, numbered from 0, and
//                                    holds from the end of that case on, for so many uses
//   e I                              this case is refuted: the buffer ends at B or above
//   s C                              ... the open buffers of clique C, by rising least offset, end at B or above
//   m C STEP                         ... so do they in multiples of STEP
//   h I                              ... nothing that is open can enter the hole of the buffer
//   l L                              ... lemma L applies: the open buffers are its own and more, none lower
//
// A block ends when all of its cases are refuted. Blocks of several memories may follow each other.
//
// The argument. Suppose plans fit below B. Take one with the least sum of offsets: no buffer can be moved down alone.
// - `least` of an open buffer bounds its offset from below. It is clear of pins and reserved ranges.
// - A buffer may be placed at its least offset only if no open neighbour can lie below it. Then all open neighbours lie
//   on it, which raises their least offsets.
// - A buffer that lies above its least offset does so because an open neighbour enters that place, its *hole*. The
//   buffer lies on this neighbour: at the lowest end of any neighbour that still can enter, or above.
// - A lemma is a set of open buffers and the least offsets that placed ones leave them (`support`). It says that these
//   buffers have no layout there. Suppose one, and take that with the least sum of offsets. A buffer whose hole is not
//   entered could be moved there. This makes a layout of the first case of the step that made the hole, and this case
//   was refuted before. So all holes are entered, and the steps of the lemma's case refute the layout.
// Offsets and arena of such a plan are multiples of the gcd of all sizes, pins, bounds of reserved ranges and
// alignments.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"
#include "berth/plan/solve.hpp"

namespace berth::plan {

// A bound that a checked log proves.
struct refutation {
  bytes bound = 0;              // no plan needs less (of `memory`)
  std::optional<index> memory;  // in a problem of several memories
  std::uint64_t steps = 0;      // lines of its block
};

struct log_fault {
  const char* rule = "";   // static text: what is wrong
  std::uint64_t line = 0;  // where, from 1
};

// Hashes everything that a log can depend on: footprints, alignments, lifetimes or conflicts, separations, groups,
// pins, reserved ranges, and the memories of each buffer. Leaves out names, hints, costs and capacities. The same on
// every machine.
[[nodiscard]] std::uint64_t fingerprint_of(const problem& p);

// Checks a log of p and appends its bounds to `proved`. Returns the first fault, and then `proved` is as before.
// Refuses problems cut into slabs (max_slab). Contract: validate() passed. O(n^2) of the buffers that a block names,
// 8,192 bases at most, and for each step O(conflicts of the moved buffers). Needs 512 MB at most for lemmas; a log that
// keeps more is refused.
[[nodiscard]] std::optional<log_fault> check_refutations(const problem& p, std::string_view log,
                                                         std::vector<refutation>& proved);

// Works as verify_bound() in certificate.hpp, with the bounds of checked logs besides the arguments. Arguments of the
// kind search still prove nothing. Contract: `proved` comes from check_refutations() of the same problem.
[[nodiscard]] std::optional<objection> verify_bound(const problem& p, bytes lower_bound, const certificate& proof,
                                                    const std::vector<refutation>& proved);

// Searches again below the plan's lower bound, and returns a log of it. The log has one block for each memory whose
// bound rests on an argument of the kind search. Each block takes at most `nodes` search nodes, spread over several
// orders. Stops early as `o` says (deadline_s, stop). Error: not valid; unsupported (slabs); limit_exceeded
// ("refutation: ...") if a search was not exhausted within the nodes. Deterministic but for a stop.
[[nodiscard]] result<std::string> refute(const problem& p, const plan& answer, std::uint64_t nodes,
                                         const options& o = {});

}  // namespace berth::plan
#pragma GCC visibility pop

// Certificates: reasons why no plan of a problem has a smaller arena than the lower bound. Checking one takes no search
// and shares no code with the solver.
//
// A *stack* is a set of pairwise conflicting buffers, which lie above each other if they share a memory. An arena holds
// a stack only if all of these hold; the bound is the largest arena one of them asks for:
//
//   sum      The highest member reaches from its base to the top of its alias group (`reach`, its footprint if it has
//            no group). All others lie below its base with their footprints. The arena is at least the sum of the
//            footprints plus the least reach - footprint of any member.
//   step     ceil(H / step) of the addresses below H are multiples of the step. A member's base is a multiple of g,
//            the gcd of the step and its alignment. The member covers at least (footprint + g - 1) / step multiples and
//            counts as that many steps. The multiples of all others lie below the base of the highest member. Its own
//            reach ends the arena.
//   blocks   Reserved ranges and pinned members split the addresses into holes. A hole takes at most the largest sum
//            of counted member sizes that fits it. The rest of the sum lies above the holes.
//   heads    A member's head is the first offset at which its group is clear of the pinned buffers and reserved ranges
//            that it conflicts with. Members taken by rising heads never start below their own head.
//   pins     A pinned member reaches to its pin plus its reach. No arena holds one in a reserved range, or two that
//            share bytes: such a stack proves any bound.
//
// Only the plain sum of the footprints counts over several memories or slabs, where a stack may be spread. Arguments
// about different memories add up.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <optional>
#include <vector>

#include "berth/plan/problem.hpp"

namespace berth::plan {

struct argument {
  enum class kind : std::uint8_t {
    stack,
    search,  // an exhausted search: nothing that could be checked without repeating it
  };
  enum kind kind = kind::stack;
  bytes bound = 0;              // the arena (of `memory`) is at least this
  std::optional<index> memory;  // the buffers must all live there; none: of the one memory, or of all together
  std::optional<tick> at;       // stack: all that live at this tick (of an alias group, the largest) ...
  std::vector<index> buffers;   // ... and these
  bytes step = 1;               // any
};

// The bound of each memory is that of its best argument, and the memories' bounds add up. Either every argument names a
// memory, or no argument does.
using certificate = std::vector<argument>;

struct objection {
  const char* rule = "";     // static text: what is wrong
  std::size_t argument = 0;  // with which of the arguments
  std::optional<index> a;    // the buffer at fault
  std::optional<index> b;    // the other one, where two are
  bytes number = 0;          // what is proved
};

// Returns the first objection to "every plan of p needs at least lower_bound bytes", or nothing. Arguments of the kind
// search prove nothing here. Contract: validate() passed. Costs O(n + pairs log pairs + members^2) for each argument,
// plus possible neighbours times pinned buffers. A proof is refused as too long after 2^27 looks at buffers or pairs
// and 2^10 a buffer (some seconds). The proofs of solve() usually take some looks a buffer.
[[nodiscard]] std::optional<objection> verify_bound(const problem& p, bytes lower_bound, const certificate& proof);

}  // namespace berth::plan
#pragma GCC visibility pop

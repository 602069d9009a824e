// Certificates: why no plan of a problem has a smaller arena than the lower bound, in a form that is checked without
// any search and shares no code with the solver.
//
// A *stack* is a set of buffers of which any two conflict, so that in one memory they lie above each other. Whatever
// their order, an arena holds a stack only if all of these hold; the bound is the largest arena one of them asks for:
//
//   sum      The member that lies highest reaches from its base to the top of its alias group (`reach`, its footprint
//            where it has no group); all the others lie below its base with their footprints. So the arena is at least
//            the sum of the footprints plus the least reach - footprint of any member.
//   step     Of the addresses below H, ceil(H / step) are multiples of the step. A member whose base is a multiple
//            of g, a divisor of the step, covers at least (footprint + g - 1) / step of them, and that many steps are
//            what it counts as: its footprint rounded up where the step divides its alignment. Below the base of the
//            member that lies highest are the multiples of all others; its own reach ends the arena.
//   blocks   Reserved ranges and pinned members split the addresses into holes. A hole takes no more than the largest
//            sum of what members count as that fits it; what the holes below do not take lies above.
//   heads    A member meets pinned buffers and reserved ranges that other members do not: its offset is at least the
//            first where its group is clear of those. Taken by rising heads, none starts below its own.
//   pins     A pinned member reaches to its pin plus its reach.
//
// Over several memories or slabs, where a stack may be spread, only the plain sum of the footprints counts. Arguments
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
// memory or none does.
using certificate = std::vector<argument>;

struct objection {
  const char* rule = "";     // static text: what is wrong
  std::size_t argument = 0;  // with which of the arguments
  std::optional<index> a;    // the buffer at fault
  std::optional<index> b;    // the other one, where two are
  bytes number = 0;          // what is proved
};

// The first objection to "every plan of p needs at least lower_bound bytes", or nothing. Arguments of the kind search
// prove nothing here. Contract: validate() passed. O(n + pairs log pairs + members^2), members being those listed, and
// what they may lie beside times what is pinned, for each argument. Proofs made to take long are objected to as more
// than can be checked: after 2^27 looks at buffers or pairs of them and 2^10 a buffer, some seconds. What solve()
// proves of inputs that mean well takes some looks a buffer.
[[nodiscard]] std::optional<objection> verify_bound(const problem& p, bytes lower_bound, const certificate& proof);

}  // namespace berth::plan
#pragma GCC visibility pop

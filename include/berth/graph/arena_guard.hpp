// Red zones in an arena: which node wrote behind the end of a planned buffer.
//
// An arena's block is one block: its buffers touch each other, and a guard around the block (guard.hpp) does not see
// writes between them. Rules with a larger tail pad put unused bytes behind every value and workspace while it lives:
//
// ```cpp
// arena_options o;
// o.rules = with_red_zones(device.properties().rules);
// auto memory = arena::reserve(g, pool, stream, o);
// auto guard = arena_guard::create(g, *memory, stream);  // Reserved with these rules.
// ```
//
// For each node n call guard->enter(n), enqueue the node, and call guard->check() if wanted.
//
// The call enter() writes a pattern behind the buffers that n makes, in stream order. The call check() waits for the
// stream, checks all live zones and restores the pattern, so each overrun is reported once. A write before a buffer
// hits the zone of the buffer below, or unused memory. Reads are not detected, nor writes beyond the pad. After each
// node, check() names the node. At the end, it checks the buffers that are still alive.
//
// The bytes that the device's own rules let hardware touch behind a block are not checked. Not thread-safe.
#pragma once
#pragma GCC visibility push(default)

#include <memory>
#include <string>
#include <vector>

#include "berth/graph/arena.hpp"

namespace berth {

// Returns the rules with `zone` bytes more behind each buffer.
[[nodiscard]] rules::placement with_red_zones(rules::placement r, bytes zone = 64) noexcept;

struct arena_overrun {
  value_id value;  // the overrun value, the last of several in one place; none: the workspace of `node`
  node_id node;    // the last one entered
  bytes at = 0;    // the first wrong byte, counted from the buffer's end
  std::string text;
};

class arena_guard {
 public:
  // Writes the zones of inputs and states. Errors: unsupported (several lanes; no pad to watch), out_of_memory, those
  // of the stream. Contract: `a` serves `g` throughout; both outlive the guard, and so does the stream on which the
  // nodes run.
  [[nodiscard]] static result<arena_guard> create(const graph& g, const arena& a, stream& s);
  arena_guard(arena_guard&&) noexcept;
  arena_guard& operator=(arena_guard&&) noexcept;
  ~arena_guard();

  // Call it before node n is enqueued; nodes come in their order. Contract: n is the node after the last one. Error:
  // the stream's.
  result<void> enter(node_id n);
  // Call it before the first node of another run: writes the zones of inputs and states. Error: the stream's.
  result<void> again();
  // Waits for the stream. O(live buffers). Errors: the stream's; device_failed if a zone could not be read. Then no
  // pattern is restored, and the next check() reports it.
  [[nodiscard]] result<std::vector<arena_overrun>> check();

 private:
  struct [[gnu::visibility("hidden")]] state;
  explicit arena_guard(std::unique_ptr<state> s) noexcept;
  std::unique_ptr<state> state_;
};

}  // namespace berth
#pragma GCC visibility pop

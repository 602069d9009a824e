// Red zones in an arena: which node wrote behind the end of a buffer of a plan.
//
// An arena's block is one block: its buffers touch each other, and a guard round the block (guard.hpp) does not see
// what one does to another. Planned by rules with a larger tail pad, every value and workspace has bytes behind it that
// are nobody's while it lives:
//
//   arena_options o;
//   o.rules = with_red_zones(device.properties().rules);
//   auto memory = arena::reserve(g, pool, stream, o);
//   auto guard = arena_guard::create(g, *memory, stream);
//   for each node n: guard->enter(n), enqueue the node, and where wanted guard->check()
//
// enter() writes a pattern behind what n makes, in stream order; check() waits for the stream, looks at all that is
// alive and mends what it found, so that it is told once. A write before a buffer is one behind the buffer below, or
// goes where nobody is. Reads are not seen, nor writes further than the pad. Called after each node, check() names the
// node; called at the end, it sees what lived to the end.
//
// What the device's own rules let hardware touch behind a block is not watched. Not thread-safe.
#pragma once
#pragma GCC visibility push(default)

#include <memory>
#include <string>
#include <vector>

#include "berth/graph/arena.hpp"

namespace berth {

// The rules with `zone` bytes more behind each buffer.
[[nodiscard]] rules::placement with_red_zones(rules::placement r, bytes zone = 64) noexcept;

struct arena_overrun {
  value_id value;  // written beyond, of several in one place the last; none: the workspace of `node`
  node_id node;    // the last one entered
  bytes at = 0;    // the first wrong byte, counted from the buffer's end
  std::string text;
};

class arena_guard {
 public:
  // Writes the zones of inputs and states. Errors: unsupported (several lanes; no pad to watch), out_of_memory, those
  // of the stream. Contract: `a` serves `g`, and goes on to; both, and the stream on which the nodes run, outlive
  // it.
  [[nodiscard]] static result<arena_guard> create(const graph& g, const arena& a, stream& s);
  arena_guard(arena_guard&&) noexcept;
  arena_guard& operator=(arena_guard&&) noexcept;
  ~arena_guard();

  // Before node n is enqueued; nodes come in their order. Contract: n is the node behind the last one. Error: the
  // stream's.
  result<void> enter(node_id n);
  // Before the first node again, for another run: writes the zones of inputs and states. Error: the stream's.
  result<void> again();
  // Waits for the stream. O(what is alive). Errors: the stream's; device_failed where a zone could not be read: then
  // nothing is mended, and the next check() tells of it.
  [[nodiscard]] result<std::vector<arena_overrun>> check();

 private:
  struct [[gnu::visibility("hidden")]] state;
  explicit arena_guard(std::unique_ptr<state> s) noexcept;
  std::unique_ptr<state> state_;
};

}  // namespace berth
#pragma GCC visibility pop

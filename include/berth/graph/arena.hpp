// An arena: one block of memory that holds a graph's values, by a plan.
//
// Its life:
//   `arena::reserve(worst_case, pool, stream)`  Plans, and allocates one block.
//   `attach(weights, address, size)`            Sets the address of each constant and external value.
//   `bind(g)`                                   Checks before every run that the plan is still right.
//   `address(v)`                                Returns the block's base plus the offset.
//
// bind() compares the graph with the planned one (fingerprint.hpp: exact, a few ns a node). Its outcomes, in this
// order:
//   `unchanged`  The graph is the planned one.
//   `fits`       The graph is only smaller than a planned one, whose plan serves it unchanged.
//   `cached`     The graph was planned before. Its plan is used again, so alternating graphs never replan.
//   `replanned`  A new plan was made; the block is large enough.
//   `grown`      A new plan was made, and a larger block allocated.
// A graph with dimensions (`extent`) is planned once. reserve() takes the block for the largest values, and trim()
// cuts it to those that are bound:
//   `bind(g, {{"batch", 4}})`  Computes the offsets of these values without a search. Its outcome is `fits`, or
//                              `unchanged` for the values that are bound. A larger block is an outcome of `grown`.
//   `bind(g)`                  Binds the largest values.
//
// `replanned` and `grown` happen only if arena_options::on_change allows it. Otherwise the result is an error that
// names the first change. A failed reserve or bind leaves the arena, its plan and its memory unchanged. This also holds
// for std::bad_alloc, when the host's memory is exhausted.
//
// Constants and external values lie outside the arena. A bind succeeds only if each of them that a node uses has an
// address; else the error (unplaced_external) names the value and the node. Addresses belong to the graph that is
// served. A graph that differs from it gets its own in the same call: bind(g, attachments). A graph of equal structure
// keeps the addresses, whatever its values are called.
//
// States keep their bytes through all of this. They lie at the same offsets in every plan of one arena, and are copied,
// in stream order, to a larger block. So all graphs of one arena declare the same states.
//
// Handles: handle(v) returns a placed_value. It detects that the arena has another block, serves another plan, or is
// gone. A raw address() is valid until the next bind() with an outcome other than `unchanged`, and the next trim() that
// returns bytes.
//
// Not thread-safe, except placed_value. The memory source, stream and caller's memory must outlive the arena.
#pragma once
#pragma GCC visibility push(default)

#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/graph/fingerprint.hpp"
#include "berth/graph/graph.hpp"
#include "berth/graph/graph_plan.hpp"
#include "berth/pool/memory_source.hpp"

namespace berth {

enum class change_policy : std::uint8_t {
  grow,    // replan, and allocate a larger block if needed
  replan,  // replan, but never allocate more memory than reserve() did
  fail,    // an unplanned graph is an error
};

struct arena_options : graph_options {
  change_policy on_change = change_policy::grow;
  bytes growth_step = 1;      // the block's size is a multiple of this
  unsigned cached_plans = 8;  // at least 1; least recently used first out; as many implied plans besides
};

enum class bind_outcome : std::uint8_t { unchanged, fits, cached, replanned, grown };
[[nodiscard]] const char* name(bind_outcome b) noexcept;

struct arena_counters {
  std::array<std::uint64_t, 5> outcomes{};                // by bind_outcome
  std::array<std::uint64_t, change_kinds> replans_for{};  // by change: why a plan was made
  std::uint64_t failures = 0;
  std::string last_change;  // in words, of the last replan or refusal
};

// The place of a constant or an external value.
struct attachment {
  value_id value;
  void* address = nullptr;
  bytes size = 0;  // of the memory at `address`: at least the value's size
};

// The place of a value, with a check that it is still valid. Reading the answer is thread-safe. The user of the address
// ensures that the arena keeps its block meanwhile.
class placed_value {
 public:
  placed_value() = default;
  // Error (invalid_input): the arena has another block, serves another plan, or is gone.
  [[nodiscard]] result<void*> get() const noexcept;
  [[nodiscard]] bytes size() const noexcept { return size_; }

 private:
  friend class arena;
  friend class pipeline_arena;
  std::shared_ptr<const std::atomic<std::uint64_t>> generation_;
  std::uint64_t seen_ = 0;
  void* address_ = nullptr;
  bytes size_ = 0;
};

class arena {
 public:
  // Errors: the graph's fault, over_budget, no_plan, out_of_memory. Fills `why`, if given, on error.
  [[nodiscard]] static result<arena> reserve(const graph& g, memory_source& source, stream& s,
                                             const arena_options& o = {}, graph_fault* why = nullptr);
  [[nodiscard]] static result<arena> reserve(const graph& g, memory_source& source, stream& s,
                                             const plan::options& search) {
    arena_options o;
    o.search = search;
    return reserve(g, source, s, o);
  }
  // Uses a plan made before, here or elsewhere (save_plan). Verifies it first: see verify_plan().
  [[nodiscard]] static result<arena> reserve(const graph& g, graph_plan plan, memory_source& source, stream& s,
                                             const arena_options& o = {}, graph_fault* why = nullptr);
  // For a family of graphs (shapes, phases) that alternate: makes a plan for each, and one block for the largest. Binds
  // the first. Contract: family is not empty; the options' cached_plans is raised to its size.
  [[nodiscard]] static result<arena> reserve(std::span<const graph* const> family, memory_source& source, stream& s,
                                             const arena_options& o = {}, graph_fault* why = nullptr,
                                             source_location where = source_location::current());
  // Uses the caller's memory, which never grows: its size is the budget. Contract: aligned as the plan's rules say.
  [[nodiscard]] static result<arena> within(const graph& g, void* memory, bytes size, const arena_options& o = {},
                                            graph_fault* why = nullptr,
                                            source_location where = source_location::current());

  arena(arena&&) noexcept = default;
  arena& operator=(arena&&) noexcept;
  ~arena();

  // Errors: the graph's fault, changed, state_changed, unplaced_external, those of planning and of the memory source.
  [[nodiscard]] result<bind_outcome> bind(const graph& g, graph_fault* why = nullptr);
  // Does the same with addresses, which apply only if the bind succeeds. For the served graph they replace earlier
  // ones. For another graph they are the only ones. Error (unplaced_external): one fits no value; see attach().
  [[nodiscard]] result<bind_outcome> bind(const graph& g, std::span<const attachment> outside,
                                          graph_fault* why = nullptr);

  // Binds a graph with dimensions at one value for each. get_plan() then has the sizes and places of these values. The
  // addresses of constants and external values hold for all values, and are of memory for the largest.
  // Further errors: a value as in values_of(), and a view that ends beyond its root at these values.
  [[nodiscard]] result<bind_outcome> bind(const graph& g, std::span<const dimension_value> at,
                                          std::span<const attachment> outside, graph_fault* why = nullptr);
  [[nodiscard]] result<bind_outcome> bind(const graph& g, std::initializer_list<dimension_value> at,
                                          graph_fault* why = nullptr) {
    return bind(g, std::span<const dimension_value>{at.begin(), at.size()}, {}, why);
  }

  // Returns the address of v's bytes; a view's lies inside its root. Null for a constant or an external value without
  // an address. Contract: v is a value of the graph that is bound.
  [[nodiscard]] void* address(value_id v) const noexcept;
  // Returns the address of node n's workspace; null if it has none.
  [[nodiscard]] void* workspace(node_id n) const noexcept;
  // Returns a handle. For a constant or an external value it keeps the present address.
  [[nodiscard]] placed_value handle(value_id v) const;

  // Sets the address of a constant or external value of the current graph. Holds until the next bind() with an outcome
  // other than `unchanged`. It does not come back with this graph: the memory may be gone by then. Errors: v is
  // neither, `size` is less than its bytes (number: the bytes it needs), the address is null.
  result<void> attach(value_id v, void* address, bytes size);
  // Returns an error if a constant or external value that a node of g uses has no address. O(nodes). bind() checks
  // once, and again after another graph was served.
  [[nodiscard]] result<void> check_attached(const graph& g, graph_fault* why = nullptr) const;

  // Forgets all plans but the current one. Moves the arena, with its states, if a block of the size that reserve()
  // would take for it is smaller than the present one. Handles become invalid then. Returns the bytes released. Returns
  // 0, and moves no value, if nothing can be saved or no smaller block is available.
  bytes trim();

  [[nodiscard]] const graph_plan& get_plan() const noexcept { return entries_.front().plan; }
  [[nodiscard]] bytes size() const noexcept { return size_; }  // of the block
  [[nodiscard]] const arena_counters& counters() const noexcept { return counters_; }

 private:
  struct entry {
    explicit entry(graph_plan p, bool is_implied = false);
    graph_plan plan;
    std::vector<std::uint32_t> outside;  // the values that need an address from outside
    bool implied = false;                // another entry's plan, cut to smaller sizes
  };
  using entry_list = std::list<entry>;  // an entry moves from one to another without an allocation

  arena() = default;
  void start();
  bytes block_size(bytes needed) const noexcept;
  result<void> take_block(bytes needed, graph_fault* why);
  bytes base_alignment() const noexcept;
  void serve(entry_list& from, entry_list::iterator e, std::vector<void*>& addresses) noexcept;
  void keep(entry_list& fresh, std::vector<void*>& addresses) noexcept;
  void count(bind_outcome b) noexcept { ++counters_.outcomes[static_cast<std::size_t>(b)]; }
  result<bind_outcome> counted(result<bind_outcome> outcome);
  result<bind_outcome> bind_values(const graph& g, std::span<const bytes> values, std::span<const attachment> outside,
                                   graph_fault* why);
  result<bind_outcome> bind_new(const graph& g, std::span<const attachment> outside, graph_fault* why);
  result<bind_outcome> replan(const graph& g, std::span<const attachment> outside, graph_fault* why);

  memory_source* source_ = nullptr;  // null: in the caller's memory
  stream* stream_ = nullptr;
  block block_;
  std::byte* base_ = nullptr;
  bytes size_ = 0;
  arena_options options_;
  entry_list entries_;                    // the current one, then those used before it, latest first
  std::vector<void*> attached_;           // by value of the current entry; empty until an address is given
  bool complete_ = false;                 // a bind found an address for each of the current entry's `outside`
  std::vector<std::string> state_names_;  // in order of declaration
  std::shared_ptr<std::atomic<std::uint64_t>> generation_;
  arena_counters counters_;
};

}  // namespace berth
#pragma GCC visibility pop

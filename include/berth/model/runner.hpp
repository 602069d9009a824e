// The runner: a program in memory, run again and again.
//
// The weights are packed once into a block of their own. Every activation and every operation's workspace lies in one
// arena, placed by one plan. A run is the list of the program's operations, each with its addresses. It is enqueued on
// a stream (on the host's as one call), allocates nothing and computes no address.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/device/stream.hpp"
#include "berth/graph/arena.hpp"
#include "berth/model/program.hpp"
#include "berth/plan/solve.hpp"
#include "berth/pool/pool.hpp"

namespace berth::model {

class runner {
 public:
  // Plans, and takes two blocks of the pool: the arena and the weights. Waits for the stream. Pool and stream outlive
  // the runner.
  // Errors: out_of_memory, limit_exceeded, unsupported (an operation does not run on the stream's device),
  // device_failed.
  [[nodiscard]] static result<runner> create(program p, pool& memory, stream& s, const plan::options& o = {});
  // Runs in an arena that was reserved for `open`, a graph with dimensions, and binds it at these values. The program's
  // graph has at most its sizes there, and is it in all else: else the error names the first change (`why`). Takes one
  // block, for the weights. The arena outlives the runner, which is of use until the next bind.
  [[nodiscard]] static result<runner> create(program p, arena& reserved, const graph& open,
                                             std::span<const dimension_value> at, pool& memory, stream& s,
                                             graph_fault* why = nullptr);
  runner(runner&&) noexcept;
  // These two wait for the runs in flight.
  runner& operator=(runner&&) noexcept;
  ~runner();

  // Return the place of input i. The caller (or a copy on the stream) writes it before each run, since later values
  // reuse its memory. Input and output addresses are the device's, and the host's too if it reaches that memory. The
  // functions input() and output() are of f32; the program says which type each has.
  [[nodiscard]] float* input(std::size_t i, source_location where = source_location::current()) const noexcept;
  [[nodiscard]] void* input_bytes(std::size_t i, source_location where = source_location::current()) const noexcept;
  // Return the place of output i after a run, until the next.
  [[nodiscard]] const float* output(std::size_t i, source_location where = source_location::current()) const noexcept;

  [[nodiscard]] const void* output_bytes(std::size_t i,
                                         source_location where = source_location::current()) const noexcept;

  // Enqueues one run and returns. Allocates nothing. With the word `arenas` in BERTH_DEBUG (pool/debug.hpp) when the
  // runner was made, it waits for each node and checks the red zones behind live memory.
  result<void> run();

  [[nodiscard]] const program& get_program() const noexcept;
  [[nodiscard]] program& get_program() noexcept;
  [[nodiscard]] const arena& get_arena() const noexcept;
  // Returns the packed bytes of a constant of the graph.
  [[nodiscard]] void* constant_address(value_id v) const noexcept;
  [[nodiscard]] bytes weights_bytes() const noexcept;

 private:
  struct state;
  struct packed;
  static result<packed> pack(program& p, pool& memory, stream& s);
  static result<runner> finish(program p, packed weights, std::unique_ptr<arena> own, arena& shared, stream& s);
  explicit runner(std::unique_ptr<state> s) noexcept;
  std::unique_ptr<state> state_;
};

// Returns the bytes of all values and workspaces if each had memory of its own.
[[nodiscard]] bytes no_reuse_bytes(const program& p);
// Returns the bytes of the largest workspace: one is alive at a time.
[[nodiscard]] bytes largest_workspace(const program& p);

}  // namespace berth::model
#pragma GCC visibility pop

// A guided pool serves steps that repeat the same allocations by a plan of the first step.
//
// ```cpp
// berth::pool pool{gpu};
// berth::guided_pool guided{pool};
// for (const batch& b : batches) {
//   guided.begin_step();
//   train(b, guided, queue);
// }  // Allocates from `guided` as from any memory_source.
// ```
//
// The first step is served by the pool, and each stream's requests are recorded. The planner computes places from that
// record (berth/plan/solve.hpp). Each stream takes one block of the pool for them, its part. In the next steps a
// request gets its place by its position. If it is the request that the plan expects next, it costs a few stores. If
// blocks of the first step are still allocated at its end, the second step is recorded too, to learn when they are
// freed. The third step is then the first planned one. A block that is still allocated then (a weight) stays with the
// pool, and so do all later ones at its position. The idea, a plan of one iteration that guides the allocator in the
// next ones, is STAlloc's (Huang et al. 2025, arXiv 2507.16274).
//
// Steps that differ. A request that is not the expected one is matched in this order:
// * The next request after it, if that has its size: one was left out.
// * One of the skipped requests.
// * A request up to 64 positions further on or back, if two requests in a row match two of the plan.
//
// A request may remain without a match, or its place may be occupied by a block that should have been freed. It then
// gets the place of a skipped or early-freed block, if that is large enough. Else it goes to the pool. If the pool
// fails it, any free room of the part serves it. If there is none, the parts are broken up: their blocks continue as
// blocks of the pool, and the rest is free. The pool is then asked once more, also if another thread has broken up the
// parts meanwhile. The plan applies again from the next step. So a plan that fits badly costs time and memory, but
// fails no request. relearn() plans anew. A request with options (block_options) goes to the pool.
//
// Stream order. Only the work of one stream uses a part, so reuse is in that stream's own order, as in the pool. No
// stream is queried and no event recorded. If use_on() names another stream, the block's place is not reused at once
// after the free. First an event recorded after the free must report that the other stream is done, or this stream must
// wait for that one. The other stream is queried by begin_step(), by the request that the place is planned for, and
// when the pool fails a request. The calling thread queries it, as in the pool. A free queries no stream, and no lock
// that it takes is held during a query: host functions may free blocks. Streams never share memory of their parts. So
// with several streams the parts together take the sum of their peaks.
//
// Scope of steps. Streams are known by their id: a stream created anew for each step has no plan. begin_step() begins a
// step of all streams. Loops that run independently of each other have a guided_pool each, over one pool. The first 16
// streams are planned, others go to the pool. So do all requests before the first begin_step(), which is the place for
// memory that lives as long as the program.
//
// Threads: as any memory_source. Each stream has a lock of its own, which is free of cost for a thread that drives the
// stream alone. If several threads allocate on one stream, their order is part of the plan. Any thread may call
// begin_step(); concurrent requests of other threads belong to either step.
//
// The event hook reports the parts and the blocks of the pool, not the blocks inside the parts. Record a log of single
// blocks without a guided pool.
//
// The pool cannot give a part's memory to other requests, nor stitch from it, until the part is broken up. A part is
// broken up if it lies in one piece (others are not taken) and no stream but its own uses it.
//
// Over a watched pool (berth/pool/debug.hpp) no step is planned: each block is the pool's, with its own guard.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <memory>
#include <optional>

#include "berth/plan/solve.hpp"
#include "berth/pool/memory_source.hpp"
#include "berth/pool/pool.hpp"

namespace berth {

struct guided_statistics {
  std::uint64_t steps = 0;      // begun
  std::uint64_t planned = 0;    // allocations at their planned place
  std::uint64_t elsewhere = 0;  // elsewhere in a part, since the step differed
  std::uint64_t passed = 0;     // by the pool, to planned or recorded streams; without those with options
  std::uint64_t broken_up = 0;  // parts whose free memory the pool needed in the middle of a step
  std::uint32_t streams_planned = 0;
  bytes parts = 0;        // the size of the parts, also before their first request
  bytes lower_bound = 0;  // no plans of those steps need less, each stream by itself
  // The reason for the last stream without a plan, or without memory for its plan in a step. Empty if there was none.
  // Static text.
  const char* refusal = "";
};

class guided_pool final : public memory_source {
 public:
  // The pool outlives it. `search` is the planner's effort: its time is spent in begin_step().
  explicit guided_pool(pool& upstream, const plan::options& search = {});
  guided_pool(const guided_pool&) = delete;
  guided_pool& operator=(const guided_pool&) = delete;
  // Contract: no thread uses it, and none of its berth::blocks is alive. Live raw blocks become the pool's, which frees
  // or reports them. If a part cannot be broken up (see above), the part as a whole does. Waits for streams that
  // use_on() named.
  ~guided_pool() override;

  // Ends the step before and begins the next one. Plans if there is a new record: takes the time of plan::solve().
  // Otherwise it takes some ns for each request of the plan that did not come. Not callable from a callback of the
  // pool. A stream stays with the pool if host memory for its plan is lacking, or the planner finds none.
  void begin_step();
  // Records the next step again, and plans anew after that. Blocks of the old plan stay in place. Its memory is freed
  // after its last block, or is broken up as that of any part. If the plan before still has blocks, this is postponed.
  void relearn() noexcept;

  // As pool::size_of().
  [[nodiscard]] std::optional<bytes> size_of(const void* data) const noexcept;
  [[nodiscard]] guided_statistics statistics() const;
  [[nodiscard]] const berth::device& get_device() const noexcept override;

 private:
  struct [[gnu::visibility("hidden")]] state;

  outcome allocate_slowly(bytes size, stream& s, const block_options* options, source_location site);
  outcome do_allocate(bytes size, stream& s, const block_options* options, source_location site) override;
  void do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept override;
  void do_use_on(void* data, stream& s, const source_location& where) override;

  std::unique_ptr<state> state_;
};

}  // namespace berth
#pragma GCC visibility pop

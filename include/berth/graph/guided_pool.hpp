// A guided pool: steps that ask for the same memory again and again, served by a plan of the first one.
//
//   berth::pool pool{gpu};
//   berth::guided_pool guided{pool};
//   for (const batch& b : batches) {
//     guided.begin_step();
//     train(b, guided, queue);  // allocates from `guided` as from any memory_source
//   }
//
// The first step is served by the pool, and what each stream asked for is kept. From that the planner makes places
// (berth/plan/solve.hpp); each stream takes one block of the pool for them, its part. In the next steps a request gets
// its place by its position: it is the one that the plan expects next, and a few stores are all it costs. Where blocks
// of the first step are still out at its end, the second one is listened to as well, to learn when they come back, and
// the third is the first to be planned; a block that is still out then (a weight) stays with the pool, and so do all
// later ones at its position. The idea, a plan of one iteration that guides the allocator in the next ones, is
// STAlloc's (Huang et al. 2025, arXiv 2507.16274).
//
// Where a step differs. A request that is not the one expected is taken for the next one, if that has its size: then
// one was left out; for one of those that were passed; or, where two in a row do as two of the plan do, for one up to
// 64 further on or back. One that is not found, or whose place is taken (a block that should have come back has not),
// gets the place of one that stayed away or came back early, where that is large enough, and else goes to the pool.
// Where the pool fails it, it goes wherever the part has room at that moment; and where there is none, the parts are
// broken up: blocks in them go on as blocks of the pool, the rest is free, and the pool is asked once more, also where
// another thread has broken them up meanwhile. The plan is for the next step again. So a plan that fits badly costs
// time and memory, but no block. relearn() plans anew. A request with options (block_options) goes to the pool.
//
// Stream order. A part is used by the work of one stream only, so whatever it reuses is in that stream's own order, as
// in the pool; no stream is asked and no event recorded. Where use_on() names another stream, the block's place is
// not used again before an event recorded after its free says that that one is done, or this one waits for it. That one
// is asked by begin_step(), by the request that the place is planned for, and where the pool fails one; from the
// calling thread, as by the pool. A free asks none, and no lock that it takes is held while one is asked: blocks may be
// freed by host functions. What is one stream's is never another's: with several streams the parts together take the
// sum of their peaks.
//
// Whose steps. Streams are known by their id: one made anew for each step has no plan. begin_step() is the begin of a
// step of all of them; loops that run independently of each other have a guided_pool each, over one pool. The 16
// streams that come first are planned, others go to the pool; so does everything before the first begin_step(), which
// is the place for what lives as long as the program.
//
// Threads: as any memory_source. Each stream has a lock of its own, which costs nothing to a thread that drives the
// stream alone. Where several threads ask for memory on one stream, their order is part of what is expected.
// begin_step() may be called by any thread; requests that other threads make meanwhile belong to either step.
//
// The event hook hears of the parts and of what goes to the pool, not of what lies in the parts: a log of single blocks
// is recorded without a guided pool.
//
// What a part holds is not the pool's to give to others, nor to stitch from, before that. A part is broken up if it
// lies in one piece (others are not taken) and no stream but its own uses it.
//
// Over a pool that is watched (berth/pool/debug.hpp) nothing is planned: each block is the pool's, with a guard of its
// own round it.
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
  std::uint64_t planned = 0;    // allocations at the place planned for them
  std::uint64_t elsewhere = 0;  // elsewhere in a part, since the step differed
  std::uint64_t passed = 0;     // by the pool, to streams that are planned or listened to; not those with options
  std::uint64_t broken_up = 0;  // parts whose free memory the pool needed in the middle of a step
  std::uint32_t streams_planned = 0;
  bytes parts = 0;        // that the parts have, or will take with the first request
  bytes lower_bound = 0;  // no plans of those steps need less, each stream by itself
  // Why the last stream that could not be planned was not, or whose plan had no memory in a step; empty where there was
  // none. Static text.
  const char* refusal = "";
};

class guided_pool final : public memory_source {
 public:
  // The pool outlives it. `search` is how hard the planner tries: its time is spent in begin_step().
  explicit guided_pool(pool& upstream, const plan::options& search = {});
  guided_pool(const guided_pool&) = delete;
  guided_pool& operator=(const guided_pool&) = delete;
  // Contract: no berth::block of it is alive, and nobody uses it. Raw blocks that are alive are the pool's from now on,
  // which frees or reports them; in a part that cannot be broken up (see above), that part as a whole is. Waits for
  // streams that use_on() named.
  ~guided_pool() override;

  // The step before is over, the next one begins. Plans, where there is something new to plan: time as plan::solve(),
  // else some ns for each of the plan's requests that did not come. Not from within a callback of the pool.
  // Where there is no host memory for a plan, or the planner has none, the stream stays with the pool.
  void begin_step();
  // The next step is listened to again, and planned anew after that. Blocks of the old plan stay where they are; its
  // memory goes back when the last one has, or is broken up as that of any part. Where that is so of the plan before
  // still, this is put off.
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

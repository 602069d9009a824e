// The memory in which a plan serves one stream's steps, and the blocks in it.
//
// Two counters give the progress of a step: the next request, and the number of the plan's frees before it. The blocks
// that are alive by the plan at that point have disjoint places. So a request may have its place unless an out-of-plan
// block (strangers_) is there. Out-of-plan blocks are:
// * Blocks that should be freed by now.
// * Blocks that the plan does not know, in one of its holes.
// * Freed blocks that another stream may still use.
//
// Invariants:
//   I1  Every block in the part is alive by the plan, as the counters stand, or an out-of-plan block.
//   I2  No two blocks in the part overlap.
//
// In a step that equals the one before there are no out-of-plan blocks, and a request is a comparison and a few stores.
//
// Only one stream's work uses a part, in its own order: a place is reused without querying the stream's progress. Not
// thread-safe. It owns no memory of the pool: its maker frees that. It queries no stream, since it is used under a lock
// that a free takes. It reads clocks, and awaited() returns the streams that the caller should query.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/device/stream.hpp"
#include "berth/pool/pool.hpp"
#include "graph/step_plan.hpp"
#include "pool/block_uses.hpp"

namespace berth::detail {

struct guided_counts {
  std::uint64_t planned = 0;    // at their planned place
  std::uint64_t elsewhere = 0;  // in the place of a missing request, or in a hole
};

using others_use = stream_work;  // the work of another stream in a part

class guided_part {
 public:
  // Throws bad_alloc.
  guided_part(step_plan plan, const rules::placement& rules);

  void begin_at(void* base) noexcept { base_ = static_cast<std::byte*>(base); }
  [[nodiscard]] void* base() const noexcept { return base_; }
  [[nodiscard]] bytes size() const noexcept { return plan_.size; }
  [[nodiscard]] const step_plan& plan() const noexcept { return plan_; }

  // Serves a request that comes as planned, after all frees before it, if no out-of-plan block exists; null: try
  // serve(). Has no loop, which would take the registers of the rest of a hit.
  [[nodiscard]] void* hit(bytes size) noexcept {
    const step_plan::place& p = places_[next_];
    if (p.size != size || !undisturbed_ || returned_ < p.returns_before || p.slot == step_plan::none) [[unlikely]]
      return nullptr;
    live_slot& s = slots_[p.slot];
    if (s.place != step_plan::none) [[unlikely]]
      return nullptr;
    s = {size, next_++};
    ++counts_.planned;
    return base_ + p.offset;
  }
  // Serves any request; null if it has no place here. `s` is the part's stream.
  [[nodiscard]] void* serve(bytes size, const stream& s) noexcept;
  // Takes any present room. Requests that the plan has there will go elsewhere, so this is the last choice when all
  // other memory is exhausted. O(the plan's places).
  [[nodiscard]] void* take_hole(bytes size) noexcept;

  // Frees a block in its planned turn; false: try give_back(). any_size: the caller did not pass a size.
  [[nodiscard]] bool returned_in_turn(const void* data, bytes size, bytes any_size) noexcept {
    if (!undisturbed_ || returned_ >= places_[next_].returns_before) [[unlikely]]
      return false;
    const step_plan::giving& g = plan_.returns[returned_];
    live_slot& s = slots_[g.slot];
    if (base_ + g.offset != data || s.place != g.place || (size != s.asked && size != any_size)) [[unlikely]]
      return false;
    s.place = step_plan::none;
    ++returned_;
    return true;
  }
  // Returns a block's requested size; 0: there is none at this address.
  [[nodiscard]] bytes size_at(const void* data) const noexcept;
  // Contract: size_at() is not 0.
  void give_back(const void* data) noexcept;
  // Contract: size_at() is not 0; the clock is another stream's. Throws bad_alloc.
  void use_on(const void* data, const std::shared_ptr<stream_clock>& clock);

  // Returns the blocks in the part, by offset. Returns nothing if another stream's work uses the part too, or a block
  // could not be recorded. Throws bad_alloc.
  [[nodiscard]] std::optional<std::vector<block_part>> blocks();
  // Resets the part, without memory: its blocks have another owner.
  void leave() noexcept;
  // Ends the step and begins the next one.
  void next_step() noexcept;
  // Returns true if it has no blocks, and no other stream is known to be using it still.
  [[nodiscard]] bool is_empty() noexcept;
  // Adds the uses that freed blocks wait for, one per stream. Throws bad_alloc.
  void awaited(std::vector<others_use>& all) const;
  // Returns true if such a block is in the place of the next request, if that has this size.
  [[nodiscard]] bool awaits_others(bytes size) const noexcept;
  // Waits for the streams that may still use freed blocks.
  void wait_for_others() const noexcept;
  [[nodiscard]] const guided_counts& counts() const noexcept { return counts_; }

 private:
  // The block at the place of a slot.
  struct live_slot {
    bytes asked = 0;
    std::uint32_t place = step_plan::none;
  };
  struct stranger {
    bytes offset = 0;
    bytes end = 0;
    bytes asked = 0;
    std::uint32_t slot = step_plan::none;  // its slot, if it is at its planned place
    bool back = false;                     // freed; waits for other streams only
    std::vector<others_use> uses{};
  };
  using strangers = std::vector<stranger>;

  [[nodiscard]] bool is_out(const step_plan::giving& g) const noexcept { return slots_[g.slot].place == g.place; }
  [[nodiscard]] std::uint32_t slot_at(bytes offset) const noexcept;
  [[nodiscard]] bytes offset_of(const void* data) const noexcept {
    return static_cast<bytes>(static_cast<const std::byte*>(data) - base_);
  }
  [[nodiscard]] strangers::iterator find_stranger(bytes offset) noexcept;
  [[nodiscard]] bool add_stranger(stranger fresh) noexcept;
  strangers::iterator remove_stranger(strangers::iterator at) noexcept;
  [[nodiscard]] bool make_stranger(std::uint32_t place) noexcept;
  [[nodiscard]] bool pass_returns(std::uint32_t until) noexcept;
  [[nodiscard]] bool is_free(bytes from, bytes to, const stream& s) noexcept;
  [[nodiscard]] void* take(std::uint32_t place, bytes size, const stream& s) noexcept;
  [[nodiscard]] void* take_idle(bytes size, bool or_larger, const stream& s) noexcept;
  // Returns the number of unmatched requests since the last match.
  [[nodiscard]] std::uint32_t unmatched() const noexcept { return unmatched_at_ == next_ ? unmatched_ : 0; }
  [[nodiscard]] std::uint32_t near(bytes size) const noexcept;
  [[nodiscard]] std::uint32_t far(bytes size) noexcept;
  void note_idle(std::uint32_t place) noexcept;
  [[nodiscard]] bool go_to(std::uint32_t k) noexcept;
  [[nodiscard]] static void* counted(std::uint64_t& count, void* data) noexcept {
    count += data != nullptr ? 1 : 0;
    return data;
  }
  void forget_done() noexcept;
  void notice() noexcept { undisturbed_ = strangers_.empty() && !halted_; }

  step_plan plan_;
  rules::placement rules_;
  const step_plan::place* places_;
  std::vector<live_slot> slots_;
  std::byte* base_ = nullptr;
  std::uint32_t next_ = 0;
  std::uint32_t returned_ = 0;
  bool undisturbed_ = true;  // no out-of-plan blocks, not halted
  bool halted_ = false;      // an out-of-plan block could not be recorded: serves no request until all are gone
  guided_counts counts_;
  strangers strangers_;          // by offset, disjoint
  std::uint32_t unmatched_ = 0;  // unmatched requests since the counter was at ...
  std::uint32_t unmatched_at_ = 0;
  bytes last_unmatched_ = 0;
  std::vector<std::uint32_t> idle_;       // places of skipped requests
  std::vector<std::uint32_t> by_offset_;  // slots by the hash of their offset
  unsigned hash_shift_ = 0;
};

}  // namespace berth::detail

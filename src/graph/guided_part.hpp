// The memory in which one stream's steps are served by a plan, and who is where in it.
//
// Two counters say how far a step has come: the next request, and how many of the plan's returns lie behind it. What
// the plan says to be alive there has disjoint places. So a request may have its place unless one of the others is
// there, the strangers: blocks that should be back by now, blocks that the plan does not know and that lie where it
// had a hole, and blocks that came back and that another stream may still use.
//
//   I1  every block in the part is alive by the plan, as the counters stand, or a stranger
//   I2  no two blocks in the part overlap
//
// In a step that goes as the one before there are no strangers, and a request is a comparison and a few stores.
//
// One stream's work alone is in a part, in its own order: a place is reused without asking how far the stream is.
// Not thread-safe. It owns nothing of the pool's: whoever made it gives the memory back. It asks no stream, since it is
// used under a lock that a free takes: it looks at clocks, and awaited() says whose others should ask about.
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
  std::uint64_t planned = 0;    // at the place that the plan has for them
  std::uint64_t elsewhere = 0;  // in the place of one that did not come, or in a hole
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

  // A request that comes when the plan says, and all returns before it have, where no stranger is; null: serve() knows
  // more. Without a loop, which would take the registers of all else that a hit does.
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
  // Any request: null where it has no place here. `s` is the part's stream.
  [[nodiscard]] void* serve(bytes size, const stream& s) noexcept;
  // Wherever there is room now. What the plan wants there later will go elsewhere, so this is for when nobody else has
  // memory. O(the plan's places).
  [[nodiscard]] void* take_hole(bytes size) noexcept;

  // A block that comes back when the plan says; false: give_back() knows more. any_size: the caller did not say.
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
  // A block's size as asked for; 0: there is none at this address.
  [[nodiscard]] bytes size_at(const void* data) const noexcept;
  // Contract: size_at() is not 0.
  void give_back(const void* data) noexcept;
  // Contract: size_at() is not 0; the clock is another stream's. Throws bad_alloc.
  void use_on(const void* data, const std::shared_ptr<stream_clock>& clock);

  // Who is in it, by offset. Nothing where another stream's work is in it too, or not all are known. Throws bad_alloc.
  [[nodiscard]] std::optional<std::vector<block_part>> blocks();
  // As new, without memory: whoever was in it is another's.
  void leave() noexcept;
  // The step is over; the next one begins.
  void next_step() noexcept;
  // Nobody is in it, and no stream but its own is known to be using it still.
  [[nodiscard]] bool is_empty() noexcept;
  // Adds what blocks that came back wait for, one use a stream. Throws bad_alloc.
  void awaited(std::vector<others_use>& all) const;
  // Whether such a block is where the next request would go, if it is of that size.
  [[nodiscard]] bool awaits_others(bytes size) const noexcept;
  // Until the streams are done that may still use blocks that came back.
  void wait_for_others() const noexcept;
  [[nodiscard]] const guided_counts& counts() const noexcept { return counts_; }

 private:
  // Whoever is at the place of a slot.
  struct live_slot {
    bytes asked = 0;
    std::uint32_t place = step_plan::none;
  };
  struct stranger {
    bytes offset = 0;
    bytes end = 0;
    bytes asked = 0;
    std::uint32_t slot = step_plan::none;  // where it is at the plan's place for it
    bool back = false;                     // waits for other streams only
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
  // Requests that were not found since the last one that was.
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
  bool undisturbed_ = true;  // no strangers, not halted
  bool halted_ = false;      // a stranger could not be written down: nothing is served until all are gone
  guided_counts counts_;
  strangers strangers_;          // by offset, disjoint
  std::uint32_t unmatched_ = 0;  // requests that were not found, since the counter was at ...
  std::uint32_t unmatched_at_ = 0;
  bytes last_unmatched_ = 0;
  std::vector<std::uint32_t> idle_;       // places of requests that were passed
  std::vector<std::uint32_t> by_offset_;  // slots by the hash of their offset
  unsigned hash_shift_ = 0;
};

}  // namespace berth::detail

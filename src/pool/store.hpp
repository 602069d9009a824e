// The store: which ranges of a linear offset space are free. Pure arithmetic: no device, no addresses, no lock.
//
// Best fit by size, then lowest offset, with immediate coalescing. Free extents hang in lanes: one for each stream
// whose work may still touch them, and one for those that nothing touches. So a request never looks at what other
// streams' work holds back, however much that is. A lane is bins of 1/16 octave under a two-level bitmap (after Masmano
// et al., TLSF, 2004); within a bin the search is exact above 1 MiB, where a merely good fit costs 3-5 % of memory, and
// looks at no more than `look` extents below it, but where no larger one is left. Small requests are cut from the high
// end of a free extent and large ones from the low end, which keeps them apart (docs/decisions/0401-placement.md).
//
// Invariants, checked by check():
//   I1  neighbours touch: e.after->offset == e.end(), and before / after mirror each other;
//   I2  a free extent is in exactly one bin, that of its size in the lane it was given to, and no other extent is;
//   I3  two free neighbours never lie in one lane (they would have been merged), but for those of several streams;
//   I4  a lane's bytes, count and floor are those of its extents, free_bytes() is the sum over the lanes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "pool/extent.hpp"

namespace berth::detail {

// The free extents that one stream's work may still touch (some, of several streams, hang in that of their first).
struct lane {
  static constexpr unsigned words = 16;
  static constexpr unsigned bins = words * 64;

  const stream_clock* clock = nullptr;  // null: those that nothing touches
  bytes held = 0;
  std::size_t count = 0;
  std::uint64_t floor = std::numeric_limits<std::uint64_t>::max();  // no extent here has an older epoch
  std::uint64_t ceiling = 0;                                        // ... or a newer one, since the lane was empty
  std::uint64_t summary = 0;
  std::array<std::uint64_t, words> bitmap{};
  std::array<extent*, bins> heads{};

  template <class Function>
  void for_each(Function&& f) const {
    for (unsigned bin = next(0); bin < bins; bin = next(bin + 1)) {
      for (extent* e = heads[bin]; e != nullptr; e = e->bin_after) f(*e);
    }
  }
  [[nodiscard]] unsigned next(unsigned from) const noexcept;  // the first bin that is not empty; `bins` where none
};

class store {
 public:
  // Offsets and sizes are multiples of 64.
  store() = default;
  store(const store&) = delete;
  store& operator=(const store&) = delete;
  ~store() = default;

  // The lanes of streams are the caller's. One has to be open while anything hangs in it; there is room for so many.
  // close_all() leaves that of nobody, and those that are not empty have to be opened again.
  void make_room_for_lanes(std::size_t n) { lanes_.reserve(1 + n); }
  void open(lane& l) noexcept { lanes_.push_back(&l); }
  void close_all() noexcept { lanes_.resize(1); }
  // The lane of memory that nothing touches. While one stream alone uses the pool, the caller gives all memory here,
  // that stream's too; when a second one comes, sort_out() moves what is the first one's into its lane.
  [[nodiscard]] lane& nobodys() noexcept { return nobodys_; }
  void sort_out(lane& l) noexcept;

  // Makes sure that the next `n` records cannot fail. False: no host memory.
  [[nodiscard]] bool prepare(std::size_t n) noexcept;
  [[nodiscard]] extent* make() noexcept;  // contract: prepared
  void recycle(extent* e) noexcept;

  // Adds a free range. `left` and `right` are the extents that it touches, or null. Takes one record.
  extent* add(bytes offset, bytes size, extent* left, extent* right) noexcept;
  // Takes a whole extent that was taken out of the space.
  void remove(extent* e) noexcept;
  // The same for a space that is one range of addresses: memory comes and goes under them. A range without memory is
  // an extent too, so that neighbours stay known; `range` adds the first one, back() puts memory under the first n
  // bytes of one (give() the result), unback() takes it away from an extent that was taken. A record for each call.
  void add_range(bytes size) noexcept;
  [[nodiscard]] extent* lowest_unbacked(bytes n) const noexcept;
  [[nodiscard]] bytes largest_unbacked() const noexcept;
  extent* back(extent* e, bytes n) noexcept;
  void unback(extent* e) noexcept;

  // The best free extent of at least n bytes for which usable(e) in a lane and in that of nobody, or null; in a lane
  // alone, looking at so many extents at most. Both do not change the store.
  template <class Usable>
  [[nodiscard]] extent* find(const lane& mine, bytes n, Usable&& usable) const noexcept {
    unsigned no_end = std::numeric_limits<unsigned>::max();
    extent* best = mine.count != 0 ? find_in(mine, n, nullptr, no_end, usable) : nullptr;
    if (nobodys_.count != 0 && &mine != &nobodys_) best = find_in(nobodys_, n, best, no_end, usable);
    return best;
  }
  template <class Usable>
  [[nodiscard]] extent* find_among(const lane& there, bytes n, unsigned most, Usable&& usable) const noexcept {
    return find_in(there, n, nullptr, most, usable);
  }

  // Takes [offset, offset + n) out of the free extent e. What is left stays free, where it is one piece as e itself.
  // Takes up to two records; the result's state is `live` and it keeps e's use.
  extent* take(extent* e, bytes offset, bytes n) noexcept;
  // Where take() should cut n bytes out of e.
  [[nodiscard]] bytes place(const extent& e, bytes n) const noexcept { return n < small ? e.end() - n : e.offset; }

  // Frees e into the lane of its use, which says which work may still touch it, and merges it with free neighbours of
  // the same lane. Returns the extent it became part of.
  extent* give(extent* e, lane& to) noexcept;
  // Merges the free extents from `first` to `last`, which are neighbours, into one with that use, in its lane.
  extent* merge_run(extent* first, extent* last, stream_use use, lane& to) noexcept;
  // Says that nothing touches the free extent e any more.
  extent* clear_use(extent* e) noexcept;
  // Says that no further streams (extent::uses) touch it; its own may.
  extent* clear_further_uses(extent* e) noexcept;

  template <class Function>
  void for_each_free(Function&& f) const {
    for (const lane* l : lanes_) l->for_each(f);
  }

  [[nodiscard]] bytes free_bytes() const noexcept { return free_bytes_; }
  [[nodiscard]] bytes largest() const noexcept;
  [[nodiscard]] std::size_t free_count() const noexcept { return free_count_; }
  // The invariants; O(extents). For tests.
  [[nodiscard]] bool check() const;

 private:
  static constexpr bytes small = 1 << 20;
  static constexpr unsigned look = 16;
  [[nodiscard]] static unsigned bin_of(bytes size) noexcept {
    const bytes units = size / 64;
    if (units < 16) return static_cast<unsigned>(units);
    const auto octave = static_cast<unsigned>(std::bit_width(units)) - 1;
    return (octave - 3) * 16 + static_cast<unsigned>((units >> (octave - 4)) & 15);
  }
  template <class Usable>
  [[nodiscard]] static extent* find_in(const lane& l, bytes n, extent* best, unsigned& most, Usable&& usable) noexcept;
  void link(extent* e, lane& to) noexcept;
  void unlink(extent* e) noexcept;
  // The two without the sums, and what a free extent whose size has changed needs: most stay where they hang.
  static void hang(extent* e, lane& in, unsigned bin) noexcept;
  static void unhang(extent* e, lane& in, unsigned bin) noexcept;
  void resized(extent* e, bytes before) noexcept;
  static void note_epoch(const extent& e, lane& in) noexcept;
  [[nodiscard]] static bool mergeable(const extent& a, const lane& of, const extent& b) noexcept;
  [[nodiscard]] extent* part(const extent& of, bytes offset, bytes size) noexcept;
  extent* split(extent* e, bytes at) noexcept;
  void absorb_right(extent* e) noexcept;
  void note_unbacked(extent* e) noexcept;
  void forget_unbacked(extent* e) noexcept;

  bytes free_bytes_ = 0;
  std::size_t free_count_ = 0;
  lane nobodys_;
  std::vector<lane*> lanes_{&nobodys_};
  extent* unbacked_ = nullptr;  // linked as a bin is, by no order
  extent* spare_ = nullptr;
  std::size_t spares_ = 0;
  std::vector<std::unique_ptr<extent[]>> records_;
};

// Best so far: `best`, of any lane.
template <class Usable>
extent* store::find_in(const lane& l, bytes n, extent* best, unsigned& most, Usable&& usable) noexcept {
  const unsigned last = best != nullptr ? bin_of(best->size) : lane::bins - 1;
  const unsigned own = bin_of(n);  // here some are too small
  bool passed_over = false;
  const auto search = [&](unsigned bin, bool all) {
    bool found = false;
    const bool counts = bin == own && !all;
    unsigned looked = 0;
    for (extent* e = l.heads[bin]; e != nullptr; e = e->bin_after) {
      if (e->size >= n &&
          (best == nullptr || e->size < best->size || (e->size == best->size && e->offset < best->offset)) &&
          usable(*e)) {
        best = e;
        found = true;
        if (e->size == n && n < small) break;
      }
      if (--most == 0) return true;
      if ((found || counts) && n < small && ++looked == look) {
        passed_over = !found && e->bin_after != nullptr;
        break;
      }
    }
    return found;
  };
  for (unsigned bin = l.next(own); bin <= last; bin = l.next(bin + 1)) {
    if (search(bin, false)) return best;
  }
  // Nothing larger: then one that was not looked at.
  if (passed_over && best == nullptr) search(own, true);
  return best;
}

}  // namespace berth::detail

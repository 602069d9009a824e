// The store: the free ranges of a linear offset space. Pure arithmetic: no device, no addresses, no lock.
//
// Best fit by size, then lowest offset, with immediate coalescing. Free extents are in lanes: one for each stream whose
// work may still touch them, and one for unused ones. A request never visits memory that other streams hold back,
// however much that is. A lane has two parts:
//   Below 1 MiB    Bins of 1/16 octave under a bitmap (after Masmano et al., TLSF, 2004).
//                  A search visits at most `look` extents of a bin, unless no larger extent is left.
//   From 1 MiB on  A tree by size with exact search. A merely good fit costs 3-5 % of memory there.
// Small requests are cut from the high end of a free extent and large ones from the low end, which keeps them apart
// (docs/decisions/0401-placement.md).
//
// Invariants, checked by check():
//   I1  Neighbours touch: e.after->offset == e.end(), and before / after mirror each other.
//   I2  A free extent is linked once, by its size, in the lane it was given to, and no other extent is.
//   I3  Two free neighbours never lie in one lane (they would have been merged), except those of several streams.
//   I4  A lane's bytes, count and floor are those of its extents. The sum over the lanes is free_bytes().
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "pool/extent.hpp"
#include "pool/size_tree.hpp"

namespace berth::detail {

// The free extents that one stream's work may still touch. Extents of several streams are in the lane of their first
// one.
struct lane {
  static constexpr bytes large = bytes{1} << 20;  // from here on extents are in the tree
  static constexpr unsigned bins = 176;
  static constexpr unsigned words = 3;

  const stream_clock* clock = nullptr;  // null: the unused extents
  bytes held = 0;
  std::size_t count = 0;
  std::uint64_t floor = std::numeric_limits<std::uint64_t>::max();  // no extent here has an older epoch
  std::uint64_t ceiling = 0;                                        // ... or a newer one, since the lane was empty
  // The cached answer of the last request: the last epoch of this lane's stream that the request's stream is ordered
  // behind. It stays true for that stream; a new look queries again. See pool::state::order_of().
  std::uint64_t behind = 0;
  std::uint64_t look = 0;
  std::uint32_t asker = 0;                    // the id of the request's stream; 0: none yet
  std::array<std::uint64_t, words> bitmap{};  // a bit for each bin that is not empty
  size_tree tree;
  std::array<extent*, bins> heads{};

  template <class Function>
  void for_each(Function&& f) const {
    for (unsigned bin = next(0); bin < bins; bin = next(bin + 1)) {
      for (extent* e = heads[bin]; e != nullptr; e = e->bin_after) f(*e);
    }
    tree.for_each(f);
  }
  // Returns the first non-empty bin from there on; `bins` if there is none.
  [[nodiscard]] unsigned next(unsigned from) const noexcept {
    if (from >= bins) return bins;
    unsigned word = from / 64;
    std::uint64_t here = bitmap[word] & (~std::uint64_t{0} << (from % 64));
    while (here == 0) {
      if (++word == words) return bins;
      here = bitmap[word];
    }
    return word * 64 + static_cast<unsigned>(std::countr_zero(here));
  }
  // Returns the bin of a size below `large`.
  [[nodiscard]] static unsigned bin_of(bytes size) noexcept {
    const bytes units = size / 64;
    if (units < 16) return static_cast<unsigned>(units);
    const auto octave = static_cast<unsigned>(std::bit_width(units)) - 1;
    return (octave - 3) * 16 + static_cast<unsigned>((units >> (octave - 4)) & 15);
  }
};
static_assert(lane::bins <= lane::words * 64);

class store {
 public:
  // Offsets and sizes are multiples of 64.
  store() = default;
  store(const store&) = delete;
  store& operator=(const store&) = delete;
  ~store() = default;

  // The caller owns the streams' lanes. A lane must be open while any extent is in it; there is room for so many. Only
  // the unowned lane remains after close_all(). Lanes that are not empty have to be opened again.
  void make_room_for_lanes(std::size_t n) { lanes_.reserve(1 + n); }
  void open(lane& l) noexcept { lanes_.push_back(&l); }
  void close_all() noexcept { lanes_.resize(1); }
  // Returns the lane of unused memory. While only one stream uses the pool, the caller puts all memory here, that
  // stream's too. When a second one comes, sort_out() moves the first one's memory into its lane.
  [[nodiscard]] lane& nobodys() noexcept { return nobodys_; }
  void sort_out(lane& l) noexcept;

  // Ensures that the next `n` records cannot fail. Returns false without host memory.
  [[nodiscard]] bool prepare(std::size_t n) noexcept { return spares_ >= n || make_spares(n); }
  [[nodiscard]] extent* make() noexcept {  // contract: prepared
    extent* e = spare_;
    expects(e != nullptr, "pool: a record that was not prepared");
    spare_ = e->next;
    --spares_;
    e->next = nullptr;
    return e;
  }
  void recycle(extent* e) noexcept {
    e->set(extent_state::spare);
    e->before = e->after = nullptr;
    e->use = {};
    if (e->stitched) [[unlikely]]
      e->stitched.reset();
    if (e->uses) [[unlikely]]
      e->uses.reset();
    e->next = spare_;
    spare_ = e;
    ++spares_;
  }

  // Adds a free range. `left` and `right` are the extents that it touches, or null. Takes one record.
  extent* add(bytes offset, bytes size, extent* left, extent* right) noexcept;
  // Removes a whole extent that was taken out of the space.
  void remove(extent* e) noexcept;
  // Do the same for ranges of addresses, under which memory comes and goes. Addresses without memory are an extent too,
  // so that neighbours stay known. Each call takes one record.
  // * The function add_range() adds such an extent.
  // * The function back() puts memory under the first n bytes of one; give() the result.
  // * The function unback() removes the memory from an extent that was taken.
  void add_range(bytes offset, bytes size) noexcept;
  [[nodiscard]] extent* lowest_unbacked(bytes n) const noexcept;
  [[nodiscard]] bytes largest_unbacked() const noexcept;
  extent* back(extent* e, bytes n) noexcept;
  void unback(extent* e) noexcept;

  // Returns the best free extent of at least n bytes for which usable(e), in a lane and in the unowned one, or null.
  // The variant find_among() searches one lane alone, and visits at most so many extents. Both do not change the store.
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

  // Takes [offset, offset + n) out of the free extent e. The rest stays free; if it is one piece, it keeps the record
  // e. Takes up to two records. The result's state is `live` and it keeps e's use.
  extent* take(extent* e, bytes offset, bytes n) noexcept;
  // Returns where take() should cut n bytes out of e.
  [[nodiscard]] bytes place(const extent& e, bytes n) const noexcept {
    return n < lane::large ? e.end() - n : e.offset;
  }

  // Frees e into the lane of its use, which says which work may still touch it. Merges it with free neighbours of the
  // same lane. Returns the extent it became part of.
  extent* give(extent* e, lane& to) noexcept;
  // Merges the free extents from `first` to `last`, which are neighbours, into one with that use, in its lane.
  extent* merge_run(extent* first, extent* last, stream_use use, lane& to) noexcept;
  // Records that no work touches the free extent e any more.
  extent* clear_use(extent* e) noexcept;
  // Records that no further streams (extent::uses) touch it; its own may.
  extent* clear_further_uses(extent* e) noexcept;

  template <class Function>
  void for_each_free(Function&& f) const {
    for (const lane* l : lanes_) l->for_each(f);
  }
  template <class Function>
  void for_each_lane(Function&& f) const {
    for (lane* l : lanes_) f(*l);
  }

  [[nodiscard]] bytes free_bytes() const noexcept { return free_bytes_; }
  [[nodiscard]] bytes largest() const noexcept;
  [[nodiscard]] std::size_t free_count() const noexcept { return free_count_; }
  // Checks the invariants; O(extents). For tests.
  [[nodiscard]] bool check() const;

 private:
  static constexpr unsigned look = 16;

  template <class Usable>
  [[nodiscard]] static extent* find_in(const lane& l, bytes n, extent* best, unsigned& most, Usable&& usable) noexcept;
  template <class Usable>
  [[nodiscard]] static extent* find_large(const lane& l, bytes n, extent* best, unsigned& most,
                                          Usable&& usable) noexcept;
  [[nodiscard]] bool make_spares(std::size_t n) noexcept;
  void link(extent* e, lane& to) noexcept;
  void unlink(extent* e) noexcept;
  // Link and unlink without the sums. resized() updates a free extent after a change of size or offset: most small ones
  // stay in their bin.
  static void hang(extent* e, lane& in) noexcept;
  static void unhang(extent* e, lane& in, bytes size, bytes offset) noexcept;
  void resized(extent* e, bytes size, bytes offset) noexcept;
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
  extent* unbacked_ = nullptr;  // linked as a bin is, in no order
  extent* spare_ = nullptr;
  std::size_t spares_ = 0;
  std::vector<std::unique_ptr<extent[]>> records_;
};

// Improves on `best`, which may be of any lane.
template <class Usable>
extent* store::find_in(const lane& l, bytes n, extent* best, unsigned& most, Usable&& usable) noexcept {
  if (n >= lane::large) return find_large(l, n, best, most, usable);
  const unsigned own = lane::bin_of(n);  // some extents here are too small
  const unsigned last = best != nullptr && best->size < lane::large ? lane::bin_of(best->size) : lane::bins - 1;
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
        if (e->size == n) break;
      }
      if (--most == 0) return true;
      if ((found || counts) && ++looked == look) {
        passed_over = !found && e->bin_after != nullptr;
        break;
      }
    }
    return found;
  };
  for (unsigned bin = l.next(own); bin <= last; bin = l.next(bin + 1)) {
    if (search(bin, false)) return best;
  }
  if (best == nullptr || best->size >= lane::large) best = find_large(l, n, best, most, usable);
  // Without a larger one, takes one that was not visited.
  if (passed_over && best == nullptr) search(own, true);
  return best;
}

template <class Usable>
extent* store::find_large(const lane& l, bytes n, extent* best, unsigned& most, Usable&& usable) noexcept {
  for (extent* e = l.tree.first(n); e != nullptr; e = l.tree.after(*e)) {
    if (best != nullptr && (e->size != best->size ? e->size > best->size : e->offset > best->offset)) return best;
    if (usable(*e)) return e;
    if (--most == 0) return best;
  }
  return best;
}

}  // namespace berth::detail

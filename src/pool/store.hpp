// The store: which ranges of a linear offset space are free. Pure arithmetic: no device, no addresses, no lock.
//
// Best fit by size, then lowest offset, with immediate coalescing. Free extents hang in bins of 1/16 octave under a
// two-level bitmap (after Masmano et al., TLSF, 2004); within a bin the search is exact above 1 MiB, where a merely
// good fit costs 3-5 % of memory, and looks at no more than `look` extents below it.
// Small requests are cut from the high end of a free extent and large ones from the low end, which keeps them apart
// (docs/decisions/0401-placement.md).
//
// Invariants, checked by check():
//   I1  neighbours touch: e.after->offset == e.end(), and before / after mirror each other;
//   I2  a free extent is in exactly one bin, that of its size, and no other extent is;
//   I3  two free neighbours never have the same use (they would have been merged);
//   I4  free_bytes() is the sum over the free extents.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "pool/extent.hpp"

namespace berth::detail {

class store {
 public:
  // Offsets and sizes are multiples of 64.
  store() = default;
  store(const store&) = delete;
  store& operator=(const store&) = delete;
  ~store() = default;

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
  extent* back(extent* e, bytes n) noexcept;
  void unback(extent* e) noexcept;

  // The best free extent of at least n bytes for which usable(e), or null. Does not change the store.
  template <class Usable>
  [[nodiscard]] extent* find(bytes n, Usable&& usable) const noexcept;

  // Takes [offset, offset + n) out of the free extent e. What is left stays free, where it is one piece as e itself.
  // Takes up to two records; the result's state is `live` and it keeps e's use.
  extent* take(extent* e, bytes offset, bytes n) noexcept;
  // Where take() should cut n bytes out of e.
  [[nodiscard]] bytes place(const extent& e, bytes n) const noexcept { return n < small ? e.end() - n : e.offset; }

  // Frees e, whose use says which work may still touch it, and merges it with free neighbours of the same use, or of
  // any where `one_stream`. Returns the extent it became part of.
  extent* give(extent* e, bool one_stream) noexcept;
  // Merges the free extents from `first` to `last`, which are neighbours, into one with that use.
  extent* merge_run(extent* first, extent* last, stream_use use) noexcept;
  // Says that nothing touches the free extent e any more.
  extent* clear_use(extent* e, bool one_stream) noexcept;

  template <class Function>
  void for_each_free(Function&& f) const;

  [[nodiscard]] bytes free_bytes() const noexcept { return free_bytes_; }
  [[nodiscard]] bytes largest() const noexcept;
  [[nodiscard]] std::size_t free_count() const noexcept { return free_count_; }
  // The invariants; O(extents). For tests.
  [[nodiscard]] bool check() const;

 private:
  static constexpr bytes small = 1 << 20;
  static constexpr unsigned look = 16;
  static constexpr unsigned words = 16;
  static constexpr unsigned bins = words * 64;

  [[nodiscard]] static unsigned bin_of(bytes size) noexcept {
    const bytes units = size / 64;
    if (units < 16) return static_cast<unsigned>(units);
    const auto octave = static_cast<unsigned>(std::bit_width(units)) - 1;
    return (octave - 3) * 16 + static_cast<unsigned>((units >> (octave - 4)) & 15);
  }
  [[nodiscard]] unsigned next_bin(unsigned from) const noexcept;  // the first that is not empty; `bins` where none
  void link(extent* e) noexcept;
  void unlink(extent* e) noexcept;
  // The two without the sums, and what a free extent whose size has changed needs: most stay where they hang.
  void hang(extent* e, unsigned bin) noexcept;
  void unhang(extent* e, unsigned bin) noexcept;
  void resized(extent* e, bytes before) noexcept;
  [[nodiscard]] static bool mergeable(const extent& a, const extent& b, bool one_stream) noexcept;
  [[nodiscard]] extent* part(const extent& of, bytes offset, bytes size) noexcept;
  extent* split(extent* e, bytes at) noexcept;
  void absorb_right(extent* e) noexcept;
  void forget_unbacked(const extent* e) noexcept;

  bytes free_bytes_ = 0;
  std::size_t free_count_ = 0;
  std::array<extent*, bins> heads_{};
  std::array<std::uint64_t, words> bitmap_{};
  std::uint64_t summary_ = 0;
  extent* unbacked_ = nullptr;  // linked by next, by no order
  extent* spare_ = nullptr;
  std::size_t spares_ = 0;
  std::vector<std::unique_ptr<extent[]>> slabs_;
};

template <class Usable>
extent* store::find(bytes n, Usable&& usable) const noexcept {
  for (unsigned bin = next_bin(bin_of(n)); bin < bins; bin = next_bin(bin + 1)) {
    extent* best = nullptr;
    unsigned looked = 0;
    for (extent* e = heads_[bin]; e != nullptr; e = e->bin_after) {
      if (e->size >= n &&
          (best == nullptr || e->size < best->size || (e->size == best->size && e->offset < best->offset)) &&
          usable(*e)) {
        best = e;
        if (e->size == n && n < small) break;
      }
      if (best != nullptr && n < small && ++looked == look) break;
    }
    if (best != nullptr) return best;
  }
  return nullptr;
}

template <class Function>
void store::for_each_free(Function&& f) const {
  for (unsigned bin = next_bin(0); bin < bins; bin = next_bin(bin + 1)) {
    for (extent* e = heads_[bin]; e != nullptr; e = e->bin_after) f(*e);
  }
}

}  // namespace berth::detail

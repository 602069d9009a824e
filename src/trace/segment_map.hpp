// The address ranges that another engine's allocator holds of its device, and the holes between its live blocks.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "berth/core/bytes.hpp"

namespace berth::trace {

class segment_map {
 public:
  // A segment that is allocated as a whole. No block lies in two of them.
  // A private one serves requests of one pool alone.
  void add(std::uint64_t address, bytes size, bool is_private = false);
  void remove(std::uint64_t address) { whole_.erase(address); }
  // Pages of an expandable segment: neighbours join.
  void map(std::uint64_t address, bytes size);
  void unmap(std::uint64_t address, bytes size);

  struct holes {
    std::uint64_t segments = 0;
    bytes idle = 0;     // held, and not in a live block
    bytes largest = 0;  // hole in one segment
    std::uint64_t largest_at = 0;
    bytes unusable = 0;    // of `idle`: in holes below `request` and below `idle`
    bytes in_empty = 0;    // of `idle`: in segments without a live block
    bytes in_private = 0;  // of `idle`: in private segments
  };
  // `live` holds [begin, end) of blocks. They may overlap, and lie outside of all segments. O(n log n).
  [[nodiscard]] holes beside(std::vector<std::pair<std::uint64_t, std::uint64_t>> live, bytes request) const;

 private:
  struct range {
    std::uint64_t end;
    bool is_private = false;
  };
  using ranges = std::map<std::uint64_t, range>;  // by begin
  ranges whole_, pages_;
};

}  // namespace berth::trace

// Blocks that targets hold, each filled with bytes of its own, which must not change.
#pragma once

#include <cstddef>
#include <vector>

#include "berth/core/bytes.hpp"
#include "fuzz/fuzz.hpp"

namespace berth::fuzz {

struct held {
  std::byte* data;
  bytes size;
  std::size_t on;  // of the target's streams
  std::byte mark;
};

// The ends and some bytes between.
template <class Visit>
void places(const held& h, Visit visit) {
  visit(h.data[0]);
  visit(h.data[h.size - 1]);
  for (bytes i = 1; i < 4; ++i) visit(h.data[h.size / 4 * i]);
}

// Into those that live.
inline void hold(std::vector<held>& live, const held& h) {
  for (const held& other : live) {
    require(h.data + h.size <= other.data || other.data + other.size <= h.data, "blocks are apart");
  }
  places(h, [&h](std::byte& b) { b = h.mark; });
  live.push_back(h);
}

// Before it is given back.
inline void require_kept(const held& h) {
  places(h, [&h](const std::byte& b) { require(b == h.mark, "a block keeps its bytes"); });
}

}  // namespace berth::fuzz

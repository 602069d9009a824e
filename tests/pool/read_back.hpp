// Reads a block back in the order of its stream, to see whether somebody else got it too early.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "berth/device/stream.hpp"

namespace berth::support {

// Counts in `wrong`, once `on` comes to it, the bytes that are not `expected`; looks at every 61st and the last.
inline void read_back(stream& on, const void* data, bytes size, unsigned char expected, std::atomic<int>& wrong) {
  struct reading {
    const unsigned char* data;
    bytes size;
    unsigned char expected;
    std::atomic<int>* wrong;
  };
  const auto read = [](void* context) {
    const std::unique_ptr<reading> r{static_cast<reading*>(context)};
    for (bytes i = 0; i < r->size; i += 61) *r->wrong += r->data[i] != r->expected;
    *r->wrong += r->data[r->size - 1] != r->expected;
  };
  auto r = std::make_unique<reading>(reading{static_cast<const unsigned char*>(data), size, expected, &wrong});
  ASSERT_TRUE(on.call(read, r.get()));
  (void)r.release();
}

}  // namespace berth::support

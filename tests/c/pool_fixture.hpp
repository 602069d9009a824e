// A device and a stream by their handles, and what tests do with pools there.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "berth/pool.h"
#include "c/sized.hpp"

namespace berth::support {

class pool_fixture : public testing::Test {
 protected:
  pool_fixture() {
    EXPECT_EQ(berth_device_open("host", &device), BERTH_OK) << berth_error_text();
    EXPECT_EQ(berth_stream_create(device, &stream), BERTH_OK) << berth_error_text();
  }
  ~pool_fixture() override {
    berth_pool_destroy(pool);
    berth_stream_destroy(stream);
    berth_device_close(device);
  }

  // Returns the options of a pool of 16 MiB, without reports.
  static berth_pool_options small() {
    auto options = sized<berth_pool_options>();
    options.limit = std::uint64_t{16} << 20;
    options.quiet = 1;
    return options;
  }
  static void* take(berth_pool* from, std::uint64_t size, berth_stream* on) {
    void* block = nullptr;
    EXPECT_EQ(berth_pool_allocate(from, size, on, &block), BERTH_OK) << berth_error_text();
    return block;
  }
  static berth_pool_statistics statistics(berth_pool* of) {
    auto s = sized<berth_pool_statistics>();
    EXPECT_EQ(berth_pool_statistics_of(of, &s), BERTH_OK) << berth_error_text();
    return s;
  }

  berth_device* device = nullptr;
  berth_stream* stream = nullptr;
  berth_pool* pool = nullptr;  // the fixture's that derives from it
};

}  // namespace berth::support

#include "core/byte_count.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace berth {
namespace {

TEST(byte_count, has_units_of_1024_and_of_1000) {
  for (const auto& [text, n] : {std::pair{"0", bytes{0}},
                                {"67108864", bytes{1} << 26},
                                {"64MiB", bytes{1} << 26},
                                {"64 mib", bytes{1} << 26},
                                {"64MB", bytes{64000000}},
                                {"1.5GiB", bytes{3} << 29},
                                {"0.5 B", bytes{0}},
                                {"15EiB", bytes{15} << 60},
                                {"18446744073709551615", max_bytes}}) {
    EXPECT_EQ(parse_bytes(text), n) << text;
  }
}

TEST(byte_count, other_texts_are_none) {
  for (const char* const text : {"", " ", "-1", "MiB", "64M", "64 MiB ", "64MiBs", "0x10", "1e9", ".5MiB", "1.MiB",
                                 "16EiB", "18446744073709551616", "1.0000000000MiB", "64 apples"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace berth

#include "berth/core/bytes.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {
using namespace berth;
using namespace berth::literals;

TEST(bytes, literals) {
  EXPECT_EQ(3_KiB, 3072u);
  EXPECT_EQ(2_MiB, 2097152u);
  EXPECT_EQ(1_GiB, 1073741824u);
}

TEST(bytes, checked_arithmetic_at_the_edge) {
  EXPECT_EQ(checked_add(max_bytes - 1, 1), max_bytes);
  EXPECT_EQ(checked_add(max_bytes, 1), std::nullopt);
  EXPECT_EQ(checked_mul(1ull << 32, 1ull << 31), 1ull << 63);
  EXPECT_EQ(checked_mul(1ull << 32, 1ull << 32), std::nullopt);
  EXPECT_EQ(checked_mul(0, max_bytes), 0u);
  EXPECT_EQ(checked_align_up(max_bytes, 64), std::nullopt);
  EXPECT_EQ(checked_align_up(max_bytes, 1), max_bytes);
}

RC_GTEST_PROP(bytes, align_up_is_the_least_multiple, (std::uint32_t n)) {
  const bytes alignment = *rc::gen::inRange<bytes>(1, 5000);
  bytes least = n;
  while (least % alignment != 0) ++least;
  RC_ASSERT(align_up(n, alignment) == least);
  RC_ASSERT(checked_align_up(n, alignment) == least);
  RC_ASSERT(align_down(least, alignment) == least);
  RC_ASSERT(least == 0 || align_down(least - 1, alignment) == least - alignment);
}
}  // namespace

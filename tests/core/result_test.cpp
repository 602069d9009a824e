#include "berth/core/result.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace {
using berth::errc;
using berth::error;
using berth::result;

TEST(result, holds_a_value_or_an_error) {
  result<int> good{7};
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, 7);
  EXPECT_EQ(good.value(), 7);
  result<int> bad{error{errc::out_of_memory, "no room", 42}};
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().number, 42u);
  EXPECT_EQ(std::move(bad).value_or(3), 3);
}

TEST(result, value_of_an_error_throws_what_was_said) {
  result<void> bad{error{errc::io, "cannot read", 2}};
  try {
    bad.value();
    FAIL() << "did not throw";
  } catch (const berth::bad_result& e) {
    EXPECT_STREQ(e.what(), "cannot read");
    EXPECT_EQ(e.error().code, errc::io);
  }
}

TEST(result, errors_are_equal_that_say_the_same) {
  const char here[] = "no room";
  const char there[] = "no room";
  EXPECT_EQ((error{errc::out_of_memory, here, 42}), (error{errc::out_of_memory, there, 42}));
  EXPECT_NE((error{errc::out_of_memory, here, 42}), (error{errc::out_of_memory, "no roof", 42}));
  EXPECT_NE((error{errc::out_of_memory, here, 42}), (error{errc::out_of_memory, there, 41}));
}

TEST(result, moves_what_cannot_be_copied) {
  result<std::unique_ptr<int>> r{std::make_unique<int>(5)};
  EXPECT_EQ(*std::move(r).value(), 5);
}

TEST(result_death, dereferencing_an_error_breaks_the_contract) {
  GTEST_FLAG_SET(death_test_style, "fast");
  result<int> bad{error{errc::io, "cannot read", 2}};
  EXPECT_DEATH((void)*bad, "contract: result: value of an error");
}
}  // namespace

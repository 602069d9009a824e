#include "berth/rules/media.hpp"

#include <gtest/gtest.h>

#include <set>

namespace {
namespace rules = berth::rules;
using rules::picture;
using rules::pixels;

rules::media_chip chip(const char* name) {
  return rules::find_media_chip(name).value();
}

// The worked sizes of the guide.
TEST(media, pictures_are_those_of_the_guide) {
  for (const auto& any : rules::media_chips()) {
    EXPECT_EQ(rules::jpegd_picture(any, pixels::yuv420sp, 1920, 1080).value(), (picture{1920, 1088, 3133440}))
        << any.name;
    EXPECT_EQ(rules::jpegd_picture(any, pixels::yuv420sp, 1000, 600).value(), (picture{1024, 608, 933888})) << any.name;
    if (!any.vdec) continue;
    EXPECT_EQ(rules::vdec_picture(any, 1920, 1080).value(), (picture{1920, 1080, 3110400})) << any.name;
    EXPECT_EQ(rules::vdec_picture(any, 1280, 720).value(), (picture{1280, 720, 1382400})) << any.name;
  }
  EXPECT_EQ(rules::predicted_jpegd_size(1920, 1080), 3133440u);
}

TEST(media, strides_are_the_chips_own) {
  EXPECT_EQ(rules::jpegd_picture(chip("310"), pixels::yuv420sp, 1100, 600)->width_stride, 1152u);
  EXPECT_EQ(rules::jpegd_picture(chip("310P"), pixels::yuv420sp, 1100, 600)->width_stride, 1152u);
  EXPECT_EQ(rules::jpegd_picture(chip("310"), pixels::yuv420sp, 1090, 600)->width_stride, 1152u);
  EXPECT_EQ(rules::jpegd_picture(chip("A2"), pixels::yuv420sp, 1050, 600)->width_stride, 1088u);
  EXPECT_EQ(rules::vdec_picture(chip("310P"), 1001, 701).value(), (picture{1008, 702, 1008 * 702 * 3 / 2}));
  EXPECT_EQ(rules::vdec_picture(chip("A2"), 1002, 702).value(), (picture{1002, 702, 1002 * 702 * 3 / 2}));
}

TEST(media, formats_take_what_they_take) {
  const auto size = [](pixels f) { return rules::vpc_picture(f, 1920, 1080)->size; };
  constexpr berth::bytes plane = 1920 * 1080;
  EXPECT_EQ(size(pixels::yuv400), plane * 3 / 2);  // with the colours' room
  EXPECT_EQ(size(pixels::yuv420sp), plane * 3 / 2);
  EXPECT_EQ(size(pixels::yuv422sp), plane * 2);
  EXPECT_EQ(size(pixels::yuv440sp), plane * 2);
  EXPECT_EQ(size(pixels::yuv444sp), plane * 3);
  EXPECT_EQ(rules::find_pixels("yuv444sp"), pixels::yuv444sp);
  EXPECT_FALSE(rules::find_pixels("rgb"));
}

TEST(media, the_950_decodes_pictures_only) {
  EXPECT_EQ(rules::jpegd_picture(chip("950"), pixels::yuv420sp, 1050, 600)->width_stride, 1088u);
  EXPECT_EQ(rules::vdec_picture(chip("950"), 1920, 1080).error().code, berth::errc::unsupported);
}

TEST(media, sizes_that_a_unit_does_not_take_are_refused) {
  EXPECT_EQ(rules::jpegd_picture(chip("A2"), pixels::yuv420sp, 31, 100).error().number, 31u);
  EXPECT_EQ(rules::jpegd_picture(chip("A2"), pixels::yuv420sp, 100, 8193).error().number, 8193u);
  EXPECT_EQ(rules::vdec_picture(chip("A2"), 0, 720).error().code, berth::errc::invalid_input);
  EXPECT_FALSE(rules::vpc_picture(pixels::yuv420sp, berth::max_bytes, berth::max_bytes));
}

TEST(media, chips_have_names_of_their_own) {
  std::set<std::string_view> names;
  for (const auto& any : rules::media_chips()) EXPECT_TRUE(names.insert(any.name).second);
  EXPECT_FALSE(rules::find_media_chip("320"));
  EXPECT_EQ(rules::vdec_frames(4, 2), 7u);
}

}  // namespace

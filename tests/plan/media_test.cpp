#include "berth/plan/media.hpp"

#include <gtest/gtest.h>

#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"

namespace berth::plan {
namespace {

rules::media_chip chip(const char* name) {
  return rules::find_media_chip(name).value();
}

// Sizes as the guide works them out, and starts as it asks of a media block.
TEST(media_plan, a_jpeg_is_decoded_resized_and_inferred_in_one_block) {
  const auto made = jpeg_problem({.chip = chip("310P"), .width = 1920, .height = 1080, .file_bytes = 400'000});
  ASSERT_TRUE(made);
  const auto answer = solve(*made);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->optimal());
  EXPECT_EQ(answer->arena(), answer->lower_bound());  // only what the rules force is lost
  EXPECT_FALSE(verify(*made, *answer));
  ASSERT_EQ(made->buffers.size(), 5u);
  EXPECT_EQ(made->footprint(1), 3133472u);
  EXPECT_EQ(made->footprint(3), 602144u);
  // While decoding, the file and the picture: nothing can be smaller.
  EXPECT_GE(answer->arena(), 3133472u + 400'032u);
  EXPECT_LE(answer->arena(), 3133472u + 400'032u + 127);
  for (index i = 0; i < made->buffers.size(); ++i) {
    EXPECT_EQ(answer->offsets[i] % 128, 0u) << made->buffers[i].name;
  }
  const separate_allocations apart = one_allocation_each(*made);
  EXPECT_EQ(apart.rounded, 3133472u + 400'032 + (75'264 + 32) + 602144 + (4000 + 32));
  EXPECT_GT(apart.in_pages, apart.rounded);
}

TEST(media_plan, a_stream_is_a_ring_of_frames) {
  for (const char* name : {"310P", "A2"}) {
    for (const std::uint32_t references : {0u, 1u, 4u}) {
      const vdec_scenario s{.chip = chip(name), .width = 1920, .height = 1080, .references = references, .shown = 2};
      const auto made = vdec_problem(s);
      ASSERT_TRUE(made);
      const auto answer = solve(*made);
      ASSERT_TRUE(answer);
      EXPECT_FALSE(verify(*made, *answer));
      const bytes frames = rules::vdec_frames(references, 2) * bytes{3110432};
      const bytes packets = 2 * bytes{3110432};
      const bytes rest = 75'296 + 602144 + 4032;
      EXPECT_GE(answer->lower_bound(), frames + packets + rest);
      EXPECT_EQ(answer->arena(), answer->lower_bound()) << name << " " << references;
      EXPECT_EQ(one_allocation_each(*made).rounded, frames + packets + rest);
      // A longer stream needs no more.
      vdec_scenario longer = s;
      longer.frames = 60;
      EXPECT_EQ(solve(*vdec_problem(longer))->arena(), answer->arena());
    }
  }
}

TEST(media_plan, packets_have_a_size_of_their_own) {
  vdec_scenario s{.chip = chip("310P"), .width = 1920, .height = 1080, .packets = 3, .packet_bytes = 100'001};
  const auto made = vdec_problem(s);
  ASSERT_TRUE(made);
  for (const buffer& b : made->buffers) {
    EXPECT_TRUE(!b.name.starts_with("packet_") || b.size == 100'001) << b.name;
  }
  const auto answer = solve(*made);
  ASSERT_TRUE(answer);
  EXPECT_FALSE(verify(*made, *answer));
  const bytes frames = 7 * bytes{3110432};
  EXPECT_EQ(one_allocation_each(*made).rounded, frames + 3 * bytes{100'064} + 75'296 + 602144 + 4032);
  s.packet_bytes = rules::vdec_packet_size(1920, 1080);
  EXPECT_TRUE(vdec_problem(s));
  ++s.packet_bytes;  // larger than the frame that it decodes to
  EXPECT_EQ(vdec_problem(s).error().code, errc::invalid_input);
  EXPECT_EQ(vdec_problem(s).error().number, s.packet_bytes);
}

TEST(media_plan, a_950_decodes_pictures_only) {
  const auto made = jpeg_problem({.chip = chip("950"), .width = 1920, .height = 1080, .file_bytes = 400'000});
  ASSERT_TRUE(made);
  for (index i = 0; i < made->buffers.size(); ++i) {  // the rule of the media block holds for the model's buffers too
    EXPECT_EQ(made->footprint(i), align_up(made->buffers[i].size, 32) + 32) << made->buffers[i].name;
  }
  EXPECT_EQ(vdec_problem({.chip = chip("950"), .width = 1920, .height = 1080}).error().code, errc::unsupported);
}

TEST(media_plan, what_cannot_be_is_refused) {
  const auto a2 = chip("A2");
  EXPECT_EQ(jpeg_problem({.chip = a2, .width = 16, .height = 1080, .file_bytes = 1}).error().code, errc::invalid_input);
  EXPECT_EQ(jpeg_problem({.chip = a2, .width = 1920, .height = 1080}).error().code, errc::invalid_input);
  EXPECT_EQ(jpeg_problem({.chip = a2, .width = 64, .height = 64, .file_bytes = max_bytes}).error().code,
            errc::overflow);
  EXPECT_FALSE(vdec_problem({.chip = a2, .width = 1920, .height = 1080, .packets = 0}));
  EXPECT_FALSE(vdec_problem({.chip = a2, .width = 1920, .height = 1080, .frames = 1'000'000'000}));
  EXPECT_FALSE(vdec_problem({.chip = a2, .width = 1920, .height = 1080, .model = {.width = 0}}));
  EXPECT_FALSE(vdec_problem({.chip = a2, .width = 1920, .height = 1080, .model = {.workspace_bytes = max_bytes}}));
}

}  // namespace
}  // namespace berth::plan

#include "berth/rules/placement.hpp"

#include <gtest/gtest.h>

#include <set>

namespace {
namespace rules = berth::rules;

// The worked sizes of the CANN guide for 1920x1080 frames: ALIGN_UP(len, 32) + 32, next start at a multiple of 128.
TEST(placement, ascend_footprints_follow_the_guide) {
  const auto& dvpp = rules::ascend_310p_dvpp();
  EXPECT_EQ(dvpp.footprint(3133440), 3133472u);
  EXPECT_EQ(berth::align_up(*dvpp.footprint(3133440), dvpp.start_alignment), 3133568u);
  EXPECT_EQ(dvpp.footprint(602112), 602144u);
  EXPECT_EQ(dvpp.footprint(1), 64u);
  // aclrtMallocAlign32 adds nothing to its block. A part cut from the block keeps 32 bytes all the same.
  EXPECT_EQ(rules::ascend_align32().footprint(33), 96u);
}

TEST(placement, footprint_refuses_to_overflow) {
  EXPECT_EQ(rules::ascend_310p_dvpp().footprint(berth::max_bytes - 40), std::nullopt);
  EXPECT_EQ(rules::unconstrained().footprint(berth::max_bytes), berth::max_bytes);
}

TEST(placement, strictest_satisfies_both) {
  const auto both = rules::strictest(rules::host(), rules::ascend_310p_dvpp());
  ASSERT_TRUE(both);
  EXPECT_EQ(both->start_alignment, 128u);
  EXPECT_EQ(both->tail_pad, 32u);
  rules::placement odd = rules::host();
  odd.start_alignment = (berth::bytes{1} << 63) - 1;
  EXPECT_FALSE(rules::strictest(rules::host(), odd));
}

TEST(placement, names_are_unique_and_found) {
  std::set<std::string_view> names;
  for (const auto& entry : rules::all()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_EQ(rules::find(entry.name), entry);
    EXPECT_FALSE(entry.source.empty());
  }
  EXPECT_FALSE(rules::find("no such chip"));
}
}  // namespace

#include "berth/trace/picture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {
using berth::trace::picture;
using berth::trace::to_html;
using testing::HasSubstr;
using testing::Not;

picture two_buffers() {
  picture p{.title = "two buffers",
            .facts = {{"arena", "4 KiB"}},
            .lower_bound = 4096,
            .rectangles = {},
            .when_us = {},
            .addresses = {}};
  p.rectangles.push_back({.name = "x", .offset = 0, .size = 1024, .lower = -3, .upper = 2});
  p.rectangles.push_back({.name = "y", .offset = 1024, .size = 3072, .lower = 1, .upper = 9, .memory = "UB"});
  return p;
}

TEST(picture, holds_every_rectangle_and_fact) {
  const std::string html = to_html(two_buffers());
  EXPECT_THAT(
      html,
      HasSubstr(R"({"title":"two buffers","facts":[["arena","4 KiB"]],"lower_bound":4096,)"
                R"("lower_bound_name":"lower bound","tick":"tick","tick_base":"0",)"
                R"("buffers":[[0,0,1024,-3,2,0],[1,1024,3072,1,9,1]],"names":["x","y"],)"
                R"("memories":["","UB"],"when_us":[],"addresses":[],"left_out":0,"left_out_curve":[]}</script>)"));
  EXPECT_THAT(html, testing::StartsWith("<!doctype html>"));
  EXPECT_THAT(html, testing::EndsWith("</html>\n"));
}

TEST(picture, a_name_is_written_once) {
  picture p;
  p.rectangles.resize(3, {.name = "twice"});
  EXPECT_THAT(to_html(p), HasSubstr("\"names\":[\"twice\"]"));
}

TEST(picture, of_too_many_the_largest_are_shown_and_the_rest_is_in_the_curve) {
  picture p;
  for (int i = 0; i < 400'001; ++i) {
    p.rectangles.push_back({.name = "", .offset = 0, .size = 2, .lower = i, .upper = i + 2, .memory = ""});
  }
  p.rectangles[7].size = 1;
  const std::string html = to_html(p);
  EXPECT_THAT(html, HasSubstr("[0,0,2,6,8,0],[0,0,2,8,10,0]"));
  EXPECT_THAT(html, HasSubstr("\"left_out\":1,\"left_out_curve\":[[7,1],[9,0],[9,0]]}"));
}

// Ticks of either may lie far from zero: they are counted from one.
TEST(picture, what_was_before_follows_with_the_same_names_and_ticks) {
  picture p = two_buffers();
  p.before.emplace();
  p.before->title = "old";
  p.before->lower_bound = 7;
  p.before->rectangles.push_back({.name = "y", .offset = 0, .size = 5, .lower = -10, .upper = 1});
  EXPECT_THAT(to_html(p),
              HasSubstr(R"("buffers":[[0,0,1024,-3,2,0],[1,1024,3072,1,9,1],[1,0,5,-10,1,0]],"names":["x","y"])"));
  EXPECT_THAT(to_html(p),
              HasSubstr(R"("before":{"from":2,"title":"old","lower_bound":7,"left_out_curve":[]}}</script>)"));
  p.before->rectangles[0].lower = -(std::int64_t{1} << 62);
  EXPECT_THAT(to_html(p), HasSubstr(R"("tick_base":"-4611686018427387904")"));
}

// A buffer that was only not drawn looked new, or gone.
TEST(picture, of_too_many_a_buffer_is_in_both_pictures_or_in_neither) {
  picture p;
  p.rectangles.resize(399'999, {.name = "", .offset = 0, .size = 2, .lower = 0, .upper = 2, .memory = ""});
  p.rectangles.push_back({.name = "kept", .offset = 0, .size = 1, .lower = 0, .upper = 1, .memory = ""});
  p.rectangles.push_back({.name = "left out", .offset = 0, .size = 1, .lower = 0, .upper = 1, .memory = ""});
  p.before.emplace();
  for (const char* name : {"left out", "kept", "gone"}) p.before->rectangles.push_back({.name = name, .upper = 1});
  p.before->rectangles[1].size = 100;
  const std::string html = to_html(p);
  EXPECT_THAT(html, HasSubstr(R"(],"names":["","kept","gone"],)"));
  EXPECT_THAT(html, HasSubstr(R"("left_out":2,)"));
  EXPECT_THAT(html, HasSubstr(R"("before":{"from":400000,)"));
}

TEST(picture, unused_stretches_of_addresses_are_taken_out) {
  constexpr std::uint64_t base = 0x7f00'0000'0000, far = std::uint64_t{1} << 62;
  picture p;
  for (const std::uint64_t at : {far + 50, base + 6400, base}) {
    p.rectangles.push_back({.name = "", .offset = at, .size = 3200, .lower = 0, .upper = 1, .memory = ""});
  }
  p.rectangles.push_back({.name = "", .offset = base + 3250, .size = 3100, .lower = 0, .upper = 1, .memory = ""});
  berth::trace::close_gaps(p);
  EXPECT_EQ(p.rectangles[2].offset, 0u);
  EXPECT_EQ(p.rectangles[3].offset, 3250u);  // a short gap stays
  EXPECT_EQ(p.rectangles[1].offset, 6400u);
  EXPECT_EQ(p.rectangles[0].offset, 9600u);
  const std::vector<std::pair<berth::bytes, std::uint64_t>> expected{{0, base}, {9600, far + 50}};
  EXPECT_EQ(p.addresses, expected);
  picture nothing;
  berth::trace::close_gaps(nothing);
  EXPECT_TRUE(nothing.addresses.empty());
}

// Else what lies alone at its address would be shown at that of the next stretch.
TEST(picture, a_buffer_of_no_bytes_has_its_own_address) {
  picture p;
  for (const std::uint64_t at : {std::uint64_t{4096}, std::uint64_t{1} << 40, std::uint64_t{1} << 41}) {
    p.rectangles.push_back(
        {.name = "x", .offset = at, .size = at == berth::bytes{1} << 40 ? 0 : berth::bytes{64}, .memory = ""});
  }
  berth::trace::close_gaps(p);
  ASSERT_EQ(p.addresses.size(), 3u);
  for (std::size_t k = 1; k < 3; ++k) EXPECT_LT(p.addresses[k - 1].first, p.addresses[k].first);
  EXPECT_EQ(p.rectangles[1].offset, p.addresses[1].first);
}

// The curve of what is left out is coarse: with it the peak was at another time.
TEST(picture, has_the_peak_where_not_all_is_drawn) {
  picture p;
  for (int i = 0; i < 400'000; ++i) {
    p.rectangles.push_back({.name = "", .offset = 0, .size = 1, .lower = 0, .upper = 90'000, .memory = ""});
  }
  for (int i = 0; i < 20'000; ++i) {  // small ones, one after the other; two at once at 30,001
    p.rectangles.push_back({.name = "", .offset = 0, .size = 1, .lower = 2 * i, .upper = 2 * i + 2, .memory = ""});
  }
  p.rectangles.push_back({.name = "", .offset = 0, .size = 1, .lower = 30'001, .upper = 30'002, .memory = ""});
  EXPECT_THAT(to_html(p), HasSubstr(R"("peak":[30001,400002],"left_out":20001,)"));
  EXPECT_THAT(to_html(two_buffers()), Not(HasSubstr("\"peak\"")));
}

TEST(chrome, has_a_slice_for_each_buffer_and_a_counter) {
  EXPECT_EQ(berth::trace::to_chrome_json(two_buffers()),
            R"({"displayTimeUnit":"ns","traceEvents":[
{"ph":"M","name":"process_name","pid":1,"args":{"name":"two buffers"}},
{"ph":"X","cat":"memory","name":"x","ts":-3.000,"dur":5.000,"pid":1,"tid":1,"args":{"bytes":1024,"offset":0}},
{"ph":"X","cat":"memory","name":"y","ts":1.000,"dur":8.000,"pid":1,"tid":2,"args":{"bytes":3072,"offset":1024,"memory":"UB"}},
{"ph":"C","name":"bytes alive","pid":1,"ts":-3.000,"args":{"bytes":1024}},
{"ph":"C","name":"bytes alive","pid":1,"ts":1.000,"args":{"bytes":4096}},
{"ph":"C","name":"bytes alive","pid":1,"ts":2.000,"args":{"bytes":3072}},
{"ph":"C","name":"bytes alive","pid":1,"ts":9.000,"args":{"bytes":0}}
]}
)");
}

TEST(chrome, events_have_their_real_times) {
  picture p;
  p.rectangles.push_back({.name = "x", .offset = 0, .size = 1, .lower = 1, .upper = 3, .memory = ""});
  p.when_us = {0, 10.5, 11, 20.25};
  EXPECT_THAT(berth::trace::to_chrome_json(p), HasSubstr("\"ts\":10.500,\"dur\":9.750"));
}

TEST(picture, loads_nothing_from_outside) {
  std::string html = to_html({});
  // The name of an exported file's language: no program asks that address.
  constexpr std::string_view space = "xmlns=\"http://www.w3.org/2000/svg\"";
  ASSERT_THAT(html, HasSubstr(space));
  html.erase(html.find(space), space.size());
  for (const char* outside : {"http:", "https:", "src=", "@import", "fetch("}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
}

TEST(picture, no_name_can_leave_its_string) {
  picture p;
  p.rectangles.push_back({.name = "</script><script>alert(1)//\"\\\n"});
  const std::string html = to_html(p);
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, HasSubstr(R"(\u003c/script>\u003cscript>alert(1)//\"\\\u000a")"));
}

TEST(picture, keeps_utf8_and_replaces_what_is_not) {
  picture p;
  p.rectangles.push_back({.name = "gr\xC3\xB6\xC3\x9F"
                                  "e"});
  p.rectangles.push_back({.name = "\xC0\x80\xED\xA0\x80\xF5\xE2\x82"});
  const std::string html = to_html(p);
  EXPECT_THAT(html, HasSubstr("\"gr\xC3\xB6\xC3\x9F"
                              "e\""));
  EXPECT_THAT(html, HasSubstr(R"("\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd")"));
}
}  // namespace

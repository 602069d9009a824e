#include "berth/trace/picture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {
using berth::trace::picture;
using berth::trace::to_html;
using testing::HasSubstr;
using testing::Not;

TEST(picture, holds_every_rectangle_and_fact) {
  picture p{.title = "two buffers", .facts = {{"arena", "4 KiB"}}, .lower_bound = 4096};
  p.rectangles.push_back({.name = "x", .offset = 0, .size = 1024, .lower = -3, .upper = 2});
  p.rectangles.push_back({.name = "y", .offset = 1024, .size = 3072, .lower = 1, .upper = 9, .memory = "UB"});
  const std::string html = to_html(p);
  EXPECT_THAT(html, HasSubstr(R"({"title":"two buffers","facts":[["arena","4 KiB"]],"lower_bound":4096,)"
                              R"("buffers":[["x",0,1024,-3,2,""],["y",1024,3072,1,9,"UB"]]}</script>)"));
  EXPECT_THAT(html, testing::StartsWith("<!doctype html>"));
  EXPECT_THAT(html, testing::EndsWith("</html>\n"));
}

TEST(picture, loads_nothing_from_outside) {
  const std::string html = to_html({});
  for (const char* outside : {"http:", "https:", "src=", "@import", "fetch("})
    EXPECT_THAT(html, Not(HasSubstr(outside)));
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

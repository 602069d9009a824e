#include "trace/pickle.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/pickle_maker.hpp"

namespace {
using namespace std::string_literals;
using berth::trace::pickle;
using berth::trace::read_pickle;
using berth::trace_test::dict;
using berth::trace_test::list;
using berth::trace_test::number;
using berth::trace_test::pickled;
using berth::trace_test::text;
using testing::HasSubstr;

std::string why(const std::string& bytes) {
  const auto p = read_pickle(bytes);
  return p ? "" : p.error().what;
}

TEST(pickle, data_is_read) {
  const std::string bytes = pickled(dict({{"a", list({number(7), number(UINT64_MAX), "N", text("x")})}, {"b", ")"}}));
  const auto p = read_pickle(bytes);
  ASSERT_TRUE(p) << p.error().what;
  const auto* a = p->find(p->root, "a");
  ASSERT_NE(a, nullptr);
  const auto& items = *p->list(*a);
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(pickle::number(items[0]), 7u);
  EXPECT_EQ(pickle::number(items[1]), UINT64_MAX);
  EXPECT_EQ(items[2].is, pickle::kind::none);
  EXPECT_EQ(p->text(items[3]), "x");
  EXPECT_TRUE(p->list(*p->find(p->root, "b"))->empty());
  EXPECT_EQ(p->find(p->root, "c"), nullptr);
  EXPECT_EQ(p->find(items[0], "c"), nullptr);
}

TEST(pickle, numbers_of_every_width) {
  const auto read = [](const std::string& op) {
    const std::string bytes = pickled(op);
    return read_pickle(bytes).value().root;
  };
  EXPECT_EQ(pickle::number(read("K\xff"s)), 255u);
  EXPECT_EQ(pickle::number(read("M\x01\x02"s)), 0x201u);
  EXPECT_EQ(pickle::number(read("J\xff\xff\xff\x7f"s)), 0x7fffffffu);
  const pickle::value below = read("J\xfe\xff\xff\xff"s);
  EXPECT_TRUE(below.negative);
  EXPECT_EQ(below.n, 2u);
  EXPECT_FALSE(pickle::number(below));
  EXPECT_EQ(pickle::number(read("\x8a\x00"s)), 0u);
  EXPECT_EQ(read("\x8a\x01\x80"s).n, 128u);
  EXPECT_EQ(read("\x8a\x09\0\0\0\0\0\0\0\0\x01"s).is, pickle::kind::other);  // 2^64
  EXPECT_EQ(read("\x8a\x09\0\0\0\0\0\0\0\0\xff"s).is, pickle::kind::other);  // -2^64
  EXPECT_EQ(read("\x8a\x08\0\0\0\0\0\0\0\x80"s).n, std::uint64_t{1} << 63);  // -2^63
  EXPECT_EQ(read("\x8b\x02\0\0\0\x00\x01"s).n, 256u);
  EXPECT_EQ(read("G\x3f\xf0\0\0\0\0\0\0"s).n, 0x3ff0000000000000u);
}

// libtorch writes a list as one mark, all items and one opcode, Python a thousand items at a time.
TEST(pickle, a_list_of_a_million_items_at_once) {
  constexpr std::size_t count = (std::size_t{1} << 20) + 5;
  std::string items = "](";
  for (std::size_t i = 0; i < count; ++i) items += "G\x3f\xf0\0\0\0\0\0\0"s;
  const std::string bytes = pickled(items + "e");
  const auto p = read_pickle(bytes);
  ASSERT_TRUE(p) << p.error().what;
  EXPECT_EQ(p->list(p->root)->size(), count);
  EXPECT_THAT(why(pickled("](" + std::string(count, 'N') + "e")), HasSubstr("too many values wait"));
}

TEST(pickle, nothing_is_executed) {
  // Each as a real pickle would have it: os.system("true"), a class, a persistent id, an extension.
  const std::vector<std::string> executing = {"cos\nsystem\n" + text("true") + "\x85R",
                                              text("os") + text("system") + "\x93" + text("true") + "\x85R",
                                              "(ios\nsystem\n",
                                              "(" + text("x") + "o",
                                              "])b",
                                              "))\x81",
                                              ")}}\x92",
                                              "Pid\n",
                                              "NQ",
                                              "\x82\x01",
                                              "\x83\x01\0"s,
                                              "\x84\x01\0\0\0"s};
  for (const std::string& e : executing) {
    EXPECT_THAT(why(pickled(e)), HasSubstr("run code")) << testing::PrintToString(e);
    EXPECT_THAT(why(pickled(dict({{"deep", list({e})}}))), HasSubstr("run code"));
  }
  EXPECT_THAT(why(pickled("\x97")), HasSubstr("buffers"));
}

TEST(pickle, lengths_that_lie) {
  EXPECT_THAT(why(pickled("X\xff\xff\xff\xff"
                          "abc")),
              HasSubstr("length"));
  EXPECT_THAT(why(pickled("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
                          "abc")),
              HasSubstr("length"));
  EXPECT_THAT(why(pickled("\x95\xff\0\0\0\0\0\0\0"s)), HasSubstr("length"));
  EXPECT_THAT(why(pickled("\x8b\xff\xff\xff\x7f")), HasSubstr("length"));
  EXPECT_THAT(why("\x80"), HasSubstr("length"));
  EXPECT_THAT(why("\x80\x06N."), HasSubstr("protocol"));
  EXPECT_THAT(why("I1\n."), HasSubstr("protocol 0"));
}

TEST(pickle, a_stack_that_is_not_there) {
  for (const std::string bad :
       {"",     "a",  "s",   "e",   "u",   "t",    "l",    "d",    "0",   "1",     "2",           "\x85", "\x86",
        "\x94", "(.", "N(a", "](.", "NNe", "N(Ne", "](Nu", "}(Nu", "(Nd", "h\x01", "j\x01\0\0\0", "](a",  "\xff"}) {
    EXPECT_NE(why(pickled(bad)), "") << testing::PrintToString(bad);
  }
}

TEST(pickle, the_memo_is_bounded_and_may_hold_itself) {
  EXPECT_THAT(why(pickled("Nr\xff\xff\xff\xff")), HasSubstr("gaps"));
  // l = []; l.append(l), then a list of lists of lists ... each twice: 2^40 items to who walks it, 80 bytes to us.
  std::string bomb = "]\x94h";
  bomb += '\0';
  bomb += 'a';
  for (int i = 0; i < 40; ++i) bomb += "\x94\x32\x86";
  const std::string bytes = pickled(bomb);
  const auto p = read_pickle(bytes);
  ASSERT_TRUE(p) << p.error().what;
  EXPECT_LE(p->containers.size(), 41u);
  std::string deep(100000, ']');
  for (int i = 0; i < 99999; ++i) deep += 'a';
  EXPECT_EQ(why(pickled(deep)), "");
  EXPECT_THAT(why(pickled(std::string((1 << 20) + 1, ']'))), HasSubstr("too many values wait"));
}

TEST(pickle, cut_off_or_damaged_anywhere) {
  const std::string good = pickled(dict({{"a", list({number(7), text("xy"), dict({{"b", "\x88"}})})}, {"c", "]"}}));
  for (std::size_t n = 0; n < good.size(); ++n) EXPECT_NE(why(good.substr(0, n)), "") << n;
  for (std::size_t n = 0; n < good.size(); ++n) {
    for (int b = 0; b < 256; ++b) {
      std::string bad = good;
      bad[n] = static_cast<char>(b);
      (void)why(bad);  // whatever it says, it ends
    }
  }
}
}  // namespace

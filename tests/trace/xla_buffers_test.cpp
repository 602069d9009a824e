#include <gtest/gtest.h>

#include <string>

#include "berth/trace/engine_log.hpp"
#include "trace/proto_fields.hpp"

namespace {
using namespace berth::trace;

// --- making messages

std::string varint(std::uint64_t n) {
  std::string out;
  for (; n >= 128; n >>= 7) out += static_cast<char>((n & 127) | 128);
  return out + static_cast<char>(n);
}
std::string field(unsigned number, std::uint64_t value) {
  return varint(number << 3) + varint(value);
}
std::string field(unsigned number, const std::string& inside) {
  return varint(number << 3 | 2) + varint(inside.size()) + inside;
}
std::string buffer(std::uint64_t id, std::uint64_t size) {
  return field(1, field(1, id) + field(2, size) + field(3, field(2, std::string{"dot"})));
}
std::string happens(std::uint64_t kind, std::uint64_t id, const std::string& instruction, std::uint64_t with = 0) {
  return field(1, field(1, kind) + field(2, id) + field(3, std::string{"entry"}) + field(4, instruction) +
                      (with != 0 ? field(5, with) : std::string{}));
}
enum : std::uint64_t { alloc, release, share };

// 1 and 2 overlap; 3 shares with 1 and outlives it.
std::string assignment() {
  return buffer(1, 1000) + buffer(2, 500) + buffer(3, 1000) + field(3, field(1, 7) + field(2, 1536)) +
         field(4, happens(alloc, 1, "a") + happens(alloc, 2, "b") + happens(share, 3, "c", 1) +
                      happens(release, 1, "d") + happens(release, 2, "d") + happens(release, 3, "d") + field(3, 7));
}

constexpr char as_text[] = R"(# proto-file: xla/service/hlo.proto
hlo_module { name: "m { [" computations { name: 'x' instructions: [ { id: 1 }, { id: 2 } ] } }
buffer_assignment: <
  logical_buffers { id: 1 size: 1000 defined_at { instruction_name: "dot" shape_index: [0, 1] } }
  logical_buffers { id: 2, size: 500; color: 0 }
  logical_buffers: [{ id: 3 size: 1000 }]
  buffer_allocations { index: 7 size: 1536 is_thread_local: false assigned { logical_buffer_id: 1 size: 1000 } }
  heap_simulator_traces {
    events { kind: ALLOC buffer_id: 1 computation_name: "entry" instruction_name: "a" }
    events { buffer_id: 2 instruction_name: "b" }
    events { kind: SHARE_WITH buffer_id: 3 instruction_name: "c" share_with_canonical_id: 1 }
    events { kind: FREE buffer_id: 1 instruction_name: "d" }
    events { kind: FREE buffer_id: 2 } events { kind: FREE buffer_id: 3 }
    whole_module_simulation: true buffer_allocation_index: 7
  }
>
)";

void expect_the_same(const berth::result<engine_log>& read) {
  ASSERT_TRUE(read) << read.error().what << " at " << read.error().number;
  EXPECT_STREQ(read->engine, "XLA");
  EXPECT_EQ(read->reserved_peak, 1536u);
  EXPECT_EQ(read->unmatched, 0u);
  const auto& events = read->history.events;
  ASSERT_EQ(events.size(), 4u);
  EXPECT_TRUE(events[0].allocate && events[1].allocate && !events[2].allocate && !events[3].allocate);
  EXPECT_EQ(events[2].address, events[1].address);  // 1 lives on for 3
  EXPECT_EQ(events[3].address, events[0].address);
  EXPECT_EQ(events[3].t_us, 5);
  EXPECT_EQ(read->history.sites[events[1].site - 1].file, "b");
  EXPECT_EQ(summarize(to_log(read->history)).peak_live, 1500u);
}

TEST(xla_buffers, of_a_message) {
  const std::string hlo = field(1, field(1, std::string{"module"})) + field(3, assignment());
  EXPECT_TRUE(is_xla_proto(hlo) && is_xla_proto(assignment()));
  EXPECT_FALSE(is_xla_text(hlo));
  expect_the_same(parse_xla_proto(hlo));
  expect_the_same(parse_xla_proto(assignment()));
}

TEST(xla_buffers, of_text) {
  EXPECT_TRUE(is_xla_text(as_text));
  EXPECT_FALSE(is_xla_proto(as_text));
  expect_the_same(parse_xla_text(as_text));
}

TEST(xla_buffers, other_files_are_not_taken_for_one) {
  for (const std::string text : {"", "\n", "\n\n\n\n\n", "\nid,lower,upper,size\n", "{\"format\":1}", "ALLOC 1 2\n",
                                 "\n\n\n# a comment\nid,lower,upper,size\na,0,1,2\n", "ev,id,size\n"}) {
    EXPECT_FALSE(is_xla_proto(text) || is_xla_text(text)) << text;
  }
}

TEST(xla_buffers, the_largest_of_several_heaps) {
  const auto read = parse_xla_proto(buffer(1, 10) + field(4, std::string{}) + field(4, happens(alloc, 1, "a")));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->devices, 2u);
  EXPECT_EQ(read->device, 1u);
  EXPECT_EQ(read->history.events.size(), 1u);
}

TEST(xla_buffers, buffers_of_no_bytes_take_none) {
  const auto read = parse_xla_proto(buffer(1, 0) + field(4, happens(alloc, 1, "a") + happens(release, 1, "a")));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->history.events.empty());
}

TEST(xla_buffers, a_buffer_that_comes_again) {
  const std::string twice = happens(alloc, 1, "a") + happens(release, 1, "b");
  const auto read = parse_xla_proto(buffer(1, 10) + field(4, twice + twice + happens(release, 1, "b")));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->history.events.size(), 4u);
  EXPECT_EQ(read->unmatched, 1u);
}

// HeapSimulator::RunComputation frees an operand that is written over, and shares its memory in the next event. The
// values of one buffer (a loop's) leave other events between.
TEST(xla_buffers, what_is_shared_after_its_free_was_never_free) {
  const std::string sizes = buffer(1, 320) + buffer(2, 320) + buffer(3, 64);
  for (const std::string& between : {std::string{}, happens(alloc, 3, "c")}) {
    const auto read = parse_xla_proto(sizes + field(4, happens(alloc, 1, "a") + happens(release, 1, "a") + between +
                                                           happens(share, 2, "b", 1) + happens(release, 2, "b")));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->unmatched, 0u);
    const auto& events = read->history.events;
    ASSERT_EQ(events.size(), between.empty() ? 2u : 3u);
    EXPECT_TRUE(events.front().allocate && !events.back().allocate);
    EXPECT_EQ(events.front().address, events.back().address);
    EXPECT_EQ(events.back().t_us, between.empty() ? 3 : 4);
  }
  // Allocated again between, it was free.
  const auto again =
      parse_xla_proto(sizes + field(4, happens(alloc, 1, "a") + happens(release, 1, "a") + happens(alloc, 1, "c") +
                                           happens(share, 2, "b", 1) + happens(release, 1, "b")));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->history.events.size(), 3u);
}

TEST(xla_buffers, chains_of_sharing_are_one_region_of_the_largest_size) {
  const auto read =
      parse_xla_proto(buffer(1, 100) + buffer(2, 700) + buffer(3, 50) +
                      field(4, happens(alloc, 1, "a") + happens(share, 2, "b", 1) + happens(share, 3, "c", 2) +
                                   happens(release, 1, "d") + happens(release, 2, "d") + happens(release, 3, "d")));
  ASSERT_TRUE(read);
  ASSERT_EQ(read->history.events.size(), 2u);
  EXPECT_EQ(read->history.events[0].size, 700u);
  EXPECT_EQ(read->history.events[1].t_us, 5);
}

TEST(xla_buffers, an_allocation_of_several_heaps_is_no_heaps_reserved_peak) {
  const std::string one = field(4, happens(alloc, 1, "a") + field(3, 7)), other = field(4, field(3, 7));
  const std::string before = buffer(1, 10) + field(3, field(1, 7) + field(2, 1536));
  EXPECT_EQ(parse_xla_proto(before + one)->reserved_peak, 1536u);
  EXPECT_FALSE(parse_xla_proto(before + one + other)->reserved_peak);
}

// --- hostile files

void refused(const std::string& message, const char* says) {
  SCOPED_TRACE(says);
  const auto read = parse_xla_proto(message);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, berth::errc::invalid_input);
  EXPECT_NE(std::string{read.error().what}.find(says), std::string::npos) << read.error().what;
}

TEST(xla_buffers, what_cannot_be_is_refused) {
  refused(field(1, std::string{"\x0a\x01m"}), "no buffer assignment");
  refused(field(3, buffer(1, 10)), "no heap_simulator_traces");
  refused(field(4, happens(alloc, 1, "a")), "logical_buffers does not have");
  refused(buffer(1, 10) + field(4, happens(alloc, 1, "a") + happens(alloc, 1, "a")), "that is alive");
  refused(buffer(1, 10) + field(4, happens(9, 1, "a")), "none of ALLOC");
  refused(buffer(1, ~std::uint64_t{0}) + field(4, happens(alloc, 1, "a")), "negative");
  const std::uint64_t large = std::uint64_t{1} << 61;
  refused(buffer(1, large) + buffer(2, large) + buffer(3, large) +
              field(4, happens(alloc, 1, "a") + happens(alloc, 2, "a") + happens(alloc, 3, "a")),
          "2^62");
  refused(field(4, field(1, std::uint64_t{5})), "a message where a number is meant");
  refused(varint(4 << 3 | 2) + varint(~std::uint64_t{0}) + "x", "beyond its message");
  refused(varint(4 << 3 | 2) + std::string(12, '\xff'), "longer than ten bytes");
  refused(varint(4 << 3 | 3), "a group");
}

TEST(xla_buffers, cut_off_anywhere_it_is_refused_or_a_shorter_log) {
  const std::string whole = field(3, assignment());
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(parse_xla_proto(whole.substr(0, n))) << n;
  const std::string text = as_text;
  for (std::size_t n = 0; n < text.rfind('>'); ++n) EXPECT_FALSE(parse_xla_text(text.substr(0, n))) << n;
}

TEST(xla_buffers, text_that_is_wrong_is_named_by_its_line) {
  const auto line_of = [](const std::string& text) {
    const auto read = parse_xla_text(text);
    return read ? 0 : read.error().number;
  };
  EXPECT_EQ(line_of("buffer_assignment {\n logical_buffers { id: x }\n}\n"), 2u);
  EXPECT_EQ(line_of("buffer_assignment {\n\n logical_buffers { id: \"1\n\" }\n}\n"), 3u);
  EXPECT_EQ(line_of("buffer_assignment {\n heap_simulator_traces { events { kind: FREED } } }\n"), 2u);
  EXPECT_NE(line_of("buffer_assignment { logical_buffers: [1, 2"), 0u);
  std::string lists = "buffer_assignment { ";
  for (int i = 0; i < 200'000; ++i) lists += "a:[] ";
  EXPECT_EQ(line_of(lists + "}"), 0u);  // has no traces: no line is to blame, and no stack was exhausted
  EXPECT_FALSE(parse_xla_text(lists + "}"));
  EXPECT_FALSE(parse_xla_text("buffer_assignment " + std::string(200'000, '{')));
}

}  // namespace

// The statements of a text on ggml's allocator in whisper.cpp, one case each. The comment before a case is the
// statement's meaning. The text tells of one fault. The encoder's graph takes a view of a tensor of the convolution's
// graph, and an assertion of the allocator ends the program.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "berth/graph/arena.hpp"
#include "berth/graph/pipeline.hpp"
#include "berth/pool/pool.hpp"

namespace {
using namespace berth;

using graph_list = std::vector<const graph*>;

const tensor_type whole{.shape = {1500, 384}}, half{.shape = {750, 384}};
constexpr bytes half_bytes = bytes{750} * 384 * 4;

// The convolution's graph: mel -> im2col -> embd_conv.
struct convolution {
  graph g;
  value_id embd_conv;
  convolution() {
    const value_id mel = g.input("mel", {.shape = {3000, 80}});
    embd_conv = g.node("embd_conv", {g.node("im2col", {mel}, {.shape = {3000, 240}})}, whole, {.op = "mul_mat"});
    g.output(embd_conv);
  }
};

// The encoder's graph, which reads a view of embd_conv. `kind` says what embd_conv is to it.
struct encoder {
  graph g;
  value_id embd_conv, seen, attended, embd_enc;
  explicit encoder(value_kind kind = value_kind::external, const char* name = "embd_conv") {
    embd_conv = kind == value_kind::external ? g.external(name, whole) : g.input(name, whole);
    seen = g.view("seen", embd_conv, half, half_bytes);
    attended = g.node("attended", {seen}, half, {.op = "attention"});
    embd_enc = g.node("embd_enc", {attended}, half, {.op = "mul_mat"});
    g.output(embd_enc);
  }
};

class ggml_allocator : public testing::Test {
 protected:
  result<pipeline_arena> reserve(const graph_list& graphs) {
    return pipeline_arena::reserve(graphs, links_by_name(graphs), memory_, stream_, {}, &why_);
  }
  arena reserve(const graph& g, arena_options o = {}) { return arena::reserve(g, memory_, stream_, o).value(); }

  stream stream_{device::host()};
  pool memory_{device::host()};
  graph_fault why_;
  std::vector<std::byte> elsewhere_ = std::vector<std::byte>(2 * half_bytes);
  convolution conv_;
  encoder enc_;
};

// "The encoder's graph obtains a view of a tensor of the convolution's graph": the view lies inside the other graph's
// tensor, at its offset.
TEST_F(ggml_allocator, a_view_of_another_graphs_tensor_lies_inside_it) {
  const auto a = reserve({&conv_.g, &enc_.g});
  ASSERT_TRUE(a) << why_.text;
  EXPECT_TRUE(a->check(1, enc_.g));
  EXPECT_EQ(a->address(1, enc_.seen), static_cast<std::byte*>(a->address(0, conv_.embd_conv)) + half_bytes);
}

// "The operation triggers an assertion": a tensor that was never placed is an error here, which names it, its bytes and
// the node. The program goes on, and the same arena serves the graph once the tensor has an address.
TEST_F(ggml_allocator, a_view_of_an_unplaced_tensor_is_an_error_and_no_abort) {
  arena a = reserve(enc_.g);
  EXPECT_FALSE(a.bind(enc_.g, &why_));
  EXPECT_EQ(why_.kind, fault_kind::unplaced_external);
  EXPECT_EQ(why_.text,
            "value 'embd_conv' (2304000 bytes), which node 'attended' uses, lies outside the arena and was given no "
            "address");
  ASSERT_TRUE(a.attach(enc_.embd_conv, elsewhere_.data(), elsewhere_.size()));
  EXPECT_EQ(*a.bind(enc_.g), bind_outcome::unchanged);
}

// "The assertion prevents invalid memory access": no kernel gets the address null, or an offset of it, for a value that
// its node reads.
TEST_F(ggml_allocator, no_graph_is_accepted_that_reads_an_address_nobody_gave) {
  for (const char* const name : {"embd_conv", "embd_cnov"}) {
    const encoder enc{value_kind::external, name};
    const auto a = reserve({&conv_.g, &enc.g});
    ASSERT_TRUE(a) << why_.text;
    EXPECT_EQ(a->check(1, enc.g).has_value(), a->address(1, enc.seen) != nullptr) << name;
  }
}

// "The allocator verifies whether the viewed tensor was allocated correctly". The tensor there has too few bytes, or is
// not the one wanted.
TEST_F(ggml_allocator, a_tensor_that_was_placed_otherwise_is_named) {
  graph smaller;
  smaller.output(smaller.node("embd_conv", {smaller.input("mel", half)}, half));
  EXPECT_FALSE(reserve({&smaller, &enc_.g}));
  EXPECT_TRUE(why_.text.ends_with("; graph 0 leaves 'embd_conv' of 1152000 bytes")) << why_.text;

  const encoder misspelt{value_kind::external, "embd_cnov"};
  const auto a = reserve({&conv_.g, &misspelt.g});
  ASSERT_TRUE(a) << why_.text;
  EXPECT_FALSE(a->check(1, misspelt.g, &why_));
  EXPECT_TRUE(why_.text.ends_with("; graph 0 leaves 'embd_conv' of the same size")) << why_.text;
}

// "A change of topology may not be detected, when a tensor goes from dynamic allocation to preallocated": it is, both
// ways, and said in words.
TEST_F(ggml_allocator, a_tensor_that_is_preallocated_now_is_a_change) {
  const encoder dynamic{value_kind::input};
  arena strict = reserve(dynamic.g, {{}, change_policy::fail});
  EXPECT_FALSE(strict.bind(enc_.g, &why_));
  EXPECT_EQ(why_.text, "value 'embd_conv' was an input of the arena, is external now");

  arena a = reserve(dynamic.g);
  EXPECT_EQ(*a.bind(dynamic.g), bind_outcome::unchanged);
  const attachment given[] = {{enc_.embd_conv, elsewhere_.data(), elsewhere_.size()}};
  EXPECT_EQ(*a.bind(enc_.g, given), bind_outcome::replanned);
  EXPECT_EQ(a.address(enc_.seen), elsewhere_.data() + half_bytes);
  EXPECT_EQ(*a.bind(dynamic.g), bind_outcome::cached);
  EXPECT_NE(a.address(enc_.seen), elsewhere_.data() + half_bytes);
}

// "A tensor without a reserved buffer (wstate.embd_conv) makes later allocations inconsistent". A pipeline reserves it
// with all graphs, and does not start without the graph that makes it.
TEST_F(ggml_allocator, embd_conv_is_reserved_with_the_graphs_or_missed_before_the_first_run) {
  const auto with_producer = reserve({&conv_.g, &enc_.g});
  ASSERT_TRUE(with_producer);
  EXPECT_TRUE(with_producer->check(1, enc_.g));

  const auto without = reserve({&enc_.g});
  ASSERT_TRUE(without);
  EXPECT_FALSE(without->check(0, enc_.g, &why_));
  EXPECT_EQ(why_.value, enc_.embd_conv);
}

// The direct repair, "to remove the assertion, is feasible because the view itself is valid". A valid view is never
// refused, wherever its tensor is placed.
TEST_F(ggml_allocator, a_view_of_a_tensor_placed_elsewhere_is_accepted) {
  auto a = reserve({&enc_.g});
  ASSERT_TRUE(a);
  ASSERT_TRUE(a->attach(0, enc_.embd_conv, elsewhere_.data(), elsewhere_.size()));
  EXPECT_TRUE(a->check(0, enc_.g));
  EXPECT_EQ(a->address(0, enc_.seen), elsewhere_.data() + half_bytes);
}

// The thorough repair: "ggml_gallocr_node_needs_realloc recognises the view". A graph with such a view needs no new
// plan while nothing changes, and gets one when a tensor becomes a view.
TEST_F(ggml_allocator, a_graph_is_planned_anew_only_if_a_tensor_becomes_a_view) {
  arena a = reserve(enc_.g);
  ASSERT_TRUE(a.attach(enc_.embd_conv, elsewhere_.data(), elsewhere_.size()));
  for (int run = 0; run < 3; ++run) EXPECT_EQ(*a.bind(encoder{}.g), bind_outcome::unchanged);

  graph viewed;
  const value_id embd_conv = viewed.external("embd_conv", whole);
  const value_id seen = viewed.view("seen", embd_conv, half, half_bytes);
  const value_id attended = viewed.view("attended", seen, half);
  viewed.output(viewed.node("embd_enc", {attended}, half, {.op = "mul_mat"}));
  const attachment given[] = {{embd_conv, elsewhere_.data(), elsewhere_.size()}};
  EXPECT_EQ(*a.bind(viewed, given), bind_outcome::replanned);
  EXPECT_EQ(a.counters().last_change, "value 'attended' was planned, is a view now");
  EXPECT_EQ(a.address(attended), a.address(seen));
}

// "All necessary buffers are reserved when the graphs are built": one block for all of them, which later runs never
// replace.
TEST_F(ggml_allocator, what_is_reserved_for_all_graphs_never_grows) {
  const encoder small{value_kind::input};
  graph large;
  large.output(large.node("logits", {large.input("tokens", whole)}, {.shape = {3000, 384}}));
  const graph* const family[] = {&small.g, &large};
  arena a = arena::reserve(family, memory_, stream_).value();
  const bytes reserved = a.size();
  for (int run = 0; run < 6; ++run) {
    const bind_outcome by = a.bind(run % 2 == 0 ? large : small.g).value();
    EXPECT_TRUE(by == bind_outcome::cached || by == bind_outcome::unchanged) << name(by);
    EXPECT_EQ(a.size(), reserved);
    EXPECT_LE(a.get_plan().arena(), reserved);
  }
  EXPECT_EQ(memory_.statistics().live_peak, reserved);
}

// "The tensor is allocated at the begin, so that the later view has no problem". The encoder reads the same bytes in
// each of its runs, and none of its own values lies on them.
TEST_F(ggml_allocator, the_tensor_stays_in_place_while_the_encoder_runs) {
  const auto a = reserve({&conv_.g, &enc_.g});
  ASSERT_TRUE(a);
  const auto* const from = static_cast<std::byte*>(a->address(1, enc_.embd_conv));
  for (int run = 0; run < 3; ++run) {
    EXPECT_TRUE(a->check(1, enc_.g));
    EXPECT_EQ(a->address(1, enc_.embd_conv), from);
  }
  for (const value_id v : {enc_.attended, enc_.embd_enc}) {
    const auto* const own = static_cast<std::byte*>(a->address(1, v));
    EXPECT_TRUE(own + half_bytes <= from || from + 2 * half_bytes <= own) << enc_.g[v].name;
  }
}

// "The interplay of the allocator and the graph's operations needs care": a view that ends beyond its tensor is named
// before there is any memory.
TEST_F(ggml_allocator, a_view_beyond_its_tensor_is_named) {
  graph g;
  const value_id embd_conv = g.external("embd_conv", whole);
  g.output(g.node("attended", {g.view("seen", embd_conv, half, half_bytes + 8)}, half));
  EXPECT_FALSE(arena::reserve(g, memory_, stream_, arena_options{}, &why_));
  EXPECT_EQ(why_.kind, fault_kind::view_beyond_root);
  EXPECT_EQ(why_.number, 8u);
  EXPECT_NE(why_.text.find("'embd_conv'"), std::string::npos) << why_.text;
}

// "Views are efficient, but need close cooperation with memory management". A view takes no bytes, and its tensor lives
// as long as the view is read.
TEST_F(ggml_allocator, a_view_takes_no_bytes_and_keeps_its_tensor_alive) {
  const auto last_reads_a_view = [](bool view) {
    graph g;
    const value_id x = g.node("x", {g.input("in", half)}, half);
    const value_id y = g.node("y", {x}, half);
    const value_id z = g.node("z", {y}, half);
    g.output(g.node("last", {z, view ? g.view("seen", x, half) : x}, half));
    return g;
  };
  const graph plain = last_reads_a_view(false), viewed = last_reads_a_view(true);
  const arena a = reserve(plain), b = reserve(viewed);
  EXPECT_EQ(a.get_plan().arena(), b.get_plan().arena());
  EXPECT_NE(b.address({1}), b.address({2}));
  EXPECT_NE(b.address({1}), b.address({3}));
}

// "Assertions are essential, but safety and flexibility need a balance". After an error the arena serves what it
// served, with the same block, plan and addresses.
TEST_F(ggml_allocator, an_error_leaves_what_was_served) {
  arena a = reserve(enc_.g);
  ASSERT_TRUE(a.attach(enc_.embd_conv, elsewhere_.data(), elsewhere_.size()));
  ASSERT_TRUE(a.bind(enc_.g));
  void* const attended = a.address(enc_.attended);
  graph other = enc_.g;
  other.output(other.node("more", {other.constant("weights", half)}, half));
  EXPECT_FALSE(a.bind(other, &why_));
  EXPECT_EQ(why_.kind, fault_kind::unplaced_external);
  EXPECT_EQ(*a.bind(enc_.g), bind_outcome::unchanged);
  EXPECT_EQ(a.address(enc_.attended), attended);
  EXPECT_EQ(a.address(enc_.embd_conv), elsewhere_.data());
}
}  // namespace

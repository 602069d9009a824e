// Plans as bytes: what comes back is what was written, and nothing that was tampered with is ever bound.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "berth/graph/arena.hpp"
#include "berth/graph/fingerprint.hpp"
#include "berth/graph/graph_plan.hpp"
#include "berth/pool/pool.hpp"
#include "graph/random_graph.hpp"

namespace {
using namespace berth;
using file = std::vector<std::byte>;

rules::placement packed_rules() {
  rules::placement r = rules::unconstrained();
  r.start_alignment = 4;
  return r;
}

graph_plan planned(const graph& g, const rules::placement& rules = packed_rules()) {
  graph_options o;
  o.rules = rules;
  o.search.work = plan::effort::fast;
  return plan_graph(g, o).value();
}

// An enemy's file has a checksum that is right.
void seal(file& f) {
  std::uint64_t h = 0xCBF29CE484222325u;
  for (std::size_t i = 20; i < f.size(); ++i) h = (h ^ std::to_integer<std::uint64_t>(f[i])) * 0x100000001B3u;
  for (std::size_t i = 0; i < 8 && f.size() >= 20; ++i) f[12 + i] = static_cast<std::byte>(h >> 8 * i);
}

// The plan's places as the file has them: to be written down by save_plan().
file with_offset(graph_plan p, value_id v, bytes offset) {
  p.offset_of[v.index] = offset;
  return save_plan(p);
}

// Returns whether the graph runs right under a plan that was accepted. A place far out is right as well, and then not
// run: the caller's budget guards against it.
bool runs_right(const graph& g, const graph_plan& p) {
  if (p.arena() > 1 << 20) return true;
  std::vector<std::uint32_t> order(g.nodes().size());
  std::iota(order.begin(), order.end(), 0u);
  return test::run_with_plan(g, p, order) == test::run_without_reuse(g);
}

RC_GTEST_PROP(saved_plan, comes_back_as_it_was, (std::uint32_t seed)) {
  const graph g = test::random_graph(seed, {.nodes = 12, .lanes = 1 + static_cast<int>(seed % 2)});
  rules::placement rules = packed_rules();
  if (seed % 3 == 0) rules = rules::ascend_310p_dvpp();
  const graph_plan p = planned(g, rules);
  graph_fault why;
  const auto loaded = load_plan(save_plan(p), g, rules, &why);
  if (!loaded) RC_FAIL(why.text);
  RC_ASSERT(same_structure(loaded->structure, p.structure));
  RC_ASSERT(loaded->offset_of == p.offset_of);
  RC_ASSERT(loaded->workspace_of == p.workspace_of);
  RC_ASSERT(loaded->in_place == p.in_place);
  RC_ASSERT(loaded->state_bytes == p.state_bytes);
  RC_ASSERT(loaded->arena() == p.arena());
  RC_ASSERT(loaded->lower_bound() == p.lower_bound());
  RC_ASSERT(loaded->no_reuse_bytes == p.no_reuse_bytes);
  RC_ASSERT(loaded->provenance == p.provenance);
  RC_ASSERT(save_plan(*loaded) == save_plan(p));
}

RC_GTEST_PROP(saved_plan, damage_of_any_kind_is_an_error,
              (std::uint32_t seed, std::uint32_t where, std::uint8_t bits)) {
  const graph g = test::random_graph(seed, {.nodes = 8});
  file f = save_plan(planned(g));
  const std::size_t at = where % f.size();
  graph_fault why;
  file cut{f.begin(), f.begin() + static_cast<std::ptrdiff_t>(at)};
  RC_ASSERT(!load_plan(cut, g, packed_rules(), &why));
  RC_ASSERT(why.kind == fault_kind::bad_plan);
  f[at] ^= static_cast<std::byte>(bits | 1u);
  why = {};
  RC_ASSERT(!load_plan(f, g, packed_rules(), &why));
  RC_ASSERT(why.kind == fault_kind::bad_plan);
  RC_ASSERT(!why.text.empty());
}

// Replaces, leaves out and puts in bytes, and makes the checksum right again. The result is an error with its text, or
// a plan under which the graph computes the same as without any reuse.
RC_GTEST_PROP(saved_plan, what_an_enemy_wrote_is_refused_or_runs_right, (std::uint32_t seed, std::uint32_t random)) {
  const graph g = test::random_graph(seed, {.nodes = 8});
  const file written = save_plan(planned(g));
  std::mt19937 next{random};
  int accepted = 0;
  for (int round = 0; round < 50; ++round) {
    file f = written;
    for (std::uint32_t k = 0; k < 1 + next() % 3; ++k) {
      const std::size_t at = 28 + next() % (f.size() - 28);
      const auto position = f.begin() + static_cast<std::ptrdiff_t>(at);
      switch (next() % 4) {
        case 0: f[at] = static_cast<std::byte>(next()); break;
        case 1: f[at] ^= static_cast<std::byte>(1u << next() % 8); break;
        case 2: f.erase(position); break;
        case 3: f.insert(position, static_cast<std::byte>(next() % 2 == 0 ? 0xFFu : next())); break;
      }
    }
    seal(f);
    graph_fault why;
    const auto loaded = load_plan(f, g, packed_rules(), &why);
    if (loaded) RC_ASSERT(runs_right(g, *loaded));
    RC_ASSERT(loaded.has_value() == why.ok() && why.ok() == why.text.empty());
    accepted += loaded.has_value();
  }
  RC_CLASSIFY(accepted > 0, "accepted one or more of 50");
}

// The same with offsets alone, so that every file can be read and the replay has to judge.
RC_GTEST_PROP(saved_plan, places_are_refused_or_run_right, (std::uint32_t seed, std::uint32_t which, bytes offset)) {
  const graph g = test::random_graph(seed, {.nodes = 8});
  const graph_plan p = planned(g);
  std::vector<std::uint32_t> owners;
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    if (graph_structure::in_arena(g.values()[v].kind)) owners.push_back(v);
  }
  const value_id v{owners[which % owners.size()]};
  if (which % 4 != 0) offset = 4 * (offset % (p.arena() / 4 + 16));
  const auto loaded = load_plan(with_offset(p, v, offset), g, packed_rules());
  RC_CLASSIFY(loaded.has_value(), "accepted");
  if (!loaded) return;
  RC_ASSERT(runs_right(g, *loaded));
}

class chain : public testing::Test {
 protected:
  void SetUp() override {
    x = g.input("x", {.shape = {100}});
    a = g.node("a", {x}, {.shape = {100}}, {.op = "f", .workspace = 64});
    b = g.node("b", {a}, {.shape = {100}}, {.op = "f"});
    g.output(b);
  }
  fault_kind refusal(const file& f) {
    why = {};
    EXPECT_FALSE(load_plan(f, g, packed_rules(), &why));
    return why.kind;
  }
  graph g;
  value_id x, a, b;
  graph_fault why;
};

TEST_F(chain, a_file_of_something_else_is_named) {
  EXPECT_EQ(refusal({}), fault_kind::bad_plan);
  EXPECT_EQ(refusal(file(100, std::byte{'x'})), fault_kind::bad_plan);
  EXPECT_EQ(why.text, "the saved plan is none: it does not begin as one");
  file f = save_plan(planned(g));
  f[8] = std::byte{2};
  EXPECT_EQ(refusal(f), fault_kind::bad_plan);
  EXPECT_EQ(why.text, "the saved plan is of version 2; version 1 is known");
  f[8] = std::byte{1};
  f.pop_back();
  EXPECT_EQ(refusal(f), fault_kind::bad_plan);
  EXPECT_EQ(why.text, "the saved plan of " + std::to_string(f.size()) + " bytes is cut off or damaged");
}

TEST_F(chain, another_graph_is_told_by_its_first_difference) {
  const file f = save_plan(planned(g));
  graph other = g;
  other.output(a);
  EXPECT_FALSE(load_plan(f, other, packed_rules(), &why));
  EXPECT_EQ(why.kind, fault_kind::changed);
  EXPECT_EQ(why.text, "value 'a' is an output now, was none");
}

TEST_F(chain, a_fingerprint_that_is_not_the_graphs_is_refused) {
  file f = save_plan(planned(g));
  f[20] ^= std::byte{1};
  seal(f);
  EXPECT_EQ(refusal(f), fault_kind::bad_plan);
  EXPECT_EQ(why.text, "the saved plan has another fingerprint than its graph");
}

TEST_F(chain, other_rules_are_refused) {
  EXPECT_FALSE(load_plan(save_plan(planned(g)), g, rules::host(), &why));
  EXPECT_EQ(why.kind, fault_kind::bad_plan);
  EXPECT_EQ(why.text, "the saved plan was made under other placement rules ('none')");
}

// Texts are told in messages: a terminal must not obey them, and a line not be a megabyte.
TEST_F(chain, texts_that_are_no_names_are_refused) {
  for (const std::string& name : {std::string{"host')\n\x1b[2J"}, std::string(257, 'x')}) {
    graph_plan p = planned(g);
    p.provenance.rules = name;
    EXPECT_EQ(refusal(save_plan(p)), fault_kind::bad_plan);
    EXPECT_EQ(why.text.find("host"), std::string::npos) << why.text;
  }
}

// The same bytes in columns are other numbers: declared in place or not, nothing is taken over.
TEST_F(chain, a_result_of_another_layout_lies_on_no_operand) {
  graph other;
  const value_id rows = other.input("rows", {.shape = {4, 4}, .strides = {16, 4}});
  const value_id columns =
      other.node("columns", {rows}, {.shape = {4, 4}, .strides = {4, 16}}, {.op = "copy", .in_place = {0}});
  other.output(columns);
  graph_plan p = planned(other);
  EXPECT_TRUE(load_plan(save_plan(p), other, packed_rules(), &why)) << why.text;
  p.offset_of[columns.index] = p.offset_of[rows.index];
  p.lower_bound_bytes = 0;
  EXPECT_FALSE(load_plan(save_plan(p), other, packed_rules(), &why));
  EXPECT_EQ(why.kind, fault_kind::clobbered);
}

TEST_F(chain, values_that_overlap_are_named_with_their_bytes) {
  const graph_plan p = planned(g);
  EXPECT_EQ(refusal(with_offset(p, a, p.offset_of[x.index] + 4)), fault_kind::clobbered);
  EXPECT_NE(why.text.find("value 'a' (400 bytes)"), std::string::npos) << why.text;
}

TEST_F(chain, an_offset_beyond_64_bits_is_named) {
  EXPECT_EQ(refusal(with_offset(planned(g), b, max_bytes - 399)), fault_kind::bad_plan);
  EXPECT_EQ(why.value, b);
  EXPECT_EQ(why.number, max_bytes - 399);
  EXPECT_EQ(why.text, "the saved plan places value 'b' (400 bytes) at 18446744073709551216, beyond 2^64 bytes");
  graph_plan p = planned(g);
  p.workspace_of[0] = max_bytes - 1;
  EXPECT_EQ(refusal(save_plan(p)), fault_kind::bad_plan);
  EXPECT_EQ(why.node, g[a].producer);
}

TEST_F(chain, an_unaligned_offset_is_refused) {
  EXPECT_EQ(refusal(with_offset(planned(g), b, 402)), fault_kind::clobbered);
  EXPECT_NE(why.text.find("is not aligned"), std::string::npos) << why.text;
}

TEST_F(chain, a_bound_above_the_arena_is_refused) {
  graph_plan p = planned(g);
  p.lower_bound_bytes = p.arena_bytes + 1;
  EXPECT_EQ(refusal(save_plan(p)), fault_kind::bad_plan);
}

// Memory for a promised count is never reserved before the bytes are there.
TEST_F(chain, counts_that_no_file_could_hold_are_refused) {
  const file f = save_plan(planned(g));
  const file huge{std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}, std::byte{0x0F}};
  for (std::size_t at = 28; at < f.size(); ++at) {
    file with = f;
    with.erase(with.begin() + static_cast<std::ptrdiff_t>(at));
    with.insert(with.begin() + static_cast<std::ptrdiff_t>(at), huge.begin(), huge.end());
    seal(with);
    const auto loaded = load_plan(with, g, packed_rules(), &why);
    EXPECT_TRUE(!loaded || loaded->arena() > bytes{1} << 32) << "at byte " << at;  // a place far out is one
  }
}

TEST_F(chain, states_belong_where_every_plan_has_them) {
  graph with_states;
  const value_id first = with_states.state("first", {.shape = {10}});
  const value_id second = with_states.state("second", {.shape = {10}});
  with_states.output(with_states.node("y", {first, second}, {.shape = {10}}));
  graph_plan p = planned(with_states);
  std::swap(p.offset_of[0], p.offset_of[1]);
  EXPECT_FALSE(load_plan(save_plan(p), with_states, packed_rules(), &why));
  EXPECT_EQ(why.text, "state 'first' (40 bytes) is at 40, and belongs at 0");
}

TEST_F(chain, the_padding_that_rules_ask_for_is_kept_free) {
  rules::placement rules = packed_rules();
  rules.tail_pad = 32;
  const graph_plan p = planned(g, rules);
  EXPECT_TRUE(load_plan(save_plan(p), g, rules, &why)) << why.text;
  graph_plan tight = p;
  const bool low = p.offset_of[x.index] < p.offset_of[a.index];
  tight.offset_of[(low ? a : x).index] = tight.offset_of[(low ? x : a).index] + 400;
  EXPECT_FALSE(load_plan(save_plan(tight), g, rules, &why));
  EXPECT_EQ(why.kind, fault_kind::clobbered);
}

TEST_F(chain, an_arena_takes_a_loaded_plan_and_no_other) {
  stream s{device::host()};
  pool memory{device::host()};
  arena_options o;
  o.rules = packed_rules();
  const file f = save_plan(planned(g));
  auto plan = load_plan(f, g, packed_rules());
  ASSERT_TRUE(plan);
  auto made = arena::reserve(g, *plan, memory, s, o, &why);
  ASSERT_TRUE(made) << why.text;
  EXPECT_EQ(*made->bind(g), bind_outcome::unchanged);
  EXPECT_EQ(
      static_cast<std::byte*>(made->address(b)) - static_cast<std::byte*>(made->address(x)),
      static_cast<std::ptrdiff_t>(plan->offset_of[b.index]) - static_cast<std::ptrdiff_t>(plan->offset_of[x.index]));
  graph other = g;
  other.output(a);
  EXPECT_FALSE(arena::reserve(other, *plan, memory, s, o, &why));
  EXPECT_EQ(why.kind, fault_kind::changed);
  EXPECT_FALSE(arena::reserve(g, *plan, memory, s, {}, &why));  // the pool's rules are others
  EXPECT_EQ(why.kind, fault_kind::bad_plan);
  o.budget = plan->arena() - 1;
  EXPECT_FALSE(arena::reserve(g, *plan, memory, s, o, &why));
  EXPECT_EQ(why.kind, fault_kind::over_budget);
  EXPECT_EQ(why.number, plan->arena());
  o.budget = plan->arena();
  plan->offset_of[b.index] = plan->offset_of[a.index] + 4;
  EXPECT_FALSE(arena::reserve(g, *plan, memory, s, o, &why));
  EXPECT_EQ(why.kind, fault_kind::clobbered);
}
}  // namespace

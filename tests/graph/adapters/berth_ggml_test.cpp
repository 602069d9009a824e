// The drop-in against the stand-in of tests/graph/adapters/ggml_stand_in: not against ggml itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "berth/graph/adapters/ggml.h"
#include "ggml_context.hpp"

namespace {

using namespace stand_in;

class berth_ggml_drop_in : public in_order {
 protected:
  void TearDown() override {
    memory.reset();
    EXPECT_EQ(type.buffers, 0);
  }
  ggml_backend_buffer_type type = memory_type();
  allocator memory{ggml_gallocr_new(&type)};
};

// ---- single cases ----

TEST_F(berth_ggml_drop_in, places_every_tensor_and_works_in_place) {
  context c;
  ggml_tensor* w = c.placed("w", 64);
  ggml_tensor* x = c.leaf("x", 64);
  ggml_tensor* a = c.op(GGML_OP_MUL_MAT, "a", {w, x});
  ggml_tensor* b = c.op(GGML_OP_UNARY, "b", {a});
  ggml_tensor* seen = c.view("seen", b, 1);
  ggml_tensor* y = c.op(GGML_OP_ADD, "y", {seen, w});
  void* const weights = w->data;
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph())) << stand_in_log;
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 0), 512u);
  EXPECT_EQ(w->data, weights);
  EXPECT_TRUE(apart(a, x));
  EXPECT_EQ(b->data, a->data);
  EXPECT_EQ(seen->data, b->data);
  EXPECT_EQ(y->data, b->data);
  EXPECT_EQ(y->buffer->usage, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
  EXPECT_EQ(type.resets, 1);
}

TEST_F(berth_ggml_drop_in, an_input_that_is_an_output_is_never_overwritten) {
  context c;
  ggml_tensor* x = output(input(c.leaf("x", 64)));
  ggml_tensor* a = c.op(GGML_OP_UNARY, "a", {x});
  ggml_tensor* b = c.op(GGML_OP_MUL_MAT, "b", {a});
  ggml_tensor* d = c.op(GGML_OP_MUL_MAT, "d", {b});
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph())) << stand_in_log;
  for (const ggml_tensor* t : {a, b, d}) EXPECT_TRUE(apart(x, t)) << t->name;
}

TEST_F(berth_ggml_drop_in, leafs_that_no_node_reads_have_memory_throughout) {
  context c;
  ggml_tensor* unread = c.leaf("unread", 64);
  ggml_tensor* a = c.op(GGML_OP_MUL_MAT, "a", {c.leaf("x", 64)});
  ggml_tensor* b = c.op(GGML_OP_MUL_MAT, "b", {a});
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph())) << stand_in_log;
  ASSERT_NE(unread->data, nullptr);
  EXPECT_TRUE(apart(unread, a));
  EXPECT_TRUE(apart(unread, b));
}

TEST_F(berth_ggml_drop_in, tensors_of_no_rows_have_an_address) {
  context c;
  ggml_tensor* empty = c.leaf("empty", 64, 0);
  ggml_tensor* a = c.op(GGML_OP_UNARY, "a", {empty});
  ggml_tensor* seen = c.view("seen", a, 0);
  ggml_tensor* b = c.op(GGML_OP_UNARY, "b", {seen});
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph())) << stand_in_log;
    for (const ggml_tensor* t : {empty, a, seen, b}) EXPECT_NE(t->data, nullptr) << t->name;
  }
}

TEST_F(berth_ggml_drop_in, a_graph_that_needs_no_memory_takes_none) {
  context c;
  ggml_tensor* w = c.placed("w", 64, 2);
  ggml_tensor* row = c.view("row", w, 1, 1);  // data, and no backend's buffer
  c.copy_into("write", row, w);
  ASSERT_TRUE(ggml_gallocr_reserve(memory.get(), c.graph())) << stand_in_log;
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph())) << stand_in_log;
  EXPECT_EQ(type.buffers, 0);
  EXPECT_EQ(row->data, static_cast<char*>(w->data) + 256);
  context nothing;
  EXPECT_TRUE(ggml_gallocr_alloc_graph(memory.get(), nothing.graph())) << stand_in_log;
}

// A root before its producer, or of a graph that has no memory: ggml computes on a null address or on foreign bytes.
TEST_F(berth_ggml_drop_in, another_graphs_unallocated_tensor_is_refused_by_name) {
  context conv;
  ggml_tensor* made = conv.op(GGML_OP_MUL_MAT, "embd_conv", {conv.leaf("mel", 64)});
  context encode;
  ggml_tensor* seen = encode.view("seen", made, 1);
  ggml_tensor* y = encode.op(GGML_OP_UNARY, "y", {seen});
  EXPECT_FALSE(ggml_gallocr_reserve(memory.get(), encode.graph()));
  EXPECT_FALSE(ggml_gallocr_alloc_graph(memory.get(), encode.graph()));
  EXPECT_NE(std::string{stand_in_log}.find("'embd_conv' (256 bytes)"), std::string::npos) << stand_in_log;
  EXPECT_EQ(y->data, nullptr);
  const allocator of_conv{ggml_gallocr_new(&type)};
  ASSERT_TRUE(ggml_gallocr_alloc_graph(of_conv.get(), conv.graph())) << stand_in_log;
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), encode.graph())) << stand_in_log;
  EXPECT_EQ(seen->data, made->data);
}

TEST_F(berth_ggml_drop_in, a_node_that_reads_what_comes_later_is_refused) {
  context c;
  ggml_tensor* a = c.op(GGML_OP_MUL_MAT, "a", {c.leaf("x", 64)});
  c.op(GGML_OP_MUL_MAT, "b", {a});
  std::swap(c.nodes[0], c.nodes[1]);
  EXPECT_FALSE(ggml_gallocr_alloc_graph(memory.get(), c.graph()));
  EXPECT_NE(std::string{stand_in_log}.find("'a' (256 bytes)"), std::string::npos) << stand_in_log;
}

// An operator-less view among the leafs, of a node of this graph.
TEST_F(berth_ggml_drop_in, a_leaf_that_is_a_view_of_a_node_follows_it) {
  context c;
  ggml_tensor* a = c.op(GGML_OP_MUL_MAT, "a", {c.leaf("x", 64)});
  ggml_tensor* seen = c.leaf("seen", 64);
  seen->view_src = a;
  ggml_tensor* b = c.op(GGML_OP_MUL_MAT, "b", {c.nodes[0]});
  ggml_tensor* y = c.op(GGML_OP_ADD, "y", {b, seen});
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph())) << stand_in_log;
  EXPECT_EQ(seen->data, a->data);
  EXPECT_TRUE(apart(a, b));
  EXPECT_TRUE(y->data == b->data || apart(y, seen));
}

// The MUL cannot take over the NORM's memory (another layout), and the runtime reads x while it writes the product.
TEST_F(berth_ggml_drop_in, what_a_fused_pair_reads_outlives_it) {
  context c;
  ggml_tensor* x = c.op(GGML_OP_MUL_MAT, "x", {c.leaf("in", 24, 3)});
  ggml_tensor* norm = c.op(GGML_OP_RMS_NORM, "norm", {x});
  norm->nb[2] = norm->nb[3] = 4096;  // no operand has its layout
  ggml_tensor* y = c.op(GGML_OP_MUL, "y", {norm, c.placed("w", 24, 3)});
  y->nb[1] = 128;
  y->nb[2] = y->nb[3] = 384;
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph())) << stand_in_log;
  EXPECT_TRUE(apart(x, y));
}

TEST_F(berth_ggml_drop_in, a_graph_allocated_again_stays_where_it_is) {
  context c;
  ggml_tensor* x = c.leaf("x", 64);
  ggml_tensor* y = c.op(GGML_OP_MUL_MAT, "y", {x});
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph()));
  void* const was[] = {x->data, y->data};
  const int plans = stand_in_plans;
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph()));
  EXPECT_EQ(x->data, was[0]);
  EXPECT_EQ(y->data, was[1]);
  EXPECT_EQ(stand_in_plans, plans);
}

// A tensor that an earlier graph left in this allocator's memory, read by a new one.
TEST_F(berth_ggml_drop_in, what_lies_in_its_own_memory_is_not_overwritten_before_it_is_read) {
  context before;
  ggml_tensor* kept = before.op(GGML_OP_MUL_MAT, "kept", {before.leaf("x", 64)});
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), before.graph()));
  context c;
  ggml_tensor* a = c.op(GGML_OP_MUL_MAT, "a", {c.leaf("x", 64)});
  ggml_tensor* y = c.op(GGML_OP_ADD, "y", {c.op(GGML_OP_MUL_MAT, "b", {a}), kept});
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph())) << stand_in_log;
  EXPECT_NE(kept->buffer, y->buffer);  // the store has grown; the old block waits
  EXPECT_EQ(type.buffers, 2);
  context last;
  last.op(GGML_OP_UNARY, "y", {last.leaf("x", 64)});
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), last.graph()));
  EXPECT_EQ(type.buffers, 1);
}

// ---- which graph is served by which plan ----

// The graph of one token of a decoder. Only the slot of the cache changes, and the part of it that is seen.
struct token_graph : context {
  explicit token_graph(ggml_tensor* cache, std::int64_t slot, int variant = 0, std::int64_t n = 64) {
    ggml_tensor* x = input(leaf("x", n));
    ggml_tensor* y = variant == 1 ? x : leaf("y", n);
    ggml_tensor* a = op(GGML_OP_MUL_MAT, "a", {x, y});
    ggml_tensor* into = view("into", cache, 1, slot);
    into->ne[0] = n;
    copy_into("store", a, into);
    ggml_tensor* past = view("past", cache, slot + 1);
    ggml_tensor* b = op(GGML_OP_MUL_MAT, "b", {variant == 2 ? x : a, variant == 3 ? y : x, past});
    if (variant == 4) output(a);
    if (variant == 5) y->data = y;  // somebody else's
    if (variant == 6) b->op = GGML_OP_UNARY;
    if (variant == 7) a->flags |= GGML_TENSOR_FLAG_INPUT;
    ggml_tensor* d = op(GGML_OP_UNARY, "d", {b});
    if (variant == 8) d->nb[1] = d->nb[2] = d->nb[3] = 512;  // no longer b's layout, but no more bytes
    if (variant == 9) d->ne[1] = 2, d->nb[2] = d->nb[3] = 8 * static_cast<std::size_t>(n);
    last = op(GGML_OP_ADD, "last", {d, variant == 10 ? d : a});
  }
  ggml_tensor* last = nullptr;
};

TEST_F(berth_ggml_drop_in, decode_steps_are_served_by_the_plan_for_the_worst_case) {
  context weights;
  ggml_tensor* cache = weights.placed("cache", 640, 97);
  token_graph worst{cache, 96, 0, 640};
  ASSERT_TRUE(ggml_gallocr_reserve(memory.get(), worst.graph())) << stand_in_log;
  const int plans = stand_in_plans;
  for (int step = 0; step < 97; ++step) {
    token_graph g{cache, step, 0, 8 + 8 * (step % 79)};
    ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), g.graph())) << stand_in_log;
    EXPECT_EQ(g.nodes[1]->data, static_cast<char*>(cache->data) + 2560 * step);
    EXPECT_TRUE(apart(g.nodes[0], g.nodes[4]));
  }
  EXPECT_EQ(stand_in_plans, plans);
}

TEST_F(berth_ggml_drop_in, no_changed_graph_is_taken_for_the_last_one) {
  context weights;
  ggml_tensor* cache = weights.placed("cache", 640, 97);
  for (int variant = 1; variant <= 10; ++variant) {
    token_graph first{cache, 0};
    ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), first.graph())) << stand_in_log;
    const int plans = stand_in_plans;
    token_graph other{cache, 0, variant};
    ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), other.graph())) << variant << stand_in_log;
    EXPECT_NE(stand_in_plans, plans) << variant;
    token_graph again{cache, 0};
    const int both = stand_in_plans;
    ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), again.graph()));
    EXPECT_EQ(stand_in_plans, both) << variant;
  }
}

TEST_F(berth_ggml_drop_in, eight_graphs_in_turn_are_planned_once_each) {
  int plans = 0;
  for (int turn = 0; turn < 3; ++turn) {
    for (int size = 8; size > 0; --size) {
      context c;
      ggml_tensor* t = c.leaf("x", 64);
      for (int i = 0; i < size; ++i) t = c.op(GGML_OP_UNARY, "t", {t});
      ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph()));
    }
    if (turn == 0) plans = stand_in_plans;
    EXPECT_EQ(stand_in_plans, plans);
  }
}

// ---- memory ----

TEST_F(berth_ggml_drop_in, no_block_is_larger_than_the_type_allows) {
  type.max_size = 1024;
  memory.reset(ggml_gallocr_new(&type));
  context c;
  for (int i = 0; i < 8; ++i) c.op(GGML_OP_MUL_MAT, "a", {c.leaf("x", 64)});
  // An emulator does not find the best of the plans in the usual 20 ms.
  ASSERT_EQ(setenv("BERTH_GGML_RESERVE_MS", "60000", 1), 0);
  ASSERT_TRUE(ggml_gallocr_reserve(memory.get(), c.graph())) << stand_in_log;
  ASSERT_EQ(unsetenv("BERTH_GGML_RESERVE_MS"), 0);
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph())) << stand_in_log;
  EXPECT_EQ(type.buffers, 3);
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 0), type.taken);
  for (const ggml_tensor* a : c.nodes) {
    for (const ggml_tensor* b : c.nodes) EXPECT_TRUE(a == b || apart(a, b));
  }
  context large;
  large.op(GGML_OP_UNARY, "y", {large.leaf("x", 512)});
  EXPECT_FALSE(ggml_gallocr_alloc_graph(memory.get(), large.graph()));
  EXPECT_NE(std::string{stand_in_log}.find("2048 bytes"), std::string::npos) << stand_in_log;
  EXPECT_EQ(large.nodes[0]->data, nullptr);
}

TEST_F(berth_ggml_drop_in, without_memory_all_is_as_before) {
  type.most = 1000;
  context small;
  small.op(GGML_OP_MUL_MAT, "y", {small.leaf("x", 64)});
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), small.graph()));
  context large;
  large.op(GGML_OP_MUL_MAT, "y", {large.leaf("x", 640)});
  EXPECT_FALSE(ggml_gallocr_reserve(memory.get(), large.graph()));
  EXPECT_FALSE(ggml_gallocr_alloc_graph(memory.get(), large.graph()));
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 0), 512u);
  context again;
  again.op(GGML_OP_MUL_MAT, "y", {again.leaf("x", 64)});
  EXPECT_TRUE(ggml_gallocr_alloc_graph(memory.get(), again.graph())) << stand_in_log;
  EXPECT_TRUE(apart(again.nodes[0], again.leafs[0]));
}

TEST_F(berth_ggml_drop_in, measuring_takes_nothing_and_says_what_reserve_takes) {
  context c;
  c.op(GGML_OP_MUL_MAT, "y", {c.leaf("x", 64)});
  std::size_t size = 0;
  ggml_gallocr_reserve_n_size(memory.get(), c.graph(), nullptr, nullptr, &size);
  EXPECT_EQ(size, 512u);
  EXPECT_EQ(type.buffers, 0);
  ASSERT_TRUE(ggml_gallocr_reserve(memory.get(), c.graph()));
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 0), size);
}

TEST_F(berth_ggml_drop_in, the_backends_word_on_sizes_counts) {
  type.iface.get_alloc_size = [](ggml_backend_buffer_type_t, const ggml_tensor* t) { return ggml_nbytes(t) + 1; };
  context c;
  c.op(GGML_OP_MUL_MAT, "y", {c.leaf("x", 64)});
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph()));
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 0), 2 * 288u);
}

// ---- schedulers ----

class two_types : public in_order {
 protected:
  bool reserve(split_graph& g) {
    return ggml_gallocr_reserve_n(memory.get(), g.graph(), g.node_ids.data(), g.leaf_ids.data());
  }
  ggml_backend_buffer_type type[2] = {memory_type(), memory_type()};
  ggml_backend_buffer_type_t types[3] = {&type[0], &type[1], &type[0]};
  allocator memory{ggml_gallocr_new_n(types, 3)};
};

TEST_F(two_types, every_tensor_lies_in_its_own_and_a_new_graph_is_left_to_reserve) {
  split_graph g{5, 1, 0};
  EXPECT_FALSE(ggml_gallocr_alloc_graph(memory.get(), g.graph()));
  ASSERT_TRUE(reserve(g)) << stand_in_log;
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), g.graph())) << stand_in_log;
  for (std::size_t i = 0; i < g.nodes.size(); ++i) {
    EXPECT_EQ(g.nodes[i]->buffer->buft, &type[g.node_ids[i]]) << i;
  }
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 0), type[0].taken);
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 1), type[1].taken);
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 2), 0u);
  // Known or not: only the last graph's shape is served before the scheduler has waited.
  split_graph other{3, 1, 0};
  EXPECT_FALSE(ggml_gallocr_alloc_graph(memory.get(), other.graph()));
  ASSERT_TRUE(reserve(other));
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), other.graph()));
  const int plans = stand_in_plans;
  split_graph again{5, 1, 0};
  EXPECT_FALSE(ggml_gallocr_alloc_graph(memory.get(), again.graph()));
  ASSERT_TRUE(reserve(again));
  EXPECT_TRUE(ggml_gallocr_alloc_graph(memory.get(), again.graph()));
  EXPECT_EQ(stand_in_plans, plans);
  // The same graph with its nodes elsewhere is another.
  split_graph moved{5, 1, 0};
  moved.node_ids.back() = 1;
  ASSERT_TRUE(reserve(moved));
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), moved.graph()));
  EXPECT_EQ(moved.nodes.back()->buffer->buft, &type[1]);
}

// The scheduler names no backend for a leaf that no node reads; ggml aborts.
TEST_F(two_types, a_leaf_of_no_backend_is_the_last_ones) {
  split_graph g{3, 1, 0};
  ggml_tensor* unread = g.leaf("unread", 64);
  g.leaf_ids.push_back(-1);
  ggml_backend_buffer_type_t two[] = {&type[0], &type[1]};
  memory.reset(ggml_gallocr_new_n(two, 2));
  ASSERT_TRUE(reserve(g)) << stand_in_log;
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), g.graph())) << stand_in_log;
  ASSERT_NE(unread->data, nullptr);
  EXPECT_EQ(unread->buffer->buft, &type[1]);
}

// Work under way reads the other copies: whichever has its turn, all lie where they lay.
TEST_F(two_types, the_turn_of_a_copy_moves_nothing) {
  split_graph first{5, 4, 0};
  ASSERT_TRUE(reserve(first)) << stand_in_log;
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), first.graph())) << stand_in_log;
  const int plans = stand_in_plans;
  for (int turn = 1; turn < 9; ++turn) {
    split_graph g{5, 4, turn % 4};
    ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), g.graph())) << turn << stand_in_log;
    for (std::size_t i = 0; i < g.leafs.size(); ++i) EXPECT_EQ(g.leafs[i]->data, first.leafs[i]->data) << i;
    EXPECT_EQ(g.nodes.back()->data, first.nodes.back()->data);
    for (const ggml_tensor* leaf : g.leafs) {
      for (const ggml_tensor* node : g.nodes) {
        EXPECT_TRUE(leaf == node || node->view_src != nullptr || apart(leaf, node));
      }
    }
  }
  EXPECT_EQ(stand_in_plans, plans);
}

TEST(berth_ggml_stock, is_called_where_the_environment_says_so) {
  ggml_backend_buffer_type type = memory_type();
  ASSERT_EQ(setenv("BERTH_GGML", "0", 1), 0);
  const allocator stock{ggml_gallocr_new(&type)};
  ASSERT_EQ(unsetenv("BERTH_GGML"), 0);
  const allocator berth{ggml_gallocr_new(&type)};
  for (const auto& a : {stock.get(), berth.get()}) {
    context c;
    ggml_tensor* t = c.leaf("x", 64);
    for (int i = 0; i < 4; ++i) t = c.op(GGML_OP_UNARY, "t", {t});
    ASSERT_TRUE(ggml_gallocr_alloc_graph(a, c.graph()));
    EXPECT_EQ(c.nodes[0]->data == c.nodes[3]->data, a == berth.get());
  }
  ggml_backend_sched sched{stock.get()};
  const ggml_backend_sched_t one = &sched;
  EXPECT_FALSE(berth_ggml_share(&one, 1));
}

// ---- bytes ----

// A random graph; the same for the same seed. With `reordered` its nodes stand in another order that their edges allow,
// as after a backend's graph_optimize.
class random_graph : public context {
 public:
  random_graph(unsigned seed, bool reordered, ggml_tensor* cache) : random_{seed} {
    for (int i = 0; i < 4; ++i) {
      alive_.push_back(input(leaf("in", pick(2) == 0 ? 8 : 24, pick(5) == 0 ? 0 : 1 + pick(4))));
      if (pick(3) == 0) output(alive_.back());
    }
    leaf("unread", 8);
    for (int i = 0; i < 40; ++i) grow("t" + std::to_string(i), cache);
    for (ggml_tensor* t : alive_) output(t);
    if (reordered) reorder(cache);
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void add(ggml_tensor* t) {
    if (pick(8) == 0) output(t);
    alive_.push_back(t);
    if (alive_.size() > 6) alive_.erase(alive_.begin() + pick(6));
  }

  void grow(const std::string& name, ggml_tensor* cache) {
    ggml_tensor* const a = alive_[static_cast<std::size_t>(pick(static_cast<int>(alive_.size())))];
    ggml_tensor* b = a;
    for (ggml_tensor* t : alive_) {
      if (t->ne[0] == a->ne[0] && t->ne[1] == a->ne[1] && pick(2) == 0) b = t;
    }
    switch (pick(8)) {
      case 0: return add(op(GGML_OP_ADD, name, {a, b}));
      case 1: return add(op(GGML_OP_UNARY, name, {a}));
      case 2: return add(op(GGML_OP_MUL_MAT, name, {a, b}));
      case 3: return add(op(GGML_OP_MUL, name, {op(GGML_OP_RMS_NORM, name + "n", {a}), b}));
      case 4: return add(op(GGML_OP_MUL, name, {b, op(GGML_OP_RMS_NORM, name + "n", {a})}));
      case 5: return add(a->ne[1] > 1 ? view(name, a, a->ne[1] - 1, pick(2)) : op(GGML_OP_SUB, name, {a, b}));
      case 6: return add(view(name, a, a->ne[1]));
      default: break;
    }
    if (a->ne[1] == 0 || a->ne[0] != cache->ne[0]) return add(op(GGML_OP_MUL_MAT, name, {a}));
    copy_into(name + "w", a, view(name + "v", cache, a->ne[1], pick(3)));
  }

  void reorder(const ggml_tensor* cache) {
    tensors left = std::move(nodes);
    nodes.clear();
    const auto ready = [&](const ggml_tensor* t) {
      for (const ggml_tensor* o : left) {
        if (o == t) return true;
        if (o->view_src == cache && t->view_src == cache) return false;
        for (const ggml_tensor* s : t->src) {
          if (s == o) return false;
        }
        if (t->view_src == o) return false;
      }
      return true;
    };
    while (!left.empty()) {
      const auto at = left.begin() + pick(static_cast<int>(left.size()));
      if (!ready(*at)) continue;
      nodes.push_back(*at);
      left.erase(at);
    }
  }

  std::mt19937 random_;
  tensors alive_;
};

// Tensors that survive: outputs, inputs that are outputs, leafs without readers, the cache.
std::vector<char> run(context& c, const ggml_tensor* cache, unsigned seed) {
  std::mt19937 random{seed};
  std::fill_n(static_cast<float*>(cache->data), cache->ne[0] * cache->ne[1], 0.25f);
  for (ggml_tensor* t : c.leafs) {
    for (std::size_t i = 0; i < ggml_nbytes(t) / 4; ++i) {
      static_cast<float*>(t->data)[i] = static_cast<float>(random() % 1000) / 500 - 1;
    }
  }
  stand_in_compute(c.graph());
  std::vector<char> bytes;
  const auto take = [&](const ggml_tensor* t) {
    const auto* const at = static_cast<const char*>(t->data);
    bytes.insert(bytes.end(), at, at + ggml_nbytes(t));
  };
  for (const ggml_tensor* t : c.leafs) {
    if ((t->flags & GGML_TENSOR_FLAG_OUTPUT) != 0 || std::strcmp(t->name, "unread") == 0) take(t);
  }
  for (const ggml_tensor* t : c.nodes) {
    if ((t->flags & GGML_TENSOR_FLAG_OUTPUT) != 0) take(t);
  }
  take(cache);
  return bytes;
}

struct way {
  bool reordered = false, reserves = false, keeps = false;  // one allocator for all graphs
  std::size_t max_size = SIZE_MAX;
  int types = 1;
};

class random_graphs : public in_order, public testing::WithParamInterface<way> {};

TEST_P(random_graphs, compute_what_they_compute_without_reuse) {
  const way how = GetParam();
  context weights;
  ggml_backend_buffer_type of_cache = memory_type();
  const buffer kept_in{ggml_backend_buft_alloc_buffer(&of_cache, 768)};
  ggml_tensor* cache = weights.placed_in(kept_in.get(), "cache", 24, 8);
  ggml_backend_buffer_type own[2] = {memory_type(how.max_size), memory_type(how.max_size)};
  ggml_backend_buffer_type_t types[] = {&own[0], &own[1]};
  allocator kept;
  for (unsigned seed = 0; seed < 300; ++seed) {
    ggml_backend_buffer_reset(kept_in.get());
    ASSERT_EQ(ggml_backend_buffer_init_tensor(kept_in.get(), cache), GGML_STATUS_SUCCESS);
    ggml_backend_buffer_type plain = memory_type();
    ASSERT_EQ(setenv("BERTH_GGML", "0", 1), 0);
    const allocator stock{ggml_gallocr_new(&plain)};
    ASSERT_EQ(unsetenv("BERTH_GGML"), 0);
    random_graph expected{seed, how.reordered, cache}, g{seed, how.reordered, cache};
    ASSERT_TRUE(ggml_gallocr_alloc_graph(stock.get(), expected.graph()));
    if (kept == nullptr || !how.keeps) kept.reset(ggml_gallocr_new_n(types, how.types));
    std::vector<int> ids(g.nodes.size() + g.leafs.size());
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>((seed + i * i) / 3 % 2);
    if (how.types > 1) {
      ASSERT_TRUE(ggml_gallocr_reserve_n(kept.get(), g.graph(), ids.data(), ids.data() + g.nodes.size()));
    } else if (how.reserves) {
      ASSERT_TRUE(ggml_gallocr_reserve(kept.get(), g.graph()));
    }
    ASSERT_TRUE(ggml_gallocr_alloc_graph(kept.get(), g.graph())) << seed << stand_in_log;
    ASSERT_EQ(run(g, cache, seed), run(expected, cache, seed)) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(all, random_graphs,
                         testing::Values(way{}, way{.reserves = true}, way{.keeps = true}, way{.reordered = true},
                                         way{.max_size = 768}, way{.keeps = true, .max_size = 768}, way{.types = 2},
                                         way{.keeps = true, .max_size = 768, .types = 2}));
}  // namespace

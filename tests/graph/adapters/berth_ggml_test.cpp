// The drop-in against the stand-in of tests/graph/adapters/ggml_stand_in: not against ggml itself.
#include <ggml-alloc.h>
#include <ggml-backend-impl.h>
#include <ggml-impl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "berth/graph/adapters/ggml.h"

namespace {

using tensors = std::vector<ggml_tensor*>;

// Builds tensors as ggml's context does; they live as long as it. A graph's leafs are what no operator makes.
class context {
 public:
  ggml_tensor* fresh(const std::string& name, std::int64_t n, std::int64_t rows = 1) {
    ggml_tensor& t = tensors_.emplace_back();
    std::snprintf(t.name, sizeof t.name, "%s", name.c_str());
    t.ne[0] = n;
    t.ne[1] = rows;
    t.ne[2] = t.ne[3] = 1;
    t.nb[0] = 4;
    t.nb[1] = static_cast<std::size_t>(4 * n);
    t.nb[2] = t.nb[3] = t.nb[1] * static_cast<std::size_t>(rows);
    return &t;
  }
  ggml_tensor* leaf(const std::string& name, std::int64_t n, std::int64_t rows = 1) {
    leafs.push_back(fresh(name, n, rows));
    return leafs.back();
  }
  ggml_tensor* op(ggml_op op, const std::string& name, const tensors& src) {
    ggml_tensor* t = fresh(name, src[0]->ne[0], src[0]->ne[1]);
    t->op = op;
    std::copy(src.begin(), src.end(), t->src);
    nodes.push_back(t);
    return t;
  }
  // Rows [first, first + rows) of `of`.
  ggml_tensor* view(const std::string& name, ggml_tensor* of, std::int64_t rows, std::int64_t first = 0) {
    ggml_tensor* t = op(GGML_OP_VIEW, name, {of});
    t->ne[1] = rows;
    t->view_src = of->view_src != nullptr ? of->view_src : of;
    t->view_offs = of->view_offs + static_cast<std::size_t>(first) * of->nb[1];
    if (t->view_src->data != nullptr) t->data = static_cast<char*>(t->view_src->data) + t->view_offs;
    return t;
  }
  ggml_tensor* copy_into(const std::string& name, ggml_tensor* from, ggml_tensor* to) {
    ggml_tensor* t = op(GGML_OP_CPY, name, {from, to});
    t->view_src = to->view_src != nullptr ? to->view_src : to;
    t->view_offs = to->view_offs;
    if (t->view_src->data != nullptr) t->data = static_cast<char*>(t->view_src->data) + t->view_offs;
    return t;
  }
  // A tensor with memory of its own and without a backend's buffer.
  ggml_tensor* placed(const std::string& name, std::int64_t n, std::int64_t rows = 1) {
    ggml_tensor* t = leaf(name, n, rows);
    memory_.emplace_back(static_cast<std::size_t>(n * rows), 0.5f);
    t->data = memory_.back().data();
    return t;
  }
  ggml_cgraph* graph() {
    graph_ = {static_cast<int>(nodes.size()), static_cast<int>(leafs.size()), nodes.data(), leafs.data()};
    return &graph_;
  }
  tensors nodes, leafs;

 private:
  std::deque<ggml_tensor> tensors_;
  std::deque<std::vector<float>> memory_;
  ggml_cgraph graph_{};
};

ggml_tensor* output(ggml_tensor* t) {
  t->flags |= GGML_TENSOR_FLAG_OUTPUT;
  return t;
}
ggml_tensor* input(ggml_tensor* t) {
  t->flags |= GGML_TENSOR_FLAG_INPUT;
  return t;
}

bool apart(const ggml_tensor* a, const ggml_tensor* b) {
  const auto* x = static_cast<const char*>(a->data);
  const auto* y = static_cast<const char*>(b->data);
  return x + ggml_nbytes(a) <= y || y + ggml_nbytes(b) <= x;
}

ggml_backend_buffer_type memory_type(std::size_t max_size = SIZE_MAX, std::size_t most = SIZE_MAX) {
  return {{nullptr}, max_size, most, 0, 0, 0};
}

struct free_allocator {
  void operator()(ggml_gallocr_t a) const { ggml_gallocr_free(a); }
};
using allocator = std::unique_ptr<ggml_gallocr, free_allocator>;

class berth_ggml_drop_in : public testing::Test {
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

// The graph of one token of a decoder: what changes is the slot of the cache, and how much of it is seen.
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

// A backend that wants to know each tensor is told once, roots before their views.
int told = 0;
TEST_F(berth_ggml_drop_in, the_backends_word_on_sizes_counts) {
  type.iface.get_alloc_size = [](ggml_backend_buffer_type_t, const ggml_tensor* t) { return ggml_nbytes(t) + 1; };
  context c;
  ggml_tensor* y = c.op(GGML_OP_MUL_MAT, "y", {c.leaf("x", 64)});
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph()));
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 0), 2 * 288u);
  y->buffer->iface.init_tensor = [](ggml_backend_buffer_t, ggml_tensor* t) {
    ++told;
    return t->data != nullptr ? GGML_STATUS_SUCCESS : GGML_STATUS_FAILED;
  };
  context again;
  again.op(GGML_OP_UNARY, "z", {again.op(GGML_OP_MUL_MAT, "y", {again.leaf("x", 64)})});
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), again.graph()));
  EXPECT_EQ(told, 3);
}

// ---- schedulers ----

// What ggml's scheduler makes of a graph: every second operator on the other backend, copies between them with what
// says when they are made, and, with several copies, all of them as leafs.
struct split_graph : context {
  split_graph(int length, int copies, int turn) {
    std::vector<ggml_tensor*> in(static_cast<std::size_t>(copies));
    for (int k = 0; k < copies; ++k) in[static_cast<std::size_t>(k)] = fresh("in", 64);
    for (ggml_tensor* t : in) {
      input(t);
      if (copies > 1) output(t);
      leafs.push_back(t);
      leaf_ids.push_back(0);
    }
    ggml_tensor* x = in[static_cast<std::size_t>(turn)];
    for (int i = 0; i < length; ++i) {
      const int home = i % 2;
      ggml_tensor* y = x;
      if (i > 0) {
        ggml_tensor* reads = op(GGML_OP_NONE, "reads", {x});
        reads->view_src = x->view_src != nullptr ? x->view_src : x;
        node_ids.push_back(1 - home);
        for (int k = 0; k < copies; ++k) {
          ggml_tensor* copy = fresh("copy", 64);
          if (k == turn || copies == 1) y = copy;
          if (copies == 1) continue;
          output(input(copy));
          leafs.push_back(copy);
          leaf_ids.push_back(home);
        }
        nodes.push_back(y);
        node_ids.push_back(home);
      }
      x = op(i % 3 == 0 ? GGML_OP_UNARY : GGML_OP_MUL_MAT, "t", {y});
      node_ids.push_back(home);
    }
  }
  std::vector<int> node_ids, leaf_ids;
};

class two_types : public testing::Test {
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

TEST_F(berth_ggml_drop_in, graphs_that_take_turns_share_an_arena) {
  allocator second{ggml_gallocr_new(&type)};
  ggml_backend_sched sched[] = {{memory.get()}, {second.get()}};
  const ggml_backend_sched_t both[] = {&sched[0], &sched[1]};
  const auto conv = [](context& c) {
    ggml_tensor* t = c.op(GGML_OP_MUL_MAT, "made", {c.leaf("mel", 512)});
    return c.op(GGML_OP_UNARY, "embd", {c.op(GGML_OP_MUL_MAT, "t", {t})});
  };
  const auto encode = [](context& c, ggml_tensor* embd) {
    ggml_tensor* t = c.op(GGML_OP_MUL_MAT, "t", {c.leaf("positions", 256)});
    for (int i = 0; i < 4; ++i) t = c.op(GGML_OP_MUL_MAT, "t", {t, c.leaf("x", 256)});
    return c.op(GGML_OP_MUL_MAT, "y", {c.view("seen", embd, 1), t});
  };
  context a, b;
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), a.graph()));
  encode(b, conv(a));
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), a.graph()));
  ASSERT_TRUE(ggml_gallocr_alloc_graph(second.get(), b.graph()));
  const std::size_t apart_bytes = type.taken;
  ASSERT_TRUE(berth_ggml_share(both, 2)) << stand_in_log;
  EXPECT_EQ(type.buffers, 1);
  for (int turn = 0; turn < 3; ++turn) {
    context one, two;
    ggml_tensor* embd = conv(one);
    ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), one.graph())) << stand_in_log;
    std::fill_n(static_cast<float*>(one.leafs[0]->data), 512, 1.0f);
    stand_in_compute(one.graph());
    ggml_tensor* y = encode(two, embd);
    ASSERT_TRUE(ggml_gallocr_alloc_graph(second.get(), two.graph())) << stand_in_log;
    EXPECT_EQ(y->buffer->buft->buffers, turn == 0 ? 2 : 1);  // at first the arena is too small for both
    const std::vector<float> kept(static_cast<float*>(embd->data), static_cast<float*>(embd->data) + 512);
    for (ggml_tensor* leaf : two.leafs) std::fill_n(static_cast<float*>(leaf->data), 256, 2.0f);
    for (std::size_t i = 0; i + 1 < two.nodes.size(); ++i) {
      if (two.nodes[i]->op == GGML_OP_MUL_MAT) std::memset(two.nodes[i]->data, 3, ggml_nbytes(two.nodes[i]));
    }
    EXPECT_EQ(0, std::memcmp(kept.data(), embd->data, 2048)) << turn;
  }
  EXPECT_LT(type.taken, apart_bytes);
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 0), type.taken);
  EXPECT_EQ(ggml_gallocr_get_buffer_size(second.get(), 0), 0u);
  EXPECT_FALSE(berth_ggml_share(both, 0));
  EXPECT_FALSE(berth_ggml_share(nullptr, 2));
  memory.reset();  // the arena is the other's too
  context last;
  last.op(GGML_OP_UNARY, "y", {last.leaf("x", 64)});
  EXPECT_TRUE(ggml_gallocr_alloc_graph(second.get(), last.graph()));
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

// What is to survive: outputs, inputs that are outputs, leafs that nobody reads, the cache.
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

class random_graphs : public testing::TestWithParam<way> {};

TEST_P(random_graphs, compute_what_they_compute_without_reuse) {
  const way how = GetParam();
  context weights;
  ggml_tensor* cache = weights.placed("cache", 24, 8);
  ggml_backend_buffer_type own[2] = {memory_type(how.max_size), memory_type(how.max_size)};
  ggml_backend_buffer_type_t types[] = {&own[0], &own[1]};
  allocator kept;
  for (unsigned seed = 0; seed < 300; ++seed) {
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

// The ggml adapter against the stand-in of tests/graph/adapters/ggml_stand_in: not against ggml itself.
#include "berth/graph/adapters/ggml.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <vector>

struct ggml_backend_buffer_type {
  std::size_t most = SIZE_MAX;
  int buffers = 0;  // alive
};
struct ggml_backend_buffer {
  ggml_backend_buffer_type* type;
  void* base;
  std::size_t size;
};
struct ggml_cgraph {
  std::vector<ggml_tensor*> nodes;
};

int ggml_graph_n_nodes(ggml_cgraph* graph) {
  return static_cast<int>(graph->nodes.size());
}
ggml_tensor* ggml_graph_node(ggml_cgraph* graph, int i) {
  return graph->nodes[static_cast<std::size_t>(i)];
}
std::size_t ggml_nbytes(const ggml_tensor* t) {
  std::size_t n = 4;
  for (int d = 0; d < GGML_MAX_DIMS; ++d) n += static_cast<std::size_t>(t->ne[d] - 1) * t->nb[d];
  return n;
}
const char* ggml_op_name(ggml_op op) {
  const char* const names[] = {"NONE", "ADD", "MUL_MAT", "CPY", "VIEW", "RESHAPE", "UNARY"};
  return names[op];
}
std::size_t ggml_backend_buft_get_alignment(ggml_backend_buffer_type_t) {
  return 32;
}
std::size_t ggml_backend_buft_get_alloc_size(ggml_backend_buffer_type_t, const ggml_tensor* t) {
  return ggml_nbytes(t);
}
ggml_backend_buffer_t ggml_backend_buft_alloc_buffer(ggml_backend_buffer_type_t type, std::size_t size) {
  if (size > type->most) return nullptr;
  ++type->buffers;
  return new ggml_backend_buffer{type, ::operator new (size, std::align_val_t{32}), size};
}
void ggml_backend_buffer_free(ggml_backend_buffer_t buffer) {
  --buffer->type->buffers;
  ::operator delete (buffer->base, std::align_val_t{32});
  delete buffer;
}
void* ggml_backend_buffer_get_base(ggml_backend_buffer_t buffer) {
  return buffer->base;
}
std::size_t ggml_backend_buffer_get_size(ggml_backend_buffer_t buffer) {
  return buffer->size;
}
// What ggml asserts is a failure here.
ggml_status ggml_backend_tensor_alloc(ggml_backend_buffer_t buffer, ggml_tensor* t, void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto base = reinterpret_cast<std::uintptr_t>(buffer->base);
  if (t->buffer != nullptr || t->data != nullptr || t->view_src != nullptr) return GGML_STATUS_FAILED;
  if (at < base || at + ggml_nbytes(t) > base + buffer->size || at % 32 != 0) return GGML_STATUS_FAILED;
  t->buffer = buffer;
  t->data = address;
  return GGML_STATUS_SUCCESS;
}
ggml_status ggml_backend_view_init(ggml_tensor* t) {
  if (t->buffer != nullptr || t->view_src == nullptr || t->view_src->data == nullptr) return GGML_STATUS_FAILED;
  t->buffer = t->view_src->buffer;
  t->data = static_cast<char*>(t->view_src->data) + t->view_offs;
  return GGML_STATUS_SUCCESS;
}

namespace {
using namespace berth;

// Builds tensors as ggml's context does; they live as long as it.
class context {
 public:
  ggml_tensor* leaf(const char* name, std::int64_t n) {
    ggml_tensor& t = tensors_.emplace_back();
    std::snprintf(t.name, sizeof t.name, "%s", name);
    t.ne[0] = n;
    for (int d = 1; d < GGML_MAX_DIMS; ++d) t.nb[d] = static_cast<std::size_t>(4 * n);
    return &t;
  }
  ggml_tensor* op(ggml_op op, const char* name, std::int64_t n, std::vector<ggml_tensor*> src) {
    ggml_tensor* t = leaf(name, n);
    t->op = op;
    std::copy(src.begin(), src.end(), t->src);
    graph.nodes.push_back(t);
    return t;
  }
  ggml_tensor* view(const char* name, ggml_tensor* of, std::int64_t n, std::size_t offset) {
    ggml_tensor* t = op(GGML_OP_VIEW, name, n, {of});
    t->view_src = of->view_src != nullptr ? of->view_src : of;
    t->view_offs = of->view_offs + offset;
    return t;
  }
  // A tensor with memory of its own: a weight, a cache.
  ggml_tensor* placed(const char* name, std::int64_t n) {
    ggml_tensor* t = leaf(name, n);
    memory_.emplace_back(static_cast<std::size_t>(4 * n));
    t->data = memory_.back().data();
    return t;
  }
  ggml_cgraph graph;

 private:
  std::deque<ggml_tensor> tensors_;
  std::deque<std::vector<char>> memory_;
};

bool apart(const ggml_tensor* a, const ggml_tensor* b) {
  const auto* x = static_cast<const char*>(a->data);
  const auto* y = static_cast<const char*>(b->data);
  return x + ggml_nbytes(a) <= y || y + ggml_nbytes(b) <= x;
}

class ggml_adapter : public testing::Test {
 protected:
  ggml_backend_buffer_type type;
  graph_fault why;
};

TEST_F(ggml_adapter, binds_every_tensor_once_and_works_in_place) {
  context c;
  ggml_tensor* w = c.placed("w", 64);
  ggml_tensor* x = c.leaf("x", 64);
  ggml_tensor* a = c.op(GGML_OP_MUL_MAT, "a", 64, {w, x});
  ggml_tensor* b = c.op(GGML_OP_UNARY, "b", 64, {a});
  ggml_tensor* half = c.view("half", b, 32, 128);
  ggml_tensor* y = c.op(GGML_OP_ADD, "y", 32, {half, half});
  void* const weights = w->data;
  ggml::allocator memory{&type};
  const auto needed = memory.measure(&c.graph, &why);
  ASSERT_TRUE(needed) << why.text;
  EXPECT_EQ(*needed, 512u);
  EXPECT_EQ(type.buffers, 0);
  const auto bound = memory.bind(&c.graph, &why);
  ASSERT_TRUE(bound) << why.text;
  EXPECT_TRUE(bound->planned);
  EXPECT_EQ(memory.size(), 512u);
  EXPECT_EQ(w->data, weights);
  EXPECT_TRUE(apart(a, x));
  EXPECT_EQ(b->data, a->data);
  EXPECT_EQ(half->data, static_cast<char*>(b->data) + 128);
  EXPECT_TRUE(apart(y, half));
}

TEST_F(ggml_adapter, knows_its_own_tensors_when_the_graph_comes_again) {
  context c;
  ggml_tensor* x = c.leaf("x", 64);
  ggml_tensor* y = c.op(GGML_OP_MUL_MAT, "y", 64, {x, x});
  ggml::allocator memory{&type};
  ASSERT_TRUE(memory.bind(&c.graph, &why)) << why.text;
  void* const first = y->data;
  const auto again = memory.bind(&c.graph, &why);
  ASSERT_TRUE(again) << why.text;
  EXPECT_FALSE(again->planned);
  EXPECT_EQ(y->data, first);
}

TEST_F(ggml_adapter, writes_through_views_reach_the_cache) {
  context c;
  ggml_tensor* cache = c.placed("cache", 256);
  ggml_tensor* x = c.leaf("x", 64);
  ggml_tensor* slot = c.view("slot", cache, 64, 256);
  ggml_tensor* store = c.op(GGML_OP_CPY, "store", 64, {x, slot});
  store->view_src = cache;
  store->view_offs = 256;
  ggml::allocator memory{&type};
  const auto bound = memory.bind(&c.graph, &why);
  ASSERT_TRUE(bound) << why.text;
  EXPECT_EQ(bound->arena, 256u);
  EXPECT_EQ(store->data, static_cast<char*>(cache->data) + 256);
  EXPECT_EQ(slot->data, store->data);
}

// A permuted reshape: view_src names the root alone, and the reshape in between is no result of the graph.
TEST_F(ggml_adapter, a_view_of_a_view_does_not_keep_its_root) {
  context c;
  ggml_tensor* x = c.leaf("x", 64);
  ggml_tensor* a = c.op(GGML_OP_MUL_MAT, "a", 64, {x, x});
  ggml_tensor* seen = c.view("seen", c.view("between", a, 64, 0), 64, 0);
  ggml_tensor* b = c.op(GGML_OP_MUL_MAT, "b", 64, {seen, seen});
  ggml_tensor* d = c.op(GGML_OP_MUL_MAT, "d", 64, {b, b});
  ggml_tensor* e = c.op(GGML_OP_MUL_MAT, "e", 64, {d, d});
  ggml::allocator memory{&type};
  const auto bound = memory.bind(&c.graph, &why);
  ASSERT_TRUE(bound) << why.text;
  EXPECT_EQ(bound->arena, 512u);
  EXPECT_TRUE(apart(e, d));
  EXPECT_EQ(seen->data, a->data);
}

TEST_F(ggml_adapter, an_output_that_is_a_view_survives) {
  context c;
  ggml_tensor* x = c.leaf("x", 64);
  ggml_tensor* a = c.op(GGML_OP_MUL_MAT, "a", 64, {x, x});
  ggml_tensor* kept = c.view("kept", a, 32, 0);
  kept->flags |= GGML_TENSOR_FLAG_OUTPUT;
  ggml_tensor* b = c.op(GGML_OP_UNARY, "b", 64, {a});
  ggml_tensor* d = c.op(GGML_OP_MUL_MAT, "d", 64, {b, b});
  ggml::allocator memory{&type};
  ASSERT_TRUE(memory.bind(&c.graph, &why)) << why.text;
  EXPECT_TRUE(apart(kept, b));
  EXPECT_TRUE(apart(kept, d));
}

// whisper.cpp #1959: ggml aborts, or computes on a null address.
TEST_F(ggml_adapter, a_view_of_another_graphs_unplaced_tensor_is_named) {
  context conv;
  ggml_tensor* mel = conv.leaf("mel", 64);
  ggml_tensor* embd_conv = conv.op(GGML_OP_MUL_MAT, "embd_conv", 64, {mel, mel});
  context encode;
  ggml_tensor* view = encode.leaf("embd_conv (view)", 64);
  view->view_src = embd_conv;
  ggml_tensor* y = encode.op(GGML_OP_UNARY, "y", 64, {view});
  ggml::allocator memory{&type};
  const auto bound = memory.bind(&encode.graph, &why);
  ASSERT_FALSE(bound);
  EXPECT_EQ(why.kind, fault_kind::unplaced_external);
  EXPECT_EQ(why.number, 256u);
  EXPECT_NE(why.text.find("'embd_conv' (256 bytes)"), std::string::npos) << why.text;
  EXPECT_EQ(y->data, nullptr);

  // Bound first, in memory of its own, the producer makes it right.
  ggml::allocator of_conv{&type};
  ASSERT_TRUE(of_conv.bind(&conv.graph, &why)) << why.text;
  ASSERT_TRUE(memory.bind(&encode.graph, &why)) << why.text;
  EXPECT_EQ(view->data, embd_conv->data);
}

TEST_F(ggml_adapter, other_edges_with_equal_sizes_are_planned_anew) {
  const auto build = [](context& c, bool late) {
    ggml_tensor* x = c.leaf("x", 64);
    ggml_tensor* a = c.op(GGML_OP_MUL_MAT, "a", 64, {x, x});
    ggml_tensor* b = c.op(GGML_OP_MUL_MAT, "b", 64, {a, a});
    ggml_tensor* d = c.op(GGML_OP_MUL_MAT, "d", 64, {b, b});
    c.op(GGML_OP_MUL_MAT, "y", 64, {d, late ? a : b});
  };
  context before;
  context after;
  build(before, false);
  build(after, true);
  ggml::allocator memory{&type};
  ASSERT_TRUE(memory.reserve(&after.graph, &why)) << why.text;
  ASSERT_TRUE(memory.bind(&before.graph, &why)) << why.text;
  ASSERT_TRUE(memory.bind(&after.graph, &why)) << why.text;
  const auto& n = after.graph.nodes;
  EXPECT_TRUE(apart(n[0], n[1]));
  EXPECT_TRUE(apart(n[0], n[2]));
  EXPECT_TRUE(apart(n[0], n[3]));
}

// The graph of one token of a decoder: all that changes from one to the next is the slot of the cache.
struct token_graph : context {
  token_graph(ggml_tensor* cache, std::int64_t slot, int variant = 0) {
    ggml_tensor* x = leaf("x", 64);
    ggml_tensor* y = variant == 1 ? x : leaf("y", 64);
    ggml_tensor* a = op(GGML_OP_MUL_MAT, "a", 64, {x, y});
    ggml_tensor* into = view("into", cache, 64, static_cast<std::size_t>(4 * slot));
    ggml_tensor* store = op(GGML_OP_CPY, "store", 64, {a, into});
    store->view_src = cache;
    store->view_offs = into->view_offs;
    ggml_tensor* b = op(GGML_OP_MUL_MAT, "b", 64, {variant == 2 ? x : a, variant == 3 ? y : x});
    if (variant == 4) a->flags |= GGML_TENSOR_FLAG_OUTPUT;
    if (variant == 5) y->type = GGML_TYPE_F16;
    if (variant == 6) y->data = y;  // somebody else's
    if (variant == 7) b->op = GGML_OP_UNARY;
    ggml_tensor* part = view("part", b, 32, variant == 8 ? 128 : 0);
    last = op(GGML_OP_MUL_MAT, "last", 32, {part, part});
  }
  ggml_tensor* last = nullptr;
};

TEST_F(ggml_adapter, the_slot_of_a_cache_asks_for_no_new_plan) {
  context weights;
  ggml_tensor* cache = weights.placed("cache", 640);
  ggml::allocator memory{&type};
  for (int slot = 0; slot <= 576; slot += 64) {
    token_graph g{cache, slot};
    const auto bound = memory.bind(&g.graph, &why);
    ASSERT_TRUE(bound) << why.text;
    EXPECT_EQ(bound->planned, slot == 0);
    EXPECT_EQ(g.graph.nodes[2]->data, static_cast<char*>(cache->data) + 4 * slot);
  }
  // Nor does it matter how much of the cache is seen.
  token_graph more{cache, 0};
  more.graph.nodes[1]->ne[0] = 128;
  const auto bound = memory.bind(&more.graph, &why);
  ASSERT_TRUE(bound) << why.text;
  EXPECT_FALSE(bound->planned);
  token_graph beyond{cache, 577};
  EXPECT_FALSE(memory.bind(&beyond.graph, &why));
  EXPECT_EQ(why.kind, fault_kind::view_beyond_root);
  EXPECT_EQ(why.number, 4u);
}

TEST_F(ggml_adapter, a_smaller_graph_is_served_by_the_plan_for_the_worst_case) {
  const auto build = [](context& c, std::int64_t n) {
    ggml_tensor* a = c.op(GGML_OP_MUL_MAT, "a", n, {c.leaf("x", n)});
    ggml_tensor* b = c.op(GGML_OP_MUL_MAT, "b", n, {a});
    c.op(GGML_OP_MUL_MAT, "y", n, {b, a});
  };
  ggml::allocator memory{&type};
  context worst;
  build(worst, 640);
  ASSERT_TRUE(memory.reserve(&worst.graph, &why)) << why.text;
  for (std::int64_t n = 8; n <= 640; n += 8) {  // more of them than plans are kept
    context c;
    build(c, n);
    const auto bound = memory.bind(&c.graph, &why);
    ASSERT_TRUE(bound) << why.text;
    EXPECT_FALSE(bound->planned) << n;
    const auto& t = c.graph.nodes;
    EXPECT_TRUE(apart(t[0], t[1]) && apart(t[1], t[2]) && apart(t[0], t[2])) << n;
  }
}

TEST_F(ggml_adapter, no_changed_graph_is_taken_for_the_last_one) {
  context weights;
  ggml_tensor* cache = weights.placed("cache", 640);
  for (int variant = 1; variant <= 8; ++variant) {
    ggml::allocator memory{&type};
    token_graph first{cache, 0}, again{cache, 0}, other{cache, 0, variant};
    ASSERT_TRUE(memory.reserve(&other.graph, &why)) << why.text;
    ASSERT_TRUE(memory.bind(&first.graph, &why)) << why.text;
    ggml::allocator fresh{&type};
    token_graph twin{cache, 0, variant};
    ASSERT_TRUE(fresh.bind(&twin.graph, &why)) << why.text;
    const auto bound = memory.bind(&other.graph, &why);
    if (!bound) {  // room was reserved for it, so that only memory that is somebody's without an address is refused
      ADD_FAILURE() << variant << ": " << why.text;
      continue;
    }
    EXPECT_EQ(bound->arena, fresh.size()) << variant;
    const auto at = [](const ggml::allocator&, const token_graph& g, const token_graph& of) {
      return static_cast<char*>(g.last->data) - static_cast<char*>(of.graph.nodes[0]->data);
    };
    EXPECT_EQ(at(memory, other, other), at(fresh, twin, twin)) << variant;
    ASSERT_TRUE(memory.bind(&again.graph, &why)) << why.text;
    EXPECT_EQ(again.last->data, first.last->data);
  }
}

TEST_F(ggml_adapter, bind_never_moves_the_buffer) {
  context small;
  small.op(GGML_OP_UNARY, "y", 32, {small.leaf("x", 32)});
  context large;
  large.op(GGML_OP_MUL_MAT, "y", 64, {large.leaf("x", 64)});
  ggml::allocator memory{&type};
  ASSERT_TRUE(memory.bind(&small.graph, &why)) << why.text;
  void* const at = small.graph.nodes[0]->data;
  const auto bound = memory.bind(&large.graph, &why);
  ASSERT_FALSE(bound);
  EXPECT_EQ(why.kind, fault_kind::over_budget);
  EXPECT_EQ(why.number, 512u);
  EXPECT_EQ(large.graph.nodes[0]->data, nullptr);
  EXPECT_EQ(small.graph.nodes[0]->data, at);
  EXPECT_TRUE(memory.reserve(&large.graph, &why)) << why.text;
  EXPECT_TRUE(memory.bind(&large.graph, &why)) << why.text;
}

TEST_F(ggml_adapter, no_memory_is_an_answer_with_its_bytes) {
  context c;
  c.op(GGML_OP_MUL_MAT, "y", 64, {c.leaf("x", 64)});
  type.most = 511;
  ggml::allocator memory{&type};
  const auto bound = memory.bind(&c.graph, &why);
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().code, errc::out_of_memory);
  EXPECT_EQ(why.number, 512u);
  type.most = 512;
  EXPECT_TRUE(memory.bind(&c.graph, &why)) << why.text;
}
}  // namespace

// Graphs of the stand-in for the tests of the drop-in.
#pragma once

#include <ggml-alloc.h>
#include <ggml-backend-impl.h>
#include <ggml-impl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace stand_in {

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
  // A tensor in a buffer of a backend.
  ggml_tensor* placed_in(ggml_backend_buffer_t buffer, const std::string& name, std::int64_t n, std::int64_t rows = 1) {
    ggml_tensor* t = leaf(name, n, rows);
    ggml_backend_tensor_alloc(buffer, t, buffer->base);
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

inline ggml_tensor* output(ggml_tensor* t) {
  t->flags |= GGML_TENSOR_FLAG_OUTPUT;
  return t;
}
inline ggml_tensor* input(ggml_tensor* t) {
  t->flags |= GGML_TENSOR_FLAG_INPUT;
  return t;
}

inline bool apart(const ggml_tensor* a, const ggml_tensor* b) {
  const auto* x = static_cast<const char*>(a->data);
  const auto* y = static_cast<const char*>(b->data);
  return x + ggml_nbytes(a) <= y || y + ggml_nbytes(b) <= x;
}

// Memory whose buffers check the order in which tensors are initialised.
inline ggml_backend_buffer_type memory_type(std::size_t max_size = SIZE_MAX, std::size_t most = SIZE_MAX) {
  return {{nullptr}, max_size, most, 0, 0, 0, 0, "stand-in", {stand_in_init_tensor, nullptr}};
}

struct free_allocator {
  void operator()(ggml_gallocr_t a) const { ggml_gallocr_free(a); }
};
using allocator = std::unique_ptr<ggml_gallocr, free_allocator>;

// A test that fails if a tensor was initialised out of order in it.
class in_order : public testing::Test {
 protected:
  ~in_order() override { EXPECT_EQ(stand_in_init_faults - faults_, 0); }

 private:
  int faults_ = stand_in_init_faults;
};

struct free_buffer {
  void operator()(ggml_backend_buffer_t b) const { ggml_backend_buffer_free(b); }
};
using buffer = std::unique_ptr<ggml_backend_buffer, free_buffer>;

// A graph as ggml's scheduler makes it: every second operator on the other backend, and copies between them. With
// several copies all of them are leafs.
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

}  // namespace stand_in

// A stand-in for ggml, for tests only: the few types and functions that berth/graph/adapters/ggml.hpp calls, with the
// checks that ggml makes there. It computes nothing and is no part of ggml.
#pragma once

#include <cstddef>
#include <cstdint>

#define GGML_MAX_DIMS 4
#define GGML_MAX_SRC 10
#define GGML_MAX_NAME 64

enum ggml_type { GGML_TYPE_F32, GGML_TYPE_F16 };
enum ggml_op { GGML_OP_NONE, GGML_OP_ADD, GGML_OP_MUL_MAT, GGML_OP_CPY, GGML_OP_VIEW, GGML_OP_RESHAPE, GGML_OP_UNARY };
enum ggml_tensor_flag { GGML_TENSOR_FLAG_INPUT = 1, GGML_TENSOR_FLAG_OUTPUT = 2 };
enum ggml_status { GGML_STATUS_FAILED = -1, GGML_STATUS_SUCCESS = 0 };

struct ggml_backend_buffer;

struct ggml_tensor {
  ggml_type type = GGML_TYPE_F32;
  ggml_backend_buffer* buffer = nullptr;
  std::int64_t ne[GGML_MAX_DIMS] = {1, 1, 1, 1};
  std::size_t nb[GGML_MAX_DIMS] = {4, 4, 4, 4};
  ggml_op op = GGML_OP_NONE;
  std::int32_t flags = 0;
  ggml_tensor* src[GGML_MAX_SRC] = {};
  ggml_tensor* view_src = nullptr;
  std::size_t view_offs = 0;
  void* data = nullptr;
  char name[GGML_MAX_NAME] = {};
};

struct ggml_cgraph;
int ggml_graph_n_nodes(ggml_cgraph* graph);
ggml_tensor* ggml_graph_node(ggml_cgraph* graph, int i);
std::size_t ggml_nbytes(const ggml_tensor* t);
const char* ggml_op_name(ggml_op op);

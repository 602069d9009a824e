// Tensor parallelism: plans made from the slices of each device, against the stand-in's meta backend.
#include <gtest/gtest.h>

#include "ggml_context.hpp"

namespace {

using namespace stand_in;

// A split layer between two mirrored ones.
struct layer : context {
  explicit layer(const char* weight, std::int64_t n = 4096) {
    ggml_tensor* const w = placed(weight, n);
    ggml_tensor* const x = op(GGML_OP_MUL_MAT, "x", {input(leaf("in", 64))});
    up = op(GGML_OP_MUL_MAT, "up", {x, w});
    up->ne[0] = n;
    up->nb[1] = up->nb[2] = up->nb[3] = static_cast<std::size_t>(4 * n);
    half = view("half", up, 1);
    act = op(GGML_OP_MUL_MAT, "act", {half});
  }
  ggml_tensor *up, *half, *act;
};

class berth_ggml_shards : public in_order {
 protected:
  berth_ggml_shards() {
    type.is_meta = true;
    type.of_buffers.init_tensor = stand_in_cut_tensor;
    memory.reset(ggml_gallocr_new(&type));
  }
  ggml_backend_buffer_type type = memory_type();
  allocator memory;
};

TEST_F(berth_ggml_shards, a_split_tensor_takes_the_bytes_of_its_largest_slice) {
  layer full{"mirrored"}, split{"split"};
  ASSERT_TRUE(ggml_gallocr_reserve(memory.get(), full.graph())) << stand_in_log;
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 0), 2u * 16384);
  memory.reset(ggml_gallocr_new(&type));
  ASSERT_TRUE(ggml_gallocr_reserve(memory.get(), split.graph())) << stand_in_log;
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 0), 2u * 8192);
  EXPECT_EQ(split.up->data, nullptr);
  EXPECT_EQ(split.half->buffer, nullptr);
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), split.graph())) << stand_in_log;
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 0), 2u * 8192);
  EXPECT_EQ(type.buffers, 1);
}

// The shapes are those of the plan, and the slices are not.
TEST_F(berth_ggml_shards, a_graph_that_is_split_otherwise_is_planned_again) {
  layer split{"split"}, full{"mirrored"};
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), split.graph())) << stand_in_log;
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), full.graph())) << stand_in_log;
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 0), 2u * 16384);
  EXPECT_GE(static_cast<char*>(full.act->data) - static_cast<char*>(full.up->data), 0);
  EXPECT_TRUE(apart(full.up, full.act));
}

TEST_F(berth_ggml_shards, a_smaller_graph_is_served_by_the_plan_of_the_slices) {
  layer worst{"split"};
  ASSERT_TRUE(ggml_gallocr_reserve(memory.get(), worst.graph())) << stand_in_log;
  const int plans = stand_in_plans;
  layer step{"split", 512};
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), step.graph())) << stand_in_log;
  EXPECT_EQ(stand_in_plans, plans);
}

}  // namespace

// Schedulers that share their memory through the drop-in, against the stand-in.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "berth/graph/adapters/ggml.h"
#include "ggml_context.hpp"

namespace {

using namespace stand_in;

// A graph of `length` nodes that needs about two of its tensors at once.
struct chain : context {
  explicit chain(std::int64_t n, int length = 3) {
    ggml_tensor* t = leaf("x", n);
    for (int i = 0; i < length; ++i) t = op(GGML_OP_MUL_MAT, "t", {t});
  }
};

// Memory whose buffers keep nothing of their tensors: only that is shared.
ggml_backend_buffer_type plain_memory() {
  ggml_backend_buffer_type made = memory_type();
  made.of_buffers = {};
  return made;
}

class berth_ggml_sharing : public in_order {
 protected:
  void TearDown() override {
    memory.reset();
    second.reset();
    EXPECT_EQ(type.buffers, 0);
    EXPECT_EQ(other_type.buffers, 0);
  }
  bool share() {
    ggml_backend_sched sched[] = {{memory.get()}, {second.get()}};
    const ggml_backend_sched_t both[] = {&sched[0], &sched[1]};
    return berth_ggml_share(both, 2);
  }
  ggml_backend_buffer_type type = plain_memory(), other_type = plain_memory();
  allocator memory{ggml_gallocr_new(&type)}, second{ggml_gallocr_new(&type)};
};

TEST_F(berth_ggml_sharing, graphs_that_take_turns_share_an_arena) {
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

TEST_F(berth_ggml_sharing, a_graph_computed_again_finds_its_memory_after_the_other_has_grown_the_arena) {
  chain a{64}, b{32};
  ASSERT_TRUE(ggml_gallocr_reserve(memory.get(), a.graph()));
  ASSERT_TRUE(ggml_gallocr_reserve(second.get(), b.graph()));
  ASSERT_TRUE(share()) << stand_in_log;
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), a.graph()));
  const auto result = [&] {
    std::fill_n(static_cast<float*>(a.leafs[0]->data), 64, 1.0f);
    stand_in_compute(a.graph());
    return *static_cast<float*>(a.nodes.back()->data);
  };
  const float right = result();
  for (int turn = 1; turn <= 3; ++turn) {
    chain larger{640 * turn};
    ASSERT_TRUE(ggml_gallocr_alloc_graph(second.get(), larger.graph())) << stand_in_log;
    EXPECT_EQ(type.buffers, 2) << turn;  // the first one's graph, and the newest
    EXPECT_EQ(result(), right);          // a use after free under a sanitizer
  }
  chain again{64};
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), again.graph()));
  EXPECT_EQ(type.buffers, 1);
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 0), type.taken);
}

TEST_F(berth_ggml_sharing, a_freed_allocator_gives_up_what_it_held) {
  chain a{64};
  ASSERT_TRUE(ggml_gallocr_reserve(second.get(), a.graph()));
  ASSERT_TRUE(share()) << stand_in_log;
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), a.graph()));
  chain larger{640};
  ASSERT_TRUE(ggml_gallocr_alloc_graph(second.get(), larger.graph()));
  EXPECT_EQ(type.buffers, 2);
  EXPECT_EQ(ggml_gallocr_get_buffer_size(second.get(), 0), 0u);
  memory.reset();
  EXPECT_EQ(type.buffers, 1);
  EXPECT_EQ(ggml_gallocr_get_buffer_size(second.get(), 0), type.taken);
}

// With several buffer types a known graph is served while the graph before may still run. Its old block stays until a
// reserve, for which the scheduler waits.
TEST_F(berth_ggml_sharing, an_old_block_of_several_types_stays_until_the_scheduler_has_waited) {
  ggml_backend_buffer_type_t types[] = {&type, &other_type};
  memory.reset(ggml_gallocr_new_n(types, 2));
  second.reset(ggml_gallocr_new_n(types, 2));
  const int homes[8] = {};
  const auto reserve = [&homes](const allocator& m, context& c) {
    return ggml_gallocr_reserve_n(m.get(), c.graph(), homes, homes);
  };
  ASSERT_TRUE(share()) << stand_in_log;
  chain a{64};
  ASSERT_TRUE(reserve(memory, a));
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), a.graph())) << stand_in_log;
  chain larger{640};
  ASSERT_TRUE(reserve(second, larger));
  ASSERT_TRUE(ggml_gallocr_alloc_graph(second.get(), larger.graph())) << stand_in_log;
  EXPECT_EQ(type.buffers, 2);
  chain again{64};
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), again.graph())) << stand_in_log;
  EXPECT_EQ(type.buffers, 2);
  chain last{64};
  ASSERT_TRUE(reserve(memory, last));
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), last.graph())) << stand_in_log;
  EXPECT_EQ(type.buffers, 1);
}

TEST_F(berth_ggml_sharing, without_memory_for_growth_all_is_as_before) {
  chain a{64};
  ASSERT_TRUE(share());
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), a.graph()));
  const std::size_t size = type.taken;
  type.most = size + 100;
  chain larger{640};
  EXPECT_FALSE(ggml_gallocr_alloc_graph(second.get(), larger.graph()));
  EXPECT_EQ(type.taken, size);
  stand_in_compute(a.graph());
  chain b{64};
  EXPECT_TRUE(ggml_gallocr_alloc_graph(second.get(), b.graph()));
}

// A reset for one graph would destroy what the backend keeps of the other's tensors.
TEST_F(berth_ggml_sharing, buffers_that_a_reset_empties_are_not_shared) {
  type.of_buffers.reset = [](ggml_backend_buffer_t) {};
  chain a{64};
  ASSERT_TRUE(ggml_gallocr_reserve(memory.get(), a.graph()));
  ASSERT_TRUE(ggml_gallocr_reserve(second.get(), a.graph()));
  EXPECT_FALSE(share());
  EXPECT_NE(std::string{stand_in_log}.find("until a reset"), std::string::npos) << stand_in_log;
  EXPECT_EQ(type.buffers, 2);
}

// ---- by the environment ----

class environment {
 public:
  explicit environment(const char* value) { setenv("BERTH_GGML_SHARE", value, 1); }
  ~environment() { unsetenv("BERTH_GGML_SHARE"); }
};

allocator schedulers(std::vector<ggml_backend_buffer_type_t> types) {
  return allocator{ggml_gallocr_new_n(types.data(), static_cast<int>(types.size()))};
}

TEST_F(berth_ggml_sharing, schedulers_of_a_process_share_if_the_environment_says_so) {
  const environment says{"process"};
  memory = schedulers({&type});
  second = schedulers({&type});
  chain a{64}, b{640};
  ASSERT_TRUE(ggml_gallocr_reserve(memory.get(), a.graph()));
  std::thread{[&] { EXPECT_TRUE(ggml_gallocr_reserve(second.get(), b.graph())); }}.join();
  EXPECT_EQ(type.buffers, 1);
  EXPECT_EQ(ggml_gallocr_get_buffer_size(memory.get(), 0), type.taken);
  EXPECT_EQ(ggml_gallocr_get_buffer_size(second.get(), 0), 0u);
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), a.graph()));
  ASSERT_TRUE(ggml_gallocr_alloc_graph(second.get(), b.graph()));
  EXPECT_EQ(a.leafs[0]->buffer, b.leafs[0]->buffer);
  const allocator own{ggml_gallocr_new(&type)};  // a program's own allocator is no scheduler's
  chain c{64};
  ASSERT_TRUE(ggml_gallocr_alloc_graph(own.get(), c.graph()));
  EXPECT_NE(c.leafs[0]->buffer, a.leafs[0]->buffer);
}

TEST_F(berth_ggml_sharing, schedulers_of_one_thread_share_if_the_environment_says_so) {
  const environment says{"thread"};
  memory = schedulers({&type});
  second = schedulers({&type});
  allocator third = schedulers({&type});
  chain a{64};
  ASSERT_TRUE(ggml_gallocr_reserve(memory.get(), a.graph()));
  ASSERT_TRUE(ggml_gallocr_reserve(second.get(), a.graph()));
  EXPECT_EQ(type.buffers, 1);
  std::thread{[&] { EXPECT_TRUE(ggml_gallocr_reserve(third.get(), a.graph())); }}.join();
  EXPECT_EQ(type.buffers, 2);
}

TEST_F(berth_ggml_sharing, only_the_named_buffer_types_are_shared) {
  const environment says{"process:absent,device"};
  type.name = "device";
  memory = schedulers({&type, &other_type});
  second = schedulers({&type, &other_type});
  chain a{64}, b{64};
  const int ids[] = {0, 1, 0}, leaf = 1;
  ASSERT_TRUE(ggml_gallocr_reserve_n(memory.get(), a.graph(), ids, &leaf));
  ASSERT_TRUE(ggml_gallocr_reserve_n(second.get(), b.graph(), ids, &leaf));
  EXPECT_EQ(type.buffers, 1);
  EXPECT_EQ(other_type.buffers, 2);
}

TEST_F(berth_ggml_sharing, a_value_that_is_not_understood_is_an_error_and_shares_nothing) {
  for (const char* value : {"all", "process:", "threads", ":device"}) {
    const environment says{value};
    stand_in_log[0] = '\0';
    memory = schedulers({&type});
    second = schedulers({&type});
    EXPECT_NE(std::string{stand_in_log}.find(value), std::string::npos) << stand_in_log;
    chain a{64};
    ASSERT_TRUE(ggml_gallocr_reserve(memory.get(), a.graph()));
    ASSERT_TRUE(ggml_gallocr_reserve(second.get(), a.graph()));
    EXPECT_EQ(type.buffers, 2);
  }
}

TEST_F(berth_ggml_sharing, buffers_that_a_reset_empties_stay_apart_whatever_the_environment_says) {
  const environment says{"process"};
  type.of_buffers.reset = [](ggml_backend_buffer_t) {};
  memory = schedulers({&type});
  second = schedulers({&type});
  chain a{64};
  ASSERT_TRUE(ggml_gallocr_reserve(memory.get(), a.graph()));
  ASSERT_TRUE(ggml_gallocr_reserve(second.get(), a.graph()));
  EXPECT_EQ(type.buffers, 2);
}

}  // namespace

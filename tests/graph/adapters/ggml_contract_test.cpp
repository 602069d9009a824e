// The contract between the drop-in, ggml's backends and ggml's scheduler, against the stand-in.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ggml_context.hpp"
#include "in_child.hpp"

namespace {

using namespace stand_in;

class berth_ggml_contract : public in_order {
 protected:
  ggml_backend_buffer_type type = memory_type();
  ggml_backend_buffer_type outside = memory_type();
  const buffer kept_in{ggml_backend_buft_alloc_buffer(&outside, 4096)};
  context weights;
  ggml_tensor* cache = weights.placed_in(kept_in.get(), "cache", 64, 16);
  allocator memory{ggml_gallocr_new(&type)};
};

// A write into a cache, and a read of it behind the write.
struct step : context {
  explicit step(ggml_tensor* cache) {
    ggml_tensor* k = op(GGML_OP_MUL_MAT, "k", {input(leaf("x", 64))});
    into = view("into", cache, 1, 3);
    stored = copy_into("stored", k, into);
    seen = view("seen", k, 1);
    y = op(GGML_OP_MUL_MAT, "y", {seen, view("past", cache, 4)});
  }
  ggml_tensor *into, *stored, *seen, *y;
};

// ---- init_tensor ----

TEST_F(berth_ggml_contract, each_tensor_is_initialised_once_and_behind_its_sources) {
  step s{cache};
  const int before = outside.inits;
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), s.graph())) << stand_in_log;
  EXPECT_EQ(type.inits, 4);  // x, k, seen, y
  EXPECT_EQ(outside.inits - before, 3);
  EXPECT_EQ(s.stored->buffer, kept_in.get());
  EXPECT_EQ(s.stored->data, static_cast<char*>(cache->data) + 3 * 256);
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), s.graph())) << stand_in_log;  // it has all
  EXPECT_EQ(outside.inits - before, 3);
}

TEST_F(berth_ggml_contract, a_plan_that_does_not_serve_the_graph_leaves_no_trace) {
  step first{cache};
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), first.graph()));
  step other{cache};
  other.y->op = GGML_OP_UNARY;  // the walk fails at the last node
  const int before = outside.inits;
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), other.graph())) << stand_in_log;
  EXPECT_EQ(outside.inits - before, 3);
}

TEST_F(berth_ggml_contract, reserve_calls_no_backend_and_changes_no_tensor) {
  for (int turn = 0; turn < 3; ++turn) {
    step s{cache};
    const int before = outside.inits;
    std::vector<void*> data;
    for (const ggml_tensor* t : s.nodes) data.push_back(t->data);
    ASSERT_TRUE(ggml_gallocr_reserve(memory.get(), s.graph())) << stand_in_log;
    EXPECT_EQ(outside.inits, before) << turn;
    EXPECT_EQ(type.inits, 0) << turn;
    for (std::size_t i = 0; i < s.nodes.size(); ++i) {
      EXPECT_EQ(s.nodes[i]->data, data[i]) << s.nodes[i]->name;
      EXPECT_EQ(s.nodes[i]->buffer, nullptr) << s.nodes[i]->name;
    }
  }
}

TEST_F(berth_ggml_contract, a_node_that_is_an_input_is_initialised_before_what_reads_it_earlier) {
  context c;
  ggml_tensor* late = input(c.op(GGML_OP_NONE, "late", {c.leaf("shape", 64)}));
  late->src[0] = nullptr;
  ggml_tensor* y = c.op(GGML_OP_MUL_MAT, "y", {late});
  std::swap(c.nodes[0], c.nodes[1]);
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph())) << stand_in_log;
    EXPECT_TRUE(apart(late, y));
    for (ggml_tensor* t : {late, y, c.leafs[0]}) t->data = nullptr, t->buffer = nullptr;
  }
  EXPECT_EQ(type.inits, 6);
}

TEST_F(berth_ggml_contract, a_leaf_that_shows_a_node_is_initialised_between_the_two) {
  context c;
  ggml_tensor* a = c.op(GGML_OP_MUL_MAT, "a", {c.leaf("x", 64)});
  ggml_tensor* seen = c.leaf("seen", 64);
  seen->view_src = a;
  c.op(GGML_OP_MUL_MAT, "y", {c.op(GGML_OP_MUL_MAT, "b", {a}), seen});
  EXPECT_TRUE(ggml_gallocr_alloc_graph(memory.get(), c.graph())) << stand_in_log;
  EXPECT_EQ(seen->data, a->data);
}

// ---- backends that fail ----

int calls_left = 0;

TEST_F(berth_ggml_contract, a_backend_that_refuses_a_tensor_leaves_the_graph_without_memory) {
  type.of_buffers.init_tensor = [](ggml_backend_buffer_t, ggml_tensor*) {
    return calls_left-- == 0 ? GGML_STATUS_FAILED : GGML_STATUS_SUCCESS;
  };
  const auto begin = [&] {
    ggml_backend_buffer_reset(kept_in.get());
    ASSERT_EQ(ggml_backend_buffer_init_tensor(kept_in.get(), cache), GGML_STATUS_SUCCESS);
  };
  for (int n = 0; n < 4; ++n) {
    begin();
    step s{cache};
    calls_left = n;
    EXPECT_FALSE(ggml_gallocr_alloc_graph(memory.get(), s.graph())) << n;
    EXPECT_NE(std::string{stand_in_log}.find("refused"), std::string::npos) << stand_in_log;
    EXPECT_EQ(s.y->data, nullptr);
    EXPECT_EQ(s.y->buffer, nullptr);
    EXPECT_EQ(s.into->buffer, nullptr);
  }
  begin();
  step s{cache};
  calls_left = 1000;
  EXPECT_TRUE(ggml_gallocr_alloc_graph(memory.get(), s.graph())) << stand_in_log;
}

TEST_F(berth_ggml_contract, a_buffer_smaller_than_asked_for_is_no_memory) {
  step small{cache};
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), small.graph()));
  const std::size_t size = ggml_gallocr_get_buffer_size(memory.get(), 0);
  context large;
  large.op(GGML_OP_MUL_MAT, "y", {large.leaf("x", 6400)});
  type.lacking = 32;
  EXPECT_FALSE(ggml_gallocr_reserve(memory.get(), large.graph()));
  EXPECT_NE(std::string{stand_in_log}.find("no stand-in buffer"), std::string::npos) << stand_in_log;
  type.lacking = 0;
  ASSERT_TRUE(ggml_gallocr_reserve(memory.get(), large.graph()));
  EXPECT_GT(ggml_gallocr_get_buffer_size(memory.get(), 0), size);
}

// ---- time ----

// Values of many sizes, each read some nodes later.
struct uneven : context {
  uneven() {
    std::mt19937 random{11};
    tensors made;
    for (int i = 0; i < 600; ++i) {
      const std::size_t back = 1 + random() % 48;
      ggml_tensor* const read = made.size() < back ? leaf("x", 8) : made[made.size() - back];
      ggml_tensor* const t = op(GGML_OP_MUL_MAT, "t", {read});
      t->ne[0] = 8 + static_cast<std::int64_t>(random() % 4000);
      t->nb[1] = t->nb[2] = t->nb[3] = static_cast<std::size_t>(4 * t->ne[0]);
      made.push_back(t);
    }
  }
};

TEST_F(berth_ggml_contract, reserve_searches_as_long_as_the_environment_allows) {
  const auto bytes_within = [&](const char* ms) {
    setenv("BERTH_GGML_RESERVE_MS", ms, 1);
    memory.reset(ggml_gallocr_new(&type));
    uneven g;
    EXPECT_TRUE(ggml_gallocr_reserve(memory.get(), g.graph())) << stand_in_log;
    unsetenv("BERTH_GGML_RESERVE_MS");
    return ggml_gallocr_get_buffer_size(memory.get(), 0);
  };
  EXPECT_GT(bytes_within("0"), bytes_within("100000"));
  stand_in_log[0] = '\0';
  (void)bytes_within("2s");
  EXPECT_NE(std::string{stand_in_log}.find("2s"), std::string::npos) << stand_in_log;
}

// ---- several buffer types ----

class berth_ggml_homes : public in_order {
 protected:
  bool reserve(split_graph& g) {
    return ggml_gallocr_reserve_n(memory.get(), g.graph(), g.node_ids.data(), g.leaf_ids.data());
  }
  bool serves(split_graph&& g) { return ggml_gallocr_alloc_graph(memory.get(), g.graph()); }
  ggml_backend_buffer_type type[2] = {memory_type(), memory_type()};
  ggml_backend_buffer_type_t types[2] = {&type[0], &type[1]};
  allocator memory{ggml_gallocr_new_n(types, 2)};
};

TEST_F(berth_ggml_homes, a_known_shorter_graph_is_served_without_reserve) {
  split_graph shorter{2, 1, 0}, longer{5, 1, 0};
  ASSERT_TRUE(reserve(shorter));
  ASSERT_TRUE(reserve(longer));
  EXPECT_TRUE(serves({5, 1, 0}));
  const int plans = stand_in_plans;
  split_graph g{2, 1, 0};
  ASSERT_TRUE(ggml_gallocr_alloc_graph(memory.get(), g.graph())) << stand_in_log;
  for (std::size_t i = 0; i < g.nodes.size(); ++i) EXPECT_EQ(g.nodes[i]->buffer->buft, types[g.node_ids[i]]) << i;
  EXPECT_EQ(stand_in_plans, plans);
  EXPECT_FALSE(serves({5, 1, 0}));  // the homes of its last nodes are not certain: both types had these positions
}

// All nodes behind the first ones lie in the first type, which is where a scheduler's table begins.
TEST_F(berth_ggml_homes, a_known_longer_graph_is_served_if_its_last_homes_never_changed) {
  const auto chain = [](context& c, int length) {
    ggml_tensor* t = c.leaf("x", 64);
    for (int i = 0; i < length; ++i) t = c.op(GGML_OP_MUL_MAT, "t", {t});
  };
  const auto reserve_chain = [&](int length, int last) {
    context c;
    chain(c, length);
    std::vector<int> ids(static_cast<std::size_t>(length), 0);
    ids[0] = 1;
    ids.back() = last;
    const int leaf = 1;
    return ggml_gallocr_reserve_n(memory.get(), c.graph(), ids.data(), &leaf);
  };
  const auto serves_chain = [&](int length) {
    context c;
    chain(c, length);
    return ggml_gallocr_alloc_graph(memory.get(), c.graph());
  };
  ASSERT_TRUE(reserve_chain(6, 0));
  ASSERT_TRUE(reserve_chain(3, 0));
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_TRUE(serves_chain(6)) << turn;
    EXPECT_TRUE(serves_chain(3)) << turn;
  }
  ASSERT_TRUE(reserve_chain(6, 1));  // from now on the sixth node has had two homes
  ASSERT_TRUE(reserve_chain(3, 0));
  EXPECT_FALSE(serves_chain(6));
  EXPECT_FALSE(serves_chain(5));  // no plan
}

// The copies that work under way may read must not move.
TEST_F(berth_ggml_homes, a_known_graph_whose_copies_lie_elsewhere_is_left_to_reserve) {
  split_graph shorter{2, 4, 0}, longer{5, 4, 0};
  ASSERT_TRUE(reserve(shorter));
  ASSERT_TRUE(reserve(longer));
  EXPECT_TRUE(serves({5, 4, 1}));
  EXPECT_FALSE(serves({2, 4, 2}));
}

// ---- another ggml ----

TEST(berth_ggml_version, a_ggml_of_another_version_is_served_by_its_own_allocator) {
  DEATHS_IN_A_PROGRAM_STARTED_ANEW();
  const auto serve = [](const char* version, const char* says) {
    stand_in_version = version;
    ggml_backend_buffer_type type = memory_type();
    type.of_buffers = {};
    const allocator a{ggml_gallocr_new(&type)};
    const bool said = std::strstr(stand_in_log, says) != nullptr;
    context c;
    ggml_tensor* t = c.leaf("x", 64);
    for (int i = 0; i < 4; ++i) t = c.op(GGML_OP_UNARY, "t", {t});
    const bool served = ggml_gallocr_alloc_graph(a.get(), c.graph());
    const bool reuses = c.nodes[0]->data == c.nodes[3]->data;
    std::exit(!said ? 10 : !served ? 11 : reuses ? 1 : 0);
  };
  EXPECT_EXIT(serve("1.2.4", "compiled for ggml 1.2.3, and this is ggml 1.2.4: not used"), testing::ExitedWithCode(0),
              "");
  EXPECT_EXIT(serve("1.2.3", "allocates ggml's graphs, compiled for ggml 1.2.3"), testing::ExitedWithCode(1), "");
}

}  // namespace

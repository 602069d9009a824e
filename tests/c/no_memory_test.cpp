// The C interface where operator new fails: at each place once, and from each place on. Every function gives a status,
// which is BERTH_NO_MEMORY where it fails, and keeps nothing of what it could not finish.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include "berth/c/scratch.h"
#include "berth/guided_pool.h"
#include "berth/onnxruntime.h"
#include "berth/plan.h"
#include "berth/recorder.h"
#include "berth/torch.h"
#include "c/onnxruntime_slots.hpp"
#include "c/sized.hpp"
#include "support/failing_new.hpp"
#include "support/sanitizers.hpp"
#ifdef BERTH_WITH_OPERATORS
#include "berth/op.h"
#endif

namespace {

using berth::support::fail_new_after;
using berth::support::new_fails;
using berth::support::sized;

// One pass over calls of which at most one may fail.
class pass {
 public:
  // Returns whether to go on. From the first failure on there is memory again, so that all can be given back.
  bool operator()(berth_status status) {
    if (status == BERTH_OK) return true;
    ran_out = fail_new_after(0) || ran_out;
    failed_ = status;
    std::snprintf(text_.data(), text_.size(), "%s", berth_error_text());  // no memory of its own
    return false;
  }
  bool ran_out = false;
  void judge() const {
    EXPECT_TRUE(failed_ == BERTH_OK || failed_ == BERTH_NO_MEMORY) << failed_ << ": " << text_.data();
  }

 private:
  berth_status failed_ = BERTH_OK;
  std::array<char, 256> text_{};
};

// Returns the number of allocations alive after a pass without failures.
long alive_after(void (*scenario)(pass&)) {
  {
    pass whole;
    scenario(whole);
    whole.judge();
  }
  return berth::support::news_alive;
}

// A sanitizer or an emulator has each third place: each takes some thirty times as long there.
constexpr long every = berth::support::sanitized || berth::support::emulated ? 3 : 1;

// Once with whatever a process makes for its first call, and once more to see that all comes back.
void fail_each(void (*scenario)(pass&)) {
  for (const bool first_time : {true, false}) {
    const long before = first_time ? 0 : alive_after(scenario);
    for (const new_fails how : {new_fails::once, new_fails::from_then_on}) {
      bool failed = true;
      for (long n = 1; failed; n += every) {
        pass now;
        fail_new_after(n, how);
        scenario(now);
        failed = fail_new_after(0) || now.ran_out;
        now.judge();
        if (!first_time) {
          EXPECT_EQ(alive_after(scenario), before);
        }
        ASSERT_FALSE(testing::Test::HasFailure()) << "new " << n << (how == new_fails::once ? "" : " and all after it");
      }
    }
  }
}

void plans(pass& go_on, const berth_solve_options& options) {
  berth_problem* problem = nullptr;
  berth_plan *plan = nullptr, *again = nullptr;
  constexpr std::array<std::uint64_t, 4> sizes{10, 20, 30, 40};
  constexpr std::array<std::int64_t, 4> lower{0, 1, 2, 3}, upper{2, 3, 4, 5};
  constexpr std::uint32_t apart[1][2] = {{0, 3}};
  constexpr berth_interval twice[2] = {{0, 1}, {4, 5}};
  auto buffer = sized<berth_buffer>();
  buffer.size = 5;
  buffer.lifetimes = twice;
  buffer.lifetime_count = 2;
  auto memory = sized<berth_memory>();
  auto summary = sized<berth_plan_summary>();
  std::array<std::uint64_t, 5> offsets{};
  (void)(go_on(berth_problem_create(nullptr, &problem)) &&
         go_on(berth_problem_add_many(problem, sizes.size(), sizes.data(), lower.data(), upper.data())) &&
         go_on(berth_problem_add(problem, &buffer, nullptr)) &&
         go_on(berth_problem_add_separations(problem, apart, 1)) &&
         go_on(berth_problem_add_reuse_penalty(problem, 1, 3, 1.0)) &&
         go_on(berth_problem_add_memory(problem, &memory, nullptr)) && go_on(berth_problem_validate(problem)) &&
         go_on(berth_solve(problem, &options, &plan)) && go_on(berth_plan_summarize(plan, &summary)) &&
         go_on(berth_plan_offsets(plan, offsets.data(), offsets.size())) &&
         go_on(berth_verify(problem, offsets.data(), nullptr, nullptr, offsets.size())) &&
         go_on(berth_plan_check_bound(plan, problem)) &&
         go_on(berth_replan(problem, &options, offsets.data(), offsets.size(), &again, nullptr)) &&
         go_on(berth_problem_add_conflicts(problem, apart, 1)));
  berth_plan_destroy(again);
  berth_plan_destroy(plan);
  berth_problem_destroy(problem);
}

TEST(c_no_memory, plan) {
  fail_each([](pass& go_on) {
    auto options = sized<berth_solve_options>();
    options.effort = BERTH_EFFORT_FAST;
    plans(go_on, options);
  });
}

// On a thread of its own.
TEST(c_no_memory, plan_with_progress) {
  fail_each([](pass& go_on) {
    auto options = sized<berth_solve_options>();
    options.effort = BERTH_EFFORT_FAST;
    options.progress = [](void*, std::uint64_t, std::uint64_t, std::uint64_t) { return 0; };
    constexpr std::array<std::uint64_t, 4> sizes{10, 20, 30, 40};
    constexpr std::array<std::int64_t, 4> lower{0, 1, 2, 3}, upper{2, 3, 4, 5};
    berth_problem* problem = nullptr;
    berth_plan* plan = nullptr;
    (void)(go_on(berth_problem_create(nullptr, &problem)) &&
           go_on(berth_problem_add_many(problem, sizes.size(), sizes.data(), lower.data(), upper.data())) &&
           go_on(berth_solve(problem, &options, &plan)));
    berth_plan_destroy(plan);
    berth_problem_destroy(problem);
  });
}

// Below what the host has: an emulator notes each page of the addresses that a pool keeps for itself.
berth_pool_options small_pool() {
  auto options = sized<berth_pool_options>();
  options.limit = 64 << 20;
  return options;
}

struct handles {
  berth_device* device = nullptr;
  berth_stream* stream = nullptr;
  berth_pool* pool = nullptr;
  void* block = nullptr;

  handles() = default;
  handles(const handles&) = delete;
  handles& operator=(const handles&) = delete;
  ~handles() {
    if (block != nullptr) {
      EXPECT_EQ(berth_pool_free(pool, block), BERTH_OK);
    }
    berth_pool_destroy(pool);
    berth_stream_destroy(stream);
    berth_device_close(device);
  }
  bool open(pass& go_on) {
    return go_on(berth_device_open("host", &device)) && go_on(berth_stream_create(device, &stream));
  }
  bool open_with_pool(pass& go_on) {
    const berth_pool_options options = small_pool();
    return open(go_on) && go_on(berth_pool_create(device, &options, &pool));
  }
  bool take(pass& go_on, std::uint64_t size) { return go_on(berth_pool_allocate(pool, size, stream, &block)); }
  bool give_back(pass& go_on) { return go_on(berth_pool_free(pool, std::exchange(block, nullptr))); }
};

TEST(c_no_memory, stream) {
  fail_each([](pass& go_on) {
    std::array<unsigned char, 64> from{}, to{};  // before the stream, whose end waits for what was enqueued
    handles of;
    berth_stream *other = nullptr, *same = nullptr;
    void* native = nullptr;
    int done = 0;
    (void)(of.open(go_on) && go_on(berth_stream_create(of.device, &other)) &&
           go_on(berth_stream_native(other, &native)) && go_on(berth_stream_wrap(of.device, native, &same)) &&
           go_on(berth_stream_fill(of.stream, from.data(), 7, from.size())) &&
           go_on(berth_stream_copy(of.stream, to.data(), from.data(), to.size())) &&
           go_on(berth_stream_call(
               of.stream, [](void*) {}, nullptr)) &&
           go_on(berth_stream_wait_for(of.stream, other)) && go_on(berth_stream_query(of.stream, &done)) &&
           go_on(berth_stream_synchronize(of.stream)));
    berth_stream_destroy(same);
    berth_stream_destroy(other);
  });
}

TEST(c_no_memory, pool) {
  fail_each([](pass& go_on) {
    handles of;
    berth_stream* other = nullptr;
    std::uint64_t size = 0;
    std::array<char, 64> text{};
    auto statistics = sized<berth_pool_statistics>();
    (void)(of.open_with_pool(go_on) && of.take(go_on, 1000) && go_on(berth_pool_size_of(of.pool, of.block, &size)) &&
           of.give_back(go_on) && of.take(go_on, 1000) && go_on(berth_stream_create(of.device, &other)) &&
           go_on(berth_pool_use_on(of.pool, of.block, other)) && of.give_back(go_on) &&
           go_on(berth_pool_trim(of.pool, 0, nullptr)) &&
           go_on(berth_pool_allocate_aligned(of.pool, 100, 4096, of.stream, &of.block)) && of.give_back(go_on) &&
           go_on(berth_pool_report(of.pool, text.data(), text.size(), nullptr)) &&
           go_on(berth_pool_statistics_of(of.pool, &statistics)) &&
           go_on(berth_pool_out_of_memory_report(of.pool, text.data(), text.size(), nullptr)));
    berth_stream_destroy(other);
  });
}

TEST(c_no_memory, guided_pool) {
  fail_each([](pass& go_on) {
    handles of;
    auto statistics = sized<berth_guided_pool_statistics>();
    const berth_pool_options options = small_pool();
    bool goes = of.open(go_on) && go_on(berth_guided_pool_create(of.device, &options, nullptr, &of.pool));
    for (int step = 0; step < 3; ++step) {
      goes = goes && go_on(berth_guided_pool_begin_step(of.pool)) && of.take(go_on, 1000) && of.give_back(go_on) &&
             of.take(go_on, 3000) && of.give_back(go_on);
    }
    (void)(goes && go_on(berth_guided_pool_statistics_of(of.pool, &statistics)) &&
           go_on(berth_guided_pool_relearn(of.pool)));
  });
}

const std::string snapshot = testing::TempDir() + "c_no_memory.json";

TEST(c_no_memory, recorder) {
  fail_each([](pass& go_on) {
    handles of;
    berth_recorder* recorder = nullptr;
    size_t blocks = 0;
    std::uint64_t bytes = 0, dropped = 0;
    std::array<char, 64> text{};
    (void)(go_on(berth_recorder_create(1 << 20, &recorder)) && go_on(berth_recorder_start(recorder)) &&
           of.open_with_pool(go_on) && of.take(go_on, 1000) && go_on(berth_recorder_leaks(recorder, &blocks, &bytes)) &&
           go_on(berth_recorder_leak_report(recorder, text.data(), text.size(), nullptr)) && of.give_back(go_on) &&
           go_on(berth_recorder_stop(recorder)) && go_on(berth_recorder_dropped(recorder, &dropped)) &&
           go_on(berth_recorder_write(recorder, of.pool, snapshot.c_str())));
    berth_recorder_destroy(recorder);
    std::remove(snapshot.c_str());
  });
}

// Its slots answer without a status: a null is no memory there.
using slots = berth::support::onnxruntime_slots;

TEST(c_no_memory, onnxruntime) {
  fail_each([](pass& go_on) {
    handles of;
    OrtAllocator* made = nullptr;
    auto options = sized<berth_onnxruntime_options>();
    options.api_version = 25;
    options.info = reinterpret_cast<const OrtMemoryInfo*>(&of);
    options.create_pairs = [](OrtKeyValuePairs** out) { *out = reinterpret_cast<OrtKeyValuePairs*>(out); };
    options.add_pair = [](OrtKeyValuePairs*, const char*, const char*) {};
    auto counts = sized<berth_onnxruntime_counts>();
    if (of.open_with_pool(go_on) && go_on(berth_onnxruntime_create(of.pool, of.stream, &options, &made))) {
      auto* const engine = reinterpret_cast<slots*>(made);
      OrtKeyValuePairs* pairs = nullptr;
      for (auto* const ask : {engine->alloc, engine->reserve}) {
        if (void* const block = ask(engine, 1000)) engine->free(engine, block);
      }
      EXPECT_EQ(engine->get_stats(engine, &pairs), nullptr);
      EXPECT_EQ(engine->shrink(engine), nullptr);
      EXPECT_EQ(berth_onnxruntime_counts_of(made, &counts), BERTH_OK);
      EXPECT_EQ(counts.allocations, counts.frees);
      EXPECT_EQ(berth_onnxruntime_destroy(made, nullptr), BERTH_OK);
    }
  });
}

// A null is no memory here too.
TEST(c_no_memory, scratch) {
  fail_each([](pass&) {
    void* const block = berth_scratch_allocate(1, size_t{1} << 20);
    void* const further = berth_scratch_allocate_aligned(1, size_t{1} << 20, 4096);
    berth_scratch_free(further);
    berth_scratch_free(block);
    berth_scratch_trim();
  });
}

TEST(c_no_memory, torch) {
  fail_each([](pass& go_on) {
    auto statistics = sized<berth_pool_statistics>();
    (void)go_on(static_cast<berth_status>(berth_torch_statistics(berth_torch_host, &statistics)));
  });
}

#ifdef BERTH_WITH_OPERATORS
TEST(c_no_memory, operators) {
  fail_each([](pass& go_on) {
    std::array<float, 8> x{3, 1, 4, 1, 5, 9, 2, 6}, y{};
    alignas(64) std::array<unsigned char, 4096> workspace{};
    handles of;
    berth_tensor *a = nullptr, *b = nullptr;
    berth_executor* executor = nullptr;
    constexpr std::array<std::int64_t, 2> shape{2, 4};
    std::uint64_t size = 0;
    std::array<std::int64_t, 8> dimensions{};
    size_t rank = 0;
    std::int32_t type = 0;
    auto attribute = sized<berth_attribute>();
    attribute.name = "perm";
    attribute.kind = BERTH_ATTRIBUTE_INTEGERS;
    constexpr std::array<std::int64_t, 2> turned{1, 0};
    attribute.integers = turned.data();
    attribute.count = turned.size();
    constexpr std::array<std::int64_t, 2> of_result{4, 2};
    if (of.open(go_on) &&
        go_on(berth_tensor_create(BERTH_F32, shape.data(), shape.size(), nullptr, x.data(), sizeof x, &a)) &&
        go_on(berth_tensor_create(BERTH_F32, of_result.data(), of_result.size(), nullptr, y.data(), sizeof y, &b))) {
      const berth_tensor* const in[] = {a};
      (void)(go_on(berth_op_infer("Transpose", in, 1, &attribute, 1, 1, 0, &type, dimensions.data(), dimensions.size(),
                                  &rank)) &&
             go_on(berth_op_workspace_size(nullptr, "Transpose", in, 1, &attribute, 1, &b, 1, &size, &executor)) &&
             go_on(berth_op_run(workspace.data(), workspace.size(), executor, of.stream)) &&
             go_on(berth_tensor_set_data(a, x.data(), sizeof x)) &&
             go_on(berth_op_run(workspace.data(), workspace.size(), executor, of.stream)));
    }
    berth_executor_destroy(executor);
    berth_tensor_destroy(b);
    berth_tensor_destroy(a);
  });
}
#endif

}  // namespace

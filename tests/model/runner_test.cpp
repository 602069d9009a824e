// A runner meets work that is queued on its stream when it is made, and when it goes.
#include "berth/model/runner.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "berth/model/builtin.hpp"
#include "pool/gate.hpp"
#include "pool/telling_device.hpp"

namespace {

using namespace berth;

// The stream's work waits until somebody asks how far it is.
class runner : public testing::Test {
 protected:
  void hold() {
    waited_ = false;
    late_ = std::make_unique<support::gate>();
    late_->hold(queue_);
    backend_->asked = [this](std::uint32_t) {
      waited_ = true;
      late_->open();
    };
  }
  void let_go() {
    backend_->asked = [](std::uint32_t) {};
    late_->open();
    ASSERT_TRUE(queue_.synchronize());
  }
  [[nodiscard]] model::runner made() {
    return model::runner::create(model::lower(*model::builtin("builtin:transformer")), memory_, queue_).value();
  }
  [[nodiscard]] static std::vector<std::byte> weights_of(const model::runner& r) {
    std::vector<std::byte> all;
    for (const auto& c : r.get_program().constants) {
      const auto* const at = static_cast<const std::byte*>(r.constant_address(c.value));
      all.insert(all.end(), at, at + r.get_program().graph[c.value].size);
    }
    return all;
  }

  std::shared_ptr<support::telling_backend> backend_ = std::make_shared<support::telling_backend>(device::host());
  pool memory_{device{backend_}};
  std::unique_ptr<support::gate> late_;
  stream queue_{device{backend_}};
  bool waited_ = false;
};

TEST_F(runner, takes_memory_that_its_last_owner_still_writes) {
  constexpr bytes size = bytes{64} << 20;  // for all of it, so that it lies where this one lay
  void* const before = memory_.allocate_raw(size, queue_).value();
  hold();
  ASSERT_TRUE(queue_.fill(before, std::byte{0xff}, size));
  memory_.free(before);
  model::runner r = made();
  const model::program& p = r.get_program();
  ASSERT_GE(r.constant_address(p.constants[0].value), before);
  ASSERT_LT(r.constant_address(p.constants[0].value), static_cast<std::byte*>(before) + size);
  const std::vector<std::byte> weights = weights_of(r);
  const bytes input = p.graph[p.inputs[0].value].size;
  std::memset(r.input_bytes(0), 1, input);
  let_go();
  EXPECT_TRUE(weights_of(r) == weights);
  const auto* const in = static_cast<const std::byte*>(r.input_bytes(0));
  EXPECT_TRUE(std::vector(in, in + input) == std::vector(input, std::byte{1}));
}

TEST_F(runner, waits_for_its_runs_where_another_takes_its_place) {
  model::runner r = made(), next = made();
  hold();
  ASSERT_TRUE(r.run());
  r = std::move(next);
  EXPECT_TRUE(waited_);
  let_go();
  EXPECT_TRUE(r.run());
}

}  // namespace

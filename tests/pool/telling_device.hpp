// A device that calls back before it asks a stream how far it is. A stream's queue may be full, so that the question
// waits for the work at its head. On demand the host does not reach its memory, so that it is read through a stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <utility>

#include "support/faulty_device.hpp"

namespace berth::support {

class telling_backend final : public faulty_backend {
 public:
  explicit telling_backend(berth::device inner, bool host_reaches = true) : faulty_backend{std::move(inner)} {
    properties_.host_accessible &= host_reaches;
    heal();
  }
  std::function<void(std::uint32_t id)> asked = [](std::uint32_t) {};
  bool out_of_host_memory = false;  // at the next stream
  result<std::unique_ptr<detail::backend_queue>> create_queue(std::shared_ptr<stream_clock> clock) override;
};

class telling_queue final : public detail::backend_queue {
 public:
  telling_queue(telling_backend& owner, std::uint32_t id, std::unique_ptr<backend_queue> inner)
      : owner_{owner}, id_{id}, inner_{std::move(inner)} {}
  result<void> copy(void* to, const void* from, bytes size) override { return inner_->copy(to, from, size); }
  result<void> fill(void* to, std::byte value, bytes size) override { return inner_->fill(to, value, size); }
  result<void> call(void (*function)(void*), void* context) override { return inner_->call(function, context); }
  result<void> record(detail::backend_event& e, std::uint64_t epoch) override {
    owner_.asked(id_);
    return inner_->record(e, epoch);
  }
  result<void> wait(detail::backend_event& e) override { return inner_->wait(e); }
  result<void> synchronize() override {
    owner_.asked(id_);
    return inner_->synchronize();
  }
  result<bool> query() override {
    owner_.asked(id_);
    return inner_->query();
  }
  [[nodiscard]] bool idle() const noexcept override { return inner_->idle(); }

 private:
  telling_backend& owner_;
  std::uint32_t id_;
  std::unique_ptr<backend_queue> inner_;
};

inline result<std::unique_ptr<detail::backend_queue>> telling_backend::create_queue(
    std::shared_ptr<stream_clock> clock) {
  if (out_of_host_memory) throw std::bad_alloc{};
  const std::uint32_t id = clock->id();
  auto queue = faulty_backend::create_queue(std::move(clock));
  if (!queue) return queue;
  return std::unique_ptr<detail::backend_queue>{std::make_unique<telling_queue>(*this, id, std::move(*queue))};
}

}  // namespace berth::support

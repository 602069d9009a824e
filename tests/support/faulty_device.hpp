// A device that fails on demand: wraps any device and fails the n-th call that can fail.
//
//   auto faulty = support::make_faulty(device::host());
//   pool p{faulty.device, ...};
//   faulty->fail({.nth = 3});               // the third call from now
//
// Counts allocate, reserve, create_physical, map, unmap, the creation of streams and events, every enqueue, and
// synchronize and query of both. A call that fails does not reach the device, except synchronize, which waits first. A
// late fault lets an enqueue through and reports its error at the stream's next call. Real devices do so with work that
// fails after it was enqueued.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "berth/device/device.hpp"
#include "device/backend.hpp"

namespace berth::support {

struct fault {
  std::uint64_t nth = 1;    // 1: the next call
  std::uint64_t count = 1;  // how many calls in a row fail
  errc code = errc::device_failed;
  bool late = false;
};

class faulty_backend : public detail::device_backend {
 public:
  explicit faulty_backend(device inner) : inner_{std::move(inner)} { properties_ = inner_.properties(); }

  void fail(const fault& f) {
    const std::lock_guard lock{mutex_};
    fault_ = f;
    calls_ = 0;
  }
  void heal() { fail({.nth = std::numeric_limits<std::uint64_t>::max()}); }
  // Calls that can fail, since the last fail() or heal().
  [[nodiscard]] std::uint64_t calls() const {
    const std::lock_guard lock{mutex_};
    return calls_;
  }

  result<void*> allocate(bytes size, memory_kind kind) override {
    if (auto f = due()) return injected(*f, size);
    return backend().allocate(size, kind);
  }
  void free(void* block, bytes size, memory_kind kind) noexcept override { backend().free(block, size, kind); }
  void* host_address(void* address, memory_kind kind) noexcept override {
    return backend().host_address(address, kind);
  }
  bool reaches_foreign_memory() const noexcept override { return inner_.backend().reaches_foreign_memory(); }
  bytes unlocked() const noexcept override { return inner_.backend().unlocked(); }
  result<void*> reserve(bytes size) override {
    if (auto f = due()) return injected(*f, size);
    return backend().reserve(size);
  }
  void release(void* address, bytes size) noexcept override { backend().release(address, size); }
  result<std::uint64_t> create_physical(bytes size, physical_form form) override {
    if (auto f = due()) return injected(*f, size);
    return backend().create_physical(size, form);
  }
  void destroy_physical(std::uint64_t handle, bytes size) noexcept override {
    backend().destroy_physical(handle, size);
  }
  result<std::uint64_t> split_physical(std::uint64_t handle, bytes size, bytes at) override {
    if (auto f = due()) return injected(*f, size);
    return backend().split_physical(handle, size, at);
  }
  result<void> map(void* address, bytes size, std::uint64_t handle, bytes offset) override {
    if (auto f = due()) return injected(*f, size);
    return backend().map(address, size, handle, offset);
  }
  result<void> unmap(void* address, bytes size) override {
    if (auto f = due()) return injected(*f, size);
    return backend().unmap(address, size);
  }
  result<std::unique_ptr<detail::backend_queue>> create_queue(std::shared_ptr<stream_clock> clock) override;
  result<std::unique_ptr<detail::backend_queue>> wrap_queue(void* native, std::shared_ptr<stream_clock> clock) override;
  result<std::unique_ptr<detail::backend_event>> create_event() override;
  [[nodiscard]] void* native() const noexcept override { return inner_.native(); }

  // The fault, where this call is to fail.
  std::optional<fault> due() {
    const std::lock_guard lock{mutex_};
    ++calls_;
    if (calls_ < fault_.nth || calls_ - fault_.nth >= fault_.count) return std::nullopt;
    return fault_;
  }
  static error injected(const fault& f, std::uint64_t number = 0) { return {f.code, "injected fault", number}; }

 private:
  detail::device_backend& backend() const noexcept { return inner_.backend(); }

  device inner_;
  mutable std::mutex mutex_;
  fault fault_{.nth = std::numeric_limits<std::uint64_t>::max()};
  std::uint64_t calls_ = 0;
};

class faulty_event final : public detail::backend_event {
 public:
  faulty_event(faulty_backend& owner, std::unique_ptr<backend_event> inner) : owner_{owner}, inner_{std::move(inner)} {}
  result<bool> query() override {
    if (auto f = owner_.due()) return faulty_backend::injected(*f);
    return inner_->query();
  }
  result<void> synchronize() override {
    auto done = inner_->synchronize();
    if (auto f = owner_.due()) return faulty_backend::injected(*f);
    return done;
  }
  [[nodiscard]] backend_event& inner() const noexcept { return *inner_; }

 private:
  faulty_backend& owner_;
  std::unique_ptr<backend_event> inner_;
};

class faulty_queue final : public detail::backend_queue {
 public:
  faulty_queue(faulty_backend& owner, std::unique_ptr<backend_queue> inner) : owner_{owner}, inner_{std::move(inner)} {}

  result<void> copy(void* to, const void* from, bytes size) override {
    return enqueue([&] { return inner_->copy(to, from, size); });
  }
  result<void> fill(void* to, std::byte value, bytes size) override {
    return enqueue([&] { return inner_->fill(to, value, size); });
  }
  result<void> call(void (*function)(void*), void* context) override {
    return enqueue([&] { return inner_->call(function, context); });
  }
  result<void> record(detail::backend_event& e, std::uint64_t epoch) override {
    return enqueue([&] { return inner_->record(static_cast<faulty_event&>(e).inner(), epoch); });
  }
  result<void> wait(detail::backend_event& e) override {
    return enqueue([&] { return inner_->wait(static_cast<faulty_event&>(e).inner()); });
  }
  result<void> synchronize() override {
    auto done = inner_->synchronize();
    if (const auto pending = take_pending()) return *pending;
    if (auto f = owner_.due()) return faulty_backend::injected(*f);
    return done;
  }
  result<bool> query() override {
    if (const auto pending = take_pending()) return *pending;
    if (auto f = owner_.due()) return faulty_backend::injected(*f);
    return inner_->query();
  }
  [[nodiscard]] bool idle() const noexcept override { return inner_->idle(); }

  [[nodiscard]] void* native() const noexcept override { return inner_->native(); }

 private:
  template <class Operation>
  result<void> enqueue(Operation operation) {
    if (const auto pending = take_pending()) return *pending;
    const auto f = owner_.due();
    if (f && !f->late) return faulty_backend::injected(*f);
    if (f) {
      const std::lock_guard lock{mutex_};
      pending_ = faulty_backend::injected(*f);
    }
    return operation();
  }
  std::optional<error> take_pending() {
    const std::lock_guard lock{mutex_};
    return std::exchange(pending_, std::nullopt);
  }

  faulty_backend& owner_;
  std::unique_ptr<backend_queue> inner_;
  std::mutex mutex_;  // guards what follows
  std::optional<error> pending_;
};

inline result<std::unique_ptr<detail::backend_queue>> faulty_backend::create_queue(
    std::shared_ptr<stream_clock> clock) {
  if (auto f = due()) return injected(*f);
  auto queue = backend().create_queue(std::move(clock));
  if (!queue) return queue;
  return std::unique_ptr<detail::backend_queue>{std::make_unique<faulty_queue>(*this, std::move(*queue))};
}

inline result<std::unique_ptr<detail::backend_queue>> faulty_backend::wrap_queue(void* native,
                                                                                 std::shared_ptr<stream_clock> clock) {
  if (auto f = due()) return injected(*f);
  auto queue = backend().wrap_queue(native, std::move(clock));
  if (!queue) return queue;
  return std::unique_ptr<detail::backend_queue>{std::make_unique<faulty_queue>(*this, std::move(*queue))};
}

inline result<std::unique_ptr<detail::backend_event>> faulty_backend::create_event() {
  if (auto f = due()) return injected(*f);
  auto event = backend().create_event();
  if (!event) return event;
  return std::unique_ptr<detail::backend_event>{std::make_unique<faulty_event>(*this, std::move(*event))};
}

struct faulty_device {
  std::shared_ptr<faulty_backend> backend;
  berth::device device;

  faulty_backend* operator->() const noexcept { return backend.get(); }
};

inline faulty_device make_faulty(device inner) {
  auto backend = std::make_shared<faulty_backend>(std::move(inner));
  return {backend, device{backend}};
}

}  // namespace berth::support

// A device of a caller's own functions (berth/backend.h), whose functions forward to another device of Berth's. It can
// fail the n-th call, by a status or an exception, and counts.
#pragma once

#include <atomic>
#include <memory>
#include <new>
#include <stdexcept>

#include "berth/backend.h"
#include "berth/device/stream.hpp"

namespace berth::support {

struct forwarded_device {
  enum class failing { status, throws, throws_bad_alloc };
  device inner = device::host();
  std::atomic<std::uint64_t> calls{0};    // that can fail
  std::atomic<std::uint64_t> fail_at{0};  // number of the failing call; 0: none
  failing how = failing::status;
  int status = -7;
  std::atomic<int> closed{0};

  void fail(std::uint64_t nth) {
    calls = 0;
    fail_at = nth;
  }

  template <class F>
  static int run(void* user, F f) {
    auto& self = *static_cast<forwarded_device*>(user);
    if (++self.calls == self.fail_at) {
      if (self.how == failing::throws) throw std::runtime_error{"injected"};
      if (self.how == failing::throws_bad_alloc) throw std::bad_alloc{};
      return self.status;
    }
    const auto done = f(self.inner);
    if (done) return BERTH_OK;
    return done.error().code == errc::out_of_memory ? BERTH_NO_MEMORY : BERTH_DEVICE_FAILED;
  }
  // Gives the value of a result to *out.
  template <class T, class Out>
  static result<void> give(result<T> got, Out* out) {
    if (!got) return got.error();
    *out = static_cast<Out>(*got);
    return {};
  }
  static device& of(void* user) { return static_cast<forwarded_device*>(user)->inner; }

  berth_backend functions(bool virtual_memory, bool queues) {
    berth_backend b{};
    b.struct_size = sizeof b;
    b.user = this;
    b.name = "own:forwarded";
    b.total_memory = inner.properties().total_memory;
    b.host_accessible = 1;
    b.allocate = [](void* user, std::uint64_t size, std::int32_t kind, void** out) {
      return run(user, [&](device& d) { return give(d.allocate(size, static_cast<memory_kind>(kind)), out); });
    };
    b.free = [](void* user, void* block, std::uint64_t size, std::int32_t kind) {
      of(user).free(block, size, static_cast<memory_kind>(kind));
    };
    b.closed = [](void* user) { ++static_cast<forwarded_device*>(user)->closed; };
    if (virtual_memory) add_virtual_memory(b);
    if (queues) add_queues(b);
    return b;
  }

 private:
  void add_virtual_memory(berth_backend& b) {
    b.granule = inner.properties().granule;
    b.reserve = [](void* user, std::uint64_t size, void** out) {
      return run(user, [&](device& d) { return give(d.reserve(size), out); });
    };
    b.release = [](void* user, void* address, std::uint64_t size) { of(user).release(address, size); };
    b.create_physical = [](void* user, std::uint64_t size, int whole, std::uint64_t* handle) {
      const auto form = whole != 0 ? physical_form::whole : physical_form::granular;
      return run(user, [&](device& d) { return give(d.create_physical(size, form), handle); });
    };
    b.destroy_physical = [](void* user, std::uint64_t handle, std::uint64_t size) {
      of(user).destroy_physical(handle, size);
    };
    b.map = [](void* user, void* address, std::uint64_t size, std::uint64_t handle, std::uint64_t offset) {
      return run(user, [&](device& d) { return d.map(address, size, handle, offset); });
    };
    b.unmap = [](void* user, void* address, std::uint64_t size) {
      return run(user, [&](device& d) { return d.unmap(address, size); });
    };
    b.split = [](void* user, std::uint64_t handle, std::uint64_t size, std::uint64_t at, std::uint64_t* rest) {
      return run(user, [&](device& d) { return give(d.split(handle, size, at), rest); });
    };
  }

  template <class T, class Made>
  static result<void> give_object(result<Made> made, void** out) {
    if (!made) return made.error();
    *out = new T{std::move(*made)};
    return {};
  }
  static stream& on(void* queue) { return *static_cast<stream*>(queue); }
  static void add_queues(berth_backend& b) {
    b.create_queue = [](void* user, void** out) {
      return run(user, [&](device& d) { return give_object<stream>(stream::create(d), out); });
    };
    b.destroy_queue = [](void*, void* queue) { delete &on(queue); };
    b.synchronize_queue = [](void* user, void* queue) {
      return run(user, [&](device&) { return on(queue).synchronize(); });
    };
    b.query_queue = [](void* user, void* queue, int* done) {
      return run(user, [&](device&) { return give(on(queue).query(), done); });
    };
    b.create_event = [](void* user, void** out) {
      return run(user, [&](device& d) { return give_object<event>(event::create(d), out); });
    };
    b.destroy_event = [](void*, void* e) { delete static_cast<event*>(e); };
    b.record = [](void* user, void* queue, void* e) {
      return run(user, [&](device&) { return on(queue).record(*static_cast<event*>(e)); });
    };
    b.wait = [](void* user, void* queue, void* e) {
      return run(user, [&](device&) { return on(queue).wait(*static_cast<event*>(e)); });
    };
    b.query_event = [](void* user, void* e, int* done) {
      return run(user, [&](device&) { return give(static_cast<event*>(e)->query(), done); });
    };
    b.synchronize_event = [](void* user, void* e) {
      return run(user, [&](device&) { return static_cast<event*>(e)->synchronize(); });
    };
    b.copy = [](void* user, void* queue, void* to, const void* from, std::uint64_t size) {
      return run(user, [&](device&) { return on(queue).copy(to, from, size); });
    };
    b.fill = [](void* user, void* queue, void* to, unsigned char value, std::uint64_t size) {
      return run(user, [&](device&) { return on(queue).fill(to, std::byte{value}, size); });
    };
    b.call = [](void* user, void* queue, void (*function)(void*), void* context) {
      return run(user, [&](device&) { return on(queue).call(function, context); });
    };
  }
};

}  // namespace berth::support

// The objects behind the handles of stream.h, pool.h, guided_pool.h and recorder.h, and helpers of their functions.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "berth/device/stream.hpp"
#include "berth/graph/guided_pool.hpp"
#include "berth/pool/pool.hpp"
#include "berth/recorder.h"
#include "c/handles.hpp"
#include "c/status.hpp"

namespace berth::c {

// The end of a stream or a pool waits for work, and its destroyer for the calls that use it (handles.hpp).
struct held_stream {
  stream queue;
};

// A pool and the source of its handle's blocks: the pool itself, or a guided pool over it. A pool under a guided one
// has no handle: the first block of a part has the address of the pool's block.
struct held_pool {
  berth_pool_options given{};  // the pool calls back by them
  std::optional<pool> own;
  std::optional<guided_pool> guided;  // goes first

  [[nodiscard]] memory_source& source() noexcept {
    return guided ? static_cast<memory_source&>(*guided) : static_cast<memory_source&>(*own);
  }
  [[nodiscard]] std::optional<bytes> size_of(const void* block) const noexcept {
    return guided ? guided->size_of(block) : own->size_of(block);
  }
  [[nodiscard]] const device& get_device() const noexcept { return own->get_device(); }
};

// A request of this thread that asks the caller for memory, and the pool and stream it uses meanwhile.
class asking_caller {
 public:
  asking_caller(const held_pool& pool, const stream& on) noexcept
      : pool_{pool}, on_{on}, outer_{std::exchange(innermost, this)} {}
  asking_caller(const asking_caller&) = delete;
  asking_caller& operator=(const asking_caller&) = delete;
  ~asking_caller() { innermost = outer_; }

  [[nodiscard]] static bool uses(const held_pool& pool) noexcept {
    return any([&](const asking_caller& r) { return &r.pool_ == &pool; });
  }
  [[nodiscard]] static bool uses(const held_stream& on) noexcept {
    return any([&](const asking_caller& r) { return &r.on_ == &on.queue; });
  }

 private:
  template <class Test>
  static bool any(Test test) noexcept {
    const asking_caller* r = innermost;
    while (r != nullptr && !test(*r)) r = r->outer_;
    return r != nullptr;
  }
  static inline constinit thread_local const asking_caller* innermost = nullptr;
  const held_pool& pool_;
  const stream& on_;
  const asking_caller* const outer_;
};

#pragma GCC visibility push(default)  // for the library of operators, as in status.hpp
handles<device>& devices() noexcept;
handles<held_stream>& streams() noexcept;
std::uint32_t this_process() noexcept;  // for tables whose objects wait for work when they end
bool runs_work() noexcept;              // whether this thread runs a stream's work, as far as is known
#pragma GCC visibility pop
handles<held_pool>& pools() noexcept;

inline berth_status refuse_to_wait(const char* kind) noexcept {
  char text[96];
  std::snprintf(text, sizeof text, "%s: destroyed in a call or in work that its end would wait for", kind);
  return fail(BERTH_INVALID, text);
}

// Ends the object of the handle after its work and the calls that use it. Null does nothing. Refused, and the handle
// stays, if this thread would wait for itself: in a call that uses it, or in a stream's work. All work counts as that,
// since its dependences are not known in time.
template <class T>
berth_status destroy(handles<T>& table, const void* handle, const char* kind) noexcept {
  if (handle == nullptr) return succeed();
  if constexpr (requires(const T& held) { asking_caller::uses(held); }) {
    const auto held = table.look_up(handle);
    if (held != nullptr && asking_caller::uses(*held)) return refuse_to_wait(kind);
  }
  if (runs_work() && table.look_up(handle) != nullptr) return refuse_to_wait(kind);
  return table.remove(handle) ? succeed() : no_such(handle, kind);
}

// Makes a new handle of `object`.
template <class T, class Handle>
berth_status give(handles<T>& table, std::shared_ptr<T> object, Handle** out, const char* too_many) {
  void* const number = table.add(std::move(object));
  if (number == nullptr) return fail(BERTH_NO_MEMORY, too_many);
  *out = static_cast<Handle*>(number);
  return succeed();
}

// Returns the status of do_it(); exceptions become one too.
template <class Do>
berth_status guarded(Do do_it) noexcept {
  try {
    return do_it();
  } catch (const std::bad_alloc&) {
    return no_memory();
  } catch (const bad_result& e) {
    return report(e.error());
  } catch (const std::length_error& e) {  // beyond all memory
    return fail(BERTH_NO_MEMORY, e.what());
  } catch (const std::system_error& e) {  // no thread to be had
    return fail(BERTH_NO_MEMORY, e.what());
  } catch (const std::exception& e) {
    return fail(BERTH_INTERNAL, e.what());
  }
}

// Calls do_it(the pool that the handle names) under guarded().
template <class Do>
berth_status on_pool(const berth_pool* handle, Do do_it) noexcept {
  const auto held = pools().look_up(handle);
  if (held == nullptr) return no_such(handle, "pool");
  return guarded([&] { return do_it(*held); });
}

inline berth_status status_of(const result<void>& done) noexcept {
  return done ? succeed() : report(done.error());
}

// `guided_by`: null, or how hard the planner of a guided pool tries.
berth_status create_pool(const berth_device* device, const berth_pool_options* options, const plan::options* guided_by,
                         berth_pool** out) noexcept;

berth_status give_statistics(const pool_statistics& known, berth_pool_statistics* to) noexcept;

// Writes the text as snprintf does.
inline berth_status give_text(std::string_view text, char* to, std::size_t room, std::size_t* length) noexcept {
  if (to == nullptr && room != 0) return fail(BERTH_INVALID, "text: null, and room for one");
  if (room != 0) {
    const std::size_t n = text.size() < room ? text.size() : room - 1;
    std::memcpy(to, text.data(), n);
    to[n] = '\0';
  }
  if (length != nullptr) *length = text.size();
  return succeed();
}

}  // namespace berth::c

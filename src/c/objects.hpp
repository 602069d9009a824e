// The objects behind the handles of stream.h, pool.h, guided_pool.h and recorder.h, and helpers of their functions.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
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

// Ends the object of the handle; null does nothing. A table that waits for users ends it after its work and the calls
// that use it. Then it is refused, and the handle stays, if this thread would wait for itself: in a call that uses it,
// or in a stream's work. All work counts as that, since its dependences are not known in time.
template <class T>
berth_status destroy(handles<T>& table, const void* handle) noexcept {
  if (handle == nullptr) return succeed();
  if constexpr (requires(const T& held) { asking_caller::uses(held); }) {
    const auto held = table.look_up(handle);
    if (held != nullptr && asking_caller::uses(*held)) return refuse_to_wait(table.name());
  }
  if (table.waits_for_users() && runs_work() && table.look_up(handle) != nullptr) return refuse_to_wait(table.name());
  return table.remove(handle) ? succeed() : no_such(handle, table.name());
}

// Makes a new handle of `object`.
template <class T, class Handle>
berth_status give(handles<T>& table, std::shared_ptr<T> object, Handle** out) {
  void* const number = table.add(std::move(object));
  if (number == nullptr) return fail(BERTH_NO_MEMORY, (std::string{table.name()} + ": too many are alive").c_str());
  *out = static_cast<Handle*>(number);
  return succeed();
}

inline berth_status status_of(berth_status status) noexcept {
  return status;
}
inline berth_status status_of(const result<void>& done) noexcept {
  return done ? succeed() : report(done.error());
}

// Gives out what was made, or reports why nothing was.
template <class T>
berth_status give_value(const result<T>& made, T* out) noexcept {
  if (!made) return report(made.error());
  *out = *made;
  return succeed();
}

// Returns the status of do_it(), which may be a result<void>; exceptions become one too.
template <class Do>
berth_status guarded(Do do_it) noexcept {
  try {
    return status_of(do_it());
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

// Calls do_it(the object that the handle names) under guarded().
template <class T, class Do>
berth_status with(handles<T>& table, const void* handle, Do do_it) noexcept {
  const auto held = table.look_up(handle);
  if (held == nullptr) return no_such(handle, table.name());
  return guarded([&] { return do_it(*held); });
}

// Calls do_it(pool, stream) with the uses of both handles, which must be of one device, under guarded().
template <class Do>
berth_status with_both(const berth_pool* pool, const berth_stream* stream, Do do_it) noexcept {
  const auto from = pools().look_up(pool);
  if (from == nullptr) return no_such(pool, "pool");
  const auto on = streams().look_up(stream);
  if (on == nullptr) return no_such(stream, "stream");
  if (!(on->queue.get_device() == from->get_device())) return fail(BERTH_INVALID, "the stream is of another device");
  return guarded([&] { return do_it(from, on); });
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

// What the handles of stream.h, pool.h, guided_pool.h and recorder.h name, and what their functions share.
#pragma once

#include <exception>
#include <optional>
#include <string_view>

#include "berth/device/stream.hpp"
#include "berth/graph/guided_pool.hpp"
#include "berth/pool/pool.hpp"
#include "berth/recorder.h"
#include "c/handles.hpp"
#include "c/status.hpp"

namespace berth::c {

struct held_stream {
  stream queue;
};

// A pool, and what a handle of it gives blocks from: itself, or a guided pool over it. There is no handle of a pool
// under a guided one, since a block at the start of a part has the address that the part has as the pool's block.
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

handles<device>& devices() noexcept;
#pragma GCC visibility push(default)  // for the library of operators, as in status.hpp
handles<held_stream>& streams() noexcept;
#pragma GCC visibility pop
handles<held_pool>& pools() noexcept;

// A new handle of `object`.
template <class T, class Handle>
berth_status give(handles<T>& table, std::shared_ptr<T> object, Handle** out, const char* too_many) {
  void* const number = table.add(std::move(object));
  if (number == nullptr) return fail(BERTH_NO_MEMORY, too_many);
  *out = static_cast<Handle*>(number);
  return succeed();
}

// Calls do_it(), which gives a status; what it throws is one too.
template <class Do>
berth_status guarded(Do do_it) noexcept {
  try {
    return do_it();
  } catch (const std::bad_alloc&) {
    return no_memory();
  } catch (const bad_result& e) {
    return report(e.error());
  } catch (const std::exception& e) {
    return fail(BERTH_NO_MEMORY, e.what());  // a length beyond all memory, no thread to be had
  }
}

// Calls do_it(the pool that the handle names), as guarded().
template <class Do>
berth_status on_pool(const berth_pool* handle, Do do_it) noexcept {
  const auto held = pools().look_up(handle);
  if (held == nullptr) return no_such(handle, "pool");
  return guarded([&] { return do_it(*held); });
}

// The status of a result without a value.
inline berth_status status_of(const result<void>& done) noexcept {
  return done ? succeed() : report(done.error());
}

// `guided_by`: null, or how hard the planner of a guided pool tries.
berth_status create_pool(const berth_device* device, const berth_pool_options* options, const plan::options* guided_by,
                         berth_pool** out) noexcept;

berth_status give_statistics(const pool_statistics& known, berth_pool_statistics* to) noexcept;

// As snprintf gives texts out.
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

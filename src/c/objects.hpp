// What the handles of stream.h, pool.h and recorder.h name, and what their functions share.
#pragma once

#include <exception>
#include <optional>
#include <string_view>

#include "berth/device/stream.hpp"
#include "berth/pool/pool.hpp"
#include "berth/recorder.h"
#include "c/handles.hpp"
#include "c/status.hpp"

namespace berth::c {

struct held_stream {
  stream queue;
};

handles<device>& devices() noexcept;
#pragma GCC visibility push(default)  // for the library of operators, as in status.hpp
handles<held_stream>& streams() noexcept;
#pragma GCC visibility pop
handles<pool>& pools() noexcept;

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

// The status of a result without a value.
inline berth_status status_of(const result<void>& done) noexcept {
  return done ? succeed() : report(done.error());
}

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

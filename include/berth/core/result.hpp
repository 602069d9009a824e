// result<T>: a value, or an environment failure (no memory, no such device, a bad file).
//
// An error is three words and allocates nothing: a code, a static text and one number. The text explains the number:
// requested bytes, a driver's error code, a buffer's index. Check the result, or call value(), which throws bad_result
// (or aborts without exceptions). An expected outcome (pool exhausted, must wait) is a value of its own type, never an
// error.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "berth/core/contract.hpp"

namespace berth {

enum class errc : std::uint8_t {
  out_of_memory,   // number: requested bytes
  limit_exceeded,  // a limit set by the caller would be exceeded; number: bytes over, or requested
  overflow,        // a size or product exceeds 64 bits, or this machine's address space
  invalid_input,   // a problem, plan, graph or argument is malformed; number: index of the culprit
  no_such_device,  // the device or its library does not exist
  unsupported,     // the device cannot do this
  device_failed,   // a call to the device failed; number: the driver's code
  io,              // a file could not be read or written; number: errno
  internal,        // a self-check found a bug in Berth: please report the text and the number
};

// Returns the code's name, as written above.
[[nodiscard]] const char* name(errc code) noexcept;

struct error {
  errc code = errc::invalid_input;
  const char* what = "";  // static text: what failed and why
  std::uint64_t number = 0;

  // Compares texts by content: two equal literals need not have one address.
  friend bool operator==(const error& a, const error& b) noexcept {
    return a.code == b.code && a.number == b.number && std::string_view{a.what} == b.what;
  }
};

// Thrown by result::value(). what() is the error's static text.
class bad_result : public std::exception {
 public:
  explicit bad_result(const error& e) noexcept : error_{e} {}
  [[nodiscard]] const char* what() const noexcept override { return error_.what; }
  [[nodiscard]] const berth::error& error() const noexcept { return error_; }

 private:
  berth::error error_;
};

namespace detail {
[[noreturn]] void throw_bad_result(const error& e);
}

template <class T>
class [[nodiscard]] result {
 public:
  result(T value) : state_{std::in_place_index<0>, std::move(value)} {}  // NOLINT: implicit by design
  result(berth::error e) : state_{std::in_place_index<1>, e} {}          // NOLINT: implicit by design

  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  // Contract: has_value().
  [[nodiscard]] T& operator*() & noexcept { return *checked(); }
  [[nodiscard]] const T& operator*() const& noexcept { return *const_cast<result*>(this)->checked(); }
  [[nodiscard]] T&& operator*() && noexcept { return std::move(*checked()); }
  [[nodiscard]] T* operator->() noexcept { return checked(); }
  [[nodiscard]] const T* operator->() const noexcept { return const_cast<result*>(this)->checked(); }

  // Contract: !has_value().
  [[nodiscard]] const berth::error& error(source_location where = source_location::current()) const noexcept {
    expects(!has_value(), "result: error() of a value", where);
    return *std::get_if<1>(&state_);
  }

  // Returns the value, or throws bad_result.
  [[nodiscard]] T& value() & {
    if (!has_value()) detail::throw_bad_result(error());
    return *std::get_if<0>(&state_);
  }
  [[nodiscard]] T&& value() && { return std::move(value()); }

  template <class U>
  [[nodiscard]] T value_or(U&& fallback) && {
    if (has_value()) return std::move(*std::get_if<0>(&state_));
    return static_cast<T>(std::forward<U>(fallback));
  }

 private:
  T* checked() noexcept {
    expects(has_value(), "result: value of an error");
    return std::get_if<0>(&state_);
  }

  std::variant<T, berth::error> state_;
};

template <>
class [[nodiscard]] result<void> {
 public:
  result() noexcept = default;
  result(berth::error e) noexcept : error_{e} {}  // NOLINT: implicit by design

  [[nodiscard]] bool has_value() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  [[nodiscard]] const berth::error& error(source_location where = source_location::current()) const noexcept {
    expects(error_.has_value(), "result: error() of a value", where);
    return *error_;
  }
  void value() const {
    if (error_) detail::throw_bad_result(*error_);
  }

 private:
  std::optional<berth::error> error_;
};

}  // namespace berth
#pragma GCC visibility pop

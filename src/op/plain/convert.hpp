// Elements in and out of the types that kernels compute in. These are f32 for halves and f32, f64, and 64-bit integers.
// Integer results wrap around to the narrower types when stored.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "berth/graph/graph.hpp"

namespace berth::op {

enum class domain : std::uint8_t { f32, f64, i64, u64 };
// Returns the type that elements of this type are computed in.
[[nodiscard]] domain domain_of(element e) noexcept;
// Returns f(C{}), with the type C that these elements are computed in.
template <class F>
auto in_domain(domain d, F&& f) {
  switch (d) {
    case domain::f32: return f(float{});
    case domain::f64: return f(double{});
    case domain::i64: return f(std::int64_t{});
    default: return f(std::uint64_t{});
  }
}

// `count` elements, each `stride` bytes behind the one before.
template <class C>
using load_function = void (*)(const std::byte* from, std::int64_t stride, std::int64_t count, C* to);
template <class C>
using store_function = void (*)(const C* from, std::byte* to, std::int64_t stride, std::int64_t count);

// For float, double, std::int64_t and std::uint64_t. A float beyond an integer's range becomes its nearest, NaN 0.
// Anything but 0 is true. Rounded to nearest, ties to even (f64 to halves by way of f32).
template <class C>
[[nodiscard]] load_function<C> load_as(element e) noexcept;
template <class C>
[[nodiscard]] store_function<C> store_as(element e) noexcept;

// A float as an integer, by the same rule: towards zero, beyond the range the nearest, NaN 0.
template <class C, class M>
[[nodiscard]] constexpr C truncated(M m) noexcept {
  constexpr M end = static_cast<M>(std::numeric_limits<C>::max());  // rounded up: a power of two
  if (!(m == m)) return 0;
  if (m >= end) return std::numeric_limits<C>::max();
  if (m < static_cast<M>(std::numeric_limits<C>::min())) return std::numeric_limits<C>::min();
  return static_cast<C>(m);
}

// Returns whether elements of type e lie in memory as C does.
template <class C>
[[nodiscard]] constexpr bool is_native(element e) noexcept {
  if constexpr (std::is_same_v<C, float>) return e == element::f32;
  if constexpr (std::is_same_v<C, double>) return e == element::f64;
  if constexpr (std::is_same_v<C, std::int64_t>) return e == element::i64;
  if constexpr (std::is_same_v<C, std::uint64_t>) return e == element::u64;
  return false;
}

[[nodiscard]] float from_f16(std::uint16_t h) noexcept;
[[nodiscard]] std::uint16_t to_f16(float f) noexcept;
[[nodiscard]] inline float from_bf16(std::uint16_t h) noexcept {
  return std::bit_cast<float>(std::uint32_t{h} << 16);
}
[[nodiscard]] std::uint16_t to_bf16(float f) noexcept;

}  // namespace berth::op

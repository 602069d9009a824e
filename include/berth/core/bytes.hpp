// Byte counts, alignment and checked arithmetic.
//
// Every size, offset and capacity in Berth is a berth::bytes. It is 64 bits wide on every platform, so a 32-bit host
// can plan for a large device. Code that turns a count into a std::size_t on a 32-bit host first calls `fits_size_t`.
//
// Alignments need not be powers of two: compilers plan in units such as 10 or 48 elements. A function that aligns
// memory addresses says "power of two" in its comment.
//
// All functions are constexpr, O(1), allocate nothing and may be called from any thread.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace berth {

using bytes = std::uint64_t;

inline constexpr bytes max_bytes = std::numeric_limits<bytes>::max();

namespace literals {
consteval bytes operator""_B(unsigned long long n) {
  return n;
}
consteval bytes operator""_KiB(unsigned long long n) {
  return n << 10;
}
consteval bytes operator""_MiB(unsigned long long n) {
  return n << 20;
}
consteval bytes operator""_GiB(unsigned long long n) {
  return n << 30;
}
}  // namespace literals

[[nodiscard]] constexpr bool is_power_of_two(bytes n) noexcept {
  return n != 0 && (n & (n - 1)) == 0;
}

[[nodiscard]] constexpr bool is_aligned(bytes n, bytes alignment) noexcept {
  return n % alignment == 0;
}

// Returns the sum, or nothing if it exceeds 64 bits.
[[nodiscard]] constexpr std::optional<bytes> checked_add(bytes a, bytes b) noexcept {
  if (a > max_bytes - b) return std::nullopt;
  return a + b;
}

// Returns the product, or nothing if it exceeds 64 bits.
[[nodiscard]] constexpr std::optional<bytes> checked_mul(bytes a, bytes b) noexcept {
  if (a != 0 && b > max_bytes / a) return std::nullopt;
  return a * b;
}

// Returns the least multiple of `alignment` (>= 1) that is >= n. The caller knows that it fits 64 bits.
[[nodiscard]] constexpr bytes align_up(bytes n, bytes alignment) noexcept {
  if (is_power_of_two(alignment)) return (n + alignment - 1) & ~(alignment - 1);
  return (n + alignment - 1) / alignment * alignment;
}

// Returns the greatest multiple of `alignment` (>= 1) that is <= n.
[[nodiscard]] constexpr bytes align_down(bytes n, bytes alignment) noexcept {
  return n - n % alignment;
}

// Returns what align_up() returns, or nothing if the multiple exceeds 64 bits.
[[nodiscard]] constexpr std::optional<bytes> checked_align_up(bytes n, bytes alignment) noexcept {
  const bytes rest = n % alignment;
  if (rest == 0) return n;
  return checked_add(n, alignment - rest);
}

// Returns true if a buffer of n bytes can exist in this process's address space.
[[nodiscard]] constexpr bool fits_size_t(bytes n) noexcept {
  return n <= static_cast<bytes>(std::numeric_limits<std::ptrdiff_t>::max());
}

}  // namespace berth
#pragma GCC visibility pop

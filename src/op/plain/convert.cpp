#include "op/plain/convert.hpp"

#include <cstring>
#include <limits>
#include <type_traits>

namespace berth::op {

domain domain_of(element e) noexcept {
  switch (e) {
    case element::f32:
    case element::f16:
    case element::bf16: return domain::f32;
    case element::f64: return domain::f64;
    case element::u64: return domain::u64;
    default: return domain::i64;
  }
}

// Fabian Giesen, "Half to float done quick" (2012): the exponent is moved by a multiplication, which also makes
// subnormal halves normal.
float from_f16(std::uint16_t h) noexcept {
  constexpr float move = std::bit_cast<float>(std::uint32_t{254 - 15} << 23);
  constexpr float first_infinite = std::bit_cast<float>(std::uint32_t{127 + 16} << 23);
  const std::uint32_t magnitude = std::uint32_t{h} & 0x7fffu;
  float f = std::bit_cast<float>(magnitude << 13) * move;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  if (f >= first_infinite) bits |= 255u << 23;
  return std::bit_cast<float>(bits | (std::uint32_t{h} & 0x8000u) << 16);
}

std::uint16_t to_f16(float f) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) return static_cast<std::uint16_t>(sign | (magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u));
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520 and above
  if (magnitude < 0x38800000u) {  // a subnormal half: an addition rounds at its last bit
    constexpr float half_of = std::bit_cast<float>(std::uint32_t{(127 - 15) + (23 - 10) + 1} << 23);
    const float rounded = std::bit_cast<float>(magnitude) + half_of;
    return static_cast<std::uint16_t>(sign |
                                      (std::bit_cast<std::uint32_t>(rounded) - std::bit_cast<std::uint32_t>(half_of)));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  const std::uint32_t moved = magnitude - (std::uint32_t{112} << 23) + 0xfffu + odd;
  return static_cast<std::uint16_t>(sign | moved >> 13);
}

std::uint16_t to_bf16(float f) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

namespace {

// Types of memory that need more than a cast.
struct half {
  std::uint16_t bits;
};
struct brain {
  std::uint16_t bits;
};
struct truth {
  std::uint8_t byte;
};

template <class C, class M>
C widened(M m) noexcept {
  if constexpr (std::is_same_v<M, half>) {
    return static_cast<C>(from_f16(m.bits));
  } else if constexpr (std::is_same_v<M, brain>) {
    return static_cast<C>(from_bf16(m.bits));
  } else if constexpr (std::is_same_v<M, truth>) {
    return static_cast<C>(m.byte != 0);
  } else if constexpr (std::is_floating_point_v<M> && std::is_integral_v<C>) {
    return truncated<C>(m);
  } else {
    return static_cast<C>(m);
  }
}

template <class M, class C>
M narrowed(C c) noexcept {
  if constexpr (std::is_same_v<M, half>) {
    return {to_f16(static_cast<float>(c))};
  } else if constexpr (std::is_same_v<M, brain>) {
    return {to_bf16(static_cast<float>(c))};
  } else if constexpr (std::is_same_v<M, truth>) {
    return {static_cast<std::uint8_t>(c != 0)};
  } else {
    return widened<M, C>(c);
  }
}

template <class C, class M>
void load(const std::byte* from, std::int64_t stride, std::int64_t count, C* to) {
  if (stride == sizeof(M)) {
    for (std::int64_t i = 0; i < count; ++i) {
      M m;
      std::memcpy(&m, from + i * static_cast<std::int64_t>(sizeof(M)), sizeof(M));
      to[i] = widened<C, M>(m);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    M m;
    std::memcpy(&m, from + i * stride, sizeof(M));
    to[i] = widened<C, M>(m);
  }
}

template <class C, class M>
void store(const C* from, std::byte* to, std::int64_t stride, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const M m = narrowed<M, C>(from[i]);
    std::memcpy(to + i * stride, &m, sizeof(M));
  }
}

// Returns f(M{}), with the type M of these elements in memory; null for `other`.
template <class Function, class F>
Function in_memory(element e, F f) noexcept {
  switch (e) {
    case element::f32: return f(float{});
    case element::f16: return f(half{});
    case element::bf16: return f(brain{});
    case element::f64: return f(double{});
    case element::i8: return f(std::int8_t{});
    case element::u8: return f(std::uint8_t{});
    case element::i16: return f(std::int16_t{});
    case element::u16: return f(std::uint16_t{});
    case element::i32: return f(std::int32_t{});
    case element::u32: return f(std::uint32_t{});
    case element::i64: return f(std::int64_t{});
    case element::u64: return f(std::uint64_t{});
    case element::boolean: return f(truth{});
    case element::other: break;
  }
  return nullptr;
}

}  // namespace

template <class C>
load_function<C> load_as(element e) noexcept {
  return in_memory<load_function<C>>(e, []<class M>(M) { return load<C, M>; });
}

template <class C>
store_function<C> store_as(element e) noexcept {
  return in_memory<store_function<C>>(e, []<class M>(M) { return store<C, M>; });
}

template load_function<float> load_as<float>(element) noexcept;
template load_function<double> load_as<double>(element) noexcept;
template load_function<std::int64_t> load_as<std::int64_t>(element) noexcept;
template load_function<std::uint64_t> load_as<std::uint64_t>(element) noexcept;
template store_function<float> store_as<float>(element) noexcept;
template store_function<double> store_as<double>(element) noexcept;
template store_function<std::int64_t> store_as<std::int64_t>(element) noexcept;
template store_function<std::uint64_t> store_as<std::uint64_t>(element) noexcept;

}  // namespace berth::op

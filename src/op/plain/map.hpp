// Element-wise kernels: each result element from the operands' elements at its place.
#pragma once

#include <tuple>
#include <type_traits>

#include "op/plain/plain.hpp"

namespace berth::op {

// out[i] = f(in[0][i], in[1][i], ...) for i below count; p: the operator's numbers.
template <class C>
using row_function = void (*)(const C* const* in, C* out, std::int64_t count, const double* p);

// The same function for each type that kernels compute in; null where the operator is not defined there.
using row_functions =
    std::tuple<row_function<float>, row_function<double>, row_function<std::int64_t>, row_function<std::uint64_t>>;

// From F, a stateless function object of N elements, before which it may take the numbers.
template <class C, class F, std::size_t N>
void row_of(const C* const* in, C* out, std::int64_t count, const double* p) {
  const auto f = [p](auto... x) {
    if constexpr (std::is_invocable_v<F, const double*, decltype(x)...>)
      return static_cast<C>(F{}(p, x...));
    else
      return static_cast<C>(F{}(x...));
  };
  if constexpr (N == 1) {
    const C* a = in[0];
    for (std::int64_t i = 0; i < count; ++i) out[i] = f(a[i]);
  } else if constexpr (N == 2) {
    const C *a = in[0], *b = in[1];
    for (std::int64_t i = 0; i < count; ++i) out[i] = f(a[i], b[i]);
  } else {
    const C *a = in[0], *b = in[1], *c = in[2];
    for (std::int64_t i = 0; i < count; ++i) out[i] = f(a[i], b[i], c[i]);
  }
}
template <class F, std::size_t N>
inline constexpr row_functions on_all{row_of<float, F, N>, row_of<double, F, N>, row_of<std::int64_t, F, N>,
                                      row_of<std::uint64_t, F, N>};
template <class F, std::size_t N>
inline constexpr row_functions on_reals{row_of<float, F, N>, row_of<double, F, N>, nullptr, nullptr};
template <class F, std::size_t N>
inline constexpr row_functions on_integers{nullptr, nullptr, row_of<std::int64_t, F, N>, row_of<std::uint64_t, F, N>};

struct map_plan {
  row_functions f;
  std::vector<double> p{};
  domain in{};              // that the operands are loaded in
  bool successive = false;  // f of two, applied to the result so far and the next operand
  row_functions last{};     // of one, applied at the end of a successive one
};
[[nodiscard]] made map(const request& q, const std::vector<tensor_type>& outputs, const map_plan& plan);

}  // namespace berth::op

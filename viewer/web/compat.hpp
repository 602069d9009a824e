// Adds the parts of C++20 that emscripten's library (libc++ 13) lacks. Included before every source of the web build.
#pragma once
#if defined(__cplusplus) && defined(__EXCEPTIONS)
#include <charconv>
#include <compare>
#include <cstdlib>
#include <range/v3/algorithm.hpp>
#include <range/v3/functional/comparisons.hpp>
#include <string>
#include <vector>

namespace std {

inline from_chars_result from_chars(const char* first, const char* last, double& out,
                                    chars_format = chars_format::general) {
  const string text(first, last);
  char* end = nullptr;
  const bool blank = text.empty() || text.front() == ' ' || text.front() == '\t' || text.front() == '+';
  const double n = blank ? 0 : strtod(text.c_str(), &end);
  if (blank || end == text.c_str()) return {first, errc::invalid_argument};
  out = n;
  return {first + (end - text.c_str()), errc{}};
}

template <class T, class Allocator>
strong_ordering operator<=>(const vector<T, Allocator>& a, const vector<T, Allocator>& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (const strong_ordering order = a[i] <=> b[i]; order != 0) return order;
  }
  return a.size() <=> b.size();
}

template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}

namespace ranges {
using ::ranges::adjacent_find, ::ranges::all_of, ::ranges::any_of, ::ranges::binary_search, ::ranges::copy_if,
    ::ranges::count, ::ranges::count_if, ::ranges::equal, ::ranges::fill, ::ranges::find, ::ranges::find_if,
    ::ranges::for_each, ::ranges::lower_bound, ::ranges::max, ::ranges::max_element, ::ranges::min_element,
    ::ranges::none_of, ::ranges::replace, ::ranges::replace_if, ::ranges::reverse, ::ranges::sort,
    ::ranges::stable_sort, ::ranges::transform, ::ranges::upper_bound;
}  // namespace ranges
}  // namespace std
#endif

#ifdef __cplusplus
// There is one thread.
inline void* berth_only_thread() noexcept {
  static char one;
  return &one;
}
#define __builtin_thread_pointer() berth_only_thread()
#endif

// Reserves room before operations that must not fail. A plain reserve() for one more element copies all elements each
// time, and may even shrink a hash table. These functions grow to twice the size, and never shrink.
#pragma once

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <vector>

namespace berth::detail {

// Ensures that so many more elements allocate nothing. May throw bad_alloc.
template <class T>
void make_room(std::vector<T>& in, std::size_t more = 1) {
  if (in.capacity() - in.size() < more) in.reserve(std::max(in.size() + more, 2 * in.size()));
}
template <class Key, class Value>
void make_room(std::unordered_map<Key, Value>& in, std::size_t more = 1) {
  const auto places = static_cast<double>(in.bucket_count()) * static_cast<double>(in.max_load_factor());
  if (static_cast<double>(in.size() + more) >= places) in.reserve(std::max(in.size() + more, 2 * in.size()));
}

}  // namespace berth::detail

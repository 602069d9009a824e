// Results on the way to the command's user: a failure ends the verb by an exception with its reason.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "berth/core/result.hpp"
#include "tool/verb.hpp"

namespace berth::tool {

inline void value_of(result<void> r) {
  if (r) return;
  throw std::runtime_error(std::string{r.error().what} + " (" + name(r.error().code) + ", " +
                           std::to_string(r.error().number) + ")");
}
template <class T>
T value_of(result<T> r) {
  if (!r) value_of(result<void>{r.error()});
  return std::move(r).value();
}

// Returns a result of the device that --device names. Throws usage_error.
template <class T>
T of_device(const std::string& name, result<T> r) {
  if (!r) throw usage_error("--device " + name + ": " + r.error().what);
  return std::move(r).value();
}

}  // namespace berth::tool

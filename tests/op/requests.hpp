// Requests as a test writes them.
#pragma once

#include <string>
#include <utility>

#include "berth/op/operator.hpp"

namespace berth::test {

inline tensor_type of(op::shape s, element type = element::f32) {
  return {std::move(s), type};
}

// Why a request is refused; empty: it is not.
inline std::string refused(const op::request& q) {
  try {
    (void)op::serve(q);
  } catch (const op::refusal& why) {
    return why.what();
  }
  return "";
}

}  // namespace berth::test

// The trial of an operator: a request with the attributes that it cannot do without, and seeded data.
#pragma once

#include <string_view>
#include <vector>

#include "berth/op/check.hpp"

namespace berth::op {

struct prepared {
  request q;
  std::vector<tensor> parameters;
  std::vector<std::size_t> operands;
  std::vector<std::vector<double>> values;  // by operand, row-major, as the type holds them
};

// Prepares a trial. Throws refusal: no such operator, or a range that its type does not hold.
[[nodiscard]] prepared prepare(std::string_view name, const check_options& o);

}  // namespace berth::op

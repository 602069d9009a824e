// Shape inference: the type of every value of a model, with what is constant computed on the way.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "berth/model/description.hpp"
#include "berth/op/kernels.hpp"
#include "model/allowance.hpp"

namespace berth::model {

using value_types = std::unordered_map<std::string, value_info>;

// Folds what is constant into m.constants, removes those nodes and nodes whose results nobody uses, and returns the
// type of every value that is left. What folding makes is taken from `room`. Throws input_error: an operator without a
// rule, shapes that do not fit.
[[nodiscard]] value_types infer(description& m, allowance& room);

// The rules that lowering and folding share. `constant_input(i)` is the constant that input i is, or null.
using constant_input = std::function<const tensor*(std::size_t)>;

// `axis` counted from the front; throws where it is out of range, as each is of a scalar.
[[nodiscard]] std::int64_t axis_of(const description& m, const node& n, std::int64_t axis, std::int64_t rank);
[[nodiscard]] shape broadcast(const description& m, const node& n, const shape& a, const shape& b);
[[nodiscard]] shape concatenated(const description& m, const node& n, const std::vector<shape>& inputs);
// Reshape, Flatten, Squeeze, Unsqueeze.
[[nodiscard]] shape reshaped(const description& m, const node& n, const shape& from, const constant_input& input);

struct slicing {
  shape result;
  std::vector<std::int64_t> start, step;  // per dimension
};
[[nodiscard]] slicing sliced(const description& m, const node& n, const shape& from, const constant_input& input);
// The sizes of Split's outputs along its axis.
[[nodiscard]] std::vector<std::int64_t> split_sizes(const description& m, const node& n, const shape& from,
                                                    const constant_input& input);
// The dimensions a reduction runs over.
[[nodiscard]] std::vector<std::int64_t> reduced_axes(const description& m, const node& n, const shape& from,
                                                     const constant_input& input);
// Pad's amounts: rank begins, then rank ends.
[[nodiscard]] std::vector<std::int64_t> paddings(const description& m, const node& n, const shape& from,
                                                 const constant_input& input);
// The window of Conv or a pool; `kernel` from the weights (Conv) or empty.
[[nodiscard]] op::window window_of(const description& m, const node& n, const shape& from, shape kernel);

}  // namespace berth::model

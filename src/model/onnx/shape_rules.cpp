#include "model/onnx/shape_rules.hpp"

#include <set>
#include <string_view>

namespace berth::model {

namespace {

// By TensorProto.DataType, to float8e8m0 (24).
constexpr unsigned bits_of_type[] = {0,  32, 8,   8,  16, 16, 32, 64, 0, 8, 16, 64, 32,
                                     64, 64, 128, 16, 8,  8,  8,  8,  4, 4, 4,  8};

}  // namespace

unsigned bits_of(std::int64_t type) noexcept {
  const bool there = type >= 0 && type < std::ssize(bits_of_type);
  return there ? bits_of_type[static_cast<std::size_t>(type)] : 0;
}

std::string infer_beside_table(const node& n, const std::vector<const known*>& inputs, std::vector<known>& results) {
  const auto input = [&](std::size_t i) { return i < inputs.size() ? inputs[i] : nullptr; };
  const std::set<std::string_view> alike{"Bernoulli", "GroupNormalization", "LpNormalization"};
  if (alike.contains(n.op) && input(0) != nullptr && results.size() == 1) {
    results[0] = *input(0);
    return "";
  }
  return "the operator is not known here";
}

}  // namespace berth::model

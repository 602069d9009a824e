// Products of matrices.
#include <utility>

#include "op/ascend/rows.hpp"

namespace berth::op::ascend {
namespace {

asking matmul(setting& s) {
  return asks(s, in{0}, in{1}, out{2}, cube_type{});
}

// beta c + alpha a b, or a b alone, with a or b read by columns.
asking gemm(setting& s) {
  const auto turned = [&](const char* attribute, std::size_t k) {
    if (attribute_or<std::int64_t>(s.q, attribute, 0) == 0) return;
    std::swap(s.how.types[k].shape[0], s.how.types[k].shape[1]);
    std::swap(s.how.types[k].strides[0], s.how.types[k].strides[1]);
  };
  turned("transA", 0);
  turned("transB", 1);
  if (s.given == 2) {
    require(attribute_or<float>(s.q, "alpha", 1) == 1, "the device scales a product only where something is added");
    take_functions(s, "aclnnMatmul");
    return matmul(s);
  }
  const auto number = [&](const char* name) { return scalar_of(s, attribute_or<float>(s.q, name, 1)); };
  return asks(s, in{2}, in{0}, in{1}, number("beta"), number("alpha"), out{3}, cube_type{});
}

constexpr row product_table[] = {
    {"Gemm", "aclnnAddmm", gemm},
    {"MatMul", "aclnnMatmul", matmul},
};

}  // namespace

const rows product_rows{product_table};

}  // namespace berth::op::ascend

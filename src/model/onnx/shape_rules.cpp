#include "model/onnx/shape_rules.hpp"

#include <set>
#include <string_view>

#include "op/request.hpp"

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

std::int64_t onnx_number(element e) noexcept {
  std::int64_t type = 0;
  while (type < 32 && op::element_of_onnx(type) != e) ++type;
  return type;
}

std::string infer_beside_table(const description& m, const node& n, const std::vector<const known*>& inputs,
                               std::vector<known>& results) {
  const auto input = [&](std::size_t i) { return i < inputs.size() ? inputs[i] : nullptr; };
  const std::set<std::string_view> alike{"Bernoulli", "GroupNormalization", "LpNormalization"};
  if (alike.contains(n.op) && input(0) != nullptr && results.size() == 1) {
    results[0] = *input(0);
    return "";
  }
  const std::set<std::string_view> recurrent{"GRU", "LSTM", "RNN"};
  if (!recurrent.contains(n.op)) return "the operator is not known here";
  const known *x = input(0), *r = input(2);
  if (x == nullptr || r == nullptr || x->s.size() != 3 || r->s.size() != 3 || results.size() > 3) {
    return "its inputs are not those of a recurrent operator";
  }
  const bool batch_first = attribute_or<std::int64_t>(m, n, "layout", 0) != 0;
  const std::int64_t directions = r->s[0], hidden = r->s[2];
  for (known& k : results) k.type = x->type;
  if (batch_first) {
    results[0].s = {x->s[0], x->s[1], directions, hidden};
    for (std::size_t i = 1; i < results.size(); ++i) results[i].s = {x->s[0], directions, hidden};
  } else {
    results[0].s = {x->s[0], directions, x->s[1], hidden};
    for (std::size_t i = 1; i < results.size(); ++i) results[i].s = {directions, x->s[1], hidden};
  }
  return "";
}

}  // namespace berth::model

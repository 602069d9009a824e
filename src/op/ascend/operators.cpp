#include "op/ascend/operators.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "op/ascend/rows.hpp"
#include "op/by_name.hpp"

namespace berth::op::ascend {

namespace {

// The rows, and the functions of those that have the names of their operators.
struct known_rows {
  rows_by_name<row> by_operator;
  std::map<std::string, std::string, std::less<>> function;

  known_rows() {
    for (const rows* each : {&dimension_rows, &elementwise_rows, &product_rows, &shape_rows, &window_rows}) {
      add_rows(by_operator, *each);
    }
    for (const auto& [op, r] : by_operator) function[op] = r->function == nullptr ? "aclnn" + op : r->function;
  }
};

served serve_on(const device& on, const functions& acl, const request& q, std::vector<tensor_type> outputs) {
  // The table's own kernel, which is not run, gives the request's meaning and the places of a result.
  served s = serve(q, std::move(outputs));
  if (s.run == nullptr) return s;
  static const auto& known = *new known_rows;
  const row* r = find_row(known.by_operator, q.op);
  if (r == nullptr) refuse("the device " + on.properties().name + " has no operator for it");
  require(trailing_ones(q) == 0, "the device broadcasts as it is done since opset 7");
  setting how{acl, q, s.outputs, {}, nullptr, 0};
  take_functions(how, known.function.find(q.op)->second.c_str());
  std::vector<operand_rule> rules;
  for (const std::size_t i : operands_of(q)) how.how.types.push_back(*q.inputs[i]);
  how.given = how.how.types.size();
  how.how.types.insert(how.how.types.end(), s.outputs.begin(), s.outputs.end());
  for (std::size_t k = 0; k < how.how.types.size(); ++k) {
    tensor_type& t = how.how.types[k];
    t.strides = strides_of(t);
    require(t.shape.size() <= most_dimensions, "the device's tensors have at most 8 dimensions");
    require(std::all_of(t.strides.begin(), t.strides.end(), [](std::int64_t by) { return by >= 0; }),
            "the device reads forwards only");
    rules.push_back(s.run->operand(k));
  }
  const driver::current_context current = in_context_of(acl, on);
  how.how.ask = r->how(how);
  for (operand_rule& rule : rules) rule.may_overwrite = rule.may_overwrite && !how.how.apart;
  s.run = make_operation(acl, on, std::move(how.how), rules);
  return s;
}

}  // namespace

result<server> operators_of(const device& d) {
  const functions* acl = load();
  if (acl == nullptr) return error{errc::unsupported, "ascend: this CANN has no operators (aclnn)"};
  return server{[d, acl](const request& q, std::vector<tensor_type> outputs) {
    return serve_on(d, *acl, q, std::move(outputs));
  }};
}

}  // namespace berth::op::ascend

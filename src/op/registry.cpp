// The one table of operators. A new operator is a row in a file below operators/, whose list stands here.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>

#include "berth/core/contract.hpp"
#include "op/operators/rows.hpp"
#include "op/user_kernel.hpp"

namespace berth::op {

namespace {

// Without memory of the heap: find() is asked where there may be none.
struct sorted_rows {
  std::array<const definition*, 512> row;
  std::size_t count = 0;
};

sorted_rows sorted() {
  sorted_rows table;
  for (const rows* each :
       {&algebra_rows, &binary_rows, &choosing_rows, &elementwise_rows, &gathering_rows, &lane_rows, &loss_rows,
        &movement_rows, &normalization_rows, &pooling_rows, &product_rows, &quantization_rows, &recurrent_rows,
        &reduction_rows, &resizing_rows, &sampling_rows, &shaping_rows, &signal_rows, &window_rows}) {
    for (const definition& d : *each) {
      expects(table.count < table.row.size(), "op: more operators than the table has room for");
      table.row[table.count++] = &d;
    }
  }
  std::sort(table.row.begin(), table.row.begin() + static_cast<std::ptrdiff_t>(table.count),
            [](const definition* a, const definition* b) { return std::strcmp(a->name, b->name) < 0; });
  return table;
}

std::span<const definition* const> table() noexcept {
  static const sorted_rows all = sorted();
  return {all.row.data(), all.count};
}

const definition& row_of(const request& q) {
  const definition* d = find(q.op);
  if (d == nullptr && find_kernel(q.op) != nullptr)
    refuse("a kernel of the user's takes the results as they are given");
  if (d == nullptr) refuse("the operator has no kernel here");
  if (d->most_inputs != any_number && q.inputs.size() > d->most_inputs) {
    refuse("has " + std::to_string(q.inputs.size()) + " inputs, the operator at most " +
           std::to_string(d->most_inputs));
  }
  if (q.outputs == 0) refuse("no results are wanted");
  return *d;
}

std::int64_t step_of(const tensor_type& t) {
  return static_cast<std::int64_t>(std::max<bytes>(element_size(t.type), 1));
}

// Checks strides, as kernels step through memory by them: whole elements, within 64 bits. Returns the bytes between the
// begin of its first element and that of its last; 0 if there are no strides.
std::int64_t validated_reach(const tensor_type& t, const std::string& what) {
  if (t.strides.empty()) return 0;
  if (t.strides.size() != t.shape.size()) refuse(what + " has not one stride per dimension");
  const std::int64_t size = step_of(t);
  std::int64_t reach = 0;
  for (std::size_t d = 0; d < t.shape.size(); ++d) {
    if (t.shape[d] < 2) continue;
    if (t.strides[d] % size != 0) refuse(what + " has strides that are no multiples of its element's size");
    std::int64_t far = 0;
    if (__builtin_mul_overflow(t.strides[d], t.shape[d] - 1, &far) || far < -(std::int64_t{1} << 60) ||
        far > std::int64_t{1} << 60 || (reach += far < 0 ? -far : far) > std::int64_t{1} << 61) {
      refuse(what + " reaches beyond 2^61 bytes");
    }
  }
  return reach;
}

// Input 1 with `ones` dimensions of 1 behind its own (trailing_ones()).
request widened(request q, std::size_t ones) {
  tensor_type& t = *q.inputs[1];
  if (!t.strides.empty()) t.strides.insert(t.strides.end(), ones, step_of(t));
  t.shape.insert(t.shape.end(), ones, 1);
  q.attributes.erase("axis");
  return q;
}

}  // namespace

void validate_inputs(const request& q) {
  for (const std::size_t i : operands_of(q)) {
    if (q.inputs[i]->type == element::other)
      refuse("input " + std::to_string(i) + " is of a type that is not supported");
  }
  for (std::size_t i = 0; i < q.inputs.size(); ++i) {
    if (!has(q, i)) continue;
    const tensor_type& t = *q.inputs[i];
    (void)count_of(t.shape);
    (void)validated_reach(t, "input " + std::to_string(i));
  }
}

void validate_result(const tensor_type& t, std::size_t i) {
  const std::string what = "result " + std::to_string(i);
  if (t.type == element::other) refuse(what + " is of a type that is not supported");
  const std::int64_t elements = count_of(t.shape);
  const std::int64_t reach = validated_reach(t, what);
  for (std::size_t d = 0; d < t.strides.size(); ++d) {
    if (t.shape[d] > 1 && t.strides[d] == 0) refuse(what + " has a stride of 0: its elements would lie on one another");
  }
  const std::int64_t places = reach / step_of(t) + 1;
  if (!t.strides.empty() && elements > places) {
    refuse(what + " has " + std::to_string(elements) + " elements in " + std::to_string(places) +
           " places: they would lie on one another");
  }
}

bool is_empty(const tensor_type& t) noexcept {
  return std::find(t.shape.begin(), t.shape.end(), 0) != t.shape.end();
}

const definition* find(std::string_view name) noexcept {
  const auto all = table();
  const auto at = std::lower_bound(all.begin(), all.end(), name,
                                   [](const definition* d, std::string_view n) { return d->name < n; });
  return at != all.end() && (*at)->name == name ? *at : nullptr;
}

std::span<const definition* const> all() {
  return table();
}

std::vector<std::size_t> operands_of(const request& q) {
  const definition* d = find(q.op);
  const std::uint32_t parameters = d == nullptr ? 0 : d->parameters;
  std::vector<std::size_t> operands;
  for (std::size_t i = 0; i < q.inputs.size(); ++i) {
    if (has(q, i) && (i >= 32 || (parameters >> i & 1u) == 0)) operands.push_back(i);
  }
  return operands;
}

std::vector<tensor_type> infer(const request& q) {
  const definition& d = row_of(q);
  validate_inputs(q);
  if (const std::size_t ones = trailing_ones(q); ones != 0) return infer(widened(q, ones));
  std::vector<tensor_type> outputs = d.infer(q);
  if (outputs.size() < q.outputs)
    refuse("has " + std::to_string(q.outputs) + " results, the operator at most " + std::to_string(outputs.size()));
  outputs.resize(q.outputs);
  for (const tensor_type& t : outputs) (void)count_of(t.shape);
  return outputs;
}

served serve(const request& q, std::vector<tensor_type> outputs) {
  if (find(q.op) == nullptr) {
    if (const auto mine = find_kernel(q.op)) return serve_by(mine, q, std::move(outputs), device::host());
  }
  if (const std::size_t ones = trailing_ones(q); ones != 0) return serve(widened(q, ones), std::move(outputs));
  served s{infer(q), nullptr};
  for (std::size_t i = 0; i < outputs.size() && i < s.outputs.size(); ++i) {
    if (outputs[i].shape != s.outputs[i].shape || outputs[i].type != s.outputs[i].type) {
      refuse("result " + std::to_string(i) + " is " + text_of(s.outputs[i].shape) + " " + name(s.outputs[i].type) +
             ", not " + text_of(outputs[i].shape) + " " + name(outputs[i].type));
    }
    validate_result(outputs[i], i);
    s.outputs[i].strides = strides_of(outputs[i]);
  }
  if (!std::all_of(s.outputs.begin(), s.outputs.end(), is_empty)) s.run = find(q.op)->make(q, s.outputs);
  return s;
}

const char* name(element e) noexcept {
  constexpr const char* names[] = {"f32", "f16", "bf16", "f64", "i8",  "u8",  "i16",
                                   "u16", "i32", "u32",  "i64", "u64", "bool"};
  static_assert(std::size(names) == static_cast<std::size_t>(element::other));
  return e < element::other ? names[static_cast<std::size_t>(e)] : "of no type known here";
}

types like_first(const request& q) {
  if (input(q, 0).type == element::other) refuse("input 0 is of a type that is not supported");
  return {dense(input(q, 0).type, shape_of(q, 0))};
}

made known(const request& q, const types& outputs, std::vector<std::int64_t> values) {
  if (!is_row_major(outputs[0])) refuse("a result that is not row-major");
  return function(q, outputs, [values = std::move(values)](bases at, void*) {
    if (!values.empty()) std::memcpy(at[0], values.data(), values.size() * sizeof(std::int64_t));
  });
}

types like_all(const request& q) {
  require_same_types(q);
  shape s = shape_of(q, 0);
  for (std::size_t i = 1; i < q.inputs.size(); ++i) s = broadcast(s, shape_of(q, i));
  return {dense(input(q, 0).type, s)};
}

types truth_of_all(const request& q) {
  types t = like_all(q);
  return {dense(element::boolean, t[0].shape)};
}

}  // namespace berth::op

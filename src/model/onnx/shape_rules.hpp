// Rules of types and shapes beside the table of operators: element types that no kernel knows, operators without
// kernels, and declarations of the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "berth/model/description.hpp"
#include "berth/model/input_error.hpp"

namespace berth::model {

// A value's shape, and its elements' type by ONNX's number.
struct known {
  shape s;
  std::int64_t type = 0;
};

// Returns the bits of an element of that type; 0: it has no size in memory that is known here.
[[nodiscard]] unsigned bits_of(std::int64_t type) noexcept;
// Returns the type's name as messages have it: "f32", "u4", "string"; "type 99" for an unknown one.
[[nodiscard]] std::string type_name(std::int64_t type);
// Returns "f32 1x99".
[[nodiscard]] std::string text_of(const known& k);

// Two statements of a file, or of a file and the caller, that cannot both be true.
class contradiction_error : public input_error {
 public:
  using input_error::input_error;
};
// The same of types, which no choice of sizes makes true.
class type_contradiction : public contradiction_error {
 public:
  using contradiction_error::contradiction_error;
};

// Returns how the file's declaration contradicts what is inferred, with both; "" where it does not.
[[nodiscard]] std::string contradiction(const declared_type& said, const known& is);

// An attribute and an input of a node that say two types.
class types_disagree : public op::refusal {
 public:
  using op::refusal::refusal;
};

// A node as the rules ask for it.
struct shape_query {
  const node& n;
  std::int64_t opset;
  std::vector<const known*> inputs;      // null: left out
  std::vector<const tensor*> constants;  // null: not known
};

// Returns the type of the first result if an attribute or a rule of its own sets it, as QuantizeLinear's output_dtype
// and Cast's `to`. Returns nothing if the table decides. Throws types_disagree.
[[nodiscard]] std::optional<std::int64_t> type_set_by(const shape_query& q);

// Sets the results of an operator that the table has no kernels for. Returns why it cannot, or "".
[[nodiscard]] std::string infer_beside_table(const shape_query& q, std::vector<known>& results);

}  // namespace berth::model

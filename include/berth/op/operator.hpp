// The operators by name: what each accepts, the types of its results, and an operation that computes it.
//
// One table knows all of them (src/op/registry.cpp); an operator is one row of it. Names, attributes and their meaning
// are ONNX's (https://github.com/onnx/onnx/blob/main/docs/Operators.md) at the opset that the request names. The
// operations made here are Berth's own kernels. They are plain loops over any strides (broadcasting, views, reversed
// dimensions), for every element type of the operator, and allocate nothing when they run. The library's kernels
// (berth/op/kernels.hpp) are checked against them, and they run if the library has none.
//
// Half-precision operands are computed in f32, f32 reductions are summed in f64, integers wrap around; an integer
// divided by zero is 0. Thread-safety: everything here may be called from any thread.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "berth/graph/graph.hpp"
#include "berth/op/operation.hpp"

namespace berth::op {

using shape = std::vector<std::int64_t>;
// Bounds of a shape: kernels count extents, padding included, in 32 bits, and no number made of two such overflows.
inline constexpr std::int64_t most_extent = std::int64_t{1} << 30;
inline constexpr std::size_t most_rank = 32;

// A constant: dense, row-major.
struct tensor {
  element type = element::f32;
  op::shape shape{};
  std::vector<std::byte> data{};
};

using attribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>, tensor,
                               std::vector<std::string>>;
using attributes = std::map<std::string, attribute>;

// One use of an operator.
struct request {
  std::string op{};
  std::int64_t opset = 17;
  // By input; empty: an optional one left out. Strides are in bytes; none: row-major. A stride is 0 for an operand that
  // is broadcast there, and below 0 for one that is read backwards. Its address is then that of the element with index
  // 0.
  std::vector<std::optional<tensor_type>> inputs{};
  // By input: its values if they are known now, else null (or shorter than `inputs`). Inputs that decide the shape of a
  // result must be known. Phase one reads them, and they are no operands of phase two (definition::parameters).
  std::vector<const tensor*> constants{};
  op::attributes attributes{};
  std::size_t outputs = 1;  // how many results are wanted
};

struct definition {
  const char* name;
  std::uint32_t most_inputs;  // of those ONNX has; any_number where it has no limit
  std::uint32_t parameters;   // bit i: input i is read in phase one
  bool linear;                // takes time linear in its operands: what a reader may compute while it reads
  // Returns the types of the results, row-major. Throws refusal.
  std::vector<tensor_type> (*infer)(const request&);
  // Makes the operation, whose results lie as `outputs` says. Throws refusal. Not called if infer() throws.
  std::unique_ptr<operation> (*make)(const request&, const std::vector<tensor_type>& outputs);
  // The default shapes of the inputs for a trial: "64x32,32".
  const char* example;
};
inline constexpr std::uint32_t any_number = 0xffffffffu;

// The reason why the operator does not serve a request, as a text for the caller that names the operand or attribute.
class refusal : public std::exception {
 public:
  explicit refusal(std::string why) : why_{std::move(why)} {}
  [[nodiscard]] const char* what() const noexcept override { return why_.c_str(); }

 private:
  std::string why_;
};

// Returns the row, or null.
[[nodiscard]] const definition* find(std::string_view name) noexcept;
// Returns all rows, in the order of their names.
[[nodiscard]] std::span<const definition* const> all();

// A request served: the results' types, and the operation. Its operands are the given inputs but parameters, in order,
// then the results. There is no operation if a result is empty: there is nothing to compute.
struct served {
  std::vector<tensor_type> outputs;
  std::unique_ptr<operation> run;
};
// Serves a request. `outputs`: the places of the results, if not row-major; their shapes and types must be those
// inferred. Throws refusal for an unknown operator, an attribute out of range, or an operand that is missing or has a
// wrong type or shape. Limits of shapes: 32 dimensions, 2^30 in each, 2^59 elements.
[[nodiscard]] served serve(const request& q, std::vector<tensor_type> outputs = {});
// Returns the types of the results alone.
[[nodiscard]] std::vector<tensor_type> infer(const request& q);
// Returns the inputs (by their index) that are operands of phase two.
[[nodiscard]] std::vector<std::size_t> operands_of(const request& q);

// Returns the name as in messages and on the command line ("f16", "bool").
[[nodiscard]] const char* name(element e) noexcept;

}  // namespace berth::op
#pragma GCC visibility pop

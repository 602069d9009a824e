// The bounds of a model's memory beyond its file, for all nodes together. A node of a few bytes can ask for gigabytes
// of constants (ConstantOfShape, the same weights packed once more) or for minutes of generated code.
#pragma once

#include "berth/model/description.hpp"

namespace berth::model {

class allowance {
 public:
  // Allows 256 MiB and four times the bytes of the model's constants. Halves count as f32: products convert them, and
  // take five times their bytes meanwhile (read, cast, packed).
  explicit allowance(const description& m);

  // Takes the bytes that the node is about to hold. Throws input_error that names it if there is no room.
  void take(const description& m, const node& n, bytes made);
  // Takes the elements that the node's kernel unrolls into code: oneDNN unrolls windows and normalized rows.
  void unroll(const description& m, const node& n, std::int64_t elements);

 private:
  bytes bytes_;
  std::int64_t elements_ = std::int64_t{1} << 24;
};

}  // namespace berth::model

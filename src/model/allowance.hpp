// What a model may take beyond its file. A node of a few bytes can ask for gigabytes of constants (ConstantOfShape, the
// same weights packed once more) or for minutes of generated code; what all nodes ask for together has bounds.
#pragma once

#include "berth/model/description.hpp"

namespace berth::model {

class allowance {
 public:
  // 256 MiB and four times what the model's constants hold, those of halves as f32: products make that of them, and
  // take five times their bytes while they do (read, cast, packed).
  explicit allowance(const description& m);

  // Bytes that the node is about to hold. Throws input_error that names it where there is no room.
  void take(const description& m, const node& n, bytes made);
  // The elements that the node's kernel has in a row of code each: oneDNN unrolls windows and normalized rows.
  void unroll(const description& m, const node& n, std::int64_t elements);

 private:
  bytes bytes_;
  std::int64_t elements_ = std::int64_t{1} << 24;
};

}  // namespace berth::model

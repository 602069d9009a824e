#include "model/allowance.hpp"

#include "berth/model/input_error.hpp"

namespace berth::model {

allowance::allowance(const description& m) : bytes_{bytes{256} << 20} {
  for (const auto& [name, t] : m.constants) {
    const bool half = t.type == element::f16 || t.type == element::bf16;
    bytes_ += (half ? 8 : 4) * bytes{t.data.size()};
  }
}

void allowance::take(const description& m, const node& n, bytes made) {
  if (made > bytes_) {
    throw input_error(
        m.source,
        called(n) + ": " + std::to_string(made) +
            " bytes of constants more: all together exceed 256 MiB and four times the file's (halves as f32)");
  }
  bytes_ -= made;
}

void allowance::unroll(const description& m, const node& n, std::int64_t elements) {
  if (elements > elements_) {
    throw input_error(m.source, called(n) + ": its kernel is too wide, or those of all nodes are together");
  }
  elements_ -= elements;
}

}  // namespace berth::model

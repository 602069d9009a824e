#include "op/plain/nest.hpp"

#include <algorithm>
#include <cstdlib>

namespace berth::op {

nest::nest(const shape& s, const std::vector<strides>& by) {
  if (by.size() > most_operands) refuse("more than " + std::to_string(most_operands) + " operands");
  empty_ = std::find(s.begin(), s.end(), 0) != s.end();
  std::vector<loop> loops;
  for (std::size_t d = 0; d < s.size(); ++d) {
    if (s[d] == 1) continue;
    loop l{s[d], {}};
    for (const strides& each : by) l.stride.push_back(each[d]);
    loops.push_back(std::move(l));
  }
  std::stable_sort(loops.begin(), loops.end(),
                   [](const loop& a, const loop& b) { return std::abs(a.stride.back()) > std::abs(b.stride.back()); });
  for (loop& l : loops) {
    const bool follows = !outer_.empty() && [&] {
      for (std::size_t k = 0; k < l.stride.size(); ++k) {
        if (outer_.back().stride[k] != l.stride[k] * l.count) return false;
      }
      return true;
    }();
    if (follows) {
      outer_.back().count *= l.count;
      outer_.back().stride = l.stride;
    } else {
      outer_.push_back(std::move(l));
    }
  }
  row_strides_.assign(by.size(), 0);
  if (!outer_.empty()) {
    row_ = outer_.back().count;
    row_strides_ = outer_.back().stride;
    outer_.pop_back();
  }
  if (outer_.size() > most_rank) refuse("more than " + std::to_string(most_rank) + " loops around a row");
}

}  // namespace berth::op

// A loop nest over tensors of one shape, each with strides of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "op/request.hpp"

namespace berth::op {

inline constexpr std::size_t most_operands = 64;  // that one kernel walks over together

// The operands of a run, by their first elements.
using bases = std::span<std::byte* const>;

// Made in phase one. Drops dimensions of 1 and puts the others in the order of the last operand's memory. Joins
// dimensions that follow one another in all operands. Walking allocates nothing.
class nest {
 public:
  nest() = default;
  // `by`: strides per operand, each as long as `s`. Refuses more than most_operands, and more than most_rank loops
  // around the innermost one: `s` may be longer than any tensor's shape.
  nest(const shape& s, const std::vector<strides>& by);

  // The row is the innermost loop: its length and its strides.
  [[nodiscard]] std::int64_t row() const noexcept { return row_; }
  [[nodiscard]] std::int64_t stride(std::size_t operand) const noexcept { return row_strides_[operand]; }
  [[nodiscard]] std::size_t operands() const noexcept { return row_strides_.size(); }
  [[nodiscard]] bool is_point() const noexcept { return row_ == 1 && outer_.empty() && !empty_; }

  // One element of a row: here[k] is its address in operand k.
  struct point {
    std::byte* const* row;
    const std::int64_t* by;
    std::int64_t i;
    [[nodiscard]] std::byte* operator[](std::size_t operand) const noexcept { return row[operand] + i * by[operand]; }
  };
  // f(here) for every element.
  template <class F>
  void each(bases base, F&& f) const {
    rows(base, [&](std::byte* const* row) {
      for (std::int64_t i = 0; i < row_; ++i) f(point{row, row_strides_.data(), i});
    });
  }

  // f(at) for every row, `at` the addresses of its first elements.
  template <class F>
  void rows(bases base, F&& f) const {
    if (empty_) return;
    std::array<std::byte*, most_operands> at;
    for (std::size_t k = 0; k < row_strides_.size(); ++k) at[k] = base[k];
    std::array<std::int64_t, most_rank> index{};
    for (;;) {
      f(static_cast<std::byte* const*>(at.data()));
      std::size_t d = outer_.size();
      for (; d-- > 0;) {
        const loop& l = outer_[d];
        const bool more = ++index[d] < l.count;
        for (std::size_t k = 0; k < row_strides_.size(); ++k)
          at[k] += more ? l.stride[k] : -(l.count - 1) * l.stride[k];
        if (more) break;
        index[d] = 0;
      }
      if (d == static_cast<std::size_t>(-1)) return;
    }
  }

 private:
  struct loop {
    std::int64_t count = 1;
    std::vector<std::int64_t> stride;  // by operand
  };
  std::vector<loop> outer_;
  std::int64_t row_ = 1;
  std::vector<std::int64_t> row_strides_;
  bool empty_ = false;
};

}  // namespace berth::op

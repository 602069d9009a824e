#include "op/plain/plain.hpp"

#include <algorithm>
#include <cstring>

namespace berth::op {

operand_rule rule_of(const tensor_type& t, bool written, bool in_place) {
  operand_rule r;
  const auto size = static_cast<std::int64_t>(element_size(t.type));
  const bool empty = std::find(t.shape.begin(), t.shape.end(), 0) != t.shape.end();
  std::int64_t low = 0, high = empty ? 0 : size;
  for (std::size_t d = 0; d < t.shape.size() && !empty; ++d) {
    const std::int64_t reach = (t.shape[d] - 1) * t.strides[d];
    (reach < 0 ? low : high) += reach;
  }
  r.before = static_cast<bytes>(-low);
  r.size = static_cast<bytes>(high - low);
  r.alignment = static_cast<bytes>(std::max<std::int64_t>(size, 1));
  r.written = written;
  r.may_overwrite = in_place;
  return r;
}

plain_operation::plain_operation(const request& q, const std::vector<tensor_type>& outputs, bool in_place,
                                 bytes workspace, const char* what)
    : operation{operands_of(q).size() + outputs.size(), align_up(workspace, workspace_alignment), what} {
  std::vector<tensor_type> types;
  for (const std::size_t i : operands_of(q)) types.push_back(*q.inputs[i]);
  const std::size_t inputs = types.size();
  types.insert(types.end(), outputs.begin(), outputs.end());
  for (std::size_t k = 0; k < types.size(); ++k) {
    types[k].strides = strides_of(types[k]);
    // An element of a broadcast input is read again after the result was written over it.
    const bool same = in_place && !outputs.empty() && types[k].shape == outputs[0].shape &&
                      types[k].type == outputs[0].type && types[k].strides == strides_of(outputs[0]);
    set_rule(k, rule_of(types[k], k >= inputs, same));
  }
}

strides broadcast_strides(const tensor_type& t, const shape& s) {
  const strides own = strides_of(t);
  strides by(s.size(), 0);
  for (std::size_t d = 0; d < own.size(); ++d) {
    const std::size_t there = d + s.size() - own.size();
    by[there] = t.shape[d] == 1 && s[there] != 1 ? 0 : own[d];
  }
  return by;
}

void write(element e, std::byte* at, double value) noexcept {
  store_as<double>(e)(&value, at, 0, 1);
}

namespace {

void copy_row(const std::byte* from, std::int64_t from_by, std::byte* to, std::int64_t to_by, std::int64_t count,
              std::size_t size) noexcept {
  const auto step = static_cast<std::int64_t>(size);
  if (from_by == step && to_by == step) {
    std::memmove(to, from, static_cast<std::size_t>(count) * size);
    return;
  }
  const auto each = [&]<class T>(T value) {
    std::memcpy(&value, from, sizeof(T));
    if (from_by == 0 && to_by == step) {
      std::fill_n(reinterpret_cast<T*>(to), count, value);
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(&value, from + i * from_by, sizeof(T));
      std::memcpy(to + i * to_by, &value, sizeof(T));
    }
  };
  if (size == 1) return each(std::uint8_t{});
  if (size == 2) return each(std::uint16_t{});
  if (size == 4) return each(std::uint32_t{});
  each(std::uint64_t{});
}

}  // namespace

void copy_elements(const nest& over, bases at, std::size_t size) noexcept {
  if (over.is_point()) {
    std::memmove(at[1], at[0], size);
    return;
  }
  over.rows(at,
            [&](std::byte* const* row) { copy_row(row[0], over.stride(0), row[1], over.stride(1), over.row(), size); });
}

made copies(const request& q, const std::vector<tensor_type>& outputs, std::vector<strided_copy> each, filling fill) {
  const std::size_t result = operands_of(q).size(), size = element_size(outputs[0].type);
  if (fill.element.empty()) fill.element.resize(size);
  std::vector<nest> passes;
  for (const strided_copy& c : each) passes.emplace_back(c.shape, std::vector{c.from_by, c.to_by});
  const strides nowhere(outputs[0].shape.size(), 0);
  const nest whole{outputs[0].shape, {nowhere, strides_of(outputs[0])}};
  const auto run = [=](bases at, void*) mutable {
    if (fill.wanted) {
      std::byte* const value = fill.operand < 0 ? fill.element.data() : at[static_cast<std::size_t>(fill.operand)];
      copy_elements(whole, std::array<std::byte*, 2>{value, at[result]}, size);
    }
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const strided_copy& c = each[i];
      const std::array<std::byte*, 2> base{at[c.from] + c.from_offset, at[result + c.to] + c.to_offset};
      copy_elements(passes[i], base, size);
    }
  };
  return function(q, outputs, run);
}

}  // namespace berth::op

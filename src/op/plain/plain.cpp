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
  for (const std::size_t i : operands_of(q)) types_.push_back(*q.inputs[i]);
  inputs_ = types_.size();
  types_.insert(types_.end(), outputs.begin(), outputs.end());
  for (std::size_t k = 0; k < types_.size(); ++k) {
    types_[k].strides = strides_of(types_[k]);
    // An element of a broadcast input is read again after the result was written over it.
    const bool same = in_place && !outputs.empty() && types_[k].shape == outputs[0].shape &&
                      types_[k].type == outputs[0].type && types_[k].strides == strides_of(outputs[0]);
    set_rule(k, rule_of(types_[k], k >= inputs_, same));
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
  const auto each = [&]<class T>(T) {
    for (std::int64_t i = 0; i < count; ++i) {
      T value;
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
  over.rows(at,
            [&](std::byte* const* row) { copy_row(row[0], over.stride(0), row[1], over.stride(1), over.row(), size); });
}

namespace {

class copy_operation final : public plain_operation {
 public:
  copy_operation(const request& q, const std::vector<tensor_type>& outputs, std::vector<strided_copy> each,
                 filling fill)
      : plain_operation{q, outputs, false}, fill_{std::move(fill)} {
    size_ = static_cast<std::size_t>(element_size(outputs[0].type));
    if (fill_.element.empty()) fill_.element.resize(size_);
    for (strided_copy& c : each) {
      c.to += inputs_;
      const nest over{c.shape, {c.from_by, c.to_by}};
      passes_.push_back({std::move(c), over});
    }
    const tensor_type& first = types_[inputs_];
    whole_ = nest{first.shape, {first.strides}};
  }

 private:
  struct pass {
    strided_copy copy;
    nest over;
  };
  void compute() noexcept override {
    if (fill_.wanted) {
      const std::byte* value = fill_.operand < 0 ? fill_.element.data() : at(static_cast<std::size_t>(fill_.operand));
      const std::array<std::byte*, 1> to{at(inputs_)};
      whole_.rows(to,
                  [&](std::byte* const* row) { copy_row(value, 0, row[0], whole_.stride(0), whole_.row(), size_); });
    }
    for (const pass& p : passes_) {
      const std::array<std::byte*, 2> base{at(p.copy.from) + p.copy.from_offset, at(p.copy.to) + p.copy.to_offset};
      copy_elements(p.over, base, size_);
    }
  }
  std::vector<pass> passes_;
  nest whole_;
  filling fill_;
  std::size_t size_ = 0;
};

}  // namespace

made copies(const request& q, const std::vector<tensor_type>& outputs, std::vector<strided_copy> each, filling fill) {
  return std::make_unique<copy_operation>(q, outputs, std::move(each), std::move(fill));
}

}  // namespace berth::op

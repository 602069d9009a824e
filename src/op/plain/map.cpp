#include "op/plain/map.hpp"

#include <algorithm>
#include <array>

namespace berth::op {

namespace {

template <class C>
class map_kernel {
 public:
  map_kernel(const request& q, const tensor_type& output, const map_plan& plan)
      : f_{std::get<row_function<C>>(plan.f)},
        last_{std::get<row_function<C>>(plan.last)},
        p_{plan.p},
        successive_{plan.successive},
        store_{store_as<C>(output.type)} {
    if (f_ == nullptr)
      refuse(std::string{"input 0 is "} + name(input(q, 0).type) + ", which the operator is not defined on");
    std::vector<strides> by;
    const auto add = [&](const tensor_type& t) {
      by.push_back(broadcast_strides(t, output.shape));
      if (load_as<C>(t.type) == nullptr) refuse("an operand is of a type that is not supported");
      load_.push_back(load_as<C>(t.type));
      native_.push_back(is_native<C>(t.type));
    };
    for (const std::size_t i : operands_of(q)) add(*q.inputs[i]);
    inputs_ = by.size();
    if (!successive_ && inputs_ > most_at_once) refuse("more operands than the operator has");
    add(output);
    over_ = nest{output.shape, by};
  }

  void operator()(bases at, void*) const noexcept {
    alignas(64) std::array<std::array<C, chunk>, most_at_once + 1> buffers;
    const bool direct = native_[inputs_] && over_.stride(inputs_) == step;
    over_.rows(at, [&](std::byte* const* row) {
      for (std::int64_t done = 0; done < over_.row(); done += chunk) {
        const std::int64_t count = std::min(chunk, over_.row() - done);
        std::byte* to = row[inputs_] + done * over_.stride(inputs_);
        C* out = direct && !successive_ ? reinterpret_cast<C*>(to) : buffers[most_at_once].data();
        std::array<const C*, most_at_once> in{};
        if (successive_) {
          accumulate(row, done, count, buffers[0].data(), out);
        } else {
          for (std::size_t k = 0; k < inputs_; ++k) in[k] = elements(k, row, done, count, buffers[k].data());
          f_(in.data(), out, count, p_.data());
        }
        if (!direct || successive_) store_(out, to, over_.stride(inputs_), count);
      }
    });
  }

 private:
  static constexpr std::size_t most_at_once = 3;
  static constexpr auto step = static_cast<std::int64_t>(sizeof(C));

  // Returns the operand's elements as C: in place, or in `buffer`.
  const C* elements(std::size_t k, std::byte* const* row, std::int64_t done, std::int64_t count, C* buffer) const {
    const std::int64_t by = over_.stride(k);
    const std::byte* from = row[k] + done * by;
    if (native_[k] && by == step) return reinterpret_cast<const C*>(from);
    load_[k](from, by, count, buffer);
    return buffer;
  }

  void accumulate(std::byte* const* row, std::int64_t done, std::int64_t count, C* buffer, C* sum) const {
    load_[0](row[0] + done * over_.stride(0), over_.stride(0), count, sum);
    for (std::size_t k = 1; k < inputs_; ++k) {
      const std::array<const C*, 2> in{sum, elements(k, row, done, count, buffer)};
      f_(in.data(), sum, count, p_.data());
    }
    const std::array<const C*, 1> in{sum};
    if (last_ != nullptr) last_(in.data(), sum, count, p_.data());
  }

  row_function<C> f_, last_;
  std::vector<double> p_;
  bool successive_;
  store_function<C> store_;
  std::size_t inputs_ = 0;
  nest over_;
  std::vector<load_function<C>> load_;
  std::vector<bool> native_;
};

}  // namespace

made map(const request& q, const std::vector<tensor_type>& outputs, const map_plan& plan) {
  return in_domain(plan.in, [&]<class C>(C) {
    return function(q, outputs, map_kernel<C>{q, outputs[0], plan}, 0, "", true);
  });
}

}  // namespace berth::op

#include "op/primitive.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "berth/core/contract.hpp"
#include "berth/op/operator.hpp"

namespace berth::op {

namespace {

constexpr std::int64_t element_bytes = 4;

// Returns whether elements lie alike under both strides. The stride of a dimension of size 1 says nothing.
bool lie_alike(std::span<const std::int64_t> sizes, std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1 && a[d] != b[d]) return false;
  }
  return true;
}

dnnl::stream& queue() {
  // A CPU stream of oneDNN keeps no state between primitives, so that one serves all threads.
  static auto& s = *new dnnl::stream{cpu()};
  return s;
}

bool all_at_least(const std::byte* row, std::int64_t stride, std::int64_t count, float least) {
  const auto element = [&](std::int64_t i) {
    float x;
    std::memcpy(&x, row + i * stride, sizeof x);
    return x;
  };
  if (stride != element_bytes) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (!(element(i) >= least)) return false;
    }
    return true;
  }
  const auto* const x = reinterpret_cast<const float*>(row);
  constexpr std::int64_t block = 4096;  // within which nothing is decided, so that the loop is one of vectors
  for (std::int64_t begin = 0; begin < count; begin += block) {
    int below = 0;
    for (std::int64_t i = begin; i < std::min(count, begin + block); ++i) below |= !(x[i] >= least);
    if (below != 0) return false;
  }
  return true;
}

void fill_row(std::byte* to, std::int64_t stride, std::int64_t count, float value) {
  if (stride == element_bytes) {
    std::fill_n(reinterpret_cast<float*>(to), count, value);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * stride, &value, sizeof value);
}

void copy_row(const std::byte* from, std::byte* to, std::int64_t stride, std::int64_t count) {
  if (stride == element_bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(count * element_bytes));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * stride, from + i * stride, sizeof(float));
}

}  // namespace

bool allocates(const char* kernel) {
  return std::strstr(kernel, "gemm") != nullptr && std::strncmp(kernel, "brg", 3) != 0;
}

bool is_reference(const char* kernel) {
  return std::strncmp(kernel, "ref", 3) == 0;
}

bool is_generated(const char* kernel) {
  return std::strncmp(kernel, "jit", 3) == 0 || std::strncmp(kernel, "brg", 3) == 0;
}

dnnl::engine& cpu() {
  static auto& e = *new dnnl::engine{dnnl::engine::kind::cpu, 0};
  return e;
}

std::vector<std::int64_t> row_major(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> by(sizes.size());
  std::int64_t next = element_bytes;
  for (std::size_t d = sizes.size(); d-- > 0; next *= sizes[d]) by[d] = next;
  return by;
}

std::vector<std::int64_t> channels_last(std::span<const std::int64_t> sizes) {
  if (sizes.size() < 3) return row_major(sizes);
  std::vector<std::int64_t> by(sizes.size());
  by[1] = element_bytes;
  std::int64_t next = element_bytes * sizes[1];
  for (std::size_t d = sizes.size(); d-- > 2; next *= sizes[d]) by[d] = next;
  by[0] = next;
  return by;
}

namespace {
constexpr std::int64_t most_library_extent = std::int64_t{1} << 30;
}  // namespace

void require_countable(const tensor_type& input, const window& over) {
  const std::size_t rank = over.kernel.size();
  for (const auto* each : {&over.strides, &over.dilations, &over.pads_begin, &over.pads_end}) {
    if (each->size() != rank) throw dnnl::error{dnnl_invalid_arguments, "berth: a window of several ranks"};
  }
  if (input.shape.size() != rank + 2) throw dnnl::error{dnnl_invalid_arguments, "berth: a window of another rank"};
  for (std::size_t i = 0; i < over.kernel.size(); ++i) {
    const std::int64_t reach = (over.kernel[i] - 1) * over.dilations[i] + 1;
    const std::int64_t seen = input.shape[i + 2] + over.pads_begin[i] + over.pads_end[i];
    if (std::max({reach, seen, over.strides[i]}) > most_library_extent) throw uncountable{};
  }
}

dnnl::memory::desc descriptor(const tensor_type& t, ones as) {
  if (std::any_of(t.shape.begin(), t.shape.end(), [](std::int64_t d) { return d > most_library_extent; }))
    throw uncountable{};
  if (t.type != element::f32) throw dnnl::error{dnnl_unimplemented, "berth: only f32 tensors have kernels"};
  if (!t.strides.empty() && t.strides.size() != t.shape.size()) {
    throw dnnl::error{dnnl_invalid_arguments, "berth: not one stride per dimension"};
  }
  if (t.shape.empty()) return dnnl::memory::desc{{1}, dnnl::memory::data_type::f32, dnnl::memory::dims{1}};
  const std::vector<std::int64_t> rows = row_major(t.shape), last = channels_last(t.shape);
  std::vector<std::int64_t> by = t.strides.empty() ? rows : t.strides;
  const auto& first = as == ones::channels_last ? last : rows;
  const auto& second = as == ones::channels_last ? rows : last;
  if (lie_alike(t.shape, by, first)) {
    by = first;
  } else if (lie_alike(t.shape, by, second)) {
    by = second;
  }
  for (std::size_t d = 0; d < by.size(); ++d) {
    const bool counts = t.shape[d] != 1;
    if (counts && by[d] % element_bytes != 0)
      throw dnnl::error{dnnl_unimplemented, "berth: a stride within an element"};
    by[d] /= element_bytes;
  }
  return dnnl::memory::desc{t.shape, dnnl::memory::data_type::f32, by};
}

bool is_channels_last(const tensor_type& t) {
  return descriptor(t) == descriptor({t.shape, t.type, 0, channels_last(t.shape)});
}

dnnl::memory::desc dense_descriptor(const dnnl::memory::dims& sizes) {
  return descriptor({sizes, element::f32, 0, row_major(sizes)});
}

void append(dnnl::post_ops& ops, const activations& each) {
  using dnnl::algorithm;
  for (const activation& a : each) {
    const auto eltwise = [&](algorithm kind, float alpha = 0, float beta = 0) {
      ops.append_eltwise(1.0f, kind, alpha, beta);
    };
    switch (a.kind) {
      case activation_kind::relu: eltwise(algorithm::eltwise_relu, a.alpha); break;
      case activation_kind::clip: eltwise(algorithm::eltwise_clip, a.alpha, a.beta); break;
      case activation_kind::linear: eltwise(algorithm::eltwise_linear, a.alpha, a.beta); break;
      case activation_kind::sigmoid: eltwise(algorithm::eltwise_logistic); break;
      case activation_kind::hard_swish: eltwise(algorithm::eltwise_hardswish); break;
      case activation_kind::swish: eltwise(algorithm::eltwise_swish, a.alpha); break;
      case activation_kind::elu: eltwise(algorithm::eltwise_elu, a.alpha); break;
      case activation_kind::gelu_erf: eltwise(algorithm::eltwise_gelu_erf); break;
      case activation_kind::gelu_tanh: eltwise(algorithm::eltwise_gelu_tanh); break;
      case activation_kind::tanh: eltwise(algorithm::eltwise_tanh); break;
      case activation_kind::exp: eltwise(algorithm::eltwise_exp); break;
      case activation_kind::log: eltwise(algorithm::eltwise_log); break;
      case activation_kind::sqrt: eltwise(algorithm::eltwise_sqrt); break;
      case activation_kind::abs: eltwise(algorithm::eltwise_abs); break;
      case activation_kind::square: eltwise(algorithm::eltwise_square); break;
      case activation_kind::power: eltwise(algorithm::eltwise_pow, a.alpha, a.beta); break;
    }
  }
}

dnnl::primitive_attr primitive_attributes(const dnnl::post_ops& ops) {
  dnnl::primitive_attr a;
  a.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  a.set_post_ops(ops);
  return a;
}

primitive_operation::primitive_operation(dnnl::primitive p, std::vector<operand> operands,
                                         const dnnl::memory::desc& scratchpad, const char* kernel)
    : operation{operands.size(), scratchpad.get_size()},
      primitive_{std::move(p)},
      operands_{std::move(operands)},
      memories_(operands_.size()),
      kernel_{kernel} {
  arguments_.reserve(operands_.size() + 1);
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].argument == 0) continue;
    memories_[i] = dnnl::memory{operands_[i].descriptor, cpu(), nullptr};
    arguments_.push_back({operands_[i].argument, memories_[i].get()});
  }
  if (scratchpad.get_size() != 0) {
    scratchpad_ = dnnl::memory{scratchpad, cpu(), nullptr};
    arguments_.push_back({DNNL_ARG_SCRATCHPAD, scratchpad_.get()});
  }
}

void primitive_operation::copy_first(std::size_t from, std::size_t to, const tensor_type& type) {
  copy_ = {from, to, nest{type.shape, {strides_of(type), strides_of(type)}}};
}

void primitive_operation::fill_first(std::size_t to, float value, const tensor_type& type) {
  fill_ = {to, nest{type.shape, {strides_of(type)}}, value};
}

void primitive_operation::replace_below(float least, const request& q, const tensor_type& output) {
  try {
    looked_at_ = nest{q.inputs[0]->shape, {strides_of(*q.inputs[0])}};
    instead_ = serve(q, {output}).run;
    least_ = least;
  } catch (const refusal&) {  // in a layout that only the primitive knows
  }
}

bytes primitive_operation::packed_size(std::size_t k) const noexcept {
  return operands_[k].plain ? operands_[k].descriptor.get_size() : 0;
}

result<void> primitive_operation::pack(std::size_t k, const void* plain, void* packed) const {
  const auto& o = operands_[k];
  if (!o.plain) return operation::pack(k, plain, packed);
  try {
    dnnl::memory from{*o.plain, cpu(), const_cast<void*>(plain)};
    dnnl::memory to{o.descriptor, cpu(), packed};
    dnnl::reorder{from, to}.execute(queue(), from, to);
    queue().wait();
    return {};
  } catch (const dnnl::error& e) {
    return error{errc::device_failed, "op: packing a constant operand failed", static_cast<std::uint64_t>(e.status)};
  }
}

void primitive_operation::bind(std::span<void* const> addresses, void* workspace) noexcept {
  const auto set = [](const dnnl::memory& memory, void* address) {
    expects(dnnl_memory_set_data_handle(memory.get(), address) == dnnl_success, "op: an address oneDNN takes");
  };
  for (std::size_t i = 0; i < memories_.size(); ++i) {
    if (memories_[i]) set(memories_[i], addresses[i]);
  }
  if (scratchpad_) set(scratchpad_, workspace);
  addresses_ = addresses;
}

void primitive_operation::compute() noexcept {
  const auto at = [&](std::size_t k) { return static_cast<std::byte*>(addresses_[k]); };
  if (instead_ != nullptr) {
    bool all = true;
    const std::array<std::byte*, 1> x{at(0)};
    looked_at_.rows(x, [&](std::byte* const* row) {
      all = all && all_at_least(row[0], looked_at_.stride(0), looked_at_.row(), least_);
    });
    if (!all) return instead_->execute(addresses_, nullptr);
  }
  if (copy_ && at(copy_->from) != at(copy_->to)) {
    const std::array<std::byte*, 2> both{at(copy_->from), at(copy_->to)};
    copy_->over.rows(
        both, [&](std::byte* const* row) { copy_row(row[0], row[1], copy_->over.stride(1), copy_->over.row()); });
  }
  if (fill_) {
    const std::array<std::byte*, 1> to{at(fill_->to)};
    fill_->over.rows(
        to, [&](std::byte* const* row) { fill_row(row[0], fill_->over.stride(0), fill_->over.row(), fill_->value); });
  }
  const auto status =
      dnnl_primitive_execute(primitive_.get(), queue().get(), static_cast<int>(arguments_.size()), arguments_.data());
  expects(status == dnnl_success, "op: a kernel that was created runs");
}

}  // namespace berth::op

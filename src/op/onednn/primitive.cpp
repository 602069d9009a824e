#include "op/onednn/primitive.hpp"

#include <algorithm>
#include <cstring>

#include "berth/core/contract.hpp"

namespace berth::op::onednn {

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
  using enum dnnl::algorithm;
  constexpr dnnl::algorithm of_kind[] = {
      eltwise_relu, eltwise_clip,     eltwise_linear,    eltwise_logistic, eltwise_hardswish, eltwise_swish,
      eltwise_elu,  eltwise_gelu_erf, eltwise_gelu_tanh, eltwise_tanh,     eltwise_exp,       eltwise_log,
      eltwise_sqrt, eltwise_abs,      eltwise_square,    eltwise_pow};  // by activation_kind
  static_assert(std::size(of_kind) == static_cast<std::size_t>(activation_kind::power) + 1);
  for (const activation& a : each) {
    ops.append_eltwise(1.0f, of_kind[static_cast<std::size_t>(a.kind)], a.alpha, a.beta);
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
    : library_kernel{operands.size(), scratchpad.get_size()},
      primitive_{std::move(p)},
      operands_{std::move(operands)},
      memories_(operands_.size()),
      at_(operands_.size()),
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

bytes primitive_operation::packed_size(std::size_t k) const noexcept {
  return operands_[k].plain ? operands_[k].descriptor.get_size() : 0;
}

result<void> primitive_operation::pack(std::size_t k, const void* plain, void* packed) const {
  const auto& o = operands_[k];
  if (!o.plain) return library_kernel::pack(k, plain, packed);
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

// An address that stays is not set again: oneDNN would clear the padding of packed weights each time.
void primitive_operation::bind(std::span<void* const> addresses, void* workspace) noexcept {
  const auto set = [](const dnnl::memory& memory, void*& known, void* address) {
    if (!memory || known == address) return;
    expects(dnnl_memory_set_data_handle(memory.get(), address) == dnnl_success, "op: an address oneDNN takes");
    known = address;
  };
  for (std::size_t i = 0; i < memories_.size(); ++i) set(memories_[i], at_[i], addresses[i]);
  set(scratchpad_, workspace_, workspace);
}

void primitive_operation::compute() noexcept {
  const auto status =
      dnnl_primitive_execute(primitive_.get(), queue().get(), static_cast<int>(arguments_.size()), arguments_.data());
  expects(status == dnnl_success, "op: a kernel that was created runs");
}

}  // namespace berth::op::onednn

// The module's table: the one symbol that it exports.
#include "op/onednn/primitive.hpp"

// Asks the OpenMP runtime that oneDNN may use for its threads.
extern "C" [[gnu::weak]] int omp_get_max_threads();

namespace berth::op::onednn {

created_kernel convolution(const convolution_description& d);
created_kernel transposed_convolution(const transposed_convolution_description& d);
created_kernel matmul(const matmul_description& d);
created_kernel elementwise(const tensor_type& input, const tensor_type& output, const activations& each);
created_kernel binary(binary_kind kind, const tensor_type& a, const tensor_type& b, const tensor_type& output,
                      const activations& then);
created_kernel pooling(pool_kind kind, const tensor_type& input, const tensor_type& output, const window& over);
created_kernel mean(const tensor_type& input, const tensor_type& output);
created_kernel softmax(const tensor_type& input, const tensor_type& output, int axis);
created_kernel layer_normalization(const tensor_type& input, const tensor_type& output, float epsilon);
created_kernel concatenation(std::span<const tensor_type> inputs, const tensor_type& output, int axis);
created_kernel reorder(const tensor_type& input, const tensor_type& output);
created_kernel pad(const tensor_type& input, const tensor_type& output, const std::vector<std::int64_t>& begin);

namespace {

std::string isa_name(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41: return "SSE4.1";
    case dnnl::cpu_isa::avx: return "AVX";
    case dnnl::cpu_isa::avx2: return "AVX2";
    case dnnl::cpu_isa::avx512_core: return "AVX-512";
    case dnnl::cpu_isa::avx512_core_vnni: return "AVX-512 VNNI";
    case dnnl::cpu_isa::avx512_core_bf16: return "AVX-512 BF16";
    case dnnl::cpu_isa::avx512_core_amx: return "AVX-512 AMX";
    default: return "instruction set " + std::to_string(static_cast<int>(isa));
  }
}

// Names all that a kernel's workspace depends on besides the operands.
std::string name() {
  const dnnl::version_t& v = *dnnl::version();
  std::string text = "oneDNN " + std::to_string(v.major) + '.' + std::to_string(v.minor) + '.' +
                     std::to_string(v.patch) + ", " + isa_name(dnnl::get_effective_cpu_isa());
  if (omp_get_max_threads != nullptr) text += ", threads: " + std::to_string(omp_get_max_threads());
  return text;
}

}  // namespace
}  // namespace berth::op::onednn

namespace onednn = berth::op::onednn;
extern "C" [[gnu::visibility("default")]] const berth::op::kernel_table berth_kernels;
const berth::op::kernel_table berth_kernels{.build = BERTH_KERNELS_BUILD,
                                            .name = onednn::name,
                                            .convolution = onednn::convolution,
                                            .transposed_convolution = onednn::transposed_convolution,
                                            .matmul = onednn::matmul,
                                            .elementwise = onednn::elementwise,
                                            .binary = onednn::binary,
                                            .pooling = onednn::pooling,
                                            .mean = onednn::mean,
                                            .softmax = onednn::softmax,
                                            .layer_normalization = onednn::layer_normalization,
                                            .concatenation = onednn::concatenation,
                                            .reorder = onednn::reorder,
                                            .pad = onednn::pad};

// The module's table: the one symbol that it exports.
#include "op/onednn/primitive.hpp"

// Asks the OpenMP runtime that oneDNN may use for its threads.
extern "C" [[gnu::weak]] int omp_get_max_threads();

namespace berth::op::onednn {
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
#define BERTH_KERNEL_VALUE(factory, parameters) .factory = onednn::factory,
const berth::op::kernel_table berth_kernels{
    .build = BERTH_KERNELS_BUILD, .name = onednn::name, BERTH_KERNEL_FACTORIES(BERTH_KERNEL_VALUE)};
#undef BERTH_KERNEL_VALUE

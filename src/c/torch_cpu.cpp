// Pools of Berth for libtorch's tensors on the CPU. A file of its own and no part of libberth: it is compiled against
// the torch that it is loaded into (docs/torch.md has the lines). New tensors lie in the pool once it is loaded. Older
// ones go back to their allocator.
#include <c10/core/CPUAllocator.h>

#include "berth/torch.h"

namespace {

constexpr int host = -1;  // how torch numbers the CPU, and berth/torch.h does

void give_back(void* block) {
  c10::profiledCPUMemoryReporter().Delete(block);
  berth_torch_free(block, 0, host, nullptr);
}

// Torch's version decides which of these are virtual: allocate() was const up to 2.2, copy_data() came after that.
struct allocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t size) const {
    void* const block = berth_torch_alloc(static_cast<ssize_t>(size), host, nullptr);  // throws where there is none
    c10::profiledCPUMemoryReporter().New(block, size);
    return {block, block, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DataPtr allocate(std::size_t size) { return static_cast<const allocator*>(this)->allocate(size); }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t size) const { std::memcpy(to, from, size); }
};

// Never destroyed: tensors go while the process ends, in any order.
[[maybe_unused]] const bool registered = [] {
  c10::SetCPUAllocator(new allocator, 1);
  return true;
}();

}  // namespace

/* Pools as the pluggable allocator of PyTorch and its family, from libberth.so itself:
 *
 *   import torch
 *   berth = torch.cuda.memory.CUDAPluggableAllocator("libberth.so", "berth_torch_alloc", "berth_torch_free")
 *   torch.cuda.memory.change_current_allocator(berth)          # before the first tensor is made on the device
 *
 * torch_npu's NPUPluggableAllocator takes the same two functions, with BERTH_TORCH_DEVICE=ascend. The signatures are
 * those of torch/csrc/cuda/CUDAPluggableAllocator.h; streams are the driver's (cudaStream_t, aclrtStream), null the
 * default one, and outlive the process's use of the allocator.
 *
 * Each device has one pool. A block goes back in the order of the stream that it was asked for on, so PyTorch's own
 * rule holds: use on another stream is told by record_stream. What the environment says is read by the first call:
 *   BERTH_TORCH_DEVICE  cuda (where it says nothing), ascend or host: the kind of device that numbers count
 *   BERTH_TORCH_LIMIT   bytes that the pool of a device may hold
 *   BERTH_TORCH_LOG     a file: what happened, as a snapshot for `berth report`, `view` and `replay`, when the process
 * ends
 *
 * Threads: all functions may be called from several at once. Units are bytes. */
#ifndef BERTH_TORCH_H
#define BERTH_TORCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* A block for work enqueued on the stream from now on; of no bytes a null. Where there is none it throws, since PyTorch
 * takes a null for a block: a std::runtime_error whose text is the pool's report, which Python sees as RuntimeError. */
void* berth_torch_alloc(ssize_t size, int device, void* stream);
/* `size` and `stream` are not needed. What is no live block of a pool is passed over, with a line on standard error. */
void berth_torch_free(void* block, ssize_t size, int device, void* stream);

/* For set_record_stream_fn: work on this stream uses the block too. */
void berth_torch_record_stream(void* block, void* stream);
/* For set_reset_fn, torch.cuda.empty_cache(): free memory goes back to the devices. */
void berth_torch_reset(void);
/* For set_memory_fraction_fn: the share of the device's memory that its pool may hold. Only before its first
 * allocation; later it does nothing but say so on standard error. */
void berth_torch_memory_fraction(double fraction, int device);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif

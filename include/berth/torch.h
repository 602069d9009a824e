/* Pools as the pluggable allocator of PyTorch and its family, from libberth.so itself:
 *
 *   import torch
 *   berth = torch.cuda.memory.CUDAPluggableAllocator("libberth.so", "berth_torch_alloc", "berth_torch_free")
 *   torch.cuda.memory.change_current_allocator(berth)          # before the first tensor is made on the device
 *
 * torch_npu's NPUPluggableAllocator takes the same two functions, with BERTH_TORCH_DEVICE=ascend. The signatures are
 * those of torch/csrc/cuda/CUDAPluggableAllocator.h; streams are the driver's (cudaStream_t, aclrtStream), null the
 * default one.
 *
 * Streams that go: who destroys a stream owes that its blocks are free, those it was recorded for too, and that no call
 * here names it any more. CUDA 12: its work may still be running, and its handle be given to another. Neither is told
 * here, so the driver is asked for the id behind the handle (cuStreamGetId): when a call names the handle again, when
 * memory that was used on it is wanted for another stream, and by each berth_torch_reset(). Where the id is another
 * one, or the driver answers that there is no stream, the device is waited for, once; that breaks a capture that is on
 * meanwhile, so streams are destroyed, and berth_torch_reset() called, before one (torch.cuda.graph calls it). CUDA's
 * documents leave open what happens when a destroyed stream is asked for; who wants nothing of that keeps streams for
 * as long as the process, as PyTorch's own are. Older drivers, and Ascend, whose own rule it is: the work of a stream
 * that is destroyed is done, and berth_torch_reset() was called behind it; else its memory may serve nobody but whoever
 * gets its handle.
 *
 * The device of number -1 is the host, whatever BERTH_TORCH_DEVICE says: src/c/torch_cpu.cpp gives torch's tensors on
 * the CPU memory from there.
 *
 * Each device has one pool. A block goes back in the order of the stream that it was asked for on, so PyTorch's own
 * rule holds: use on another stream is told by record_stream. What the environment says is read by the first call:
 *   BERTH_TORCH_DEVICE  cuda (where it says nothing), ascend or host: the kind of device that numbers count
 *   BERTH_TORCH_LIMIT   bytes that the pool of a device may hold, such as 67108864 or 64MiB; a text that is none ends
 * the program with status 2 BERTH_TORCH_LOG     a file: what happened, as a snapshot for `berth report`, `view` and
 * `replay`, when the process ends; of a child of fork the name is followed by a point and its process id. Links, pipes
 *                       and devices are refused
 * In a set-user-ID program all three are ignored.
 *
 * Threads: all functions may be called from several at once. In the child of a fork (DataLoader's workers) the host
 * goes on, and devices with a driver throw; no other thread is inside a function of these while one forks, as the child
 * has its locks and not it. Units are bytes. */
#ifndef BERTH_TORCH_H
#define BERTH_TORCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "berth/pool.h"

#ifdef __cplusplus
#include <functional>
#include <utility>
#endif

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

enum { berth_torch_host = -1 };

/* For set_init_fn: reads the environment now, and not with the first call of another function. */
void berth_torch_init(int devices);

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
/* For set_base_alloc_fn: the driver's allocation that the block lies in, and its size, for an IPC handle. Throws where
 * there is none (devices with virtual memory), or the block is none. */
void* berth_torch_base_allocation(void* block, size_t* size);

/* The pool of a device, as berth_pool_statistics_of tells it. BERTH_INVALID, BERTH_NO_DEVICE, BERTH_UNSUPPORTED. */
int berth_torch_statistics(int device, berth_pool_statistics* statistics);

#ifdef __cplusplus
/* For set_begin_allocate_to_pool, set_end_allocate_to_pool_fn and set_release_pool: pools for graphs. What is asked for
 * between begin and end on streams that `takes` names keeps its address until the pool has been released as often as it
 * was begun, also when PyTorch has freed it; until then only the same pool gives it out again. Then it goes back in
 * the order of all streams that the allocator has seen: a graph still running on another one is the caller's to wait
 * for. The types are PyTorch's own (c10::cuda::MempoolId_t, std::function over cudaStream_t), so both sides have one
 * C++ library. An id that is unknown is passed over, with a line on standard error. */
using berth_torch_pool_id = std::pair<unsigned long long, unsigned long long>;
void berth_torch_begin_allocate_to_pool(int device, berth_torch_pool_id id, std::function<bool(void*)> takes);
void berth_torch_end_allocate_to_pool(int device, berth_torch_pool_id id);
void berth_torch_release_pool(int device, berth_torch_pool_id id);
#endif

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif

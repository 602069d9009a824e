// Logs that other engines' allocators have written, as our own events. They can be replayed through the pool (`berth
// replay`) and looked at (`berth view`). `berth report` answers whether another allocator would have survived.
//
//   PyTorch  torch.cuda.memory._dump_snapshot("run.pickle") after torch.cuda.memory._record_memory_history(): a pickle
//            of plain data, {"segments": [...], "device_traces": [[{"action": "alloc", "addr": ...}]]}.
//            torch/csrc/cuda/memory_snapshot.cpp builds it and torch.cuda._memory_viz reads it; torch_npu and XPU
//            write the same. The reader executes nothing. Memory counts as given back at "free_completed", when PyTorch
//            itself could use it again. Blocks that were alive before the history begins come first.
//   RMM      rmm::mr::logging_resource_adaptor: CSV with the header Thread,Time,Action,Pointer,Size,Stream; actions
//            are allocate, free (deallocate) and allocate failure.
//   XLA      output of --xla_dump_to with --xla_dump_hlo_as_proto: an HloProto or its BufferAssignmentProto, binary or
//            as text (xla/service/hlo.proto). Its heap_simulator_traces give the order in which the compiler placed its
//            buffers. A buffer that others share lives as long as any of them. Times are counted in events.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/trace/snapshot.hpp"

namespace berth::trace {

// A request that the engine's allocator did not serve.
struct failed_request {
  std::uint64_t before = 0;  // the event of engine_log::history that comes next; its size where none does
  bytes size = 0;
  std::uint32_t stream = 0;
  std::uint32_t site = 0;  // in snapshot::sites, from 1; 0: unknown
  // Bytes that the allocator held then, and that the device still had: a pool could have had both together.
  std::optional<bytes> reserved;
  std::optional<bytes> device_free;
  // Known for the last failure if the log names the allocator's segments: the address of the largest hole, and the
  // number of segments. Also the idle bytes in segments without a live block and in those of private pools (of CUDA
  // graphs).
  struct segment_holes {
    std::uint64_t largest_at = 0;
    bytes in_empty_segments = 0;
    bytes in_private_pools = 0;
    std::uint64_t segments = 0;
  };
  std::optional<segment_holes> holes{};
};

struct engine_log {
  const char* engine = "";             // "PyTorch", "RMM" or "XLA"
  snapshot history;                    // never ended: what is alive at its end is no leak. Streams count from 0
  std::uint32_t device = 0;            // whose history it is: where several have one, the one with the most events;
                                       // XLA's heaps, one for each memory, are counted as devices
  std::uint32_t devices = 1;           // that have a history
  std::uint64_t alive_before = 0;      // so many events at its begin are of blocks that were alive before
  std::uint64_t unmatched = 0;         // events that fit no other, such as a second free; they were passed over
  std::optional<bytes> reserved_peak;  // by the engine's allocator, while the history lasts
  std::vector<failed_request> failed;
  // When most was alive for the first time, which is after the event `peak_at`; at the last failed request; at the end.
  memory_use at_peak{}, at_failure{}, now{};
  std::uint64_t peak_at = 0;
};

// Errors: invalid_input. The number is the offset of the wrong opcode of the pickle, or 0 if the data are wrong. Throws
// bad_alloc. Time and memory in proportion to the file.
[[nodiscard]] result<engine_log> parse_pytorch_snapshot(std::string_view pickle);

// The other way: a snapshot as a pickle that PyTorch's memory_viz opens (docs.pytorch.org/memory_viz). Segments are the
// stretches of addresses that blocks lay in; all on device 0. Contract: it is as the recorder makes it, or a reader.
[[nodiscard]] std::string to_pytorch_pickle(const snapshot& s);

// Errors: invalid_input; the number is the line, counted from 1. Throws bad_alloc.
[[nodiscard]] result<engine_log> parse_rmm_csv(std::string_view text);

// Return whether a file with this start is one for the following functions. Its first 4096 bytes are enough.
[[nodiscard]] bool is_xla_proto(std::string_view start) noexcept;
[[nodiscard]] bool is_xla_text(std::string_view start) noexcept;
// The reserved peak is XLA's allocation for the heap, if it serves that heap alone. Errors: invalid_input. The number
// is the offset of the fault in the file, its line in a text, or 0 if the file lacks something. Throws bad_alloc. Time
// and memory in proportion to the file.
[[nodiscard]] result<engine_log> parse_xla_proto(std::string_view message);
[[nodiscard]] result<engine_log> parse_xla_text(std::string_view text);

}  // namespace berth::trace
#pragma GCC visibility pop

// Memory of other allocators in Berth's records: malloc, cudaMalloc, aclrtMalloc, a program's own pool.
//
//     void* p = std::malloc(n);
//     berth::record_allocation(p, n);
//     ...
//     berth::record_free(p);
//     std::free(p);
//
// A recorder (berth/trace/recorder.hpp) keeps these blocks as it keeps those of pools. If debugging is on
// (berth/pool/debug.hpp), they stand in the report by place, and the record finds double frees and frees of unknown
// blocks. It counts towards live=N, bytes=N, and tells of leaks when the program ends if `leaks` is set. There are no
// red zones: the memory is not Berth's. `sample` does not hold here.
//
// Thread-safe: one lock. Cost: a lock and a hash table's look-up if debugging is on, else a lock.
#pragma once
#pragma GCC visibility push(default)

#include "berth/core/bytes.hpp"
#include "berth/core/source_location.hpp"

namespace berth {

// Records a block. Null does nothing. A block that is alive at this address ends: its free was not recorded. Records
// less, and says nothing, if there is no host memory for it.
void record_allocation(const void* address, bytes size, source_location site = source_location::current()) noexcept;

// Records a free, before the memory goes back. Null does nothing. Returns false for a mistake, which the debugger has
// told: it stops the program unless `warn` is set. Always true if debugging is off.
bool record_free(const void* address, source_location site = source_location::current()) noexcept;

}  // namespace berth
#pragma GCC visibility pop

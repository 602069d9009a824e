// The view that debuggers (scripts/berth_gdb.py) read of the recorder that was started last, in a process or a core. It
// says where the lists of lanes and chunks lie, so that they need none of our types. Its name is no type of the C
// headers: gdb would find that first.
#pragma once

#include <atomic>
#include <cstdint>

extern "C" {
struct berth_recorder_view {
  std::uint32_t version;
  std::uint32_t record_bytes;  // 28 where words of 64 bits lie at multiples of 4
  const void* recorder;        // null: there is none
  const void* lanes;           // vectors, of shared pointers and of pointers
  const void* residue;         // older than these
  const void* full;
  const std::atomic<std::uint64_t>* dropped;
  const bool* listening;
};
#pragma GCC visibility push(default)
extern berth_recorder_view berth_recorder_lanes;
#pragma GCC visibility pop
}

// Memories of known targets, and problems planned over several memories.
//
// Times are nanoseconds, and bandwidths are bytes per nanosecond (GB/s). One byte that a step touches costs
// 1 / bandwidth, unless a memory names its own cost. A copy between two memories takes the smaller of their bandwidths
// and the sum of their latencies.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "berth/model/problem_file.hpp"

namespace berth::model {

// A figure and the document that states it. No document: the figure is assumed.
template <class T>
struct sourced {
  T value{};
  std::string_view document{};
};

// The contents that a plan may put into a memory. A plan leaves a memory alone if hardware fills it (caches), or if
// kernels use it for their tiles.
enum class holds : std::uint8_t { everything, weights, nothing };
[[nodiscard]] const char* name(holds h) noexcept;

struct target_memory {
  std::string_view name{};
  holds contents = holds::everything;
  sourced<bytes> size{};
  sourced<bytes> alignment{};   // of starts
  sourced<double> bandwidth{};  // as the processor of the target sees it
  sourced<double> latency{};    // of a copy into it or out of it
};

// A chip or board. Its memories are in the order of their bandwidths, the fastest first.
struct target {
  std::string_view name{};
  std::string_view what{};
  std::span<const target_memory> memories{};
};

// Returns all targets, in a fixed order. Static data.
[[nodiscard]] std::span<const target> targets() noexcept;
// Returns the target of this name, or null.
[[nodiscard]] const target* find_target(std::string_view name) noexcept;

// A memory to plan over.
struct hierarchy_memory {
  plan::memory memory{};
  holds contents = holds::everything;
  double bandwidth = 0;  // of copies; 0: no copy leads into it or out of it
  double latency = 0;
};

// Returns the memories of a target that a plan may use.
[[nodiscard]] std::vector<hierarchy_memory> memories_of(const target& t);

// Puts the problem into these memories: its memories, uses and links.
// * Uses are those of the file (reads::uses). In a file without any, each buffer is written when a lifetime begins, and
//   read at its last tick.
// * Weights begin in the costliest memory that holds only weights, or else in the costliest memory; if they do not fit
//   there, in the next one that has room. Copies may bring them into other memories.
// * Other buffers lie in memories that hold everything.
// * `copies`: links join all memories with a bandwidth. Buffers stay where they are born otherwise.
// Throws input_error: the file has pools, a capacity, dimensions or explicit conflicts, or no memory holds everything.
// Contract: names are unique; bandwidths, latencies and costs are amounts. O(buffers + uses + memories^2).
void place_in(problem_file& file, std::span<const hierarchy_memory> memories, bool copies);

// Returns why no plan exists, or "": a buffer exceeds all memories that it may use, or the buffers that fit only
// into one memory, or begin there, exceed it. Contract: the problem is valid. O(memories * n (memories + log n)).
[[nodiscard]] std::string reason_without_plan(const problem_file& file);

// Returns the access time if each buffer lay in the costliest memory that it may use, or stayed where a use demands it
// first. Contract: the problem has memories.
[[nodiscard]] double slowest_access(const problem_file& file);

}  // namespace berth::model
#pragma GCC visibility pop

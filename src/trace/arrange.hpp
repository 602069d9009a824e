// From what the threads kept to one order of events.
//
// The true order is known within a thread; between threads there are only stamps, each event lying somewhere between
// two. But at one address allocation and free take turns, and that decides most of what the stamps leave open.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/record.hpp"

namespace berth::trace {

struct timed {
  record what;
  std::uint32_t thread = 0;
  std::uint64_t from = 0;  // it happened between these, in nanoseconds
  std::uint64_t until = 0;
};

// Appends what one thread wrote to `out`. Its chunks are given in their order.
void decode_records(const record* at, const record* end, std::uint32_t thread, std::vector<timed>& out);

struct arranged {
  std::vector<timed> events;   // at every address an allocation, its free, an allocation, ...; `from` never falls
  std::vector<timed> orphans;  // frees of what was allocated before the recording, or in a record yet to come
};

// Where an address is allocated twice without a free (its pool was destroyed, or the record dropped), the first block
// is taken as freed there.
[[nodiscard]] arranged arrange(std::vector<timed> all);

// Takes the pairs of an allocation and its free in one chunk out of it, in place. Returns the events taken.
std::uint32_t forget_pairs(chunk& c) noexcept;

}  // namespace berth::trace

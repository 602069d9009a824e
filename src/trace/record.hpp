// The recorder's records: events and stamps, in chunks; a chunk is one thread's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "berth/core/hook.hpp"

namespace berth::trace {

using record = event_record;  // of a stamp, the address is in nanoseconds since the start

inline constexpr std::size_t most_chunk_bytes = std::size_t{1} << 16;

// `count` is written under the recorder's lock, when the chunk is no longer written to.
struct chunk {
  static constexpr std::size_t head_bytes = 8;
  static constexpr std::uint32_t most_records = (most_chunk_bytes - head_bytes) / sizeof(record);
  std::uint32_t count;
  std::uint32_t thread;
  std::array<record, most_records> records;  // as many of them as chunk_store::chunk_records() are there

  [[nodiscard]] const record* begin() const noexcept { return records.data(); }
  [[nodiscard]] const record* end() const noexcept { return records.data() + count; }
};
static_assert(sizeof(chunk) <= most_chunk_bytes);
static_assert(offsetof(chunk, records) == chunk::head_bytes);  // scripts/berth_gdb.py

}  // namespace berth::trace

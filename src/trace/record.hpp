// What the recorder keeps of an event: three words. Records lie in chunks; a chunk is one thread's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "berth/core/bytes.hpp"

namespace berth::trace {

enum class record_kind : std::uint8_t { stamp, allocate, free };

struct record {
  std::uint64_t address;        // of a stamp: nanoseconds since the start
  std::uint64_t size_and_kind;  // size * 4 + kind: no block has 2^62 bytes
  std::uint32_t stream;
  std::uint32_t site;

  [[nodiscard]] record_kind kind() const noexcept { return static_cast<record_kind>(size_and_kind & 3); }
  [[nodiscard]] bytes size() const noexcept { return size_and_kind >> 2; }
};

inline constexpr std::size_t chunk_bytes = std::size_t{1} << 16;

// `count` is written by whoever holds the recorder's lock, when the chunk is no longer written to.
struct chunk {
  static constexpr std::uint32_t capacity = (chunk_bytes - 8) / sizeof(record);
  std::uint32_t count;
  std::uint32_t thread;
  std::array<record, capacity> records;

  [[nodiscard]] const record* begin() const noexcept { return records.data(); }
  [[nodiscard]] const record* end() const noexcept { return records.data() + count; }
};
static_assert(sizeof(chunk) <= chunk_bytes);

}  // namespace berth::trace

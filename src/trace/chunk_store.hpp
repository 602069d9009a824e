// The recorder's memory: chunks in one mapping. It is made present before it is needed, since a fresh page costs more
// than its records. A chunk is a 1024th of it, so that many threads can have one each. It has 8 KiB at least, as each
// costs a lock, and 64 KiB at most.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/hook.hpp"

namespace berth::trace {

// The recorder's records: events and stamps, in chunks; a chunk is one thread's.
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

class chunk_store {
 public:
  explicit chunk_store(bytes capacity);  // throws std::bad_alloc
  chunk_store(const chunk_store&) = delete;
  chunk_store& operator=(const chunk_store&) = delete;
  ~chunk_store();

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint32_t chunk_records() const noexcept { return chunk_records_; }
  // Lets the system make all pages present. Needed once, only for speed.
  void touch() noexcept;

  [[nodiscard]] bool empty() const noexcept { return spare_.empty(); }
  // Returns an empty chunk, or null.
  [[nodiscard]] chunk* take() noexcept;
  void give_back(chunk* c) noexcept { spare_.push_back(c); }  // there is room for all

 private:
  std::size_t chunk_bytes_;
  std::uint32_t chunk_records_;
  std::size_t size_;
  std::byte* chunks_ = nullptr;
  std::vector<chunk*> spare_;
};

}  // namespace berth::trace

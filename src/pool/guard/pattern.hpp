// Writes bytes of one value into memory of any device and checks them. The host does it at once if it reaches the
// memory. Else a stream and a staging block of the object's own do it. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "berth/device/device.hpp"
#include "berth/device/stream.hpp"

namespace berth::detail {

inline constexpr std::byte zone_byte{0xfd};  // of the red zones around blocks and values

// The memory that a pattern covers: every byte of it, or with a step its two ends and lines between them.
//
// With a step, at least the first and the last `pattern_end` bytes are covered, and a line of `pattern_piece` bytes in
// each step. So a write of more than a step of contiguous bytes always hits a covered byte. Steps begin at multiples of
// the step in the address space. So lines of later blocks lie in the same pages, and the pages between stay untouched.
// The place of the line in its step changes from step to step, which spreads the lines over the cache's sets. It
// changes with the turn too, so that a repeated small write is found in the end.
struct pattern_range {
  std::byte* data = nullptr;
  bytes size = 0;
  bytes step = 0;          // a power of two; 0: every byte is covered
  std::uint64_t turn = 0;  // any number, for example the block's
};

inline constexpr bytes pattern_end = bytes{1} << 10;
inline constexpr bytes small_step = bytes{4} << 10;
inline constexpr bytes large_step = bytes{256} << 10;    // at least
inline constexpr bytes most_large_steps = 16;            // in a block
inline constexpr bytes fully_covered = bytes{64} << 10;  // blocks up to this size

// Returns the step for a block of more than `fully_covered` bytes in the host's memory. It gets the small step if its
// pages at a quarter, the half and three quarters are present. Else its user touched few pages, and a line in each
// would make the system allocate all of them. Then the step is 256 KiB, or a sixteenth of the block rounded up to a
// power of two, whichever is more. Cost: one to three system calls for a large block.
[[nodiscard]] bytes step_for(const std::byte* data, bytes size) noexcept;

struct difference {
  bytes at = 0;  // from the first byte checked
  std::byte found{};
};

struct comparison {
  bool made = false;  // false: the device could not be read
  std::optional<difference> first{};
};

inline constexpr bytes pattern_piece = 64;  // the usual length of a red zone; a few vectors, as it is constant

// For memory of the host.
void write_pattern(std::byte* data, bytes n, std::byte value) noexcept;
[[nodiscard]] std::optional<difference> first_difference(const std::byte* data, bytes n, std::byte want) noexcept;

// Returns true if these are pattern_piece bytes of that value.
[[nodiscard]] inline bool is_piece_of(const std::byte* data, std::byte value) noexcept {
  const std::uint64_t wanted = std::to_integer<std::uint64_t>(value) * 0x0101010101010101U;
  std::uint64_t wrong = 0;
  for (bytes k = 0; k < pattern_piece; k += sizeof wrong) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + k, sizeof word);
    wrong |= word ^ wanted;
  }
  return wrong == 0;
}

class pattern_memory {
 public:
  explicit pattern_memory(const device& d) noexcept;
  pattern_memory(const pattern_memory&) = delete;
  pattern_memory& operator=(const pattern_memory&) = delete;
  ~pattern_memory();

  [[nodiscard]] bool on_host() const noexcept { return on_host_; }
  // Contract of all: no enqueued work touches the bytes. A device that fails once may work the next time. Returns false
  // if the bytes are now unknown.
  [[nodiscard]] bool write(std::byte* data, bytes n, std::byte value) noexcept;
  [[nodiscard]] comparison compare(const std::byte* data, bytes n, std::byte want) noexcept;
  // Do the same for a range with a step, which is ignored if the host does not reach the memory.
  [[nodiscard]] bool write(const pattern_range& r, std::byte value) noexcept;
  [[nodiscard]] comparison compare(const pattern_range& r, std::byte want) noexcept;

 private:
  [[nodiscard]] bool open_reader() noexcept;

  const device& dev_;
  const bool on_host_;
  bool nothing_to_read_ = false;  // the device has addresses only
  std::optional<stream> reader_;
  void* staging_ = nullptr;
};

}  // namespace berth::detail

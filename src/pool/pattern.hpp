// Bytes of one value, written into and looked for in memory of any device: at once where the host reaches it, else
// through a stream and a staging block of its own. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "berth/device/device.hpp"
#include "berth/device/stream.hpp"

namespace berth::detail {

struct difference {
  bytes at = 0;  // from the first byte looked at
  std::byte found{};
};

struct comparison {
  bool made = false;  // false: the device could not be read
  std::optional<difference> first{};
};

// In memory of the host.
void write_pattern(std::byte* data, bytes n, std::byte value) noexcept;
[[nodiscard]] std::optional<difference> first_difference(const std::byte* data, bytes n, std::byte want) noexcept;

inline constexpr bytes pattern_piece = 64;  // a red zone's length, mostly: known to the compiler, it is a few vectors

// Whether these are pattern_piece bytes of that value.
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
  // Contract of both: nothing that was enqueued touches the bytes. A device that fails once may work the next time.
  // False: what stands there now is unknown.
  [[nodiscard]] bool write(std::byte* data, bytes n, std::byte value) noexcept;
  [[nodiscard]] comparison compare(const std::byte* data, bytes n, std::byte want) noexcept;

 private:
  [[nodiscard]] bool open_reader() noexcept;

  const device& dev_;
  const bool on_host_;
  bool nothing_to_read_ = false;  // the device has addresses only
  std::optional<stream> reader_;
  void* staging_ = nullptr;
};

}  // namespace berth::detail

// Memory for the trial of an operator.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "berth/core/bytes.hpp"
#include "berth/device/device.hpp"
#include "berth/device/stream.hpp"

namespace berth::op {

// Memory whose last byte is the last of a page, before an inaccessible one, with a pattern before it. If the host does
// not reach the device's memory, this is the host's copy of a block there.
class trial_memory {
 public:
  trial_memory() = default;
  // Throws std::bad_alloc or bad_result.
  trial_memory(const device& on, bytes size, bytes alignment);
  trial_memory(trial_memory&& other) noexcept { *this = std::move(other); }
  trial_memory& operator=(trial_memory&& other) noexcept;
  ~trial_memory();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] bytes size() const noexcept { return size_; }
  [[nodiscard]] bool is_mirror() const noexcept { return block_ != nullptr; }
  // Returns the device's address of one of the host's inside this memory.
  [[nodiscard]] void* on_device(std::byte* at) const noexcept { return is_mirror() ? block_ + (at - begin_) : at; }
  // Enqueue copies of everything, pattern included, if this is a mirror. Throw bad_result.
  void upload(stream& s) const;
  void download(stream& s) const;
  // Returns whether the bytes before the data are as they were.
  [[nodiscard]] bool untouched_before() const noexcept;

 private:
  std::byte *base_ = nullptr, *begin_ = nullptr, *data_ = nullptr, *block_ = nullptr;
  std::size_t mapped_ = 0, used_ = 0;  // used: from begin_ on
  bytes size_ = 0;
  std::optional<device> on_;
};

}  // namespace berth::op

// A device whose streams' clocks move only when somebody asks, as those of drivers do; the host's move by themselves.
// It also knows which blocks it gave out in one piece. Otherwise it is the device it wraps.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "support/faulty_device.hpp"

namespace berth::support {

class quiet_backend final : public faulty_backend {
 public:
  explicit quiet_backend(berth::device inner) : faulty_backend{std::move(inner)} { heal(); }

  result<std::unique_ptr<detail::backend_queue>> create_queue(std::shared_ptr<stream_clock> clock) override {
    return faulty_backend::create_queue(std::make_shared<stream_clock>(clock->id()));  // one that nobody reads
  }
  result<void*> allocate(bytes size, memory_kind kind) override {
    auto block = faulty_backend::allocate(size, kind);
    const std::lock_guard held{mutex_};
    if (block) blocks_[*block] = size;
    return block;
  }
  void free(void* block, bytes size, memory_kind kind) noexcept override {
    {
      const std::lock_guard held{mutex_};
      blocks_.erase(block);
    }
    faulty_backend::free(block, size, kind);
  }
  // Returns whether [data, data + size) lies in one block of allocate().
  [[nodiscard]] bool in_one_piece(void* data, bytes size) const {
    const std::lock_guard held{mutex_};
    auto it = blocks_.upper_bound(data);
    if (it == blocks_.begin()) return false;
    --it;
    const auto offset = static_cast<bytes>(static_cast<std::byte*>(data) - static_cast<std::byte*>(it->first));
    return offset + size <= it->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<void*, bytes> blocks_;
};

struct quiet_device {
  std::shared_ptr<quiet_backend> backend;
  berth::device device;
};

inline quiet_device make_quiet(berth::device inner) {
  auto backend = std::make_shared<quiet_backend>(std::move(inner));
  return {backend, berth::device{backend}};
}

}  // namespace berth::support

// The common part of the devices whose memory is the host's: streams on worker threads, and pinned blocks that the
// system may refuse to lock.
#pragma once

#include <sys/mman.h>

#include <map>

#include "device/host/queue.hpp"
#include "device/host/system.hpp"
#include "device/survivor.hpp"

namespace berth::detail {

class host_memory_device : public surviving_device {
 public:
  // The host's own addresses. The pages are not locked: no device of another kind reads them.
  result<void*> register_memory(void* memory, bytes) final { return memory; }
  bool reaches_foreign_memory() const noexcept final { return true; }
  bytes unlocked() const noexcept final { return unlocked_.load(std::memory_order_relaxed); }

  result<std::unique_ptr<backend_queue>> create_queue(std::shared_ptr<stream_clock> clock) final {
    return host_queue::create(std::move(clock));
  }
  result<std::unique_ptr<backend_queue>> wrap_queue(void* native, std::shared_ptr<stream_clock> clock) final {
    return wrap_host_queue(native, std::move(clock));
  }
  result<std::unique_ptr<backend_event>> create_event() final { return std::unique_ptr<backend_event>{new host_event}; }

 protected:
  using block_note = std::map<void*, bytes>;
  // Made before the block, so that no step fails after the system's success.
  [[nodiscard]] static block_note make_note(bytes size) { return {{nullptr, size}}; }
  // Locks a pinned block's pages, or notes that they are not locked.
  void lock_pages(void* block, bytes pages, block_note note) noexcept {
    if (mlock(block, pages) == 0) return;
    auto entry = note.extract(note.begin());
    entry.key() = block;
    const std::lock_guard lock{mutex_};
    unlocked_.fetch_add(entry.mapped(), std::memory_order_relaxed);
    unlocked_blocks_.insert(std::move(entry));
  }
  // Unmaps a block of `pages` bytes, which unlocks it too.
  void unmap_block(void* block, bytes size, bytes pages) noexcept {
    {
      const std::lock_guard lock{mutex_};
      if (unlocked_blocks_.erase(block) != 0) unlocked_.fetch_sub(size, std::memory_order_relaxed);
    }
    munmap(block, pages);
  }

 private:
  std::atomic<bytes> unlocked_{0};
  block_note unlocked_blocks_;  // guarded by mutex_
};

}  // namespace berth::detail

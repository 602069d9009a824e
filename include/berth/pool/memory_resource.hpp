// Adaptors between pools and std::pmr, in both directions.
#pragma once
#pragma GCC visibility push(default)

#include <memory_resource>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "berth/pool/memory_source.hpp"

namespace berth {

// A std::pmr::memory_resource over a source of blocks and a stream: standard containers in a pool's memory. Containers
// write at once, but work queued on the stream may still touch a block that was freed there. So a request waits for
// that work: give the resource a stream of its own. Contract: the host may dereference the device's addresses, and
// source and stream outlive the resource's users. Throws std::bad_alloc if the source has no memory, or the device
// fails. As thread-safe as the source.
class source_resource final : public std::pmr::memory_resource {
 public:
  source_resource(memory_source& source, stream& s) noexcept : source_{&source}, stream_{&s} {
    expects(source.get_device().properties().host_accessible, "source_resource: the host cannot reach this device");
  }

 private:
  void* do_allocate(std::size_t size, std::size_t alignment) override;
  void do_deallocate(void* data, std::size_t size, std::size_t) override {
    source_->free(data, size == 0 ? 1 : size, *stream_);
  }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    const auto* same = dynamic_cast<const source_resource*>(&other);
    return same != nullptr && same->source_ == source_ && same->stream_ == stream_;
  }

  memory_source* source_;
  stream* stream_;
};

// The other direction: makes any std::pmr::memory_resource a source of blocks for the host device's streams, to be used
// under an arena or an adaptor. It pools no memory. A freed block returns to the resource as soon as the work that may
// touch it is known to be done. Each call checks that; if n > 16 blocks wait, one call in n / 16 does. If the resource
// throws std::bad_alloc, the request waits for its stream and tries again; then the error is out_of_memory.
//
// The resource outlives this source and need not be thread-safe (a lock is held around it). It is never asked for more
// than alignof(std::max_align_t), since libstdc++'s own pools do not keep larger alignments. A block takes up to its
// alignment more. Destruction waits for the streams that may still use freed memory. Contract: no block is alive then.
// Cost: a lock, a hash table's insert and erase, and the resource's own.
class resource_source final : public memory_source {
 public:
  explicit resource_source(std::pmr::memory_resource& upstream) : upstream_{&upstream}, device_{device::host()} {}
  resource_source(const resource_source&) = delete;
  resource_source& operator=(const resource_source&) = delete;
  ~resource_source() override;

  [[nodiscard]] const berth::device& get_device() const noexcept override { return device_; }
  // Returns the bytes freed, and not yet returned to the resource.
  [[nodiscard]] bytes pending() const noexcept;

 private:
  struct use {
    std::shared_ptr<stream_clock> clock;
    std::uint64_t epoch = 0;
  };
  struct given {
    bytes size = 0;
    void* base = nullptr;  // the resource's block and its size
    bytes taken = 0;
    std::vector<use> uses;  // the stream of its allocation comes first
  };
  outcome do_allocate(bytes size, stream& s, const block_options* options, source_location site) override;
  void do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept override;
  void do_use_on(void* data, stream& s, const source_location& where) override;
  void give_back_what_is_done() noexcept;
  void give_back_in_turn() noexcept;

  std::pmr::memory_resource* upstream_;
  berth::device device_;
  mutable std::mutex lock_;
  std::unordered_map<void*, given> live_;
  std::unordered_map<void*, given> freed_;
  std::size_t calls_ = 0;  // since the last search of freed_
};

}  // namespace berth
#pragma GCC visibility pop

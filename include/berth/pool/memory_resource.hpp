// Pools and std::pmr, both ways.
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
// write at once, so a request waits for what is queued on the stream, which may still touch a block that was freed
// there: give it a stream of its own. Contract: the host may dereference the device's addresses, and source and stream
// outlive the resource's users. Throws std::bad_alloc where the source has no memory, or the device fails. As
// thread-safe as the source.
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

// The other way: a source of blocks for the host device's streams out of any std::pmr::memory_resource, under an arena
// or an adaptor. Nothing is pooled: a freed block goes back to the resource as soon as the work that may touch it is
// known to be done, which is looked at in each call, or, where n > 16 blocks wait, in one of n / 16. Where the resource
// throws std::bad_alloc, the asking stream is waited for and asked again; then the error is out_of_memory.
//
// The resource outlives this source and need not be thread-safe (a lock is held around it). Of it no more than
// alignof(std::max_align_t) is asked, since libstdc++'s own pools do not keep larger ones: a block takes up to its
// alignment more. Destruction waits for the streams that may still use freed memory. Contract: no block is alive then.
// Cost: a lock, a hash table's insert and erase, and the resource's own.
class resource_source final : public memory_source {
 public:
  explicit resource_source(std::pmr::memory_resource& upstream) : upstream_{&upstream}, device_{device::host()} {}
  resource_source(const resource_source&) = delete;
  resource_source& operator=(const resource_source&) = delete;
  ~resource_source() override;

  [[nodiscard]] const berth::device& get_device() const noexcept override { return device_; }
  // Freed, and not yet given back to the resource.
  [[nodiscard]] bytes pending() const noexcept;

 private:
  struct use {
    std::shared_ptr<stream_clock> clock;
    std::uint64_t epoch = 0;
  };
  struct given {
    bytes size = 0;
    void* base = nullptr;  // as the resource gave it, and how much
    bytes taken = 0;
    std::vector<use> uses;  // the stream it was asked for on first
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
  std::size_t calls_ = 0;  // since freed_ was looked through
};

}  // namespace berth
#pragma GCC visibility pop

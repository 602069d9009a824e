// Pools and std::pmr, both ways.
#pragma once

#include <memory_resource>
#include <new>

#include "berth/pool/memory_source.hpp"

namespace berth {

// A std::pmr::memory_resource over a source of blocks and a stream: standard containers in a pool's memory. Contract:
// the host may dereference the device's addresses, and source and stream outlive the resource's users. Throws
// std::bad_alloc where the source has no memory. As thread-safe as the source.
class source_resource final : public std::pmr::memory_resource {
 public:
  source_resource(memory_source& source, stream& s) noexcept : source_{&source}, stream_{&s} {
    expects(source.get_device().properties().host_accessible, "source_resource: the host cannot reach this device");
  }

 private:
  void* do_allocate(std::size_t size, std::size_t alignment) override {
    auto data = source_->allocate_raw(size == 0 ? 1 : size, *stream_, block_options{.alignment = alignment});
    if (!data) throw std::bad_alloc{};
    return *data;
  }
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

}  // namespace berth

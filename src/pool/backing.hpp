// The backing: the device memory under a pool's linear offset space, in chunks, and the mappings of stitched blocks.
//
// On a device with virtual memory both are ranges of addresses that are reserved on demand. The space has the chunks,
// the windows have the stitched blocks. Other chunks are blocks of the device. On devices without virtual memory all
// are; elsewhere those for requests that must not use granules. These chunks do not touch each other and are never
// stitched.
//
// The addresses of a dead stitched block map its memory until its stream's work is done and purge() is called. The
// system counts mapped memory once for each address (VmRSS), so purge() is due once it is a tenth of the held memory.
//
// No locks here: the caller holds the pool's lock. A call that fails changes nothing.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "berth/device/device.hpp"
#include "berth/pool/pool.hpp"
#include "pool/address_space.hpp"
#include "pool/store.hpp"

namespace berth::detail {

struct chunk {
  bytes offset = 0;
  bytes size = 0;
  std::uint64_t handle = 0;  // with virtual memory
  void* address = nullptr;
  std::chrono::steady_clock::time_point idle_since{};  // kept by the pool
};

class backing {
 public:
  backing(device d, memory_kind kind, bytes limit, std::shared_ptr<shared_limit> shared, bytes quantum, bool stitching);
  backing(const backing&) = delete;
  backing& operator=(const backing&) = delete;
  // Contract: no operation in flight uses the memory.
  ~backing() { release_all(); }
  // Does the same before the end of its life.
  void release_all() noexcept;

  [[nodiscard]] const device& get_device() const noexcept { return device_; }
  [[nodiscard]] bool stitches() const noexcept { return virtual_memory_; }
  [[nodiscard]] bytes granule() const noexcept { return granule_; }
  [[nodiscard]] bytes reserved() const noexcept { return reserved_; }
  [[nodiscard]] std::uint64_t device_calls() const noexcept { return device_calls_; }
  [[nodiscard]] const std::vector<chunk>& chunks() const noexcept { return chunks_; }  // by offset

  // Returns the largest possible chunk now within the limit.
  [[nodiscard]] bytes headroom() const noexcept {
    return shared_ != nullptr ? std::min(own_headroom(), shared_->left()) : own_headroom();
  }
  // Returns the same without the shared limit.
  [[nodiscard]] bytes own_headroom() const noexcept { return limit_ - std::min(limit_, reserved_); }
  // Returns the most that may ever be held at once.
  [[nodiscard]] bytes most() const noexcept { return virtual_memory_ ? most_ : limit_; }
  // Raises the limit so that `more` bytes can be added now. Returns false if another bound than the limit forbids them.
  bool lift(bytes more) noexcept;
  // Reserves a further range of addresses with room for a chunk of that size. Needs virtual memory.
  [[nodiscard]] result<address_space::range> reserve(bytes size) noexcept;
  // Adds a chunk of `size` bytes, a multiple of the granule. With virtual memory it lies at `offset`, which the caller
  // knows to be without memory. For a device block this function chooses the offset, beyond all ranges.
  [[nodiscard]] result<chunk> grow(bytes offset, bytes size, bool device_block);
  [[nodiscard]] bool is_device_block(bytes offset) const noexcept { return offset >= first_device_block; }
  [[nodiscard]] bool has_device_block() const noexcept {
    return !chunks_.empty() && is_device_block(chunks_.back().offset);
  }
  void set_idle_since(std::size_t chunk, std::chrono::steady_clock::time_point t) noexcept {
    chunks_[chunk].idle_since = t;
  }
  // Splits the chunk around this offset into two, so that one begins there. Returns false if the device cannot.
  [[nodiscard]] bool split(bytes offset) noexcept;
  [[nodiscard]] std::size_t chunk_at(bytes offset) const noexcept;  // its index
  // Releases a chunk. Contract: it is free, no work in flight uses it, and no stitched block maps it. Returns false if
  // the device could not. Its place among the chunks stays, with size 0, until forget_gone() removes all such places.
  [[nodiscard]] bool shrink(std::size_t chunk) noexcept;
  void forget_gone() noexcept;

  [[nodiscard]] void* address(bytes offset) const noexcept;

  // Maps the pieces, in order, at consecutive addresses. All but the first start, and all but the last end, at a
  // granule. Returns the window extent. The block starts at the window's address plus the offset of the first piece in
  // its granule. The windows take at most as many addresses as the pool may hold bytes, unless they may exceed that.
  [[nodiscard]] result<extent*> stitch(std::span<const piece> pieces, bool may_exceed);
  [[nodiscard]] void* window_address(const extent& window) const noexcept;
  // Retires a dead block; its addresses stay mapped until the uses are done and purge() needs them. `shown`: the mapped
  // pieces, whose chunks must not be released before.
  void retire(extent* window, std::vector<piece> shown, stream_use use,
              std::shared_ptr<std::vector<stream_use>> uses) noexcept;
  // Unmaps retired blocks whose uses are done. Returns true if there was one. Mappings that the device cannot remove
  // stay for the next call.
  bool purge() noexcept;
  // Returns true if dead blocks' mappings hold a visible share of the memory.
  [[nodiscard]] bool purge_is_due() const noexcept { return retired_bytes_ > std::max(reserved_ / 10, least_purge); }
  // Returns the mappings of stitched blocks, live and retired.
  [[nodiscard]] std::size_t mappings() const noexcept { return mappings_; }
  [[nodiscard]] bool has_retired() const noexcept { return !retired_.empty(); }
  // Returns true if retired mappings show a part of that range.
  [[nodiscard]] bool is_shown(bytes begin, bytes end) const noexcept;
  // Returns by chunk whether retired mappings show it. May throw bad_alloc.
  [[nodiscard]] std::vector<bool> still_shown() const;
  // Calls f with each retired block: its `use` and `uses`.
  template <class Function>
  void for_each_retired(Function&& f) const {
    for (const retired_block& r : retired_) f(r);
  }

 private:
  static constexpr bytes first_device_block = bytes{1} << 62;
  static constexpr bytes least_purge = bytes{1} << 20;
  struct retired_block {
    extent* window;
    std::vector<piece> shown;
    stream_use use;
    std::shared_ptr<std::vector<stream_use>> uses;
  };
  [[nodiscard]] result<void> obtain(chunk& c, bool device_block);
  [[nodiscard]] bytes most_addresses() const noexcept;
  [[nodiscard]] result<extent*> window_for(bytes size, bool may_exceed) noexcept;
  [[nodiscard]] result<void> map_piece(std::byte*& at, bytes begin, bytes end, std::size_t& made);

  device device_;
  memory_kind kind_;
  bytes limit_;
  std::shared_ptr<shared_limit> shared_;
  bytes quantum_;
  bool virtual_memory_;
  bytes granule_;
  bytes most_ = 0;         // the bytes that may be held, by the limit and by the device
  address_space space_;    // for chunks
  address_space windows_;  // for stitched blocks
  std::vector<chunk> chunks_;
  store window_store_;
  std::vector<retired_block> retired_;
  bytes retired_bytes_ = 0;
  std::size_t stitched_ = 0;  // live stitched blocks
  std::size_t mappings_ = 0;
  std::size_t max_mappings_;
  physical_form form_;
  bytes reserved_ = 0;
  bytes next_device_block_ = first_device_block;
  std::uint64_t device_calls_ = 0;
};

}  // namespace berth::detail

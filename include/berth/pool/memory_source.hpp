// A source of blocks in stream order: a pool, or an adaptor around one (berth/pool/adaptors.hpp).
//
// A block that allocate(size, stream) returns may be used by work enqueued on `stream` from now on. After the free,
// work enqueued later on that stream may reuse it. Neither call waits for the device.
//
// `block` owns the memory it names. The raw interface beside it (allocate_raw, free) is for adaptors and for code that
// does its own bookkeeping; it costs the same.
//
// Thread-safety: every member may be called from several threads. A block may be freed by another thread than the one
// that allocated it.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <utility>

#include "berth/core/bytes.hpp"
#include "berth/core/contract.hpp"
#include "berth/core/result.hpp"
#include "berth/device/device.hpp"
#include "berth/device/stream.hpp"

namespace berth {

class memory_source;

// The options of a request besides its size. Anything but the defaults bypasses the thread's cache.
struct block_options {
  bytes alignment = 0;     // of the start, a power of two; 0: the device's rule is enough
  bool no_stitch = false;  // in one physical piece, as the device's allocate() gives: for memory that is exported (IPC,
                           // RDMA)
};

// An owned block, freed in its stream's order at scope end. Must not outlive its source (contract).
class block {
 public:
  block() noexcept = default;
  block(block&& other) noexcept
      : source_{std::exchange(other.source_, nullptr)},
        data_{std::exchange(other.data_, nullptr)},
        size_{std::exchange(other.size_, 0)} {}
  block& operator=(block&& other) noexcept {
    block taken{std::move(other)};
    std::swap(source_, taken.source_);
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    return *this;
  }
  ~block() { reset(); }

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] bytes size() const noexcept { return size_; }  // the requested size
  explicit operator bool() const noexcept { return data_ != nullptr; }

  // As memory_source::use_on.
  inline result<void> use_on(stream& s, source_location where = source_location::current());
  // Frees the block now.
  inline void reset() noexcept;
  // Hands the block to the caller, who frees it by memory_source::free.
  [[nodiscard]] void* release() noexcept {
    source_ = nullptr;
    size_ = 0;
    return std::exchange(data_, nullptr);
  }

 private:
  friend class memory_source;
  block(memory_source* source, void* data, bytes size) noexcept : source_{source}, data_{data}, size_{size} {}

  memory_source* source_ = nullptr;
  void* data_ = nullptr;
  bytes size_ = 0;
};

class memory_source {
 public:
  virtual ~memory_source() = default;

  // Allocates a block. Size 0 returns an empty block: data() is null, and no memory is taken. Errors, which change
  // nothing:
  // * out_of_memory.
  // * limit_exceeded (number: requested bytes).
  // * overflow.
  // * invalid_input (an alignment that is not a power of two).
  // * device_failed.
  // Contract: the stream is one of get_device(), not moved from.
  [[nodiscard]] result<block> allocate(bytes size, stream& s, source_location site = source_location::current()) {
    return own(get(size, s, nullptr, site), size);
  }
  [[nodiscard]] result<block> allocate(bytes size, stream& s, const block_options& options,
                                       source_location site = source_location::current()) {
    return own(get(size, s, &options, site), size);
  }

  [[nodiscard]] result<void*> allocate_raw(bytes size, stream& s, source_location site = source_location::current()) {
    return get(size, s, nullptr, site);
  }
  [[nodiscard]] result<void*> allocate_raw(bytes size, stream& s, const block_options& options,
                                           source_location site = source_location::current()) {
    return get(size, s, &options, site);
  }

  // Frees a block of allocate_raw() or block::release(). Null does nothing. Contract, checked: a live block of this
  // source, of that size, allocated on that stream. The message names the caller's place.
  void free(void* data, bytes size, const stream& s, source_location site = source_location::current()) noexcept {
    if (data != nullptr) do_free(data, size, s.id(), site);
  }
  void free(void* data, source_location site = source_location::current()) noexcept {
    if (data != nullptr) do_free(data, any_size, any_stream, site);
  }

  // Declares that work on `s` reads or writes the block too. The block is not reused until that work, up to the free,
  // is done or the allocating stream is ordered behind it. Contract: a live block of this source, a stream of its
  // device. Error: out_of_memory if the host has no memory for the record. Then no work on `s` may use the block, or
  // the caller waits for that work before the free.
  result<void> use_on(void* data, stream& s, source_location where = source_location::current());

  [[nodiscard]] virtual const berth::device& get_device() const noexcept = 0;

 protected:
  // The values that free() passes on for missing arguments.
  static constexpr bytes any_size = max_bytes;
  static constexpr std::uint32_t any_stream = 0;

  memory_source() = default;
  memory_source(const memory_source&) = default;
  memory_source& operator=(const memory_source&) = default;

  // A block's address; or null and the error.
  struct outcome {
    void* data = nullptr;
    const error* why = nullptr;
  };
  // Stores the error until this thread's next failure and returns it as an outcome.
  [[nodiscard]] static outcome failed(const error& why) noexcept;

  // Returns this source without event reporting. For an adaptor whose users' blocks differ from the source's, and that
  // reports its own to the hook (core/hook.hpp). Null: there is none, and the adaptor reports no events. The answer
  // stays the same as long as the source lives.
  [[nodiscard]] virtual memory_source* untold() noexcept { return nullptr; }

  // Both for guards. Returns the most that the source will ever hold, by its limit and by its device. Returns max_bytes
  // if that is unknown.
  [[nodiscard]] virtual bytes most() const noexcept { return max_bytes; }
  // Permits the source to hold `more` bytes than it holds now, beyond its limit if need be. Guards need this: zones and
  // pages do not belong to its users. Returns the new most(). Returns 0 if it cannot, and then changes nothing.
  virtual bytes lift([[maybe_unused]] bytes more) noexcept { return 0; }

  // An adaptor calls these for the source it wraps.
  [[nodiscard]] static bytes most_of(const memory_source& m) noexcept { return m.most(); }
  static bytes lift_of(memory_source& m, bytes more) noexcept { return m.lift(more); }
  [[nodiscard]] static memory_source* untold_of(memory_source& m) noexcept { return m.untold(); }
  static outcome allocate_from(memory_source& m, bytes size, stream& s, const block_options* o, source_location site) {
    return m.do_allocate(size, s, o, site);
  }
  static void free_to(memory_source& m, void* data, bytes size, std::uint32_t stream_id,
                      source_location site) noexcept {
    m.do_free(data, size, stream_id, site);
  }
  static void use_on_of(memory_source& m, void* data, stream& s, const source_location& where) {
    m.do_use_on(data, s, where);
  }

 private:
  friend class block;
  result<void*> get(bytes size, stream& s, const block_options* options, source_location site) {
    if (size == 0) return nullptr;
    const outcome o = do_allocate(size, s, options, site);
    if (o.data == nullptr) return *o.why;
    return o.data;
  }
  result<block> own(const result<void*>& data, bytes size) {
    if (!data) return data.error();
    return block{this, *data, size};
  }
  // In these three: size > 0, data is not null, null options are the defaults. Arguments and results fit the registers
  // of a call; a reference to an error and a result would not.
  virtual outcome do_allocate(bytes size, stream& s, const block_options* options, source_location site) = 0;
  virtual void do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept = 0;
  // Only do_use_on() may throw bad_alloc; then the block may be freed as before.
  virtual void do_use_on(void* data, stream& s, const source_location& where) = 0;
};

inline result<void> block::use_on(stream& s, source_location where) {
  return data_ != nullptr ? source_->use_on(data_, s, where) : result<void>{};
}

inline void block::reset() noexcept {
  if (data_ != nullptr) source_->do_free(std::exchange(data_, nullptr), std::exchange(size_, 0), 0, source_location{});
}

}  // namespace berth
#pragma GCC visibility pop

// A pool: device memory that comes and goes in stream order.
//
// allocate(size, stream) gives a block that work enqueued on `stream` from now on may use; giving it back says that
// work enqueued on that stream later may reuse it: neither waits for the device.
#pragma once

#include <memory>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/core/source_location.hpp"
#include "berth/device/device.hpp"
#include "berth/device/stream.hpp"

namespace berth {

class pool;

// An owned block. Given back to its pool, in its stream's order, at scope end. Must not outlive pool and stream.
class block {
 public:
  block() noexcept = default;
  block(block&& other) noexcept;
  block& operator=(block&& other) noexcept;
  ~block();

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] bytes size() const noexcept { return size_; }  // as asked for
  explicit operator bool() const noexcept { return data_ != nullptr; }

 private:
  friend class pool;
  pool* pool_ = nullptr;
  stream* stream_ = nullptr;
  void* data_ = nullptr;
  bytes size_ = 0;
};

struct pool_options {
  bytes limit = max_bytes;  // never holds more of the device than this
};

class pool {
 public:
  explicit pool(device d, pool_options options = {});
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;
  ~pool();

  // Errors: out_of_memory, limit_exceeded, overflow. Thread-safe.
  [[nodiscard]] result<block> allocate(bytes size, stream& s, source_location site = source_location::current());

  [[nodiscard]] const berth::device& get_device() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace berth

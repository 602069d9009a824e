// It is the skeleton of a backend (README.md beside this file) and the device that replays a pool's traces. A terabyte
// costs nothing here. It counts the allocated bytes, so that a limit can be reached.
#include <algorithm>
#include <limits>
#include <optional>

#include "core/byte_count.hpp"
#include "device/host_function.hpp"
#include "device/survivor.hpp"

namespace berth::detail {
namespace {

// Addresses are never given twice. With 64 bits they start where no process has memory. On a 32-bit host they run out
// after 4 GiB.
constexpr std::uint64_t first_address = std::uint64_t{1} << (sizeof(void*) == 8 ? 48 : 16);
constexpr bytes granule = bytes{4} << 10;  // a page, as the host

class null_event final : public backend_event {
 public:
  result<bool> query() override { return true; }
  result<void> synchronize() override { return {}; }
};

class null_queue final : public backend_queue {
 public:
  explicit null_queue(std::shared_ptr<stream_clock> clock) noexcept : clock_{std::move(clock)} {}

  result<void> copy(void*, const void*, bytes) override { return {}; }
  result<void> fill(void*, std::byte, bytes) override { return {}; }
  result<void> call(void (*function)(void*), void* context) override {
    const runs_host_functions here;
    function(context);
    return {};
  }
  result<void> record(backend_event&, std::uint64_t epoch) override {
    clock_->complete(epoch);
    return {};
  }
  result<void> wait(backend_event&) override { return {}; }
  result<void> synchronize() override { return {}; }
  result<bool> query() override { return true; }
  [[nodiscard]] bool idle() const noexcept override { return true; }

 private:
  std::shared_ptr<stream_clock> clock_;
};

class null_device final : public surviving_device {
 public:
  null_device(std::string_view argument, bytes total) {
    properties_.name = "null";
    if (!argument.empty()) properties_.name.append(":").append(argument);
    properties_.description = "addresses without memory";
    properties_.rules = {
        .name = "null", .start_alignment = 64, .source = "as the host, so that replays are comparable"};
    properties_.pinned_rules = properties_.rules;
    properties_.total_memory = total;
    properties_.simulated = true;
    properties_.has_memory = false;
    properties_.virtual_memory = properties_.contiguous_physical = true;
    properties_.granule = granule;
    properties_.max_mappings = std::size_t{1} << 31;
  }

  result<void*> allocate(bytes size, memory_kind) override {
    if (!take(size)) return error{errc::out_of_memory, "null: out of memory", size};
    auto block = new_address(size);
    if (!block) give_back(size);
    return block;
  }
  void free(void*, bytes size, memory_kind) noexcept override { give_back(size); }
  void* host_address(void*, memory_kind) noexcept override { return nullptr; }

  result<void*> reserve(bytes size) override { return new_address(size); }
  result<std::uint64_t> create_physical(bytes size, physical_form) override {
    if (!take(size)) return error{errc::out_of_memory, "null: out of physical memory", size};
    return last_handle_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  void destroy_physical(std::uint64_t, bytes size) noexcept override { give_back(size); }
  result<std::uint64_t> split_physical(std::uint64_t, bytes, bytes) override {
    return last_handle_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  result<void> map(void*, bytes, std::uint64_t, bytes) override { return {}; }
  result<void> unmap(void*, bytes) override { return {}; }

  result<std::unique_ptr<backend_queue>> create_queue(std::shared_ptr<stream_clock> clock) override {
    return std::unique_ptr<backend_queue>{new null_queue{std::move(clock)}};
  }
  result<std::unique_ptr<backend_queue>> wrap_queue(void*, std::shared_ptr<stream_clock> clock) override {
    return create_queue(std::move(clock));
  }
  result<std::unique_ptr<backend_event>> create_event() override {
    return std::unique_ptr<backend_event>{new null_event};
  }

 private:
  bool take(bytes size) noexcept {
    if (properties_.total_memory == 0) return true;
    bytes used = used_.load(std::memory_order_relaxed);
    do {
      if (size > properties_.total_memory - used) return false;
    } while (!used_.compare_exchange_weak(used, used + size, std::memory_order_relaxed));
    return true;
  }
  void give_back(bytes size) noexcept {
    if (properties_.total_memory != 0) used_.fetch_sub(size, std::memory_order_relaxed);
  }

  result<void*> new_address(bytes size) noexcept {
    constexpr std::uint64_t end = std::numeric_limits<std::uintptr_t>::max() / 2;
    std::uint64_t start = next_address_.load(std::memory_order_relaxed);
    std::uint64_t next = 0;
    do {
      if (size > end - start) return error{errc::out_of_memory, "null: out of addresses", size};
      // Leaves a granule of distance, so that neighbours are never mistaken for one block.
      next = std::min(align_up(start + size, granule) + granule, end);
    } while (!next_address_.compare_exchange_weak(start, next, std::memory_order_relaxed));
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(start));
  }

  std::atomic<bytes> used_{0};
  std::atomic<std::uint64_t> next_address_{first_address};
  std::atomic<std::uint64_t> last_handle_{0};
};

}  // namespace

result<std::shared_ptr<device_backend>> open_null(std::string_view argument) {
  std::optional<bytes> total = 0;
  if (!argument.empty()) total = parse_bytes(argument);
  if (!total || (*total == 0 && !argument.empty())) {
    return error{errc::invalid_input, "null: what follows the colon is no size, as 16GiB"};
  }
  return std::shared_ptr<device_backend>{std::make_shared<null_device>(argument, *total)};
}

}  // namespace berth::detail

// The allocators that a log can be replayed through: our pool and, for comparison, our own versions of other policies.
// Their names end in "-like": they are as documented, with none of their code.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/pool/pool.hpp"

namespace berth::tool {

class policy {
 public:
  struct figures {
    bytes peak_reserved = 0;
    double pool_hit_rate = 1;   // allocations for which nothing was asked of the device
    double cache_hit_rate = 0;  // allocations that took no lock
    std::uint64_t stitched = 0;
  };

  policy() = default;
  policy(const policy&) = delete;
  policy& operator=(const policy&) = delete;
  virtual ~policy() = default;

  // Returns a handle, or 0 if the capacity does not suffice. Streams are numbered from 0.
  virtual std::uint64_t allocate(bytes size, std::uint32_t stream) = 0;
  virtual void free(std::uint64_t handle, bytes size, std::uint32_t stream) = 0;
  [[nodiscard]] virtual figures result() = 0;
  // Gives regions without a live block back to the device. Returns their bytes.
  virtual bytes shrink() { return 0; }
  // Returns what it holds now: live_rounded, free, reserved, largest_hole and unusable. Our pool knows the rest too.
  [[nodiscard]] virtual pool_statistics now() = 0;
};

// A device without memory, with addresses for requests to a memory source. Handles are addresses.
struct replay_device {
  static constexpr bytes most_addresses = bytes{1} << 62;  // more a pool cannot reserve, nor a log be alive

  replay_device(bytes capacity, std::uint32_t stream_count);
  std::uint64_t allocate(memory_source& from, bytes size, std::uint32_t stream);
  void free(memory_source& from, std::uint64_t handle, bytes size, std::uint32_t stream);

  device on;
  std::vector<stream> streams;
};

// Settings of PyTorch's allocator, by the names of PYTORCH_CUDA_ALLOC_CONF.
struct pytorch_settings {
  bool expandable_segments = false;
  bytes max_split_size = max_bytes;
  double garbage_collection_threshold = 0;  // of the capacity; 0: none
};

// Returns the names that make_policy() knows, ours first.
[[nodiscard]] std::vector<std::string> policy_names();

// Returns one of policy_names(); null for any other name. `capacity` is the most bytes that the policy may reserve,
// `streams` the number of streams.
[[nodiscard]] std::unique_ptr<policy> make_policy(std::string_view name, bytes capacity, std::uint32_t streams);

// Returns best fit with coalescing. It takes regions that double each time, or of the request's size.
[[nodiscard]] std::unique_ptr<policy> make_bfc_policy(bool doubles, bytes capacity);
[[nodiscard]] std::unique_ptr<policy> make_pytorch_policy(const pytorch_settings& how, bytes capacity,
                                                          std::uint32_t streams);

// Returns our pool under these options, on a device without memory that has `limit` bytes; cuts each limit to a
// possible one.
[[nodiscard]] std::unique_ptr<policy> make_pool_policy(const pool_options& options, std::uint32_t streams);

}  // namespace berth::tool

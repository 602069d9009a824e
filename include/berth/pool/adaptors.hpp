// Adaptors: each wraps any source of blocks and is a source itself, so they stack in any order.
//
//   `limit`      Refuses a request that would raise the allocated bytes above a limit.
//                The pool's own limit is about memory held.
//   `counting`   Counts calls, bytes and failures.
//   `logging`    Writes a line for each call.
//   `failing`    Fails the n-th allocation, to test a caller without memory.
//   `tracking`   Records every live block with its place of allocation.
//   `timing`     Keeps a histogram of the calls' durations.
//
// An adaptor does not own its source; both outlive the blocks (contract). Thread-safe. Each call costs a lock and a few
// nanoseconds more than the source's call. Tracking adds a hash table's insert and erase.
#pragma once
#pragma GCC visibility push(default)

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "berth/pool/memory_source.hpp"
#include "berth/pool/pool.hpp"

namespace berth {

// The common base of the adaptors. It knows the sizes of the blocks it allocated, and passes everything on.
class adaptor : public memory_source {
 public:
  explicit adaptor(memory_source& upstream) noexcept : upstream_{&upstream} {}
  [[nodiscard]] const berth::device& get_device() const noexcept override { return upstream_->get_device(); }

 protected:
  [[nodiscard]] bytes most() const noexcept override { return most_of(*upstream_); }
  bytes lift(bytes more) noexcept override { return lift_of(*upstream_, more); }

  struct given {
    bytes size = 0;
    std::uint32_t stream = 0;
    source_location site;
  };
  // The functions below are called with the lock held. The lock is never held while the source is called, which may
  // take long, call back, or free. One request calls them in this order:
  // * If before() refuses: after_failure() alone.
  // * If the source returns a block: before(), after_allocate().
  // * If the source fails: before(), take_back(), after_failure().
  virtual result<void> before(bytes, const source_location&) { return {}; }
  virtual void take_back(bytes) noexcept {}
  virtual void after_allocate(void*, const given&) {}
  virtual void after_failure(bytes, const error&, const source_location&) {}
  virtual void after_free(void*, const given&, const source_location&) noexcept {}

  mutable std::mutex lock_;
  std::unordered_map<void*, given> live_;

 private:
  std::size_t coming_ = 0;  // requests in progress at the source: live_ has room for them

  outcome do_allocate(bytes size, stream& s, const block_options* o, source_location site) final;
  void do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept final;
  void do_use_on(void* data, stream& s, const source_location& where) final { use_on_of(*upstream_, data, s, where); }

  memory_source* upstream_;
};

// Refuses requests beyond the limit. Error: limit_exceeded; number: requested bytes.
class limit_adaptor final : public adaptor {
 public:
  limit_adaptor(memory_source& upstream, bytes limit) noexcept : adaptor{upstream}, limit_{limit} {}
  [[nodiscard]] bytes given_out() const noexcept {
    const std::lock_guard held{lock_};
    return out_;
  }

 private:
  [[nodiscard]] bytes most() const noexcept override { return std::min(limit_, adaptor::most()); }
  bytes lift(bytes) noexcept override { return 0; }
  result<void> before(bytes size, const source_location&) override {
    if (size > limit_ - out_) return error{errc::limit_exceeded, "limit_adaptor: the limit is reached", size};
    out_ += size;
    return {};
  }
  void take_back(bytes size) noexcept override { out_ -= size; }
  void after_free(void*, const given& g, const source_location&) noexcept override { out_ -= g.size; }

  bytes limit_;
  bytes out_ = 0;
};

struct call_counts {
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t failures = 0;
  bytes live = 0;
  bytes live_peak = 0;
};

class counting_adaptor final : public adaptor {
 public:
  using adaptor::adaptor;
  [[nodiscard]] call_counts counts() const noexcept {
    const std::lock_guard held{lock_};
    return counts_;
  }

 private:
  void after_allocate(void*, const given& g) override {
    ++counts_.allocations;
    counts_.live += g.size;
    counts_.live_peak = counts_.live > counts_.live_peak ? counts_.live : counts_.live_peak;
  }
  void after_failure(bytes, const error&, const source_location&) override { ++counts_.failures; }
  void after_free(void*, const given& g, const source_location&) noexcept override {
    ++counts_.frees;
    counts_.live -= g.size;
  }

  call_counts counts_;
};

// Writes "allocate ADDRESS SIZE stream N FILE:LINE", "free ...", "failed SIZE CODE FILE:LINE". The caller keeps `to`
// open.
class logging_adaptor final : public adaptor {
 public:
  logging_adaptor(memory_source& upstream, std::FILE* to) noexcept : adaptor{upstream}, to_{to} {}

 private:
  void after_allocate(void* data, const given& g) override;
  void after_failure(bytes size, const error& why, const source_location& site) override;
  void after_free(void* data, const given& g, const source_location& site) noexcept override;

  std::FILE* to_;
};

// Fails the n-th allocation, counted from 1, with out_of_memory; 0: never.
class failing_adaptor final : public adaptor {
 public:
  failing_adaptor(memory_source& upstream, std::uint64_t n) noexcept : adaptor{upstream}, left_{n} {}

 private:
  result<void> before(bytes size, const source_location&) override {
    if (left_ != 0 && --left_ == 0) return error{errc::out_of_memory, "failing_adaptor: as asked", size};
    return {};
  }

  std::uint64_t left_;
};

class tracking_adaptor final : public adaptor {
 public:
  using adaptor::adaptor;
  // Returns the live blocks in no particular order.
  [[nodiscard]] std::vector<live_block> live_blocks() const;
};

// --- The duration of requests: an adaptor over any source of blocks that keeps a histogram of its calls.
//
// There are eight classes an octave (as in HdrHistogram, https://hdrhistogram.org). A quantile is never below the true
// one and at most an eighth above it, over all of 64 bits, in 4 KiB. A call costs two readings of the steady clock and
// two or three atomic operations, some 50 ns (bench/pool/guard.cpp). So use it for measuring. No lock. Does not own its
// source; both outlive the blocks (contract). Thread-safe.

class latency_histogram {
 public:
  static constexpr std::size_t classes = 8 + 61 * 8;

  void add(std::uint64_t ns) noexcept;
  void add(const latency_histogram& other) noexcept;

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t sum() const noexcept { return sum_; }
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }
  // Returns the quantile for q from 0 to 1 (nearest rank), rounded up to the end of its class, at most max(). Returns 0
  // if there are no values. O(classes).
  [[nodiscard]] std::uint64_t quantile(double q) const noexcept;

 private:
  friend class timing_adaptor;
  std::array<std::uint64_t, classes> of_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t max_ = 0;
};

class timing_adaptor final : public memory_source {
 public:
  explicit timing_adaptor(memory_source& upstream) noexcept : upstream_{&upstream} {}
  [[nodiscard]] const berth::device& get_device() const noexcept override { return upstream_->get_device(); }

  // Returns the durations in nanoseconds, failed requests included. A concurrent call is either counted or not.
  [[nodiscard]] latency_histogram allocations() const noexcept { return taken(allocations_); }
  [[nodiscard]] latency_histogram frees() const noexcept { return taken(frees_); }

 private:
  struct counters {
    std::array<std::atomic<std::uint64_t>, latency_histogram::classes> of{};
    std::atomic<std::uint64_t> sum{0};
    std::atomic<std::uint64_t> max{0};
  };
  static void add(counters& to, std::uint64_t ns) noexcept;
  static latency_histogram taken(const counters& from) noexcept;

  [[nodiscard]] bytes most() const noexcept override { return most_of(*upstream_); }
  bytes lift(bytes more) noexcept override { return lift_of(*upstream_, more); }
  outcome do_allocate(bytes size, stream& s, const block_options* o, source_location site) override;
  void do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept override;
  void do_use_on(void* data, stream& s, const source_location& where) override {
    use_on_of(*upstream_, data, s, where);
  }

  memory_source* upstream_;
  counters allocations_, frees_;
};

}  // namespace berth
#pragma GCC visibility pop

// Adaptors: each wraps any source of blocks and is one itself, so that they stack in any order.
//
//   limit      refuses what would bring the bytes given out above a limit (the pool's own limit is about memory held)
//   counting   counts calls, bytes and failures
//   logging    writes a line for each call
//   failing    fails the n-th allocation: for testing what a caller does without memory
//   tracking   knows every live block with the place that asked for it
//
// An adaptor does not own what it wraps; both outlive the blocks (contract). Thread-safe. Each call costs a lock and a
// few nanoseconds more than the source's, tracking a hash table's insert and erase.
#pragma once
#pragma GCC visibility push(default)

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "berth/pool/memory_source.hpp"
#include "berth/pool/pool.hpp"

namespace berth {

// What the adaptors share: they know the sizes of the blocks that they gave out, and pass everything on.
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
  // Called with the lock held, which is never held while the source is called: that may take long, call back, or free.
  // before() may refuse; one that did not is followed by after_allocate(), or where the source had nothing by
  // take_back() and after_failure(). A refusal is followed by after_failure() alone.
  virtual result<void> before(bytes, const source_location&) { return {}; }
  virtual void take_back(bytes) noexcept {}
  virtual void after_allocate(void*, const given&) {}
  virtual void after_failure(bytes, const error&, const source_location&) {}
  virtual void after_free(void*, const given&, const source_location&) noexcept {}

  mutable std::mutex lock_;
  std::unordered_map<void*, given> live_;

 private:
  std::size_t coming_ = 0;  // blocks that the source is being asked for: live_ has room for them

  outcome do_allocate(bytes size, stream& s, const block_options* o, source_location site) final;
  void do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept final;
  void do_use_on(void* data, stream& s, const source_location& where) final { use_on_of(*upstream_, data, s, where); }

  memory_source* upstream_;
};

// Error beyond the limit: limit_exceeded; number: bytes asked for.
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

// "allocate ADDRESS SIZE stream N FILE:LINE", "free ...", "failed SIZE CODE FILE:LINE". The caller keeps `to` open.
class logging_adaptor final : public adaptor {
 public:
  logging_adaptor(memory_source& upstream, std::FILE* to) noexcept : adaptor{upstream}, to_{to} {}

 private:
  void after_allocate(void* data, const given& g) override;
  void after_failure(bytes size, const error& why, const source_location& site) override;
  void after_free(void* data, const given& g, const source_location& site) noexcept override;

  std::FILE* to_;
};

// The n-th allocation, counted from 1, fails with out_of_memory; 0: none does.
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
  // In no particular order.
  [[nodiscard]] std::vector<live_block> live_blocks() const;
};

}  // namespace berth
#pragma GCC visibility pop

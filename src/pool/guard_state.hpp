// What a guard knows. guard.cpp: what happens to blocks; guard_text.cpp: what is told.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "berth/pool/guard.hpp"
#include "pool/address_table.hpp"
#include "pool/block_uses.hpp"
#include "pool/call_stack.hpp"
#include "pool/pattern.hpp"

namespace berth {
namespace detail {

inline constexpr std::byte zone_byte{0xfd};
inline constexpr std::byte freed_byte{0xdd};

// Of the last tick: a few nanoseconds where an exact time costs tens.
[[nodiscard]] std::uint64_t coarse_ns() noexcept;

struct guarded {
  std::byte* data = nullptr;
  std::byte* raw = nullptr;  // the source's block
  bytes size = 0;
  bytes taken = 0;    // of the source
  bytes watched = 0;  // the zone behind starts there, counted from data
  block_use mine;
  std::vector<block_use> others;  // of use_on
  std::uint64_t since = 0;
  std::uint32_t thread = 0;
  bool zones = false;    // are written, or will be in stream order
  bool freed = false;    // in the quarantine
  bool settled = false;  // was freed when no work could touch it any more
  bool filled = false;   // with freed_byte
  source_location site;
  source_location freed_at;
  const call_stack* stack = nullptr;  // of whoever asked, where it is kept
  guarded* next = nullptr;            // in the quarantine, oldest first; or spare

  // Nothing that was enqueued touches the block.
  [[nodiscard]] bool idle() const noexcept { return mine.done() && std::ranges::all_of(others, &block_use::done); }
};

// A text of one line that never allocates.
class line_of_text {
 public:
  template <class... Values>
  void add(const char* format, Values... values) noexcept {
    const int n = std::snprintf(text_.data() + length_, text_.size() - length_, format, values...);
    if (n > 0) length_ = std::min(length_ + static_cast<std::size_t>(n), text_.size() - 1);
  }
  void add(const char* text) noexcept { add("%s", text); }
  void add(const guarded& b) noexcept;
  void add_life(const guarded& b) noexcept;
  [[nodiscard]] const char* text() const noexcept { return text_.data(); }

 private:
  std::array<char, 1400> text_{};
  std::size_t length_ = 0;
};

}  // namespace detail

struct guard_adaptor::state {
  state(memory_source& m, const guard_options& o);

  memory_source& upstream;
  const guard_options options;
  const rules::placement rules;
  const bytes unit;  // the zone before a block keeps the alignment of what the source gives

  mutable std::mutex lock;  // guards what follows
  detail::pattern_memory memory;
  detail::address_table<detail::guarded> blocks;
  std::vector<std::unique_ptr<detail::guarded>> records;
  detail::guarded* spare = nullptr;
  detail::guarded* oldest = nullptr;  // of the quarantine
  detail::guarded* newest = nullptr;
  detail::used_streams streams;
  std::unordered_set<detail::call_stack, detail::hash_of_stack> stacks;
  guard_statistics sums;
  std::uint64_t calls = 0;
  // Where the next alarm is due; the largest number after it was told.
  std::uint64_t alarm_at_blocks;
  bytes alarm_at_bytes;
  std::uint64_t next_look_at_ages;  // coarse_ns

  struct placed {
    std::byte* data;
    std::byte* raw;
    bytes taken;
    bytes watched;
  };

  // --- guard.cpp. With the lock held, but for those that say otherwise.
  [[nodiscard]] bool write_zones(const placed& at, stream& s) noexcept;  // without the lock
  // False: no host memory for a record.
  [[nodiscard]] bool remember(const placed& at, bytes size, bool zones, const stream& s, source_location site,
                              const detail::call_stack* called_by) noexcept;
  // Who called do_allocate(). Takes the lock; null: no host memory for it.
  [[nodiscard]] const detail::call_stack* keep_stack() noexcept;
  // A live block, or one in the quarantine. Takes the lock.
  [[nodiscard]] bool knows(const void* data) const noexcept;
  void recycle(detail::guarded* b) noexcept;
  // Contract: the block's streams are idle. What was found is mended, so that it is told once.
  std::size_t look(detail::guarded& b, source_location site) noexcept;
  std::size_t look_at_all(source_location site) noexcept;
  void count_call(source_location site) noexcept {
    if (options.check_every != 0 && ++calls % options.check_every == 0) (void)look_at_all(site);
  }
  void leave_quarantine() noexcept;
  bool empty_quarantine() noexcept;  // takes the lock; false where it was empty
  void release(detail::guarded* b) noexcept;
  // Live blocks, those of one place and stack together. May throw bad_alloc.
  [[nodiscard]] std::vector<site_holding> holdings() const;

  // --- guard_text.cpp
  void tell(mistake_kind kind, const void* address, bytes size, source_location site, const char* text) noexcept;
  void tell_of_bytes(mistake_kind kind, const detail::guarded& b, std::ptrdiff_t offset, std::byte found,
                     std::byte want, source_location site) noexcept;
  void tell_of_strange(const void* data, const char* what, source_location site) noexcept;
  void tell_of_free(mistake_kind kind, const detail::guarded& b, bytes size, std::uint32_t stream,
                    source_location site) noexcept;
  void tell_of_leaks() noexcept;
  void look_at_alarms(const detail::guarded& made) noexcept;

 private:
  void add_neighbours(detail::line_of_text& t, const std::byte* at, const detail::guarded* but) const noexcept;
  void alarm(source_location site, const char* text) noexcept;
};

}  // namespace berth

// Merges the records of all threads into one order of events.
//
// The order within a thread is known. Between threads there are only stamps, and each event lies somewhere between two.
// But allocation and free alternate at one address, and a free has its block's size. These rules decide most cases.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "trace/chunk_store.hpp"

namespace berth::trace {

struct timed {
  record what;
  std::uint32_t thread = 0;
  std::uint64_t from = 0;  // it happened between these, in nanoseconds
  std::uint64_t until = 0;
  std::uint64_t earliest = 0;  // of arranged events: `from` as it was
  const record* place = nullptr;
};

// A chunk's records that are no longer written to. The records before `seen` had happened at `seen_at`.
struct stretch {
  record* begin;
  record* end;
  std::uint32_t thread;
  const record* seen = nullptr;
  std::uint64_t seen_at = 0;
};

// Appends the records of one thread to `out`. Its chunks are given in their order.
void decode_records(const stretch& s, std::vector<timed>& out);

struct arranged {
  std::vector<timed> events;   // at every address an allocation, its free, an allocation, ...; `from` never falls
  std::vector<timed> orphans;  // frees of what was allocated before the recording, or in a record yet to come
  std::size_t left_out = 0;    // events of blocks that came and went before one that is alive, for which no place was
};

// Orders all events. If an address is allocated twice without a free (its pool was destroyed, or the record dropped),
// the first block counts as freed there. A free has its block's size.
[[nodiscard]] arranged arrange(std::vector<timed> all);

// Returns the allocations without a free, in their order.
[[nodiscard]] std::vector<const timed*> alive(const arranged& a);

// Tells whether one thread or several use an address in some records. May answer several for an address of one thread,
// if others share both of its places in the table.
class owners {
 public:
  owners() : of_(2 * places) {}
  void clear() noexcept { std::ranges::fill(of_, nobody); }
  void note(const record* at, const record* end, std::uint32_t thread) noexcept;
  [[nodiscard]] bool has_alone(std::uint32_t thread, std::uint64_t address) const noexcept {
    const std::uint64_t h = mixed(address);
    return is_of(of_[h % places], thread) || is_of(of_[places + h / places % places], thread);
  }

 private:
  using owner = std::uint16_t;
  static constexpr std::size_t places = std::size_t{1} << 17;
  static constexpr owner nobody = 0, several = UINT16_MAX;  // else a thread's number + 1
  [[nodiscard]] static owner owner_of(std::uint32_t thread) noexcept {
    return static_cast<owner>(std::min<std::uint32_t>(thread, several - 1) + 1);
  }
  [[nodiscard]] static bool is_of(owner o, std::uint32_t thread) noexcept {
    return o != several && o == owner_of(thread);
  }
  // Addresses at even distances are spread as any others.
  [[nodiscard]] static std::uint64_t mixed(std::uint64_t x) noexcept {
    x = (x ^ x >> 31) * 0xD6E8FEB86659FD93u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
  }
  std::vector<owner> of_;
};

// Removes each allocation and its free in one chunk, in place. Returns the events removed. Another thread may have
// freed the block between the two and got another one there. So only addresses that this thread alone uses in the
// chunk's time count (null: there are no other threads).
std::uint32_t forget_pairs(chunk& c, const owners* among) noexcept;

// Forgets blocks that came and went at the addresses of `old`. `old` and `later` have every event there up to some
// moment. No such moment is known at the addresses of `busy`, so all events stay there. Returns the rest of `old`,
// sorted by thread, and for each in its order; marks the forgotten records of `later` as gone. Changes nothing if it
// throws bad_alloc.
std::vector<timed> settle(std::span<const stretch> old, std::span<const stretch> later,
                          const std::unordered_set<std::uint64_t>& busy, std::uint64_t& forgotten);

}  // namespace berth::trace

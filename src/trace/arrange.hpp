// From what the threads kept to one order of events.
//
// The true order is known within a thread; between threads there are only stamps, each event lying somewhere between
// two. But at one address allocation and free take turns, and a free has its block's size: that decides most of what
// the stamps leave open.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "trace/record.hpp"

namespace berth::trace {

struct timed {
  record what;
  std::uint32_t thread = 0;
  std::uint64_t from = 0;  // it happened between these, in nanoseconds
  std::uint64_t until = 0;
  std::uint64_t earliest = 0;  // of arranged events: `from` as it was
  const record* place = nullptr;
};

// A chunk's records that are no longer written to. Those before `seen` had happened at `seen_at`.
struct stretch {
  record* begin;
  record* end;
  std::uint32_t thread;
  const record* seen = nullptr;
  std::uint64_t seen_at = 0;
};

// Appends what one thread wrote to `out`. Its chunks are given in their order.
void decode_records(const stretch& s, std::vector<timed>& out);

struct arranged {
  std::vector<timed> events;   // at every address an allocation, its free, an allocation, ...; `from` never falls
  std::vector<timed> orphans;  // frees of what was allocated before the recording, or in a record yet to come
  std::size_t left_out = 0;    // events of blocks that came and went before one that is alive, for which no place was
};

// Where an address is allocated twice without a free (its pool was destroyed, or the record dropped), the first block
// is taken as freed there. A free has its block's size.
[[nodiscard]] arranged arrange(std::vector<timed> all);

// Whose an address is among some records: one thread's, or several threads'. It may say several of one thread's, where
// both of the address's places are shared with others.
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

// Takes the pairs of an allocation and its free in one chunk out of it, in place. Returns the events taken. Between the
// two another thread may have freed the block and got another one there, as which it came back: so only at addresses
// that are this thread's alone among all that is kept of the chunk's time (null: there are no other threads).
std::uint32_t forget_pairs(chunk& c, const owners* among) noexcept;

// Forgets what came and went at the addresses of `old`, of which `old` and `later` have every event up to some moment.
// At those of `busy` such a moment is not known: there all is left. Returns what is left of `old`, sorted by thread,
// and for each in its order; what is gone of `later` is made so there. May throw bad_alloc, and has done nothing then.
std::vector<timed> settle(std::span<const stretch> old, std::span<const stretch> later,
                          const std::unordered_set<std::uint64_t>& busy, std::uint64_t& forgotten);

}  // namespace berth::trace

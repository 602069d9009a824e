#include "pool/guard/pattern.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "device/host/system.hpp"

namespace berth::detail {
namespace {

constexpr bytes staging_size = bytes{64} << 10;

constexpr std::uintptr_t least_page = std::uintptr_t{4} << 10;
constexpr std::uintptr_t probe = 4 * least_page;

// Returns true if the system has memory for all pages of [at, at + n), n <= probe, or does not say.
bool are_present(std::uintptr_t at, std::uintptr_t n) noexcept {
  const auto page = static_cast<std::uintptr_t>(page_size());
  const std::uintptr_t from = align_down(at, page), pages = (at + n - from + page - 1) / page;
  std::array<unsigned char, probe / least_page> present{};
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  if (pages > present.size() || mincore(reinterpret_cast<void*>(from), pages * page, present.data()) != 0) return true;
  return std::all_of(present.begin(), present.begin() + pages, [](unsigned char p) { return (p & 1) != 0; });
}

// The parts of a range with a step, as addresses. The ends meet the lines at `low` and `high`, multiples of the small
// step. So the ends cover the rest of the pages that they touch.
struct parts {
  explicit parts(const pattern_range& r) noexcept
      : begin{reinterpret_cast<std::uintptr_t>(r.data)},
        low{align_up(begin + pattern_end, small_step)},
        high{align_down(begin + r.size - pattern_end, small_step)},
        step{r.step},
        turn{r.turn} {}

  // Calls f with the place of every line, counted from the first byte, until f returns false. Prefetches the next
  // lines, as the processor does not predict accesses to another page.
  template <class Function>
  void for_each_line(Function&& f) const noexcept {
    constexpr bytes lines = small_step / pattern_piece;
    for (bytes block = align_up(low, step); block < high; block += step) {
      const bytes line = block + (block / step + turn) % lines * pattern_piece;
      if (6 * step < high - block) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        __builtin_prefetch(reinterpret_cast<const void*>(static_cast<std::uintptr_t>(line + 6 * step)));
      }
      if (!f(line - begin)) return;
    }
  }

  bytes begin, low, high, step;
  std::uint64_t turn;
};

}  // namespace

void write_pattern(std::byte* data, bytes n, std::byte value) noexcept {
  if (n != pattern_piece) {
    std::memset(data, std::to_integer<int>(value), n);
  } else {
    std::memset(data, std::to_integer<int>(value), pattern_piece);
  }
}

std::optional<difference> first_difference(const std::byte* data, bytes n, std::byte want) noexcept {
  for (bytes at = 0; at < n; at += pattern_piece) {
    bytes i = at;
    if (n - at >= pattern_piece && is_piece_of(data + at, want)) continue;
    for (const bytes end = std::min(n, at + pattern_piece); i < end; ++i) {
      if (data[i] != want) return difference{i, data[i]};
    }
  }
  return std::nullopt;
}

bytes step_for(const std::byte* data, bytes size) noexcept {
  const bool used = std::ranges::all_of(std::array{size / 2, size / 4, size / 4 * 3}, [&](bytes at) {
    std::uintptr_t from = align_down(reinterpret_cast<std::uintptr_t>(data) + at, probe);
    if (from % large_step == 0) from += probe;  // large steps have a line there
    return are_present(from, probe);
  });
  return used ? small_step : std::max(large_step, std::bit_ceil(size / most_large_steps));
}

// Reads before it writes. A read of a new mapping makes Linux also map the surrounding pages that are in memory; a
// write maps one page. Stitched blocks are new mappings.
[[gnu::noinline]] static void write_parts(const pattern_range& r, std::byte value) noexcept {
  const parts p{r};
  const auto write = [&](bytes at, bytes n) {
    (void)*static_cast<volatile std::byte*>(r.data + at);
    write_pattern(r.data + at, n, value);
  };
  write(0, p.low - p.begin);
  p.for_each_line([&](bytes at) {
    write(at, pattern_piece);
    return true;
  });
  write(p.high - p.begin, r.size - (p.high - p.begin));
}

[[gnu::noinline]] static std::optional<difference> first_difference_in_parts(const pattern_range& r,
                                                                             std::byte want) noexcept {
  const parts p{r};
  const auto look = [&](bytes at, bytes n) {
    auto d = first_difference(r.data + at, n, want);
    if (d) d->at += at;
    return d;
  };
  auto found = look(0, p.low - p.begin);
  if (found) return found;
  p.for_each_line([&](bytes at) {
    if (!is_piece_of(r.data + at, want)) [[unlikely]]
      found = look(at, pattern_piece);
    return !found;
  });
  return found ? found : look(p.high - p.begin, r.size - (p.high - p.begin));
}

pattern_memory::pattern_memory(const device& d) noexcept : dev_{d}, on_host_{d.properties().host_accessible} {}

pattern_memory::~pattern_memory() {
  reader_.reset();
  if (staging_ != nullptr) dev_.free(staging_, staging_size, memory_kind::pinned);
}

bool pattern_memory::write(std::byte* data, bytes n, std::byte value) noexcept {
  if (!on_host_) return open_reader() && reader_->fill(data, value, n) && reader_->synchronize();
  write_pattern(data, n, value);
  return true;
}

bool pattern_memory::write(const pattern_range& r, std::byte value) noexcept {
  if (r.step == 0 || !on_host_) return write(r.data, r.size, value);
  write_parts(r, value);
  return true;
}

comparison pattern_memory::compare(const pattern_range& r, std::byte want) noexcept {
  if (r.step == 0 || !on_host_) return compare(r.data, r.size, want);
  return {true, first_difference_in_parts(r, want)};
}

comparison pattern_memory::compare(const std::byte* data, bytes n, std::byte want) noexcept {
  if (on_host_) return {true, first_difference(data, n, want)};
  if (!open_reader()) return {};
  const auto* seen = static_cast<const std::byte*>(dev_.host_address(staging_));
  for (bytes at = 0; at < n; at += staging_size) {
    const bytes here = std::min(staging_size, n - at);
    if (!reader_->copy(staging_, data + at, here) || !reader_->synchronize()) return {};
    if (const auto d = first_difference(seen, here, want)) return {true, difference{at + d->at, d->found}};
  }
  return {true, std::nullopt};
}

bool pattern_memory::open_reader() noexcept try {
  if (staging_ != nullptr) return true;
  if (nothing_to_read_) return false;
  auto made = stream::create(dev_);
  if (!made) return false;
  const auto block = dev_.allocate(staging_size, memory_kind::pinned);
  if (!block) return false;
  nothing_to_read_ = dev_.host_address(*block) == nullptr;
  if (nothing_to_read_) {
    dev_.free(*block, staging_size, memory_kind::pinned);
    return false;
  }
  reader_.emplace(std::move(*made));
  staging_ = *block;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace berth::detail

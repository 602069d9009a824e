#include "pool/guard/hidden_pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "device/host/system.hpp"

namespace berth::detail {
namespace {

std::atomic<std::size_t> hidden{0};

bool protect(std::byte* start, bytes n, int how) noexcept {
  return mprotect(start, static_cast<std::size_t>(n), how) == 0;
}

}  // namespace

std::size_t most_hidden_ranges() noexcept {
  static const auto most =
      static_cast<std::size_t>(std::min<std::uint64_t>(number_in("/proc/sys/vm/max_map_count", 65530) / 16, 1U << 16));
  return most;
}

bool hide_pages(std::byte* start, bytes n, bool some) noexcept {
  if (!some && hidden.fetch_add(1, std::memory_order_relaxed) >= most_hidden_ranges()) {
    hidden.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  if (protect(start, n, PROT_NONE)) return true;
  const bool table_is_full = errno == ENOMEM;
  // Undoes a half-done change. If the table has no room even for that, the range counts as hidden, so that it is never
  // used. Memory that cannot be protected, such as huge pages in part, was not changed.
  if (show_pages(start, n)) return false;
  if (!table_is_full) hidden.fetch_sub(1, std::memory_order_relaxed);
  return table_is_full;
}

bool show_pages(std::byte* start, bytes n) noexcept {
  if (!protect(start, n, PROT_READ | PROT_WRITE)) return false;
  hidden.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

}  // namespace berth::detail

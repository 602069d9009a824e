#include "berth/trace/health.hpp"

#include <algorithm>
#include <chrono>

namespace berth::trace {

std::optional<bytes> memory_use::idle() const noexcept {
  if (!reserved) return std::nullopt;
  return *reserved - std::min(*reserved, live + rounding.value_or(0));
}

std::optional<double> memory_use::fragmentation() const noexcept {
  if (!reserved || !unusable) return std::nullopt;
  return *reserved == 0 ? 0 : static_cast<double>(*unusable) / static_cast<double>(*reserved);
}

memory_use use_of(const pool_statistics& s) noexcept {
  memory_use u{.live = s.live,
               .reserved = s.reserved,
               .rounding = s.rounding(),
               .cached = s.cached,
               .largest_hole = s.largest_hole};
  // Files of older versions lack both.
  if (s.largest_request != 0 || s.allocations == 0) u.unusable = s.unusable;
  return u;
}

health check(const measurements& m) noexcept {
  return {{{"allocation_us", 10, 50, false, m.allocation_us},
           {"fragmentation", 0.10, 0.30, false, m.fragmentation},
           {"pool_hits", 0.90, 0.70, true, m.pool_hits},
           {"zero_copy", 0.80, 0.50, true, m.zero_copy}}};
}

const char* name(band b) noexcept {
  switch (b) {
    case band::excellent: return "excellent";
    case band::warning: return "warning";
    case band::danger: return "danger";
  }
  return "unknown";
}

band worst(const health& h) noexcept {
  band all = band::excellent;
  for (const threshold& t : h) all = std::max(all, t.in().value_or(band::excellent));
  return all;
}

bool ok(const health& h) noexcept {
  return std::ranges::all_of(h, [](const threshold& t) { return t.ok().value_or(true); });
}

allocation_times stopwatch::times() const noexcept {
  const std::uint64_t count = count_.load(std::memory_order_relaxed);
  const double total = static_cast<double>(total_ns_.load(std::memory_order_relaxed));
  return {count, count == 0 ? 0 : total * 1e-3 / static_cast<double>(count),
          static_cast<double>(longest_ns_.load(std::memory_order_relaxed)) * 1e-3};
}

memory_source::outcome stopwatch::do_allocate(bytes size, stream& s, const block_options* o, source_location site) {
  using clock = std::chrono::steady_clock;
  const clock::time_point before = clock::now();
  const outcome block = allocate_from(*upstream_, size, s, o, site);
  const std::chrono::nanoseconds took = clock::now() - before;
  const auto ns = static_cast<std::uint64_t>(took.count());
  total_ns_.fetch_add(ns, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
  std::uint64_t known = longest_ns_.load(std::memory_order_relaxed);
  while (known < ns && !longest_ns_.compare_exchange_weak(known, ns, std::memory_order_relaxed)) {
  }
  return block;
}

}  // namespace berth::trace

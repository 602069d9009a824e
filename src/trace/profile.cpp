#include "berth/trace/profile.hpp"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <map>

#include "core/print.hpp"
#include "trace/blocks.hpp"

namespace berth::trace {
namespace {

using berth::detail::print;

bytes class_of(bytes size) noexcept {
  if (size <= 64) return 64;
  return size > bytes{1} << 63 ? max_bytes : std::bit_ceil(size);
}

bytes sum_of(bytes a, bytes b) noexcept {
  return checked_add(a, b).value_or(max_bytes);
}

void family(std::string& out, const char* name, const char* type, const char* unit, const char* help) {
  print(out, "# TYPE berth_%s %s\n", name, type);
  if (*unit != '\0') print(out, "# UNIT berth_%s %s\n", name, unit);
  print(out, "# HELP berth_%s %s\n", name, help);
}

void add_summary(std::string& out, const char* name, const char* unit, const char* help, const spread& s,
                 double scale) {
  family(out, name, "summary", unit, help);
  for (const auto& [q, value] : {std::pair{"0.5", s.p50}, {"0.99", s.p99}, {"1", s.max}}) {
    print(out, "berth_%s{quantile=\"%s\"} %.9g\n", name, q, value * scale);
  }
  print(out, "berth_%s_count %" PRIu64 "\n", name, s.count);
}

void add_latency(std::string& out, const char* name, const char* help, const latency_histogram& h) {
  add_summary(out, name, "seconds", help,
              {.count = h.count(),
               .p50 = static_cast<double>(h.quantile(0.5)),
               .p99 = static_cast<double>(h.quantile(0.99)),
               .max = static_cast<double>(h.max())},
              1e-9);
}

template <class Value>
void add_gauge(std::string& out, const char* name, const char* unit, const char* help, Value value) {
  family(out, name, "gauge", unit, help);
  print(out, "berth_%s %.9g\n", name, static_cast<double>(value));
}
void add_counter(std::string& out, const char* name, const char* help, std::uint64_t value) {
  family(out, name, "counter", "", help);
  print(out, "berth_%s_total %" PRIu64 "\n", name, value);
}

void add_moments(std::string& out, std::span<const named_moment> moments) {
  const auto add = [&](const char* name, const char* help, auto figure) {
    if (!std::ranges::any_of(moments, [&](const named_moment& m) { return figure(m.use).has_value(); })) return;
    family(out, name, "gauge", "bytes", help);
    for (const auto& [at, use] : moments) {
      if (const std::optional<bytes> n = figure(use)) print(out, "berth_%s{at=\"%s\"} %" PRIu64 "\n", name, at, *n);
    }
  };
  add("memory_reserved_bytes", "Of the device.", [](const memory_use& u) { return u.reserved; });
  add("memory_live_bytes", "In users' hands, as requested.", [](const memory_use& u) { return std::optional{u.live}; });
  add("memory_idle_bytes", "Reserved, in no live block.", [](const memory_use& u) { return u.idle(); });
  add("memory_unusable_bytes", "Idle, in holes below the largest request.",
      [](const memory_use& u) { return u.unusable; });
}

void add_pool(std::string& out, const pool_statistics& s) {
  add_gauge(out, "pool_live_bytes", "bytes", "In users' hands, as requested.", s.live);
  add_gauge(out, "pool_live_peak_bytes", "bytes", "The most of it.", s.live_peak);
  add_gauge(out, "pool_rounding_bytes", "bytes", "Of live blocks, beyond the requested bytes.", s.rounding());
  add_gauge(out, "pool_idle_bytes", "bytes", "Reserved, in no live block: cached and free.", s.idle());
  add_gauge(out, "pool_cached_bytes", "bytes", "In threads' caches.", s.cached);
  add_gauge(out, "pool_free_bytes", "bytes", "Free in the store.", s.free);
  add_gauge(out, "pool_reserved_bytes", "bytes", "Of the device.", s.reserved);
  add_gauge(out, "pool_reserved_peak_bytes", "bytes", "The most of it.", s.reserved_peak);
  add_gauge(out, "pool_largest_hole_bytes", "bytes", "The largest free range.", s.largest_hole);
  if (const memory_use use = use_of(s); use.unusable) {
    add_gauge(out, "pool_unusable_bytes", "bytes", "Idle, in holes below the largest request.", *use.unusable);
    add_gauge(out, "pool_fragmentation_ratio", "ratio", "Unusable / reserved.", *use.fragmentation());
  }
  add_counter(out, "pool_allocations", "Allocations that succeeded.", s.allocations);
  add_counter(out, "pool_frees", "Frees.", s.frees);
  add_counter(out, "pool_failures", "Allocations that failed.", s.failures);
  add_counter(out, "pool_cache_hits", "Allocations that took no lock.", s.cache_hits);
  add_counter(out, "pool_device_hits", "Allocations for which the device was called.", s.device_hits);
  add_counter(out, "pool_stitched", "Allocations for which a block was stitched.", s.stitched);
  add_counter(out, "pool_flushes", "Times that all caches were emptied.", s.flushes);
}

}  // namespace

spread spread_of(std::vector<double>& values) {
  spread s{.count = values.size()};
  if (values.empty()) return s;
  std::ranges::sort(values);
  const auto rank = [&values](double share) {
    const auto n = static_cast<double>(values.size());
    return values[static_cast<std::size_t>(std::max(1.0, std::ceil(share * n))) - 1];
  };
  s.p50 = rank(0.5);
  s.p99 = rank(0.99);
  s.max = values.back();
  return s;
}

profile profile_of(const log& l) {
  struct alive {
    bytes live = 0;
    std::vector<double> lifetimes;
  };
  std::map<bytes, std::pair<size_class, alive>> sizes;
  std::map<std::uint32_t, std::pair<stream_profile, bytes>> streams;
  const std::vector<std::size_t> other = partners(l);
  std::vector<double> all_sizes;
  std::vector<double> all_lifetimes;
  for (std::size_t i = 0; i < l.size(); ++i) {
    const log_entry& e = l[i];
    if (e.allocate) {
      all_sizes.push_back(static_cast<double>(e.size));
      auto& [c, a] = sizes[class_of(e.size)];
      ++c.allocations;
      c.allocated = sum_of(c.allocated, e.size);
      a.live += e.size;
      c.live_peak = std::max(c.live_peak, a.live);
      auto& [s, live] = streams[e.stream];
      ++s.allocations;
      s.allocated = sum_of(s.allocated, e.size);
      live += e.size;
      s.live_peak = std::max(s.live_peak, live);
    } else if (other[i] != no_event) {
      const log_entry& born = l[other[i]];
      const double lived = std::max(0.0, e.t_us - born.t_us);
      auto& [c, a] = sizes[class_of(born.size)];
      ++c.frees;
      a.live -= born.size;
      a.lifetimes.push_back(lived);
      streams[born.stream].second -= born.size;
      all_lifetimes.push_back(lived);
    }
  }
  profile p{.size = spread_of(all_sizes), .lifetime_us = spread_of(all_lifetimes)};
  for (auto& [up_to, one] : sizes) {
    one.first.up_to = up_to;
    one.first.lifetime_us = spread_of(one.second.lifetimes);
    p.sizes.push_back(one.first);
  }
  for (auto& [number, one] : streams) {
    one.first.stream = number;
    p.streams.push_back(one.first);
  }
  return p;
}

std::string to_open_metrics(const profile& p, const std::optional<pool_statistics>& pool,
                            const latency_histogram* allocations, const latency_histogram* frees,
                            std::span<const named_moment> moments) {
  std::string out;
  family(out, "allocation_size_bytes", "histogram", "bytes", "Sizes as asked for, by power of two.");
  bytes sum = 0;
  std::uint64_t count = 0;
  for (const size_class& c : p.sizes) {
    count += c.allocations;
    sum = sum_of(sum, c.allocated);
    print(out, "berth_allocation_size_bytes_bucket{le=\"%" PRIu64 "\"} %" PRIu64 "\n", c.up_to, count);
  }
  print(out, "berth_allocation_size_bytes_bucket{le=\"+Inf\"} %" PRIu64 "\n", count);
  print(out, "berth_allocation_size_bytes_count %" PRIu64 "\nberth_allocation_size_bytes_sum %" PRIu64 "\n", count,
        sum);
  add_summary(out, "block_lifetime_seconds", "seconds", "From allocation to free.", p.lifetime_us, 1e-6);
  family(out, "class_live_peak_bytes", "gauge", "bytes", "The most alive at once of a size class.");
  for (const size_class& c : p.sizes) {
    print(out, "berth_class_live_peak_bytes{up_to=\"%" PRIu64 "\"} %" PRIu64 "\n", c.up_to, c.live_peak);
  }
  family(out, "stream_allocations", "counter", "", "Allocations of a stream.");
  for (const stream_profile& s : p.streams) {
    print(out, "berth_stream_allocations_total{stream=\"%u\"} %" PRIu64 "\n", s.stream, s.allocations);
  }
  family(out, "stream_live_peak_bytes", "gauge", "bytes", "The most alive at once of a stream.");
  for (const stream_profile& s : p.streams) {
    print(out, "berth_stream_live_peak_bytes{stream=\"%u\"} %" PRIu64 "\n", s.stream, s.live_peak);
  }
  if (pool) add_pool(out, *pool);
  add_moments(out, moments);
  if (allocations != nullptr) add_latency(out, "allocate_seconds", "How long requests took.", *allocations);
  if (frees != nullptr) add_latency(out, "free_seconds", "How long giving back took.", *frees);
  return out += "# EOF\n";
}

}  // namespace berth::trace

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

#include "berth/pool/adaptors.hpp"

namespace berth {
namespace {

// One class per number below 8, then eight an octave.
std::size_t class_of(std::uint64_t ns) noexcept {
  if (ns < 8) return static_cast<std::size_t>(ns);
  const auto above = static_cast<unsigned>(std::bit_width(ns)) - 4;  // octaves above the first
  return 8 + above * 8 + static_cast<std::size_t>((ns >> above) & 7);
}

std::uint64_t last_of(std::size_t c) noexcept {
  if (c < 8) return c;
  const std::size_t above = (c - 8) / 8;
  return (std::uint64_t{8 + c % 8} << above) + ((std::uint64_t{1} << above) - 1);
}

std::uint64_t now() noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace

void latency_histogram::add(std::uint64_t ns) noexcept {
  ++of_[class_of(ns)];
  ++count_;
  sum_ += ns;
  max_ = std::max(max_, ns);
}

void latency_histogram::add(const latency_histogram& other) noexcept {
  for (std::size_t c = 0; c < classes; ++c) of_[c] += other.of_[c];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

std::uint64_t latency_histogram::quantile(double q) const noexcept {
  const auto rank = static_cast<std::uint64_t>(std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    seen += of_[c];
    if (seen != 0 && seen >= rank) return std::min(last_of(c), max_);
  }
  return max_;
}

void timing_adaptor::add(counters& to, std::uint64_t ns) noexcept {
  to.of[class_of(ns)].fetch_add(1, std::memory_order_relaxed);
  to.sum.fetch_add(ns, std::memory_order_relaxed);
  std::uint64_t most = to.max.load(std::memory_order_relaxed);
  while (most < ns && !to.max.compare_exchange_weak(most, ns, std::memory_order_relaxed)) {
  }
}

latency_histogram timing_adaptor::taken(const counters& from) noexcept {
  latency_histogram h;
  for (std::size_t c = 0; c < h.of_.size(); ++c) {
    h.of_[c] = from.of[c].load(std::memory_order_relaxed);
    h.count_ += h.of_[c];
  }
  h.sum_ = from.sum.load(std::memory_order_relaxed);
  h.max_ = from.max.load(std::memory_order_relaxed);
  return h;
}

memory_source::outcome timing_adaptor::do_allocate(bytes size, stream& s, const block_options* o,
                                                   source_location site) {
  const std::uint64_t before = now();
  const outcome made = allocate_from(*upstream_, size, s, o, site);
  add(allocations_, now() - before);
  return made;
}

void timing_adaptor::do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept {
  const std::uint64_t before = now();
  free_to(*upstream_, data, size, stream_id, site);
  add(frees_, now() - before);
}

}  // namespace berth

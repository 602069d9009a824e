// The texts of a guard: mistakes, leaks, alarms.
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <new>
#include <utility>

#include "berth/core/contract.hpp"
#include "pool/guard/guard_state.hpp"

namespace berth {

using detail::guarded;
using detail::line_of_text;

const char* name(mistake_kind k) noexcept {
  switch (k) {
    case mistake_kind::overrun_before: return "overrun before";
    case mistake_kind::overrun_behind: return "overrun behind";
    case mistake_kind::write_after_free: return "write after free";
    case mistake_kind::double_free: return "double free";
    case mistake_kind::foreign_free: return "no block";
    case mistake_kind::wrong_size: return "wrong size";
    case mistake_kind::wrong_stream: return "wrong stream";
    case mistake_kind::leak: return "leak";
  }
  return "unknown";
}

namespace detail {

void line_of_text::add(const guarded& b) noexcept {
  add("block of %" PRIu64 " bytes at %p, asked for at %s:%u", b.size, static_cast<void*>(b.data), b.site.file_name(),
      b.site.line());
}

void line_of_text::add_life(const guarded& b) noexcept {
  add(" (stream %u, thread %u, %.1f s old)", b.mine.on->clock->id(), b.thread,
      static_cast<double>(coarse_ns() - b.since) * 1e-9);
  if (b.freed) add(", freed at %s:%u", b.freed_at.file_name(), b.freed_at.line());
  if (b.stack == nullptr) return;
  try {
    add(", by %s", text_of(*b.stack).c_str());
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace detail

void guard_adaptor::state::tell(mistake_kind kind, const void* address, bytes size, source_location site,
                                const char* text) noexcept {
  const bool stops = kind != mistake_kind::leak && !options.go_on;
  if (kind != mistake_kind::leak) ++sums.mistakes;
  if (options.on_mistake.function != nullptr) {
    options.on_mistake.function(options.on_mistake.context, {kind, address, size, site, text});
  } else if (!stops) {
    std::fprintf(stderr, "berth: %s:%u: guard: %s\n", site.file_name(), site.line(), text);
  }
  if (stops) contract_violation(text, site);
}

void guard_adaptor::state::add_neighbours(line_of_text& t, const std::byte* at, const guarded* but) const noexcept {
  const guarded* below = nullptr;
  const guarded* above = nullptr;
  blocks.for_each([&](const guarded& b) {
    if (&b == but) return;
    if (b.data <= at && (below == nullptr || b.data > below->data)) below = &b;
    if (b.data > at && (above == nullptr || b.data < above->data)) above = &b;
  });
  for (const auto& [what, b] : {std::pair{"below", below}, {"above", above}}) {
    if (b == nullptr) continue;
    t.add("; %s: %s", what, b->freed ? "freed " : "");
    t.add(*b);
  }
}

void guard_adaptor::state::tell_of_bytes(const guarded& b, const detail::finding& f, source_location site) noexcept {
  line_of_text t;
  t.add("%s: byte %td of the ", name(f.kind), f.at);
  t.add(b);
  t.add_life(b);
  t.add(", is 0x%02x instead of 0x%02x", std::to_integer<unsigned>(f.found), std::to_integer<unsigned>(f.want));
  add_neighbours(t, b.data, &b);
  tell(f.kind, b.data, b.size, site, t.text());
}

void guard_adaptor::state::tell_of_strange(const void* data, const char* what, source_location site) noexcept {
  const auto* at = static_cast<const std::byte*>(data);
  line_of_text t;
  t.add("%s of %p, which is no block of this source (foreign, or freed long ago)", what, data);
  blocks.for_each([&](const guarded& b) {
    if (at < b.data || at >= b.data + b.size) return;
    t.add(": it lies %td bytes inside the ", at - b.data);
    t.add(b);
  });
  add_neighbours(t, at, nullptr);
  tell(mistake_kind::foreign_free, data, 0, site, t.text());
}

void guard_adaptor::state::tell_of_free(mistake_kind kind, const guarded& b, bytes size, std::uint32_t stream,
                                        source_location site) noexcept {
  line_of_text t;
  if (kind == mistake_kind::wrong_size) {
    t.add("free with another size, %" PRIu64 " bytes, of the ", size);
  } else if (kind == mistake_kind::wrong_stream) {
    t.add("free on another stream, %u (see use_on), of the ", stream);
  } else {
    t.add("double free of the ");
  }
  t.add(b);
  t.add_life(b);
  tell(kind, b.data, b.size, site, t.text());
}

void guard_adaptor::state::tell_of_leaks() noexcept try {
  for (const site_holding& h : holdings()) {
    line_of_text t;
    t.add("leak: %zu block%s, %" PRIu64
          " bytes, asked for at %s:%u; the oldest is that at %p (stream %u, thread %u, "
          "%.1f s old)",
          h.blocks, h.blocks == 1 ? "" : "s", h.size, h.site.file_name(), h.site.line(), h.oldest, h.stream, h.thread,
          h.oldest_s);
    if (!h.stack.empty()) t.add(", by %s", h.stack.c_str());
    tell(mistake_kind::leak, h.oldest, h.size, h.site, t.text());
  }
} catch (const std::bad_alloc&) {
  line_of_text t;
  t.add("leak: %zu blocks, %" PRIu64 " bytes; no host memory to say whose", sums.live_blocks, sums.live);
  tell(mistake_kind::leak, nullptr, sums.live, {}, t.text());
}

void guard_adaptor::state::alarm(source_location site, const char* text) noexcept {
  alarmed = true;
  std::fprintf(stderr, "berth: %s:%u: guard: alarm: %s\n", site.file_name(), site.line(), text);
}

void guard_adaptor::state::look_at_alarms(const guarded& made) noexcept {
  constexpr std::uint64_t never = ~std::uint64_t{0};
  const bool many = sums.live_blocks >= alarm_at_blocks;
  const bool large = sums.live >= alarm_at_bytes;
  if (many) alarm_at_blocks = never;
  if (large) alarm_at_bytes = never;
  if (many || large) {
    line_of_text t;
    t.add("%zu blocks are alive, %" PRIu64 " bytes", sums.live_blocks, sums.live);
    alarm(made.site, t.text());
  }
  if (made.since < next_look_at_ages) return;
  const guarded* first = &made;
  blocks.for_each([&first](const guarded& b) {
    if (!b.freed && b.since < first->since) first = &b;
  });
  const auto limit = static_cast<std::uint64_t>(std::chrono::nanoseconds{options.age_alarm}.count());
  if (made.since - first->since < limit) {
    next_look_at_ages = first->since + limit;  // no block is older before
    return;
  }
  next_look_at_ages = never;
  line_of_text t;
  t.add("of %zu live blocks the oldest is the ", sums.live_blocks);
  t.add(*first);
  t.add_life(*first);
  alarm(made.site, t.text());
}

}  // namespace berth

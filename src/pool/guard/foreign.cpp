#include "pool/guard/foreign.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "berth/core/hook.hpp"
#include "berth/pool/debug.hpp"
#include "core/print.hpp"
#include "pool/guard/debug.hpp"
#include "pool/guard/guard_state.hpp"

namespace berth {
namespace {

constexpr std::size_t most_freed = 4096;  // blocks whose free is remembered

struct foreign_block {
  bytes size = 0;
  std::uint64_t since = 0;  // coarse_ns
  std::uint32_t thread = 0;
  source_location site;
  source_location freed_at;
  std::uint64_t number = 0;  // of its free, from 1
};

struct remembered_free {
  const void* address;
  std::uint64_t number;
};

struct foreign_record {
  std::mutex lock;  // guards what follows
  std::unordered_map<const void*, foreign_block> live;
  std::unordered_map<const void*, foreign_block> freed;
  std::deque<remembered_free> order;  // oldest first; an address that came again has older entries too
  std::uint64_t last_number = 0;
  guard_statistics sums;
  bool alarmed_of_blocks = false, alarmed_of_bytes = false;
};

// The lock is held across a fork, so that the child finds the record whole.
foreign_record& all() {
  static foreign_record* const one = [] {
    static foreign_record* made = new foreign_record;  // never destroyed
    (void)pthread_atfork([] { made->lock.lock(); }, [] { made->lock.unlock(); }, [] { made->lock.unlock(); });
    return made;
  }();
  return *one;
}

std::atomic<bool> recorded{false};

void tell_of_leaks() noexcept try {
  const auto o = current_debug();
  if (!o || !o->leaks) return;
  for (const site_holding& h : detail::foreign_by_site()) {
    std::string text;
    detail::print(text, "leak: %zu block%s of other allocators, %" PRIu64 " bytes, asked for at ", h.blocks,
                  h.blocks == 1 ? "" : "s", h.size);
    text += h.site.file_name();
    detail::print(text, ":%u; the oldest is that at %p", h.site.line(), h.oldest);
    tell_mistake({mistake_kind::leak, h.oldest, h.size, h.site, text.c_str()});
  }
} catch (const std::bad_alloc&) {
}

void begin_record() {
  if (recorded.exchange(true)) return;
  (void)all();
  (void)std::atexit([] { tell_of_leaks(); });
}

std::string text_of(const foreign_block& b, const void* address) {
  std::string text;
  detail::print(text, "block of %" PRIu64 " bytes at %p of another allocator, asked for at ", b.size, address);
  text += b.site.file_name();
  detail::print(text, ":%u", b.site.line());
  if (b.freed_at.line() != 0) {
    text += ", freed at ";
    text += b.freed_at.file_name();
    detail::print(text, ":%u", b.freed_at.line());
  }
  return text;
}

// Returns the text of an alarm that is due, once each. Contract: the lock is held.
std::string take_alarm(foreign_record& r, const debug_options& o) {
  const bool many = o.live_alarm != 0 && r.sums.live_blocks >= o.live_alarm && !r.alarmed_of_blocks;
  const bool large = o.bytes_alarm != 0 && r.sums.live >= o.bytes_alarm && !r.alarmed_of_bytes;
  r.alarmed_of_blocks |= many;
  r.alarmed_of_bytes |= large;
  std::string text;
  if (many || large) {
    detail::print(text, "%zu blocks of other allocators are alive, %" PRIu64 " bytes", r.sums.live_blocks, r.sums.live);
  }
  return text;
}

// Contract of both: the lock is held.
void end_block(foreign_record& r, std::unordered_map<const void*, foreign_block>::iterator at,
               const source_location& site) {
  ++r.sums.frees;
  --r.sums.live_blocks;
  r.sums.live -= at->second.size;
  at->second.freed_at = site;
  at->second.number = ++r.last_number;
  r.order.push_back({at->first, at->second.number});
  auto node = r.live.extract(at);
  r.freed.erase(node.key());
  r.freed.insert(std::move(node));
  if (r.order.size() <= most_freed) return;
  const remembered_free oldest = r.order.front();
  r.order.pop_front();
  if (const auto b = r.freed.find(oldest.address); b != r.freed.end() && b->second.number == oldest.number) {
    r.freed.erase(b);
  }
}

void add_block(foreign_record& r, const void* address, const foreign_block& b) {
  if (const auto before = r.live.find(address); before != r.live.end()) end_block(r, before, b.site);
  r.live.emplace(address, b);
  r.freed.erase(address);
  ++r.sums.allocations;
  ++r.sums.live_blocks;
  r.sums.live += b.size;
  r.sums.live_peak = std::max(r.sums.live_peak, r.sums.live);
}

std::optional<foreign_block> find_freed(const void* address) {
  foreign_record& r = all();
  const std::lock_guard held{r.lock};
  const auto at = r.freed.find(address);
  return at != r.freed.end() ? std::optional{at->second} : std::nullopt;
}

// Counts and tells a free that has no live block.
void tell_of_free(const void* address, const std::optional<foreign_block>& before, source_location site) {
  {
    foreign_record& r = all();
    const std::lock_guard held{r.lock};
    ++r.sums.mistakes;
  }
  std::string text;
  if (before) {
    text = "double free of the " + text_of(*before, address);
  } else {
    detail::print(text, "free of %p, which is no recorded block (foreign, or freed long ago)", address);
  }
  const auto kind = before ? mistake_kind::double_free : mistake_kind::foreign_free;
  tell_mistake({kind, address, before ? before->size : 0, site, text.c_str()});
}

}  // namespace

void record_allocation(const void* address, bytes size, source_location site) noexcept try {
  if (address == nullptr) return;
  if (const auto o = current_debug()) {
    begin_record();
    std::string alarm;
    {
      foreign_record& r = all();
      const std::lock_guard held{r.lock};
      add_block(r, address,
                {.size = size, .since = detail::coarse_ns(), .thread = detail::this_threads_number(), .site = site});
      alarm = take_alarm(r, *o);
    }
    if (!alarm.empty()) detail::tell_alarm(site, alarm.c_str());
  }
  emit({.kind = memory_event_kind::pool_allocate, .owner = &recorded, .address = address, .size = size, .site = site});
} catch (const std::bad_alloc&) {
}

bool record_free(const void* address, source_location site) noexcept try {
  if (detail::record_free_of_live(address, site)) return true;
  tell_of_free(address, find_freed(address), site);
  return false;
} catch (const std::bad_alloc&) {
  return true;
}

namespace detail {

bool record_free_of_live(const void* address, source_location site) noexcept try {
  if (address == nullptr) return true;
  bytes size = 0;
  if (current_debug()) {
    begin_record();
    foreign_record& r = all();
    const std::lock_guard held{r.lock};
    const auto at = r.live.find(address);
    if (at == r.live.end()) return false;
    size = at->second.size;
    end_block(r, at, site);
  }
  emit({.kind = memory_event_kind::pool_free, .owner = &recorded, .address = address, .size = size, .site = site});
  return true;
} catch (const std::bad_alloc&) {
  return true;
}

void record_free_of_other(const void* address, bool refused, source_location site) noexcept try {
  if (refused) {
    if (const auto before = find_freed(address)) tell_of_free(address, before, site);
    return;
  }
  foreign_record& r = all();
  const std::lock_guard held{r.lock};
  r.freed.erase(address);
} catch (const std::bad_alloc&) {
}

bool foreign_memory_is_recorded() noexcept {
  return recorded.load();
}

guard_statistics foreign_statistics() {
  foreign_record& r = all();
  const std::lock_guard held{r.lock};
  return r.sums;
}

std::vector<site_holding> foreign_by_site() {
  std::map<std::pair<std::string_view, std::uint32_t>, site_holding> places;
  foreign_record& r = all();
  const std::lock_guard held{r.lock};
  const std::uint64_t now = coarse_ns();
  for (const auto& [address, b] : r.live) {
    site_holding& h = places[{b.site.file_name(), b.site.line()}];
    const double age = static_cast<double>(now - b.since) * 1e-9;
    if (h.oldest == nullptr || age > h.oldest_s) {
      h.oldest_s = age;
      h.thread = b.thread;
      h.oldest = address;
    }
    h.site = b.site;
    ++h.blocks;
    h.size += b.size;
  }
  std::vector<site_holding> out;
  for (auto& [place, h] : places) out.push_back(std::move(h));
  std::ranges::stable_sort(out, std::ranges::greater{}, &site_holding::size);
  return out;
}

}  // namespace detail
}  // namespace berth

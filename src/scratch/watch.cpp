#include "scratch/watch.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "berth/scratch/scratch.hpp"
#include "core/environment.hpp"

namespace berth {

namespace detail {

namespace {

constexpr std::size_t unknown = ~std::size_t{0};
constinit std::atomic<std::size_t> zone{unknown};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // guards the table
constinit std::array<watch_record*, 4096> table{};
pthread_once_t prepared = PTHREAD_ONCE_INIT;
constinit std::atomic<bool> watched{false};  // some block has been

watch_record*& bucket_of(const std::byte* data) noexcept {
  return table[reinterpret_cast<std::uintptr_t>(data) / 64 * 2654435761u % table.size()];
}

// A child of fork gets the table with the lock free. Its copies of the blocks are watched on.
void prepare() noexcept {
  pthread_atfork([] { pthread_mutex_lock(&lock); }, [] { pthread_mutex_unlock(&lock); },
                 [] { pthread_mutex_unlock(&lock); });
  std::atexit([] { report_forgotten(nullptr); });
  watched.store(true, std::memory_order_relaxed);
}

// Returns the width that a value of the word `scratch` names; 0 if it names none. It has no std::string: scratch links
// without the C++ runtime.
std::size_t width_of(std::string_view value) noexcept {
  std::size_t n = 0;
  const auto [rest, wrong] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (wrong != std::errc{}) return 0;
  value.remove_prefix(static_cast<std::size_t>(rest - value.data()));
  const unsigned shift = value.empty() ? 0 : value == "KiB" ? 10 : value == "MiB" ? 20 : 64;
  if (shift == 64 || n == 0 || n > most_scratch_zone >> shift) return 0;
  return n << shift;
}

// Returns the width that these words ask for; 0 if none of them watches scratch blocks.
std::size_t width_in(std::string_view words) noexcept {
  std::size_t out = 0;
  while (!words.empty()) {
    const std::size_t comma = std::min(words.find(','), words.size());
    const std::string_view word = words.substr(0, comma);
    words.remove_prefix(std::min(comma + 1, words.size()));
    if (word == "guards" || word == "pages" || word == "leaks" || word == "scratch")
      out = std::max(out, least_scratch_zone);
    if (word.starts_with("scratch=")) out = std::max(out, width_of(word.substr(8)));
  }
  return out;
}

void fill(std::byte* from, std::byte* to) noexcept {
  for (; from != to; ++from)
    *from = static_cast<std::byte>(zone_word >> reinterpret_cast<std::uintptr_t>(from) % 8 * 8);
}

bool is_whole(const std::byte* at) noexcept {
  return *at == static_cast<std::byte>(zone_word >> reinterpret_cast<std::uintptr_t>(at) % 8 * 8);
}

[[noreturn]] void written(const watch_record& r, const char* side, std::size_t distance,
                          source_location where) noexcept {
  char text[384];
  std::snprintf(text, sizeof text,
                "scratch: bytes were written %s of a block of %zu bytes: the nearest is byte %zu there; the block was "
                "allocated at %s:%u",
                side, r.size, distance, r.made.file_name(), r.made.line());
  contract_violation(text, where);
}

void check_zones(const watch_record& r, source_location where) noexcept {
  for (std::size_t i = 1; i <= r.front; ++i)
    if (!is_whole(r.data - i)) written(r, "before the start", i, where);
  for (std::size_t i = 0; i < r.back; ++i)
    if (!is_whole(r.data + r.size + i)) written(r, "past the end", i + 1, where);
}

struct forgotten_place {
  source_location made;
  std::size_t blocks;
  std::size_t size;  // of all
  forgotten_place* next;
};

// Counts a block at its place. Does nothing if there is no memory for a new place.
void count_at_place(forgotten_place*& places, const watch_record& r) noexcept {
  forgotten_place* p = places;
  while (p != nullptr && (p->made.line() != r.made.line() || std::strcmp(p->made.file_name(), r.made.file_name()) != 0))
    p = p->next;
  if (p == nullptr) {
    p = static_cast<forgotten_place*>(std::malloc(sizeof *p));
    if (p == nullptr) return;
    *p = {r.made, 0, 0, places};
    places = p;
  }
  ++p->blocks;
  p->size += r.size;
}

}  // namespace

std::size_t watched_zone() noexcept {
  std::size_t now = zone.load(std::memory_order_relaxed);
  if (now != unknown) [[likely]]
    return now;
  const char* const words = environment("BERTH_DEBUG");
  const std::size_t asked = words != nullptr ? (width_in(words) + 63) & ~std::size_t{63} : 0;
  zone.compare_exchange_strong(now, asked, std::memory_order_relaxed);
  return zone.load(std::memory_order_relaxed);
}

bool watch_block(const watch_record& r) noexcept {
  auto* const kept = static_cast<watch_record*>(std::malloc(sizeof(watch_record)));
  if (kept == nullptr) return false;
  *kept = r;
  fill(r.data - r.front, r.data);
  fill(r.data + r.size, r.data + r.size + r.back);
  // The word of the header that release() reads stays readable.
  poison(r.data - r.front, r.front - sizeof(scratch_header));
  poison(r.data - sizeof(scratch_header) + sizeof(bytes), sizeof(scratch_header) - sizeof(bytes));
  poison(r.data + r.size, r.back);
  pthread_once(&prepared, prepare);
  pthread_mutex_lock(&lock);
  watch_record*& head = bucket_of(r.data);
  kept->next = head;
  head = kept;
  pthread_mutex_unlock(&lock);
  return true;
}

bool unwatch_block(const std::byte* data, const scratch_arena* arena, watch_record* r, source_location where) noexcept {
  pthread_mutex_lock(&lock);
  watch_record** link = &bucket_of(data);
  while (*link != nullptr && (*link)->data != data) link = &(*link)->next;
  watch_record* const found = *link;
  const bool ours = found != nullptr && found->arena == arena;
  if (ours) *link = found->next;
  pthread_mutex_unlock(&lock);
  if (found == nullptr) return false;
  expects(ours, "scratch: used or given back on a thread that its arena does not belong to", where);
  *r = *found;
  std::free(found);
  unpoison(r->data - r->front, r->front + r->size + r->back);
  check_zones(*r, where);
  return true;
}

void report_forgotten(const scratch_arena* arena) noexcept {
  if (!watched.load(std::memory_order_relaxed)) return;
  forgotten_place* places = nullptr;
  pthread_mutex_lock(&lock);
  for (watch_record* r : table) {
    for (; r != nullptr; r = r->next) {
      if (!r->must_be_freed || (arena != nullptr && r->arena != arena)) continue;
      count_at_place(places, *r);
      r->must_be_freed = false;  // reported
    }
  }
  pthread_mutex_unlock(&lock);
  while (places != nullptr) {
    forgotten_place* const p = places;
    std::fprintf(stderr, "berth: %s:%u: scratch: leak: %zu block%s of %zu bytes in all not freed when the %s ended\n",
                 p->made.file_name(), p->made.line(), p->blocks, p->blocks == 1 ? "" : "s", p->size,
                 arena != nullptr ? "thread" : "program");
    places = p->next;
    std::free(p);
  }
}

}  // namespace detail

void set_scratch_zone(std::size_t width) {
  expects(width <= most_scratch_zone, "scratch: a red zone is at most 1 GiB wide");
  detail::zone.store((width + 63) & ~std::size_t{63}, std::memory_order_relaxed);
}

}  // namespace berth

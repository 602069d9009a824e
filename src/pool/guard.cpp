#include "berth/pool/guard.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>

#include "berth/core/contract.hpp"
#include "pool/address_table.hpp"

namespace berth {
namespace {

constexpr std::byte zone_byte{0xfd};
constexpr std::byte freed_byte{0xdd};
constexpr bytes staging_size = bytes{64} << 10;
constexpr std::size_t many_streams = 64;  // known ones, before those without blocks are forgotten

// Of the last tick: a few nanoseconds where an exact time costs tens.
std::uint64_t coarse_ns() noexcept {
  std::timespec t{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint32_t this_thread() noexcept {
  static std::atomic<std::uint32_t> last{0};
  thread_local const std::uint32_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

struct known_stream {
  std::shared_ptr<stream_clock> clock;
  std::size_t blocks = 0;  // that name it
  // Recorded for blocks that were freed while it had work, one at a time.
  std::optional<event> last{};
  std::uint64_t recorded = 0;  // closed by it
};

// What may touch a block: the work of a stream up to an epoch, known once the block is freed.
struct use {
  known_stream* on = nullptr;
  std::uint64_t until = stream_clock::ended;
};

struct guarded {
  std::byte* data = nullptr;
  std::byte* raw = nullptr;  // the source's block
  bytes size = 0;
  bytes taken = 0;    // of the source
  bytes watched = 0;  // the zone behind starts there, counted from data
  use mine;
  std::vector<use> others;  // of use_on
  std::uint64_t since = 0;
  std::uint32_t thread = 0;
  bool zones = false;    // are written, or will be in stream order
  bool freed = false;    // in the quarantine
  bool settled = false;  // was freed when no work could touch it any more
  bool filled = false;   // with freed_byte
  source_location site;
  source_location freed_at;
  guarded* next = nullptr;  // in the quarantine, oldest first; or spare
};

struct difference {
  bytes at = 0;
  std::byte found{};
};

// A text of one line that never allocates.
class line_of_text {
 public:
  template <class... Values>
  void add(const char* format, Values... values) noexcept {
    const int n = std::snprintf(text_.data() + length_, text_.size() - length_, format, values...);
    if (n > 0) length_ = std::min(length_ + static_cast<std::size_t>(n), text_.size() - 1);
  }
  void add(const char* text) noexcept { add("%s", text); }
  void add_block(const guarded& b) noexcept {
    add("block of %" PRIu64 " bytes at %p, asked for at %s:%u", b.size, static_cast<void*>(b.data), b.site.file_name(),
        b.site.line());
  }
  [[nodiscard]] const char* text() const noexcept { return text_.data(); }

 private:
  std::array<char, 1400> text_{};
  std::size_t length_ = 0;
};

std::optional<difference> first_difference(const std::byte* data, bytes n, std::byte want) noexcept {
  static constexpr auto zones = [] {
    std::array<std::byte, 64> all{};
    all.fill(zone_byte);
    return all;
  }();
  static constexpr auto freed = [] {
    std::array<std::byte, 64> all{};
    all.fill(freed_byte);
    return all;
  }();
  const std::array<std::byte, 64>& pattern = want == zone_byte ? zones : freed;
  for (bytes at = 0; at < n; at += pattern.size()) {
    const bytes here = std::min<bytes>(pattern.size(), n - at);
    if (std::memcmp(data + at, pattern.data(), here) == 0) continue;
    for (bytes i = at;; ++i) {
      if (data[i] != want) return difference{i, data[i]};
    }
  }
  return std::nullopt;
}

}  // namespace

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

struct guard_adaptor::state {
  state(memory_source& m, const guard_options& o) : upstream{m}, options{o} {
    const device_properties& p = m.get_device().properties();
    unit = std::lcm(bytes{64}, std::lcm(p.rules.start_alignment, p.pinned_rules.start_alignment));
    on_host = p.host_accessible;
    rules = p.rules;
  }

  memory_source& upstream;
  const guard_options options;
  bytes unit = 64;
  bool on_host = false;
  rules::placement rules;

  mutable std::mutex lock;  // guards what follows
  detail::address_table<guarded> blocks;
  std::vector<std::unique_ptr<guarded>> records;
  guarded* spare = nullptr;
  guarded* oldest = nullptr;  // of the quarantine
  guarded* newest = nullptr;
  std::vector<std::unique_ptr<known_stream>> streams;
  known_stream* last_known = nullptr;
  std::optional<stream> reader;  // for memory that the host does not reach
  void* staging = nullptr;
  guard_statistics sums;
  std::uint64_t calls = 0;

  // --- records and streams

  known_stream* know(const std::shared_ptr<stream_clock>& clock) {
    if (last_known != nullptr && last_known->clock == clock) return last_known;
    for (const auto& k : streams) {
      if (k->clock == clock) return last_known = k.get();
    }
    if (streams.size() > many_streams) {
      std::erase_if(streams, [](const auto& k) { return k->blocks == 0; });
      last_known = nullptr;
    }
    streams.push_back(std::make_unique<known_stream>());
    streams.back()->clock = clock;
    return last_known = streams.back().get();
  }
  guarded* make() {
    if (spare == nullptr) {
      records.push_back(std::make_unique<guarded>());
      return records.back().get();
    }
    return std::exchange(spare, spare->next);
  }
  void recycle(guarded* b) noexcept {
    --b->mine.on->blocks;
    for (const use& u : b->others) --u.on->blocks;
    b->others.clear();
    b->next = std::exchange(spare, b);
  }
  static bool done(const use& u) noexcept {
    if (u.on->clock->completed() >= u.until) return true;
    if (u.on->last && u.on->recorded >= u.until) (void)u.on->last->query();  // moves the clock where no driver does
    return u.on->clock->completed() >= u.until || stream::idle(*u.on->clock);
  }
  // Nothing that was enqueued touches the block.
  static bool idle(const guarded& b) noexcept { return done(b.mine) && std::ranges::all_of(b.others, done); }
  // The block is freed while its streams have work: an event says when that is done, unless one is on its way.
  void await(guarded& b) noexcept {
    await(b.mine);
    for (use& u : b.others) await(u);
  }
  void await(use& u) noexcept {
    known_stream& k = *u.on;
    u.until = k.clock->epoch();
    if (k.recorded > k.clock->completed() && k.last && !k.last->query().value_or(false)) return;
    if (!k.last) {
      auto made = event::create(upstream.get_device());
      if (!made) return;
      k.last.emplace(std::move(*made));
    }
    k.recorded = k.clock->epoch();
    (void)stream::record(*k.clock, *k.last);
  }

  // --- memory

  void write(std::byte* data, bytes n, std::byte value) noexcept {
    if (on_host) {
      std::memset(data, std::to_integer<int>(value), n);
    } else if (open_reader() && reader->fill(data, value, n)) {
      (void)reader->synchronize();
    }
  }
  std::optional<difference> differs(const std::byte* data, bytes n, std::byte want) noexcept {
    if (on_host) return first_difference(data, n, want);
    if (!open_reader()) return std::nullopt;
    const auto* seen = static_cast<const std::byte*>(upstream.get_device().host_address(staging));
    for (bytes at = 0; at < n; at += staging_size) {
      const bytes here = std::min(staging_size, n - at);
      if (!reader->copy(staging, data + at, here) || !reader->synchronize()) return std::nullopt;
      if (auto d = first_difference(seen, here, want)) return difference{at + d->at, d->found};
    }
    return std::nullopt;
  }
  bool open_reader() noexcept {
    if (staging != nullptr) return true;
    const device& d = upstream.get_device();
    auto made = stream::create(d);
    auto block = d.allocate(staging_size, memory_kind::pinned);
    if (made) reader.emplace(std::move(*made));
    if (block && reader) staging = *block;
    if (block && !reader) d.free(*block, staging_size, memory_kind::pinned);
    return staging != nullptr;
  }

  // --- what is told

  void tell(mistake_kind kind, const void* address, bytes size, source_location site, const char* text) noexcept {
    const bool stops = kind != mistake_kind::leak && !options.go_on;
    if (kind != mistake_kind::leak) ++sums.mistakes;
    if (options.on_mistake.function != nullptr) {
      options.on_mistake.function(options.on_mistake.context, {kind, address, size, site, text});
    } else if (!stops) {
      std::fprintf(stderr, "berth: %s:%u: guard: %s\n", site.file_name(), site.line(), text);
    }
    if (stops) contract_violation(text, site);
  }
  void add_life(line_of_text& t, const guarded& b) const noexcept {
    t.add(" (stream %u, thread %u, %.1f s old)", b.mine.on->clock->id(), b.thread,
          static_cast<double>(coarse_ns() - b.since) * 1e-9);
    if (b.freed) t.add(", freed at %s:%u", b.freed_at.file_name(), b.freed_at.line());
  }
  void add_neighbours(line_of_text& t, const std::byte* at, const guarded* but) const noexcept {
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
      t.add_block(*b);
    }
  }
  void tell_of_bytes(mistake_kind kind, const guarded& b, std::ptrdiff_t offset, std::byte found, std::byte want,
                     source_location site) noexcept {
    line_of_text t;
    t.add("%s: byte %td of the ", name(kind), offset);
    t.add_block(b);
    add_life(t, b);
    t.add(", is 0x%02x instead of 0x%02x", std::to_integer<unsigned>(found), std::to_integer<unsigned>(want));
    add_neighbours(t, b.data, &b);
    tell(kind, b.data, b.size, site, t.text());
  }
  void tell_of_strange(const void* data, const char* what, source_location site) noexcept {
    const auto* at = static_cast<const std::byte*>(data);
    line_of_text t;
    t.add("%s of %p, which is no block of this source (foreign, or freed long ago)", what, data);
    blocks.for_each([&](const guarded& b) {
      if (at <= b.data - std::min<bytes>(options.red_zone, 1) || at >= b.data + b.size) return;
      t.add(": it lies %td bytes inside the ", at - b.data);
      t.add_block(b);
    });
    add_neighbours(t, at, nullptr);
    tell(mistake_kind::foreign_free, data, 0, site, t.text());
  }

  // --- looking

  // Contract: the block's streams are idle. What was found is mended, so that it is told once.
  std::size_t look(guarded& b, source_location site) noexcept {
    if (!b.zones) return 0;
    const bytes n = options.red_zone;
    std::size_t found = 0;
    if (const auto d = differs(b.data - n, n, zone_byte)) {
      // The byte next to the block says more than the farthest one.
      ++found;
      write(b.data - n, n, zone_byte);
      tell_of_bytes(mistake_kind::overrun_before, b,
                    static_cast<std::ptrdiff_t>(d->at) - static_cast<std::ptrdiff_t>(n), d->found, zone_byte, site);
    }
    if (const auto d = differs(b.data + b.watched, n, zone_byte)) {
      ++found;
      write(b.data + b.watched, n, zone_byte);
      tell_of_bytes(mistake_kind::overrun_behind, b, static_cast<std::ptrdiff_t>(b.watched + d->at), d->found,
                    zone_byte, site);
    }
    if (!b.filled) return found;
    if (const auto d = differs(b.data, b.size, freed_byte)) {
      ++found;
      write(b.data, b.size, freed_byte);
      tell_of_bytes(mistake_kind::write_after_free, b, static_cast<std::ptrdiff_t>(d->at), d->found, freed_byte, site);
    }
    return found;
  }

  std::size_t look_at_all(source_location site) noexcept {
    std::size_t found = 0;
    blocks.for_each([&](guarded& b) {
      if (idle(b)) found += look(b, b.freed ? b.freed_at : site);
    });
    return found;
  }
  void count_call(source_location site) noexcept {
    if (options.check_every != 0 && ++calls % options.check_every == 0) (void)look_at_all(site);
  }

  // --- the quarantine

  void leave_quarantine() noexcept {
    guarded* const b = oldest;
    oldest = b->next;
    if (oldest == nullptr) newest = nullptr;
    sums.quarantined -= b->taken;
    --sums.quarantined_blocks;
    release(b);
  }
  void release(guarded* b) noexcept {
    if (b->zones) {
      // What was looked at when it was freed, and is not kept, need not be looked at again.
      if (!b->settled && !idle(*b)) {
        ++sums.unchecked;
      } else if (!b->settled || options.quarantine != 0) {
        (void)look(*b, b->freed_at);
      }
    }
    blocks.erase(b->data);
    memory_source::free_to(upstream, b->raw, any_size, any_stream, b->freed_at);
    recycle(b);
  }
  void empty_quarantine() noexcept {
    while (oldest != nullptr) leave_quarantine();
  }
};

guard_adaptor::guard_adaptor(memory_source& upstream, const guard_options& options)
    : state_{std::make_unique<state>(upstream, options)} {}

guard_adaptor::~guard_adaptor() {
  state& my = *state_;
  const std::lock_guard held{my.lock};
  my.empty_quarantine();
  if (my.options.leaks) {
    my.blocks.for_each([&my](guarded& b) {
      line_of_text t;
      t.add("leak: ");
      t.add_block(b);
      my.add_life(t, b);
      my.tell(mistake_kind::leak, b.data, b.size, b.site, t.text());
    });
  }
  my.reader.reset();
  if (my.staging != nullptr) my.upstream.get_device().free(my.staging, staging_size, memory_kind::pinned);
}

const berth::device& guard_adaptor::get_device() const noexcept {
  return state_->upstream.get_device();
}

memory_source::outcome guard_adaptor::do_allocate(bytes size, stream& s, const block_options* o, source_location site) {
  state& my = *state_;
  const bytes zone = my.options.red_zone;
  const bytes alignment = o != nullptr ? o->alignment : 0;
  if (alignment != 0 && !is_power_of_two(alignment)) return allocate_from(my.upstream, size, s, o, site);  // refuses it
  const bytes front = zone == 0 ? 0 : align_up(align_up(zone, my.unit), std::max(alignment, my.unit));
  const auto watched = my.rules.tail_pad == 0 ? std::optional{size} : my.rules.footprint(size);
  const auto taken = watched ? checked_add(*watched, front + zone) : std::nullopt;
  if (!taken) return failed({errc::overflow, "guard: the size exceeds the address space", size});
  outcome made = allocate_from(my.upstream, *taken, s, o, site);
  if (made.data == nullptr) {
    const std::lock_guard held{my.lock};
    if (my.oldest == nullptr) return made;
    my.empty_quarantine();
  }
  if (made.data == nullptr) made = allocate_from(my.upstream, *taken, s, o, site);
  if (made.data == nullptr) return failed({made.why->code, made.why->what, size});

  auto* const raw = static_cast<std::byte*>(made.data);
  std::byte* const data = raw + front;
  bool zones = zone != 0;
  if (zones) {
    if (my.on_host && stream::idle(*s.clock())) {
      std::memset(data - zone, std::to_integer<int>(zone_byte), zone);
      std::memset(data + *watched, std::to_integer<int>(zone_byte), zone);
    } else {
      zones = s.fill(data - zone, zone_byte, zone) && s.fill(data + *watched, zone_byte, zone);
    }
  }
  const std::lock_guard held{my.lock};
  try {
    my.blocks.make_room();
    known_stream* const on = my.know(s.clock());
    guarded* const b = my.make();
    ++on->blocks;
    b->data = data;
    b->raw = raw;
    b->size = size;
    b->taken = *taken;
    b->watched = *watched;
    b->mine = {on};
    b->since = coarse_ns();
    b->thread = this_thread();
    b->zones = zones;
    b->freed = b->settled = b->filled = false;
    b->site = site;
    my.blocks.insert(data, b);
  } catch (const std::bad_alloc&) {
    free_to(my.upstream, raw, any_size, any_stream, site);
    return failed({errc::out_of_memory, "guard: no host memory for its own records", size});
  }
  ++my.sums.allocations;
  my.sums.live += size;
  my.sums.live_peak = std::max(my.sums.live_peak, my.sums.live);
  ++my.sums.live_blocks;
  if (my.sums.live_blocks == my.options.live_alarm) {
    std::fprintf(stderr, "berth: %s:%u: guard: %zu blocks are alive, %" PRIu64 " bytes\n", site.file_name(),
                 site.line(), my.sums.live_blocks, my.sums.live);
  }
  my.count_call(site);
  return {data, nullptr};
}

void guard_adaptor::do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept {
  state& my = *state_;
  const std::lock_guard held{my.lock};
  guarded* const b = my.blocks.find(data);
  if (b == nullptr) return my.tell_of_strange(data, "free", site);
  if (site.line() == 0) site = b->site;  // a block that went out of scope
  if (b->freed) {
    line_of_text t;
    t.add("double free of the ");
    t.add_block(*b);
    my.add_life(t, *b);
    return my.tell(mistake_kind::double_free, data, b->size, site, t.text());
  }
  const bool other_size = size != any_size && size != b->size;
  const bool other_stream = stream_id != any_stream && stream_id != b->mine.on->clock->id();
  if (other_size || other_stream) {
    line_of_text t;
    if (other_size) t.add("free with another size, %" PRIu64 " bytes, of the ", size);
    if (!other_size) t.add("free on another stream, %u (see use_on), of the ", stream_id);
    t.add_block(*b);
    my.add_life(t, *b);
    my.tell(other_size ? mistake_kind::wrong_size : mistake_kind::wrong_stream, data, b->size, site, t.text());
  }
  ++my.sums.frees;
  my.sums.live -= b->size;
  --my.sums.live_blocks;
  // Nothing that is looked at here is lost where the streams are busy: it is looked at again when the block leaves.
  if (b->zones && state::idle(*b)) {
    (void)my.look(*b, site);
    if (my.options.quarantine != 0) my.write(b->data, b->size, freed_byte);
    b->filled = my.options.quarantine != 0;
    b->settled = true;
  } else if (b->zones) {
    my.await(*b);
  }
  b->freed = true;
  b->freed_at = site;
  b->next = nullptr;
  (my.newest != nullptr ? my.newest->next : my.oldest) = b;
  my.newest = b;
  my.sums.quarantined += b->taken;
  ++my.sums.quarantined_blocks;
  while (my.sums.quarantined > my.options.quarantine) my.leave_quarantine();
  my.count_call(site);
}

void guard_adaptor::do_use_on(void* data, stream& s, const source_location& where) {
  state& my = *state_;
  void* raw = nullptr;
  {
    const std::lock_guard held{my.lock};
    guarded* const b = my.blocks.find(data);
    if (b == nullptr || b->freed) return my.tell_of_strange(data, "use_on", where);
    known_stream* const k = my.know(s.clock());
    if (k != b->mine.on && std::ranges::find(b->others, k, &use::on) == b->others.end()) {
      b->others.push_back({k});
      ++k->blocks;
    }
    raw = b->raw;
  }
  use_on_of(my.upstream, raw, s, where);
}

std::size_t guard_adaptor::check(source_location site) {
  const std::lock_guard held{state_->lock};
  return state_->look_at_all(site);
}

guard_statistics guard_adaptor::statistics() const {
  const std::lock_guard held{state_->lock};
  return state_->sums;
}

std::vector<site_holding> guard_adaptor::live_by_site() const {
  const std::lock_guard held{state_->lock};
  std::vector<const guarded*> live;
  state_->blocks.for_each([&live](const guarded& b) {
    if (!b.freed) live.push_back(&b);
  });
  const auto place = [](const guarded* b) { return std::pair{b->site.file_name(), b->site.line()}; };
  std::ranges::sort(live, [&](const guarded* a, const guarded* b) {
    return place(a) != place(b) ? place(a) < place(b) : a->since < b->since;
  });
  std::vector<site_holding> out;
  const std::uint64_t now = coarse_ns();
  for (std::size_t i = 0; i < live.size(); ++i) {
    const guarded& b = *live[i];
    if (i == 0 || place(live[i - 1]) != place(&b)) {
      out.push_back({.site = b.site,
                     .oldest_s = static_cast<double>(now - b.since) * 1e-9,
                     .stream = b.mine.on->clock->id(),
                     .thread = b.thread});
    }
    ++out.back().blocks;
    out.back().size += b.size;
  }
  std::ranges::stable_sort(out, std::ranges::greater{}, &site_holding::size);
  return out;
}

}  // namespace berth

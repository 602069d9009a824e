#include "berth/pool/pool.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include "berth/core/hook.hpp"
#include "core/countable.hpp"
#include "pool/guard/debug.hpp"
#include "pool/guard/guard_state.hpp"
#include "pool/siblings.hpp"
#include "pool/state.hpp"

namespace berth {
namespace {

std::atomic<std::uint64_t> last_pool_id{0};

const rules::placement& rules_of(const device& d, memory_kind kind) noexcept {
  return kind == memory_kind::pinned ? d.properties().pinned_rules : d.properties().rules;
}

bytes limit_of(const device& d, const pool_options& o) noexcept {
  expects(o.fraction > 0 && o.fraction <= 1, "pool: the fraction is not above 0 and at most 1");
  const bytes total = d.properties().total_memory;
  if (o.fraction == 1 || total == 0) return o.limit;
  return std::min(o.limit, static_cast<bytes>(static_cast<double>(total) * o.fraction));
}

// Returns the options as they apply to this device.
pool_options settled(const device& d, pool_options o) noexcept {
  o.limit = limit_of(d, o);
  expects(o.defragment_above >= 0, "pool: defragment_above is below 0");
  o.idle_release = detail::countable(o.idle_release);
  o.defragment_every = detail::countable(o.defragment_every);
  return o;
}

}  // namespace

pool::state::state(pool* p, device d, const pool_options& o)
    : id{last_pool_id.fetch_add(1, std::memory_order_relaxed) + 1},
      quantum{std::lcm(bytes{64}, std::max<bytes>(1, rules_of(d, o.kind).start_alignment))},
      blocks{},
      self{p},
      dev{std::move(d)},
      options{settled(dev, o)},
      rules{rules_of(dev, o.kind)},
      memory{dev, o.kind, options.limit, o.shared, quantum, o.stitch} {
  // ALIGN_UP(ALIGN_UP(size, granularity) + pad, quantum): the smaller of the two powers divides the larger, so one
  // rounding is enough.
  const bytes g = rules.size_granularity;
  if (is_power_of_two(quantum) && is_power_of_two(g)) {
    by_mask = {.before = g < quantum ? align_up(rules.tail_pad, g) + quantum - 1 : g - 1,
               .mask = ~(std::max(g, quantum) - 1),
               .after = g < quantum ? 0 : align_up(rules.tail_pad, quantum)};
  }
  if (options.defragment_every.count() > 0) {
    due_at.defragment = std::chrono::steady_clock::now() + options.defragment_every;
  }
}

bytes pool::state::round_by_division(bytes size) const noexcept {
  const auto footprint = rules.footprint(size);
  const auto rounded = footprint ? checked_align_up(*footprint, quantum) : std::nullopt;
  return rounded && fits_size_t(*rounded) ? *rounded : 0;
}

[[gnu::noinline]] void pool::state::tell_slowly(event_record::kind_of_record kind, const void* data, bytes size,
                                                std::uint32_t stream, source_location site) const noexcept {
  emit({.kind = kind == event_record::allocate ? memory_event_kind::pool_allocate : memory_event_kind::pool_free,
        .stream = stream,
        .owner = self,
        .address = data,
        .size = size,
        .site = site});
}

// The source of a guard: the pool without a guard.
class pool::state::unguarded final : public memory_source {
 public:
  explicit unguarded(state& of) noexcept : of_{of} {}
  [[nodiscard]] const berth::device& get_device() const noexcept override { return of_.dev; }

 private:
  [[nodiscard]] bytes most() const noexcept override { return of_.most(); }
  bytes lift(bytes more) noexcept override { return of_.lift(more); }
  outcome do_allocate(bytes size, stream& s, const block_options* o, source_location site) override {
    const outcome made = of_.allocate(size, s, o, site);
    if (made.data != nullptr && of_.watched.guard_knows_addresses)
      of_.blocks.find(made.data)->set(detail::extent_state::shared);
    return made;
  }
  void do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept override {
    if (of_.watched.guard_knows_addresses) {
      detail::extent* const e = of_.blocks.find(data);
      if (e != nullptr && e->is(detail::extent_state::shared) && !e->uses) e->set(detail::extent_state::live);
    }
    of_.take_back(of_.block_to_free(data, size, stream_id, site));
  }
  void do_use_on(void* data, stream& s, const source_location& where) override { of_.use_on(data, s, where); }
  state& of_;
};

// The source of a program's own guard while a listener receives its blocks: the watched pool, still guarded and
// sampled.
class pool::state::untold_pool final : public memory_source {
 public:
  explicit untold_pool(state& of) noexcept : of_{of} {}
  [[nodiscard]] const berth::device& get_device() const noexcept override { return of_.dev; }

 private:
  outcome do_allocate(bytes size, stream& s, const block_options* o, source_location site) override {
    return of_.allocate_watched(size, s, o, site);
  }
  void do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept override {
    free_to(*of_.watched.guard, data, size, stream_id, site);
  }
  void do_use_on(void* data, stream& s, const source_location& where) override {
    use_on_of(*of_.watched.guard, data, s, where);
  }
  state& of_;
};

void pool::state::watch() {
  const std::lock_guard changes{watched.changes};
  watched.bare = std::make_unique<unguarded>(*this);
  watched.guard = detail::watch(*watched.bare, options.report_leaks);
  if (watched.guard == nullptr) return;
  watched.untold = std::make_unique<untold_pool>(*this);
  watched.guard_knows_addresses = watched.guard->options().red_zone == 0;
  watched.guard->samples_ = false;
  const std::lock_guard held{lock};  // another pool may look
  watched.sample = std::max(1u, watched.guard->options().sample);
}

bool pool::state::empty_quarantine(lock_held& held) noexcept {
  if (watched.guard == nullptr) return false;
  const unlocked outside{held};
  return watched.guard->give_way();
}

bytes pool::state::most_held() const noexcept {
  const bytes total = dev.properties().total_memory;
  const bytes most = std::min(memory.most(), total != 0 ? total : max_bytes);
  return options.shared != nullptr ? std::min(most, options.shared->most()) : most;
}

bytes pool::state::most() noexcept {
  const std::lock_guard held{lock};
  return most_held();
}

bytes pool::state::lift(bytes more) noexcept {
  if (options.shared != nullptr) return 0;  // other pools rely on it
  const std::lock_guard held{lock};
  return memory.lift(more) ? most_held() : 0;
}

// Frees the whole block into the store, and takes the parts out again before another thread can see that.
bool pool::state::split(void* data, std::span<const block_part> parts) {
  const std::lock_guard held{lock};
  if (watched.guard != nullptr || !space.prepare(2 * parts.size() + 4) || !blocks.prepare(parts.size())) return false;
  detail::extent* const e = blocks.find(data);
  expects(e != nullptr && e->lives(), "pool: split of what is no live block of this pool");
  if (e->stitched || e->uses) return false;
  bytes end = 0, kept = 0;
  for (const block_part& p : parts) {
    const bytes rounded = round(p.size);
    expects(p.offset % quantum == 0 && p.offset >= end && p.size != 0 && rounded >= p.size && rounded <= e->size &&
                p.offset <= e->size - rounded,
            "pool: split into parts that overlap, or do not lie in the block");
    end = p.offset + rounded;
    kept += p.size;
  }
  const bytes base = e->offset, asked = e->asked;
  const source_location site = e->site();
  const stream_clock* const clock = e->use.clock;
  // Reports before other threads can get the freed memory and report that.
  tell(event_record::free, data, asked, clock->id(), site);
  for (const block_part& p : parts) {
    tell(event_record::allocate, static_cast<std::byte*>(data) + p.offset, p.size, clock->id(), site);
  }
  note_uses(*e);
  live.add(-static_cast<std::int64_t>(asked - kept));
  ++counts.ended.frees;
  counts.ended.misses += parts.size();
  blocks.erase(e);
  detail::extent* rest = space.give(e, streams.lane_of(e->use));
  for (const block_part& p : parts) {
    detail::extent* const x = space.take(rest, base + p.offset, round(p.size));
    rest = x->after;  // while parts follow: the rest of the block
    x->address.store(memory.address(x->offset), std::memory_order_relaxed);
    x->asked = p.size;
    x->remember(site);
    x->key = detail::make_bin_key(x->size, clock->id());
    x->use = {clock, 0};
    x->uses.reset();
    blocks.insert(x);
  }
  return true;
}

void pool::state::close() noexcept {
  {
    std::unique_lock held{lock};
    wait_for_all(held);
  }
  bool was_watched = false;
  {
    const std::lock_guard changes{watched.changes};
    was_watched = watched.guard != nullptr;
    if (was_watched) detail::unwatch(std::move(watched.guard));
  }
  std::unique_lock held{lock};
  drain();
  blocks.for_each([&](detail::extent& e) {
    if (options.report_leaks && !was_watched) {
      std::fprintf(stderr, "berth: leak: %llu bytes at %p, asked for at %s:%u\n",
                   static_cast<unsigned long long>(e.asked), e.at(), e.file, e.line);
    }
    if (e.stitched) memory.retire(e.stitched->window, {}, {}, nullptr);
  });
  memory.release_all();
  closed = true;
}

// --- the interface

pool::pool(device d, const pool_options& options) : state_{std::make_shared<state>(this, std::move(d), options)} {
  detail::list_pool({&state_->dev.backend(), options.shared.get(), options.kind}, state_);
  state_->watch();
  if (options.initial == 0) return;
  std::unique_lock held{state_->lock};
  const bytes granule = state_->memory.granule();
  const bytes wanted = align_up(std::min(options.initial, max_bytes / 2), granule);
  bytes left = align_down(std::min(wanted, state_->memory.headroom()), granule);
  // Halves the sizes that the device refuses.
  for (bytes size = left; size != 0; size = std::min(size, left)) {
    error why;
    if (state_->add_chunk(size, why)) {
      left -= size;
    } else if (why.code == errc::out_of_memory || why.code == errc::limit_exceeded) {
      size = align_down(size / 2, granule);
    } else {
      break;
    }
  }
  state_->tell_watermark(held);
}

pool::~pool() {
  state_->close();
}

const device& pool::get_device() const noexcept {
  return state_->dev;
}
const pool_options& pool::options() const noexcept {
  return state_->options;
}

void pool::do_use_on(void* data, stream& s, const source_location& where) {
  if (state_->watched.guard != nullptr) return use_on_of(*state_->watched.guard, data, s, where);
  state_->use_on(data, s, where);
}

bytes pool::most() const noexcept {
  return state_->most();
}

bytes pool::lift(bytes more) noexcept {
  return state_->lift(more);
}

memory_source* pool::untold() noexcept {
  return state_->watched.guard != nullptr ? state_->watched.untold.get() : state_->watched.bare.get();
}

bool pool::split(void* data, std::span<const block_part> parts) {
  return state_->split(data, parts);
}

bytes pool::trim(bytes keep) {
  if (state_->watched.guard != nullptr) state_->watched.guard->tend();
  std::unique_lock held{state_->lock};
  state_->drain_in_steps(held);
  state_->flush();
  state_->look_round(held);
  const bytes given = state_->trim(keep);
  state_->tell_watermark(held);
  return given;
}

defragmentation pool::defragment() {
  if (state_->watched.guard != nullptr) state_->watched.guard->tend();
  std::unique_lock held{state_->lock};
  const defragmentation gain = state_->defragment(held);
  state_->tell_watermark(held);
  return gain;
}

pool_statistics pool::statistics() const {
  if (state_->watched.guard != nullptr) state_->watched.guard->tend();
  std::unique_lock held{state_->lock};
  const pool_statistics s = state_->statistics(held);
  state_->tell_watermark(held);
  return s;
}
std::vector<stream_statistics> pool::statistics_by_stream() const {
  const std::lock_guard held{state_->lock};
  const state::standstill nobody_moves{*state_};
  state_->drain();
  return state_->by_stream();
}

std::vector<size_class_statistics> pool::statistics_by_size() const {
  const std::lock_guard held{state_->lock};
  const state::standstill nobody_moves{*state_};
  state_->drain();
  return state_->by_size();
}

std::optional<bytes> pool::size_of(const void* data) const noexcept {
  if (state_->watched.guard != nullptr) {
    if (const auto size = state_->watched.guard->size_of(data); size || state_->watched.guard->options().sample == 1)
      return size;
  }
  const detail::extent* const e = state_->blocks.find(data);
  if (e == nullptr || !e->lives()) return std::nullopt;
  return e->asked;
}

bool pool::watched() const noexcept {
  return state_->watched.guard != nullptr;
}

bool pool::watched(const void* data) const noexcept {
  const guard_adaptor* const g = state_->watched.guard.get();
  return g != nullptr && (g->options().sample <= 1 || g->state_->knows(data));
}

bool pool::in_one_piece(const void* data) const noexcept {
  if (state_->watched.guard != nullptr) {
    if (const void* const raw = state_->watched.guard->source_block_of(data)) data = raw;
  }
  const std::lock_guard held{state_->lock};
  const detail::extent* const e = state_->blocks.find(data);
  return e == nullptr || e->stitched == nullptr;
}

std::vector<live_block> pool::live_blocks() const {
  if (state_->watched.guard != nullptr && state_->watched.guard->options().sample == 1)
    return state_->watched.guard->live_blocks();
  const std::lock_guard held{state_->lock};
  const state::standstill nobody_moves{*state_};
  return state_->live_list();
}

std::string pool::report() const {
  const std::lock_guard held{state_->lock};
  const state::standstill nobody_moves{*state_};
  state_->drain();
  return state_->report(state_->figures(state_->counts.largest_request));
}

std::string pool::out_of_memory_report() const {
  const std::lock_guard held{state_->lock};
  return state_->failed_last.report;
}

std::optional<pool_failure> pool::last_failure() const {
  const std::lock_guard held{state_->lock};
  return state_->failed_last.figures;
}

}  // namespace berth

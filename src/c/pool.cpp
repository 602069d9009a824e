// Pools behind berth/pool.h, guided ones among them.
#include "berth/pool.h"

#include <chrono>
#include <cstddef>
#include <utility>

#include "c/objects.hpp"

namespace berth::c {

handles<held_pool>& pools() noexcept {
  static never_destroyed<handles<held_pool>> all{5, "pool", this_process};
  return all.value;
}

}  // namespace berth::c

namespace {

using namespace berth::c;

berth_status validate_options(const berth_pool_options& o) noexcept {
  if (o.kind != BERTH_MEMORY_DEVICE && o.kind != BERTH_MEMORY_PINNED) {
    return fail(BERTH_INVALID, "pool options: no such kind of memory");
  }
  if (!(o.fraction >= 0 && o.fraction <= 1)) return fail(BERTH_INVALID, "pool options: the fraction is no share");
  if (!(o.defragment_above >= 0 && o.defragment_above <= 1)) {
    return fail(BERTH_INVALID, "pool options: defragment_above is no share");
  }
  if (o.defragment_every_ms > std::uint64_t{1} << 40) return fail(BERTH_INVALID, "pool options: defragment_every_ms");
  if (o.idle_release_ms > std::uint64_t{1} << 40) return fail(BERTH_INVALID, "pool options: idle_release_ms");
  return BERTH_OK;
}

berth::pool_options pool_options_of(held_pool& mine) {
  const berth_pool_options& o = mine.given;
  berth::pool_options out;
  if (o.kind == BERTH_MEMORY_PINNED) out.kind = berth::memory_kind::pinned;
  if (o.limit != 0) out.limit = o.limit;
  if (o.fraction != 0) out.fraction = o.fraction;
  out.initial = o.initial;
  if (o.release_threshold != 0) out.release_threshold = o.release_threshold;
  out.idle_release = std::chrono::milliseconds{static_cast<std::int64_t>(o.idle_release_ms)};
  if (o.defragment_above != 0) out.defragment_above = o.defragment_above;
  out.defragment_every = std::chrono::milliseconds{static_cast<std::int64_t>(o.defragment_every_ms)};
  out.wait_for_streams = o.wait_for_streams != 0;
  out.stitch = o.no_stitch == 0;
  out.report_leaks = o.quiet == 0;
  if (o.pressure != nullptr) {
    out.on_pressure.context = &mine;
    out.on_pressure.function = [](void* context, const berth::pool_pressure& p) {
      const held_pool& held = *static_cast<held_pool*>(context);
      const asking_caller here{held, p.on};
      const berth_pool_options& told = held.given;
      return told.pressure(told.context, p.size, p.attempt) != 0;
    };
  }
  return out;
}

berth_status require_block(const held_pool& pool, const void* block) noexcept {
  if (!pool.size_of(block)) return fail(BERTH_INVALID, "no live block of this pool (foreign, or freed already)");
  return BERTH_OK;
}

template <class Text>
berth_status text_of(const berth_pool* handle, char* text, size_t room, size_t* length, Text ask) noexcept {
  return with(pools(), handle, [&](const held_pool& held) { return give_text(ask(*held.own), text, room, length); });
}

}  // namespace

berth_status berth::c::create_pool(const berth_device* device, const berth_pool_options* options,
                                   const plan::options* guided_by, berth_pool** out) noexcept {
  if (out == nullptr) return fail(BERTH_INVALID, "berth_pool** out: null");
  berth_pool_options o{};
  if (options != nullptr) {
    constexpr std::size_t first = offsetof(berth_pool_options, defragment_above);
    if (const auto no = read(options, first, o, "pool options: wrong struct_size")) return no;
  }
  if (const auto no = validate_options(o)) return no;
  return with(devices(), device, [&](const berth::device& on) {
    auto made = std::make_shared<held_pool>();
    made->given = o;
    made->own.emplace(on, pool_options_of(*made));
    if (guided_by != nullptr) made->guided.emplace(*made->own, *guided_by);
    return give(pools(), std::move(made), out);
  });
}

berth_status berth::c::give_statistics(const pool_statistics& known, berth_pool_statistics* to) noexcept {
  berth_pool_statistics s{};
  s.live = known.live;
  s.live_peak = known.live_peak;
  s.live_rounded = known.live_rounded;
  s.cached = known.cached;
  s.free = known.free;
  s.reserved = known.reserved;
  s.reserved_peak = known.reserved_peak;
  s.largest_hole = known.largest_hole;
  s.live_blocks = known.live_blocks;
  s.allocations = known.allocations;
  s.frees = known.frees;
  s.failures = known.failures;
  s.cache_hits = known.cache_hits;
  s.device_hits = known.device_hits;
  s.stitched = known.stitched;
  s.fragmentation = known.fragmentation();
  s.defragmentations = known.defragmentations;
  s.rounding = known.rounding();
  s.idle = known.idle();
  s.unusable = known.unusable;
  return write(s, offsetof(berth_pool_statistics, defragmentations), to, "pool statistics: null, or wrong struct_size");
}

extern "C" {

berth_status berth_pool_create(const berth_device* device, const berth_pool_options* options, berth_pool** out) {
  return create_pool(device, options, nullptr, out);
}

void berth_pool_destroy(berth_pool* pool) {
  (void)destroy(pools(), pool);
}

berth_status berth_pool_allocate_at(berth_pool* pool, uint64_t size, uint64_t alignment, berth_stream* stream,
                                    void** out, const char* file, unsigned line) {
  if (out == nullptr) return fail(BERTH_INVALID, "void** out: null");
  return with_both(pool, stream, [&](const auto& from, const auto& on) {
    const auto where = berth::source_location::current(file == nullptr ? "" : file, line);
    const berth::block_options aligned{.alignment = alignment};
    return give_value(alignment == 0 ? from->source().allocate_raw(size, on->queue, where)
                                     : from->source().allocate_raw(size, on->queue, aligned, where),
                      out);
  });
}

berth_status berth_pool_free_at(berth_pool* pool, void* block, const char* file, unsigned line) {
  return with(pools(), pool, [&](held_pool& held) {
    if (block == nullptr) return succeed();
    const auto where = berth::source_location::current(file == nullptr ? "" : file, line);
    if (const auto no = require_block(held, block)) {
      if (!held.own->watched(block)) return no;
      held.own->free(block, where);  // the guard tells of it
      return require_block(held, block);
    }
    held.source().free(block, where);
    return succeed();
  });
}

// In brackets, so that the macros of these names stay out of it.
berth_status(berth_pool_allocate)(berth_pool* pool, uint64_t size, berth_stream* stream, void** out) {
  return berth_pool_allocate_at(pool, size, 0, stream, out, "berth_pool_allocate", 0);
}

berth_status(berth_pool_allocate_aligned)(berth_pool* pool, uint64_t size, uint64_t alignment, berth_stream* stream,
                                          void** out) {
  return berth_pool_allocate_at(pool, size, alignment, stream, out, "berth_pool_allocate_aligned", 0);
}

berth_status(berth_pool_free)(berth_pool* pool, void* block) {
  return berth_pool_free_at(pool, block, "berth_pool_free", 0);
}

berth_status berth_pool_use_on(berth_pool* pool, void* block, berth_stream* stream) {
  return with_both(pool, stream, [&](const auto& from, const auto& on) {
    const auto no = require_block(*from, block);
    return no ? no : status_of(from->source().use_on(block, on->queue));
  });
}

berth_status berth_pool_size_of(const berth_pool* pool, const void* block, uint64_t* size) {
  if (size == nullptr) return fail(BERTH_INVALID, "uint64_t* size: null");
  return with(pools(), pool, [&](const held_pool& held) {
    if (const auto no = require_block(held, block)) return no;
    *size = held.size_of(block).value_or(0);
    return succeed();
  });
}

berth_status berth_pool_trim(berth_pool* pool, uint64_t keep, uint64_t* released) {
  return with(pools(), pool, [&](held_pool& held) {
    const berth::bytes n = held.own->trim(keep);
    if (released != nullptr) *released = n;
    return succeed();
  });
}

berth_status berth_pool_defragment(berth_pool* pool, uint64_t* largest_hole) {
  return with(pools(), pool, [&](held_pool& held) {
    const berth::defragmentation gain = held.own->defragment();
    if (largest_hole != nullptr) *largest_hole = gain.largest_after;
    return succeed();
  });
}

berth_status berth_pool_statistics_of(const berth_pool* pool, berth_pool_statistics* statistics) {
  return with(pools(), pool,
              [&](const held_pool& held) { return give_statistics(held.own->statistics(), statistics); });
}

berth_status berth_pool_report(const berth_pool* pool, char* text, size_t room, size_t* length) {
  return text_of(pool, text, room, length, [](const berth::pool& p) { return p.report(); });
}

berth_status berth_pool_out_of_memory_report(const berth_pool* pool, char* text, size_t room, size_t* length) {
  return text_of(pool, text, room, length, [](const berth::pool& p) { return p.out_of_memory_report(); });
}

}  // extern "C"

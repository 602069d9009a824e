// The pool's reports. Each function stops the pool while it reads it.
#include <algorithm>
#include <bit>
#include <cinttypes>
#include <map>
#include <string_view>
#include <tuple>

#include "core/print.hpp"
#include "device/host/memory_limits.hpp"
#include "pool/state.hpp"

namespace berth {
namespace {

using detail::extent_state;
using detail::print;

constexpr std::size_t top = 10;  // sites shown

// Formats 1536 as "1.50 KiB", for people.
std::string human(bytes n) {
  constexpr const char* names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(n);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(names)) {
    value /= 1024;
    ++unit;
  }
  std::string out;
  print(out, unit == 0 ? "%.0f %s" : "%.2f %s", value, names[unit]);
  return out;
}

}  // namespace

pool_statistics pool::state::statistics(lock_held& held) {
  drain_in_steps(held);
  release_idle(held);
  release_free(held);
  defragment_if_due(held);
  const standstill nobody_moves{*this};
  drain();
  return figures(counts.largest_request);
}

// Neighbours that are free count as one range, also if different streams freed them: they join when that work is done.
pool::state::hole_figures pool::state::holes(bytes largest) const noexcept {
  const bool joins = options.stitch && memory.stitches();
  const auto for_each_hole = [this](auto f) {
    space.for_each_free([&](const detail::extent& first) {
      if (first.before != nullptr && first.before->is(extent_state::free)) return;
      const detail::extent* last = &first;
      while (last->after != nullptr && last->after->is(extent_state::free)) last = last->after;
      f(first.offset, last->end());
    });
  };
  const auto granules_in = [&](bytes from, bytes to) -> bytes {
    const bytes begin = align_up(from, memory.granule()), end = align_down(to, memory.granule());
    return joins && begin < end && !memory.is_device_block(from) ? end - begin : 0;
  };
  bytes granules = 0, widest = 0, unusable = 0;
  for_each_hole([&](bytes from, bytes to) {
    granules += granules_in(from, to);
    widest = std::max(widest, to - from);
  });
  const bytes wanted = std::min(largest, joins ? std::max(granules, widest) : space.free_bytes());
  for_each_hole([&](bytes from, bytes to) {
    if (to - from < wanted) unusable += to - from - (granules >= wanted ? granules_in(from, to) : 0);
  });
  return {.widest = widest, .unusable = unusable};
}

pool_statistics pool::state::figures(bytes largest) {
  pool_statistics s;
  detail::block_counts sum = counts.ended;
  sum.frees += threads.frees_without_cache;
  for (const auto& c : threads.caches) {
    publish(*c);
    c->add_to(sum);
    s.cached += c->held();
  }
  s.live = static_cast<bytes>(live.now.load(std::memory_order_relaxed));
  // The peaks of the threads may have been at different times, but all of it was within the reserved bytes.
  s.live_peak = std::min(static_cast<bytes>(live.peak.load(std::memory_order_relaxed)), counts.reserved_peak);
  s.free = space.free_bytes();
  s.reserved = memory.reserved();
  s.live_rounded = s.reserved - s.free - s.cached;
  s.live_blocks = static_cast<std::size_t>(sum.hits + sum.misses - sum.frees);
  s.reserved_peak = counts.reserved_peak;
  const hole_figures of_holes = holes(largest);
  s.largest_hole = of_holes.widest;
  s.largest_request = largest;
  s.unusable = of_holes.unusable;
  s.cache_hits = sum.hits;
  s.allocations = sum.hits + sum.misses;
  s.frees = sum.frees;
  s.failures = counts.failures;
  s.device_hits = counts.device_hits;
  s.stitched = counts.stitched;
  s.device_calls = memory.device_calls();
  s.events = counts.events;
  s.flushes = counts.flushes;
  s.defragmentations = counts.defragmentations;
  return s;
}

std::vector<stream_statistics> pool::state::by_stream() {
  std::map<std::uint32_t, stream_statistics> all;
  space.for_each_free([&](const detail::extent& e) {
    const bool done = e.done();
    stream_statistics& s = all[done ? 0 : e.stream()];
    (done ? s.free : s.pending) += e.size;
  });
  blocks.for_each([&](const detail::extent& e) {
    stream_statistics& s = all[e.stream()];
    (e.is(extent_state::cached) ? s.cached : s.live) += e.size;
  });
  std::vector<stream_statistics> out;
  for (auto& [stream, s] : all) {
    s.stream = stream;
    out.push_back(s);
  }
  return out;
}

std::vector<size_class_statistics> pool::state::by_size() {
  std::map<bytes, size_class_statistics> all;
  const auto of = [&all](bytes size) -> size_class_statistics& {
    constexpr bytes least = 64, greatest = bytes{1} << 63;
    return all[size > greatest ? max_bytes : std::max(std::bit_ceil(size), least)];
  };
  space.for_each_free([&](const detail::extent& e) {
    size_class_statistics& s = of(e.size);
    ++s.free_ranges;
    s.free += e.size;
  });
  blocks.for_each([&](const detail::extent& e) {
    size_class_statistics& s = of(e.size);
    const bool kept = e.is(extent_state::cached);
    ++(kept ? s.cached_blocks : s.live_blocks);
    (kept ? s.cached : s.live) += e.size;
  });
  std::vector<size_class_statistics> out;
  for (auto& [most, s] : all) {
    s.most = most;
    out.push_back(s);
  }
  return out;
}

std::vector<live_block> pool::state::live_list() {
  std::vector<live_block> out;
  blocks.for_each([&](const detail::extent& e) {
    if (e.lives()) out.push_back({e.at(), e.asked, e.stream(), e.site()});
  });
  return out;
}

std::string pool::state::report(const pool_statistics& now) {
  std::string out;
  print(out, "reserved %s of %s: live %s, rounding %s, cached %s, free %s in %zu pieces, largest hole %s\n",
        human(now.reserved).c_str(), options.limit == max_bytes ? "no limit" : human(options.limit).c_str(),
        human(now.live).c_str(), human(now.rounding()).c_str(), human(now.cached).c_str(), human(now.free).c_str(),
        space.free_count(), human(now.largest_hole).c_str());
  print(out, "unusable %s, in holes below the largest request (%s): fragmentation %.1f %%\n",
        human(now.unusable).c_str(), human(now.largest_request).c_str(), 100.0 * now.fragmentation());
  if (dev.properties().host_accessible) {
    print(out, "resident in the whole process (VmRSS, which the out-of-memory killer counts): %s\n",
          human(detail::resident_memory()).c_str());
  }
  print(out, "caches emptied %" PRIu64 " times, events recorded %" PRIu64 ", device called %" PRIu64 " times\n",
        counts.flushes, counts.events, memory.device_calls());
  for (const stream_statistics& s : by_stream()) {
    if (s.stream == 0) {
      print(out, "  no stream: free %s\n", human(s.free).c_str());
    } else {
      print(out, "  stream %" PRIu32 ": live %s, cached %s, pending %s\n", s.stream, human(s.live).c_str(),
            human(s.cached).c_str(), human(s.pending).c_str());
    }
  }
  for (const size_class_statistics& s : by_size()) {
    print(out, "  sizes up to %s: live %s in %zu, cached %s in %zu, free %s in %zu\n", human(s.most).c_str(),
          human(s.live).c_str(), s.live_blocks, human(s.cached).c_str(), s.cached_blocks, human(s.free).c_str(),
          s.free_ranges);
  }
  struct sum {
    bytes size = 0;
    std::size_t blocks = 0;
  };
  std::map<std::pair<std::string_view, std::uint32_t>, sum> sites;
  for (const live_block& b : live_list()) {
    sum& s = sites[{b.site.file_name(), b.site.line()}];
    s.size += b.size;
    ++s.blocks;
  }
  std::vector<std::pair<std::pair<std::string_view, std::uint32_t>, sum>> order{sites.begin(), sites.end()};
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.second.size > b.second.size; });
  for (std::size_t i = 0; i < std::min(top, order.size()); ++i) {
    const auto& [site, s] = order[i];
    print(out, "  %s in %zu blocks asked for at %.*s:%" PRIu32 "\n", human(s.size).c_str(), s.blocks,
          static_cast<int>(site.first.size()), site.first.data(), site.second);
  }
  return out;
}

// Called after the slow path.
std::string pool::state::explain(const detail::request& r, const error& why) {
  try {
    const standstill nobody_moves{*this};
    drain();
    const pool_statistics known = figures(counts.largest_request);
    const bool is_larger = r.size > counts.largest_request && r.size <= known.idle();
    failed_last.figures = {r.asked, is_larger ? figures(r.size) : known};
    std::string out;
    print(out, "pool %" PRIu64 ": out of memory: %s on stream %" PRIu32 " asked for at %s:%" PRIu32 ": %s\n", id,
          human(r.asked).c_str(), r.on.id(), r.site.file_name(), r.site.line(), why.what);
    bytes pending_elsewhere = 0;
    space.for_each_free([&](const detail::extent& e) { pending_elsewhere += usable(e, r.on) ? 0 : e.size; });
    const bytes usable_here = space.free_bytes() - pending_elsewhere;
    out += report(failed_last.figures->at);
    for (const detail::sibling& s : r.siblings) {
      print(out, "  pool %" PRIu64 " %s holds %s, of which %s are free in chunks that it needs\n", s.id,
            options.shared != nullptr ? "under the same limit" : "of the same device", human(s.reserved).c_str(),
            human(s.free).c_str());
    }
    out += "cheapest fix: ";
    if (usable_here >= r.size) {
      if (memory.stitches() && options.stitch) {
        print(out,
              "the free memory (%s) is in pieces smaller than a granule (%s) or in mappings still in use;"
              " raise the limit by %s\n",
              human(usable_here).c_str(), human(memory.granule()).c_str(), human(r.size).c_str());
      } else {
        print(out, "%s are free but no hole is larger than %s; allow stitching, or raise the limit by %s\n",
              human(usable_here).c_str(), human(space.largest()).c_str(), human(r.size - space.largest()).c_str());
      }
    } else if (usable_here + pending_elsewhere >= r.size) {
      print(out, "%s wait for other streams' work; synchronise them, or set pool_options::wait_for_streams\n",
            human(pending_elsewhere).c_str());
    } else if (why.code == errc::limit_exceeded) {
      print(out, "raise pool_options::limit by %s, or free as much at the sites above\n",
            human(r.size - usable_here - pending_elsewhere).c_str());
    } else {
      print(out, "free %s at the sites above, or in other users of the device\n",
            human(r.size - usable_here - pending_elsewhere).c_str());
    }
    return out;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

}  // namespace berth

#include "tool/cause.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "tool/trace_input.hpp"
#include "tool/units.hpp"
#include "trace/blocks.hpp"

namespace berth::tool {
namespace {

// Blocks that were asked for at one place; without a place, blocks of one size.
struct place_use {
  std::uint32_t site = 0;
  bytes size = 0;  // of blocks without a place
  std::uint64_t allocations = 0;
  std::uint64_t blocks = 0;  // alive at the end
  bytes live = 0;
  bytes first = 0, last = 0;              // sizes asked for
  std::uint64_t rises = 0, falls = 0;     // from one size to the next
  std::size_t first_at = 0, last_at = 0;  // events
};

struct use_of_places {
  std::vector<place_use> places;  // the largest live bytes first
  bytes live = 0;                 // at the end
  bytes peak = 0;
  std::size_t peak_at = 0;
  bytes late_peak = 0;  // of the later half
  std::size_t events = 0;
};

void note_use(place_use& p, const trace::event& e, std::size_t at) {
  if (p.allocations++ == 0) {
    p.first = e.size;
    p.first_at = at;
  } else {
    p.rises += e.size > p.last ? 1 : 0;
    p.falls += e.size < p.last ? 1 : 0;
  }
  p.last = e.size;
  p.last_at = at;
  ++p.blocks;
  p.live += e.size;
}

use_of_places uses_in(const trace::snapshot& s, std::size_t events) {
  use_of_places out;
  out.events = std::min(events, s.events.size());
  std::map<std::pair<std::uint32_t, bytes>, place_use> places;
  const auto use_at = [&places](const trace::event& allocation) -> place_use& {
    const bytes size = allocation.site == 0 ? allocation.size : 0;
    const place_use unused{.site = allocation.site, .size = size};
    return places.try_emplace({allocation.site, size}, unused).first->second;
  };
  const std::vector<std::size_t> other = trace::partners(s.events);
  for (std::size_t i = 0; i < out.events; ++i) {
    const trace::event& e = s.events[i];
    if (e.allocate) {
      note_use(use_at(e), e, i);
      out.live += e.size;
    } else if (other[i] != trace::no_event) {
      const trace::event& allocation = s.events[other[i]];
      place_use& place = use_at(allocation);
      --place.blocks;
      place.live -= allocation.size;
      out.live -= allocation.size;
    }
    if (out.live > out.peak) {
      out.peak = out.live;
      out.peak_at = i;
    }
    if (2 * i >= out.events) out.late_peak = std::max(out.late_peak, out.live);
  }
  for (auto& [key, p] : places) out.places.push_back(p);
  std::ranges::stable_sort(out.places, std::ranges::greater{}, &place_use::live);
  return out;
}

std::string name_of(const trace::snapshot& s, const place_use& p) {
  return p.site == 0 ? "blocks of " + human(p.size) : place_of(s, p.site);
}

bool lasts(const place_use& p, const use_of_places& r) {
  return p.last_at - p.first_at >= r.events / 3;
}

// Each size asked for there is larger than the one before.
const place_use* growing(const use_of_places& r, std::uint32_t failed_site) {
  for (const place_use& p : r.places) {
    const bool matters = p.live >= r.live / 5 || (p.site != 0 && p.site == failed_site);
    if (matters && p.rises >= 3 && p.rises >= 8 * p.falls && p.last / 2 >= p.first) return &p;
  }
  return nullptr;
}

// Places that keep a block each step, and free none of them.
std::vector<const place_use*> keeping(const use_of_places& r) {
  std::vector<const place_use*> out;
  for (const place_use& p : r.places) {
    if (p.blocks >= 2 && 10 * p.blocks >= 9 * p.allocations && lasts(p, r)) out.push_back(&p);
  }
  return out;
}

std::string largest_places(const trace::snapshot& s, const use_of_places& r) {
  std::string out;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, r.places.size()) && r.places[i].live != 0; ++i) {
    out += (i == 0 ? "" : ", ") + name_of(s, r.places[i]) + " " + human(r.places[i].live);
  }
  return out;
}

// The live bytes alone are too much. `lack` says by how much, if that is known.
cause of_live_bytes(const trace::snapshot& s, const use_of_places& r, std::uint32_t failed_site, bytes lack) {
  cause c;
  const std::string free_some = lack == 0 ? "" : "free " + human(lack) + "; ";
  const std::string places = largest_places(s, r);
  c.advice.push_back("no setting of the allocator helps: " + free_some +
                     (places.empty() ? "no place of a live block is known" : "most is held by " + places));
  if (const place_use* p = growing(r, failed_site)) {
    c.name = "growing_size";
    c.text = "sizes grow: " + name_of(s, *p) + " asked for " + human(p->first) + " at first and for " + human(p->last) +
             " at last, and holds " + human(p->live);
    c.advice.push_back("bound the length there (of a sequence, a cache, a batch), or allocate its largest size once");
    return c;
  }
  const auto keep = keeping(r);
  bytes kept = 0;
  for (const place_use* p : keep) kept += p->live;
  if (keep.size() >= 3 && kept >= r.live / 4 && keep.front()->live <= kept / 5 * 4) {
    c.name = "retained_steps";
    c.text = "results of earlier steps are still alive: " + std::to_string(keep.size()) + " places keep up to " +
             std::to_string(keep.front()->blocks) + " blocks each, " + human(kept) + " in all (a retained graph)";
    c.advice.push_back(
        "drop what refers to them after each step: a loss or an output that is kept with its graph "
        "(detach it, or take its value)");
    return c;
  }
  if (!keep.empty() && keep.front()->blocks >= 4 && keep.front()->live >= r.live / 5) {
    const place_use& p = *keep.front();
    c.name = "leak";
    c.text = "a leak: " + name_of(s, p) + " asked for " + std::to_string(p.allocations) + " blocks, of which " +
             std::to_string(p.blocks) + " (" + human(p.live) + ") were never freed";
    return c;
  }
  c.name = "limit_too_low";
  c.text = "all memory is in use: " + human(r.live) + " alive";
  if (lack != 0) c.text += ", " + human(lack) + " short for the request";
  return c;
}

// There was enough memory, and it was not in one piece, or not given back.
cause of_idle_bytes(const failure& f, const use_of_places& r) {
  cause c;
  const bytes idle = *f.use.idle();
  const auto& holes = f.request.holes;
  const std::string held = human(idle) + " of " + human(*f.use.reserved) + " reserved are idle";
  const std::string returns = !holes ? ""
                              : holes->in_empty_segments == 0
                                  ? "torch.cuda.empty_cache() returns nothing: each segment has a live block"
                                  : "torch.cuda.empty_cache() returns up to " + human(holes->in_empty_segments) +
                                        ", in segments without a live block";
  if (holes && holes->in_private_pools >= idle / 2) {
    c.name = "sibling_pool";
    c.text = "another pool of the process: " + held + ", " + human(holes->in_private_pools) +
             " of them in private pools, which this request cannot use";
    c.advice.push_back("share one pool between the captured graphs, or drop graphs that are not replayed any more");
    return c;
  }
  if (r.peak_at < r.events / 3 && r.late_peak <= r.peak / 10 * 6) {
    c.name = "warm_up_peak";
    c.text = "a peak at the start: " + human(r.peak) + " were alive then, at most " + human(r.late_peak) +
             " in the later half, and " + held;
    if (holes) c.advice.push_back(returns);
    return c;
  }
  if (holes && holes->in_empty_segments >= idle / 2) {
    c.name = "cached_segments";
    c.text = "memory that is cached and not reused: " + held + ", " + human(holes->in_empty_segments) +
             " of them in segments without a live block";
    c.advice.push_back(returns);
    return c;
  }
  c.name = "fragmentation";
  c.text = "fragmentation: " + held;
  if (holes) {
    c.text += " in " + std::to_string(holes->segments) + " segments, the largest hole has " +
              human(f.use.largest_hole.value_or(0));
  }
  c.text += ", and " + human(f.request.size) + " in one piece were asked for";
  return c;
}

// Idle memory of a pool, at its last failed request or else at the moment of the snapshot.
std::optional<cause> of_pool(const trace::snapshot& s) {
  const pool_statistics& p = s.failed ? s.failed->at : *s.pool;
  const bytes rounding = p.rounding(), idle = p.idle();
  const bool failed = p.failures != 0;
  if (rounding >= p.reserved / 4 && rounding > idle) {
    return cause{"alignment_waste",
                 "rounding: " + human(p.live) + " are alive in blocks of " + human(p.live_rounded) + " (" +
                     std::to_string(p.live_blocks) + " blocks)",
                 {"allocate small tensors together (pool::allocate_parts), or use rules with a smaller unit: up to " +
                  human(rounding) + " less"}};
  }
  if (failed && p.unusable != 0 && p.unusable >= p.reserved / 10) {
    return cause{"fragmentation",
                 "fragmentation: " + human(idle) + " of " + human(p.reserved) + " reserved are idle, " +
                     human(p.unusable) + " of them in holes below the largest request (" + human(p.largest_request) +
                     "); the largest hole has " + human(p.largest_hole),
                 {"pool_options::stitch joins holes of whole granules"}};
  }
  if (p.live < p.live_peak / 2 && idle >= p.live_peak / 4) {
    return cause{"warm_up_peak",
                 "a peak in the past: " + human(p.live_peak) + " were alive then, " + human(p.live) + " now, and " +
                     human(idle) + " are idle",
                 {"pool::trim() gives up to " + human(idle) + " back; pool_options::idle_release does so in time"}};
  }
  if (idle >= p.reserved / 3 && p.cached >= idle / 2) {
    return cause{
        "cached_sizes",
        "blocks in caches: " + human(p.cached) + " of " + human(p.reserved) + " reserved are cached by threads",
        {"pool::trim() empties the caches: up to " + human(p.cached) +
         "; pool_options::cache_bytes bounds "
         "them"}};
  }
  if (!failed) return std::nullopt;
  const bytes room = s.options && s.options->limit > p.reserved ? s.options->limit - p.reserved : 0;
  const bytes there = idle + std::min(room, max_bytes - idle), wanted = s.failed ? s.failed->size : 0;
  const bool limited = s.options && s.options->limit != max_bytes;
  use_of_places uses = uses_in(s, s.events.size());
  uses.live = p.live;  // the record may lack blocks
  cause c = of_live_bytes(s, uses, 0, limited && wanted > there ? wanted - there : 0);
  if (limited && wanted > there) {
    c.advice.push_back("or raise pool_options::limit (" + human(s.options->limit) + ") by " + human(wanted - there));
  }
  return c;
}

}  // namespace

cause cause_of(const trace::engine_log& log, const failure& f) {
  const use_of_places r = uses_in(log.history, static_cast<std::size_t>(f.request.before));
  const bytes wanted = f.request.size;
  if (!f.available) {
    cause c = of_live_bytes(log.history, r, f.request.site, 0);
    c.advice.insert(c.advice.end(), f.settings.begin(), f.settings.end());
    if (f.needs) c.advice.push_back("a pool of " + human(*f.needs) + " serves all that and the request");
    return c;
  }
  const bytes there = *f.available;
  // It had more before, in which the request would have had room.
  const bytes before = std::max(r.peak, log.reserved_peak.value_or(0));
  if (before / 51 * 50 > there && f.use.live <= before && wanted <= before - f.use.live) {
    return {"other_processes",
            "other processes hold the device: this one held " + human(before) + " before, and could have " +
                human(there) + " when the request of " + human(wanted) + " failed",
            {"find what else runs on the device; no setting of this allocator helps"}};
  }
  if (wanted > there || (wanted >= there / 2 && wanted > f.use.live && f.use.live > there - wanted)) {
    return {"huge_request",
            "one huge request: " + human(wanted) + " at " +
                (f.request.site == 0 ? "an unknown place" : place_of(log.history, f.request.site)) +
                ", where the process could have " + human(there) + " in all",
            {"no setting of the allocator helps: split that tensor, or make the batch smaller"}};
  }
  if (f.use.live <= there - wanted) {
    cause c = of_idle_bytes(f, r);
    if (r.live != 0) c.advice.push_back("alive beside the idle memory: " + largest_places(log.history, r));
    c.advice.insert(c.advice.end(), f.settings.begin(), f.settings.end());
    return c;
  }
  return of_live_bytes(log.history, r, f.request.site, f.use.live - (there - wanted));
}

std::optional<cause> cause_of(const trace::snapshot& s) {
  const use_of_places r = uses_in(s, s.events.size());
  if (s.ended && r.live != 0) {
    const place_use& p = r.places.front();
    return cause{"leak",
                 "a leak: " + human(r.live) + " were never freed, most of it (" + human(p.live) + " in " +
                     std::to_string(p.blocks) + " blocks) from " + name_of(s, p),
                 {}};
  }
  return s.pool ? of_pool(s) : std::nullopt;
}

}  // namespace berth::tool

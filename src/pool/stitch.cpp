// Stitching: a block of scattered free memory under consecutive addresses. After GMLake, ASPLOS 2024, which stitches
// whole 2 MiB blocks; the tails are Berth's addition.
//
// Granules are mapped as a whole. But a block may begin in the middle of its first granule and end in the middle of its
// last. So a block can use any number of whole granules of all free extents. It can also use the end of one granule as
// its head and the beginning of another as its tail, of different extents. A request fails only if the whole granules,
// and the largest head and tail that go together, are too small. The unusable rest is less than one granule for each
// hole. It is less than one granule more if the largest head and tail are of one extent.
#include <algorithm>
#include <vector>

#include "berth/core/hook.hpp"
#include "pool/state.hpp"

namespace berth {

using detail::extent_state;
using detail::piece;
using detail::request;

namespace {

// A free extent that reaches a granule's border: head ... [first, last) whole granules ... tail.
struct source {
  detail::extent* from;
  bytes first;
  bytes last;

  [[nodiscard]] bytes head() const noexcept { return first - from->offset; }
  [[nodiscard]] bytes whole() const noexcept { return last - first; }
  [[nodiscard]] bytes tail() const noexcept { return from->end() - last; }
};

struct part {
  detail::extent* from;
  piece where;
};

// Returns the source with the smallest head (or tail) of at least n bytes; the largest of all if none has.
template <class Length>
std::size_t choose(const std::vector<source>& sources, bytes n, std::size_t except, Length length) {
  std::size_t best = except;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (i == except) continue;
    const bytes mine = length(sources[i]);
    const bytes known = best == except ? 0 : length(sources[best]);
    if (best == except || (known < n ? mine > known : mine >= n && mine < known)) best = i;
  }
  return best;
}

// Returns the parts for n bytes, in the order of the block's addresses; none if the sources do not suffice. Without a
// head the block begins at a granule, as an alignment may require.
std::vector<part> compose(std::vector<source>& sources, bytes n, bytes granule, bool with_head) {
  bytes whole = 0;
  for (const source& s : sources) whole += s.whole();
  const std::size_t none = sources.size();
  const auto head_of = [](const source& s) { return s.head(); };
  const auto tail_of = [](const source& s) { return s.tail(); };

  // First chooses the lengths and the sources of head and tail.
  const bytes rest = n % granule;
  std::size_t h = none;
  std::size_t t = none;
  bytes head = 0;
  bytes tail = 0;
  if (rest != 0 || whole < n) {
    const bytes lack = whole >= n - rest ? rest : n - whole;
    t = choose(sources, lack, none, tail_of);
    if (with_head) h = choose(sources, lack, none, head_of);
    const bytes most_tail = t == none ? 0 : sources[t].tail();
    const bytes most_head = h == none ? 0 : sources[h].head();
    if (most_tail >= lack) {
      tail = lack;
    } else if (most_head >= lack) {
      head = lack;
    } else if (whole < align_up(n, granule)) {
      if (h == t &&
          h != none) {  // not both of one extent: the largest head with another's tail, or the other way round
        const std::size_t other_h = choose(sources, lack, t, head_of);
        const std::size_t other_t = choose(sources, lack, h, tail_of);
        const bytes with_other_head = most_tail + (other_h == t ? 0 : sources[other_h].head());
        const bytes with_other_tail = most_head + (other_t == h ? 0 : sources[other_t].tail());
        (with_other_head >= with_other_tail ? h : t) = with_other_head >= with_other_tail ? other_h : other_t;
      }
      if (h == t || h == none || sources[h].head() + sources[t].tail() < lack) return {};
      tail = sources[t].tail();
      head = lack - tail;
    }
  }
  if (tail == 0) t = none;
  if (head == 0) h = none;

  bytes need = n - head - tail;
  part first{};
  part last{};
  if (h != none) {
    const source& s = sources[h];
    const bytes granules = std::min(s.whole(), align_down(need, granule));
    first = {s.from, {s.first - head, head + granules}};
    need -= granules;
  }
  if (t != none) {
    const source& s = sources[t];
    const bytes granules = std::min(s.whole(), align_down(need, granule));
    last = {s.from, {s.last - granules, granules + tail}};
    need -= granules;
  }
  std::vector<part> parts;
  if (h != none) parts.push_back(first);
  // Then takes the largest first, for few mappings, and as the last one the smallest that is enough.
  std::ranges::sort(sources, [](const source& a, const source& b) { return a.whole() > b.whole(); });
  for (std::size_t i = 0; i < sources.size() && need != 0; ++i) {
    if (sources[i].from == first.from || sources[i].from == last.from) continue;
    std::size_t chosen = i;
    for (std::size_t j = i; j < sources.size() && sources[j].whole() >= need; ++j) {
      if (sources[j].from != first.from && sources[j].from != last.from) chosen = j;
    }
    const bytes mine = std::min(sources[chosen].whole(), need);
    if (mine == 0) break;
    parts.push_back({sources[chosen].from, {sources[chosen].first, mine}});
    need -= mine;
  }
  if (need != 0) return {};
  if (t != none) parts.push_back(last);
  return parts;
}

}  // namespace

bytes pool::state::stitchable(const request& r) const noexcept {
  if (!may_stitch(r)) return 0;
  bytes sum = 0;
  for_each_usable(r, [&](const detail::extent& e) {
    const bytes first = align_up(e.offset, memory.granule());
    const bytes last = align_down(e.end(), memory.granule());
    if (first < last && !memory.is_device_block(e.offset)) sum += last - first;
  });
  return sum;
}

bool pool::state::may_stitch(const request& r) const noexcept {
  return options.stitch && memory.stitches() && !r.options.no_stitch &&
         r.options.alignment <= std::max(quantum, memory.granule());
}

detail::extent* pool::state::stitch(request& r, lock_held& held) {
  if (!may_stitch(r)) return nullptr;
  bool lacks_addresses = false;
  if (detail::extent* e = stitch_free(r, false, lacks_addresses)) return e;
  if (!lacks_addresses || !memory.has_retired()) return nullptr;
  // Addresses of dead blocks are waiting for streams, perhaps for this one.
  ask(nullptr, asking_for::look, nullptr, held);
  make_ready();
  return memory.purge() ? stitch_free(r, false, lacks_addresses) : nullptr;
}

detail::extent* pool::state::stitch_free(request& r, bool may_exceed, bool& lacks_addresses) {
  const bytes granule = memory.granule();
  std::vector<source> sources;
  for_each_usable(r, [&](detail::extent& e) {
    const bytes first = align_up(e.offset, granule);
    const bytes last = align_down(e.end(), granule);
    if (first <= last && !memory.is_device_block(e.offset)) sources.push_back({&e, first, last});
  });
  const std::vector<part> parts = compose(sources, r.size, granule, r.slack == 0);
  if (parts.empty()) return nullptr;
  if (!space.prepare(2 * parts.size() + 6)) return nullptr;
  std::vector<piece> pieces;
  for (const part& p : parts) pieces.push_back(p.where);
  auto made = std::make_unique<detail::stitching>();
  made->pieces.reserve(parts.size());
  const auto window = memory.stitch(pieces, may_exceed);
  lacks_addresses = !window;
  if (!window) {
    if (window.error().code == errc::device_failed) r.device_error = window.error();
    return nullptr;
  }

  // From here on all steps succeed.
  const bytes first = pieces.front().offset;
  for (const part& p : parts) {
    detail::extent* e = space.take(p.from, p.where.offset, p.where.size);
    e->set(extent_state::piece);
    e->use = {};  // the block has it
    e->uses.reset();
    made->pieces.push_back(e);
  }
  made->window = *window;
  made->shown = std::move(pieces);
  detail::extent* block = space.make();
  block->size = r.size;
  block->address.store(static_cast<std::byte*>(memory.window_address(**window)) + first % granule,
                       std::memory_order_relaxed);
  block->stitched = std::move(made);
  ++counts.stitched;
  holdings.note_stitching();
  emit({.kind = memory_event_kind::pool_stitch,
        .stream = r.on.id(),
        .owner = self,
        .address = block->at(),
        .size = r.asked,
        .site = r.site});
  return block;
}

}  // namespace berth

#include "berth/graph/arena_guard.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <new>
#include <utility>

#include "berth/core/contract.hpp"
#include "pool/guard/pattern.hpp"

namespace berth {
namespace {

constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();

// Nodes are counted from 1; 0 is the time before them.
struct watched {
  value_id value;  // none: a workspace
  std::uint32_t born = 0;
  std::uint32_t dies = 0;
  std::byte* data = nullptr;
  bytes size = 0;
  bytes from = 0;  // its zone, counted from data
  bytes end = 0;
};

}  // namespace

struct arena_guard::state {
  state(const graph& described, const arena& a, stream& s)
      : g{described}, memory_of{a}, on{s}, device{s.get_device()}, memory{device} {}

  void list();
  void add(value_id v, std::uint32_t born, std::uint32_t dies, void* data, bytes size);
  [[nodiscard]] bool alive(const watched& w) const noexcept { return w.born <= now && now <= w.dies; }
  result<void> write(std::uint32_t born);
  [[nodiscard]] std::string text_of(const watched& w, const detail::difference& d) const;
  [[nodiscard]] std::string name_of(const watched& w) const;
  // Returns the last made buffer in w's place: entering its node has written the zone anew.
  [[nodiscard]] const watched& last_in_place_of(const watched& w) const noexcept;

  const graph& g;
  const arena& memory_of;
  stream& on;
  const berth::device device;
  detail::pattern_memory memory;
  std::vector<watched> all;  // by birth
  std::uint32_t now = 0;
};

void arena_guard::state::add(value_id v, std::uint32_t born, std::uint32_t dies, void* data, bytes size) {
  const graph_plan& p = memory_of.get_plan();
  const rules::placement& hardware = device.properties().rules;
  const bytes touched = hardware.tail_pad == 0 ? size : hardware.footprint(size).value_or(max_bytes);
  const bytes end = align_up(size, p.granularity) + p.tail_pad;
  if (data == nullptr || size == 0 || touched >= end) return;
  all.push_back({v, born, dies, static_cast<std::byte*>(data), size, touched, end});
}

// A value lives from its node to the last use of it or of its views. A result that reuses its memory has the same
// layout, so both have one zone.
void arena_guard::state::list() {
  const auto& values = g.values();
  std::vector<std::uint32_t> born(values.size(), 0), dies(values.size(), 0);
  for (std::uint32_t n = 0; n < g.nodes().size(); ++n) {
    const node& at = g.nodes()[n];
    for (const value_id v : at.outputs) born[v.index] = n + 1;
    for (const auto* uses : {&at.inputs, &at.outputs}) {
      for (const value_id v : *uses) dies[values[v.index].root.index] = n + 1;
    }
  }
  for (std::uint32_t v = 0; v < values.size(); ++v) {
    const value& it = values[v];
    if (!graph_structure::in_arena(it.kind)) continue;
    const bool kept = it.output || it.kind == value_kind::state;
    add({v}, born[v], kept ? never : dies[v], memory_of.address({v}), it.size);
  }
  for (std::uint32_t n = 0; n < g.nodes().size(); ++n) {
    add({}, n + 1, n + 1, memory_of.workspace({n}), g.nodes()[n].workspace);
  }
  std::ranges::stable_sort(all, {}, &watched::born);
}

result<void> arena_guard::state::write(std::uint32_t born_at) {
  for (auto w = std::ranges::lower_bound(all, born_at, {}, &watched::born); w != all.end() && w->born == born_at; ++w) {
    if (const auto done = on.fill(w->data + w->from, detail::zone_byte, w->end - w->from); !done) return done.error();
  }
  return {};
}

std::string arena_guard::state::name_of(const watched& w) const {
  if (w.value == value_id{}) return "the workspace of '" + g.nodes()[w.born - 1].name + "'";
  return "'" + g[w.value].name + "'";
}

const watched& arena_guard::state::last_in_place_of(const watched& w) const noexcept {
  return *std::find_if(all.rbegin(), all.rend(), [&](const watched& o) { return alive(o) && o.data == w.data; });
}

std::string arena_guard::state::text_of(const watched& w, const detail::difference& d) const {
  char at[96];
  const bytes behind = w.from + d.at - w.size;
  std::snprintf(at, sizeof at, " (%llu bytes): byte %llu behind its end is 0x%02x",
                static_cast<unsigned long long>(w.size), static_cast<unsigned long long>(behind),
                std::to_integer<unsigned>(d.found));
  std::string text = "overrun behind " + name_of(w) + at;
  for (const watched& other : all) {
    if (&other != &w && alive(other) && other.data == w.data) text += "; it took the place of " + name_of(other);
  }
  const watched* above = nullptr;
  for (const watched& other : all) {
    if (alive(other) && other.data >= w.data + w.end && (above == nullptr || other.data < above->data)) above = &other;
  }
  if (above != nullptr) text += "; above it lies " + name_of(*above);
  text += now == 0 ? "; before the first node" : "; seen after '" + g.nodes()[now - 1].name + "'";
  return text;
}

rules::placement with_red_zones(rules::placement r, bytes zone) noexcept {
  r.tail_pad += zone;
  return r;
}

arena_guard::arena_guard(std::unique_ptr<state> s) noexcept : state_{std::move(s)} {}
arena_guard::arena_guard(arena_guard&&) noexcept = default;
arena_guard& arena_guard::operator=(arena_guard&&) noexcept = default;
arena_guard::~arena_guard() = default;

result<arena_guard> arena_guard::create(const graph& g, const arena& a, stream& s) try {
  const graph_plan& p = a.get_plan();
  expects(p.structure.values.size() == g.values().size() && p.structure.nodes.size() == g.nodes().size(),
          "arena_guard: the arena is bound to another graph");
  for (const node& n : g.nodes()) {
    if (n.stream != g.nodes().front().stream) {
      return error{errc::unsupported, "arena_guard: nodes of several streams have no one order in which buffers die"};
    }
  }
  if (p.tail_pad <= s.get_device().properties().rules.tail_pad) {
    return error{errc::unsupported, "arena_guard: no pad to watch; plan with with_red_zones()"};
  }
  auto made = std::make_unique<state>(g, a, s);
  made->list();
  if (const auto done = made->write(0); !done) return done.error();
  return arena_guard{std::move(made)};
} catch (const std::bad_alloc&) {
  return error{errc::out_of_memory, "arena_guard: no host memory for its lists"};
}

result<void> arena_guard::enter(node_id n) {
  expects(n.index == state_->now && n.index < state_->g.nodes().size(),
          "arena_guard: nodes are entered in their order");
  const auto done = state_->write(n.index + 1);
  if (done) ++state_->now;
  return done;
}

result<void> arena_guard::again() {
  const auto done = state_->write(0);
  if (done) state_->now = 0;
  return done;
}

result<std::vector<arena_overrun>> arena_guard::check() {
  state& my = *state_;
  if (const auto done = my.on.synchronize(); !done) return done.error();
  // Reads all zones before it repairs one: an unreported overrun remains for the next call.
  std::vector<std::pair<const watched*, detail::difference>> wrong;
  for (const watched& w : my.all) {
    if (!my.alive(w)) continue;
    const auto [read, first] = my.memory.compare(w.data + w.from, w.end - w.from, detail::zone_byte);
    if (!read) return error{errc::device_failed, "arena_guard: a red zone could not be read", w.end - w.from};
    const auto same_place = [&w](const auto& other) { return other.first->data == w.data; };
    if (first && std::ranges::none_of(wrong, same_place)) wrong.emplace_back(&w, *first);
  }
  std::vector<arena_overrun> found;
  for (const auto& [w, d] : wrong) {
    // If this fails, the overrun is reported again.
    (void)my.memory.write(w->data + w->from, w->end - w->from, detail::zone_byte);
    const watched& last = my.last_in_place_of(*w);
    found.push_back(
        {last.value, my.now == 0 ? node_id{} : node_id{my.now - 1}, last.from + d.at - last.size, my.text_of(last, d)});
  }
  return found;
}

}  // namespace berth

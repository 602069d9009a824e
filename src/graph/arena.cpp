#include "berth/graph/arena.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "berth/core/hook.hpp"
#include "graph/fail.hpp"
#include "graph/open_plan.hpp"
#include "graph/outside.hpp"
#include "graph/states.hpp"

namespace berth {
namespace {

constexpr std::uint64_t gone = 0;  // the generation of an arena that has ended

graph_fault no_block(const error& from, bytes size) {
  return {from.code == errc::limit_exceeded  ? fault_kind::over_budget
          : from.code == errc::device_failed ? fault_kind::device_failed
                                             : fault_kind::out_of_memory,
          {},
          {},
          size,
          "no block of " + std::to_string(size) + " bytes for the arena: " + from.what};
}

graph_fault not_copied(const error& from, bytes states) {
  return {fault_kind::device_failed,
          {},
          {},
          states,
          "the states of " + std::to_string(states) + " bytes are not copied to the arena's next block: " + from.what};
}

// Emits no event without a block: the memory is the caller's, or none was allocated.
void tell(memory_event_kind kind, const block& of, const stream* s, const memory_source* from) {
  if (of) emit({.kind = kind, .stream = s->id(), .owner = from, .address = of.data(), .size = of.size()});
}

}  // namespace

const char* name(bind_outcome b) noexcept {
  switch (b) {
    case bind_outcome::unchanged: return "unchanged";
    case bind_outcome::fits: return "fits";
    case bind_outcome::cached: return "cached";
    case bind_outcome::replanned: return "replanned";
    case bind_outcome::grown: return "grown";
  }
  return "unknown";
}

result<void*> placed_value::get() const noexcept {
  const std::uint64_t now = generation_ ? generation_->load(std::memory_order_acquire) : gone;
  if (now == gone) return error{errc::invalid_input, "placed_value: the arena is gone", size_};
  if (now != seen_)
    return error{errc::invalid_input, "placed_value: the arena has another block or serves another plan", size_};
  return address_;
}

arena::entry::entry(graph_plan p, bool is_implied)
    : plan{std::move(p)}, outside{outside_values(plan.structure)}, implied{is_implied} {}

// Begins to serve the first entry. Its values outside have no address yet.
void arena::start() {
  complete_ = entries_.front().outside.empty();
  generation_ = std::make_shared<std::atomic<std::uint64_t>>(1);
}

result<arena> arena::reserve(const graph& g, memory_source& source, stream& s, const arena_options& o,
                             graph_fault* why) {
  const graph* const family[] = {&g};
  return reserve(family, source, s, o, why);
}

result<arena> arena::reserve(std::span<const graph* const> family, memory_source& source, stream& s,
                             const arena_options& o, graph_fault* why, source_location where) {
  expects(!family.empty(), "arena: reserve for no graph", where);
  arena made;
  made.source_ = &source;
  made.stream_ = &s;
  made.options_ = o;
  made.options_.cached_plans = std::max<unsigned>(o.cached_plans, static_cast<unsigned>(family.size()));
  if (!o.rules) made.options_.rules = source.get_device().properties().rules;
  made.state_names_ = names_of_states(*family.front());
  bytes most = 0;
  for (const graph* g : family) {
    if (!made.entries_.empty()) {
      if (graph_fault fault = changed_state(made.entries_.front().plan.structure, made.state_names_, *g); !fault.ok()) {
        return fail(std::move(fault), why);
      }
    }
    auto plan = plan_graph(*g, made.options_, why);
    if (!plan) return plan.error();
    most = std::max(most, plan->arena());
    made.entries_.emplace_back(std::move(*plan));
  }
  if (const auto taken = made.take_block(most, why); !taken) return taken.error();
  made.start();
  return made;
}

result<arena> arena::reserve(const graph& g, graph_plan plan, memory_source& source, stream& s, const arena_options& o,
                             graph_fault* why) {
  if (!g.fault().ok()) return fail(g.fault(), why);
  arena made;
  made.source_ = &source;
  made.stream_ = &s;
  made.options_ = o;
  if (!o.rules) made.options_.rules = source.get_device().properties().rules;
  if (graph_fault fault = verify_plan(g, plan, *made.options_.rules); !fault.ok()) return fail(std::move(fault), why);
  if (plan.arena() > o.budget) {
    return fail({fault_kind::over_budget,
                 {},
                 {},
                 plan.arena(),
                 "the plan needs " + std::to_string(plan.arena()) + " bytes, " +
                     std::to_string(plan.arena() - o.budget) + " more than the budget of " + std::to_string(o.budget)},
                why);
  }
  made.state_names_ = names_of_states(g);
  const bytes size = plan.arena();
  made.entries_.emplace_back(std::move(plan));
  if (const auto taken = made.take_block(size, why); !taken) return taken.error();
  made.start();
  return made;
}

result<arena> arena::within(const graph& g, void* memory, bytes size, const arena_options& o, graph_fault* why,
                            source_location where) {
  arena made;
  made.options_ = o;
  made.options_.budget = std::min(o.budget, size);
  if (o.on_change == change_policy::grow) made.options_.on_change = change_policy::replan;
  auto plan = plan_graph(g, made.options_, why);
  if (!plan) return plan.error();
  expects(reinterpret_cast<std::uintptr_t>(memory) % plan->alignment == 0, "arena: the caller's memory is misaligned",
          where);
  made.entries_.emplace_back(std::move(*plan));
  made.state_names_ = names_of_states(g);
  made.base_ = static_cast<std::byte*>(memory);
  made.size_ = size;
  made.start();
  return made;
}

arena& arena::operator=(arena&& other) noexcept {
  arena old{std::move(*this)};
  source_ = other.source_;
  stream_ = other.stream_;
  block_ = std::move(other.block_);
  base_ = std::exchange(other.base_, nullptr);
  size_ = std::exchange(other.size_, 0);
  options_ = std::move(other.options_);
  entries_ = std::move(other.entries_);
  attached_ = std::move(other.attached_);
  complete_ = other.complete_;
  state_names_ = std::move(other.state_names_);
  generation_ = std::move(other.generation_);
  counters_ = std::move(other.counters_);
  return *this;
}

arena::~arena() {
  if (generation_) generation_->store(gone, std::memory_order_release);
  tell(memory_event_kind::arena_release, block_, stream_, source_);
}

// Returns the size of the block for a plan of `needed` bytes: a multiple of the step if the budget has room for it.
bytes arena::block_size(bytes needed) const noexcept {
  const auto rounded = checked_align_up(needed, std::max<bytes>(options_.growth_step, 1));
  return rounded && *rounded <= options_.budget ? *rounded : needed;
}

// Replaces the present block by one for a plan of `needed` bytes, and copies the states.
result<void> arena::take_block(bytes needed, graph_fault* why) {
  const bytes wanted = block_size(needed);
  auto fresh = source_->allocate(wanted, *stream_, {.alignment = base_alignment()});
  if (!fresh) return fail(no_block(fresh.error(), wanted), why);
  const bytes states = entries_.front().plan.state_bytes;
  if (block_ && states != 0) {
    if (const auto copied = stream_->copy(fresh->data(), block_.data(), states); !copied) {
      return fail(not_copied(copied.error(), states), why);
    }
  }
  tell(memory_event_kind::arena_release, block_, stream_, source_);
  block_ = std::move(*fresh);
  base_ = static_cast<std::byte*>(block_.data());
  size_ = wanted;
  tell(memory_event_kind::arena_reserve, block_, stream_, source_);
  return {};
}

// Returns the alignment that a plan needs beyond the device's own rule; 0: none.
bytes arena::base_alignment() const noexcept {
  const bytes wanted = entries_.front().plan.alignment;
  return is_aligned(source_->get_device().properties().rules.start_alignment, wanted) ? 0 : wanted;
}

// Makes `e` of `from` the current entry. `addresses` are those of its values outside; none is missing.
void arena::serve(entry_list& from, entry_list::iterator e, std::vector<void*>& addresses) noexcept {
  entries_.splice(entries_.begin(), from, e);
  attached_.swap(addresses);
  complete_ = true;
  generation_->fetch_add(1, std::memory_order_acq_rel);
}

result<bind_outcome> arena::bind(const graph& g, graph_fault* why) {
  if (complete_ && same_structure(entries_.front().plan.structure, g.structure()) && g.fault().ok() &&
      same_state_names(state_names_, g)) [[likely]] {
    count(bind_outcome::unchanged);
    return bind_outcome::unchanged;
  }
  return bind(g, std::span<const attachment>{}, why);
}

result<bind_outcome> arena::bind(const graph& g, std::span<const attachment> outside, graph_fault* why) {
  return counted(bind_new(g, outside, why));
}

result<bind_outcome> arena::bind(const graph& g, std::span<const dimension_value> at,
                                 std::span<const attachment> outside, graph_fault* why) {
  std::vector<bytes> values;
  if (graph_fault fault = values_of(g.open(), at, values); !fault.ok()) return counted(fail(std::move(fault), why));
  return g.open().dimensions.empty() ? bind(g, outside, why) : counted(bind_values(g, values, outside, why));
}

result<bind_outcome> arena::counted(result<bind_outcome> outcome) {
  if (outcome) {
    count(*outcome);
  } else {
    ++counters_.failures;
  }
  return outcome;
}

result<bind_outcome> arena::bind_new(const graph& g, std::span<const attachment> outside, graph_fault* why) {
  if (!g.fault().ok()) return fail(g.fault(), why);
  if (graph_fault fault = changed_state(entries_.front().plan.structure, state_names_, g); !fault.ok()) {
    return fail(std::move(fault), why);
  }
  if (!g.open().dimensions.empty()) return bind_values(g, g.open().largest(), outside, why);
  const auto serving = [&](auto serves) {
    return std::find_if(entries_.begin(), entries_.end(),
                        [&](const entry& e) { return serves(e.plan.structure, g.structure()); });
  };
  if (const auto e = serving(same_structure); e != entries_.end()) {
    const bool unchanged = e == entries_.begin();
    auto addresses = place_outside(g, e->outside, unchanged ? attached_ : std::vector<void*>{}, outside, why);
    if (!addresses) return addresses.error();
    if (unchanged) {
      attached_ = std::move(*addresses);
      complete_ = true;
      return bind_outcome::unchanged;
    }
    serve(entries_, e, *addresses);
    return bind_outcome::cached;
  }
  if (const auto e = serving(fits_within); e != entries_.end()) {
    entry_list fresh;
    fresh.emplace_back(plan_for_smaller(e->plan, g.structure()), true);
    auto addresses = place_outside(g, fresh.front().outside, {}, outside, why);
    if (!addresses) return addresses.error();
    keep(fresh, *addresses);
    return bind_outcome::fits;
  }
  return replan(g, outside, why);
}

// Serves g at these values of its dimensions. All that can fail comes before the first change.
result<bind_outcome> arena::bind_values(const graph& g, std::span<const bytes> values,
                                        std::span<const attachment> outside, graph_fault* why) {
  if (!g.fault().ok()) return fail(g.fault(), why);
  if (graph_fault fault = check_views(g.open(), values, &g); !fault.ok()) return fail(std::move(fault), why);
  const auto e = std::find_if(entries_.begin(), entries_.end(),
                              [&](const entry& each) { return each.plan.open && is_plan_of(*each.plan.open, g); });
  const bool is_front = e == entries_.begin();
  const bool has_addresses = is_front && complete_ && outside.empty() && same_state_names(state_names_, g);
  if (!has_addresses) {
    if (graph_fault fault = changed_state(get_plan().structure, state_names_, g); !fault.ok()) {
      return fail(std::move(fault), why);
    }
  }
  if (e == entries_.end()) {
    const auto made = replan(g, outside, why);
    if (!made) return made;
    graph_plan& planned = entries_.front().plan;
    apply(planned, values, evaluate(planned, values));
    return made;
  }
  std::vector<void*> addresses;
  if (!has_addresses) {
    auto placed = place_outside(g, e->outside, is_front ? attached_ : std::vector<void*>{}, outside, why);
    if (!placed) return placed.error();
    addresses = std::move(*placed);
  }
  if (is_front && std::equal(values.begin(), values.end(), e->plan.open->values.begin())) {
    if (!has_addresses) attached_ = std::move(addresses);
    complete_ = true;
    return bind_outcome::unchanged;
  }
  const bytes needed = evaluate(e->plan, values);
  const bool grows = needed > size_;
  if (grows && options_.on_change != change_policy::grow) {
    return fail({fault_kind::over_budget,
                 {},
                 {},
                 needed,
                 "the arena needs " + std::to_string(needed) + " bytes at these values, and has " +
                     std::to_string(size_) + what_fits(e->plan, size_)},
                why);
  }
  if (grows) {
    if (const auto taken = take_block(needed, why); !taken) return taken.error();
  }
  apply(e->plan, values, needed);
  if (has_addresses) addresses.swap(attached_);
  serve(entries_, e, addresses);
  return grows ? bind_outcome::grown : bind_outcome::fits;
}

// Plans g, which no entry serves.
result<bind_outcome> arena::replan(const graph& g, std::span<const attachment> outside, graph_fault* why) {
  const difference d = first_difference(get_plan().structure, g.structure());
  counters_.last_change = describe(d, get_plan().structure, g);
  if (options_.on_change == change_policy::fail) {
    return fail({fault_kind::changed, d.value, d.node, 0, counters_.last_change}, why);
  }
  auto addresses = place_outside(g, outside_values(g.structure()), {}, outside, why);
  if (!addresses) return addresses.error();
  graph_options planning = options_;
  if (options_.on_change == change_policy::replan) planning.budget = std::min(planning.budget, size_);
  auto plan = plan_graph(g, planning, why);
  if (!plan) return plan.error();
  const bool grows = plan->arena() > size_;
  entry_list fresh;
  fresh.emplace_back(std::move(*plan));
  if (grows) {
    if (const auto taken = take_block(fresh.front().plan.arena(), why); !taken) return taken.error();
  }
  // The block has changed: from here on all steps must succeed.
  ++counters_.replans_for[static_cast<std::size_t>(d.what)];
  keep(fresh, *addresses);
  return grows ? bind_outcome::grown : bind_outcome::replanned;
}

// Makes the one entry of `fresh` the current one. Counts searched plans and the plans that they imply apart. So a run
// of small graphs does not evict the plan for the worst case.
void arena::keep(entry_list& fresh, std::vector<void*>& addresses) noexcept {
  const auto same_sort = [&](const entry& e) { return e.implied == fresh.front().implied; };
  const auto held = static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(), same_sort));
  if (held >= std::max(options_.cached_plans, 1u)) {
    const auto oldest = std::find_if(entries_.rbegin(), entries_.rend(), same_sort);
    entries_.erase(std::prev(oldest.base()));
  }
  serve(fresh, fresh.begin(), addresses);
}

void* arena::address(value_id v) const noexcept {
  const entry& current = entries_.front();
  expects(v.index < current.plan.offset_of.size(), "arena: the address of a value that its graph does not have");
  const bytes at = current.plan.offset_of[v.index];
  if (at != no_offset) return base_ + at;
  const value_record& value = current.plan.structure.values[v.index];
  if (attached_.empty() || attached_[value.root] == nullptr) return nullptr;
  bytes in_root = 0;
  if (value.kind == value_kind::view) {
    for (const view_record& view : current.plan.structure.views) {
      if (view.value == v.index) in_root = view.offset;
    }
  }
  return static_cast<std::byte*>(attached_[value.root]) + in_root;
}

void* arena::workspace(node_id n) const noexcept {
  const bytes at = get_plan().workspace_of[n.index];
  return at == no_offset ? nullptr : base_ + at;
}

placed_value arena::handle(value_id v) const {
  placed_value handle;
  handle.generation_ = generation_;
  handle.seen_ = generation_->load(std::memory_order_acquire);
  handle.address_ = address(v);
  handle.size_ = get_plan().structure.values[v.index].size;
  return handle;
}

result<void> arena::attach(value_id v, void* address, bytes size) {
  const graph_structure& structure = get_plan().open ? get_plan().open->most : get_plan().structure;
  if (const auto fits = check_attachment(structure, {v, address, size}); !fits) return fits.error();
  if (attached_.empty()) attached_.assign(structure.values.size(), nullptr);
  attached_[v.index] = address;
  return {};
}

result<void> arena::check_attached(const graph& g, graph_fault* why) const {
  for (const std::uint32_t v : outside_values(g.structure())) {
    if (v >= attached_.size() || attached_[v] == nullptr) return fail(no_address(g, {v}), why);
  }
  return {};
}

bytes arena::trim() {
  const bytes before = size_;
  const bytes needed = get_plan().arena();
  if (source_ != nullptr && block_size(needed) < before && take_block(needed, nullptr)) {
    generation_->fetch_add(1, std::memory_order_acq_rel);
  }
  entries_.erase(std::next(entries_.begin()), entries_.end());
  return before - size_;
}

}  // namespace berth

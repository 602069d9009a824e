#include "berth/plan/replan.hpp"

#include <algorithm>
#include <numeric>

#include "berth/plan/verify.hpp"
#include "plan/greedy/ejection.hpp"
#include "plan/greedy/occupancy.hpp"
#include "plan/model/canonical.hpp"
#include "plan/model/within.hpp"
#include "plan/policy.hpp"
#include "plan/single/single.hpp"
#include "plan/verify/within.hpp"

namespace berth::plan {
namespace {

// Returns whether hints count only below an arena that is found without them (solve_single).
bool hints_come_last(const problem& p) {
  return p.memories.size() <= 1 && !p.max_slab && p.reuse_penalties.empty();
}

// Returns whether the arena for the old places is never above that of solve(). Hints of the problem lead solve() to
// other layouts than the old places do, and one of these may be lower by luck.
bool ends_no_higher(const problem& p) {
  return hints_come_last(p) &&
         std::none_of(p.buffers.begin(), p.buffers.end(), [](const buffer& b) { return b.hint.has_value(); });
}

// Returns whether keeping the most hints moves the fewest buffers: every buffer is an item of its own, and its offset
// alone says its place.
bool hints_are_places(const problem& p) {
  return hints_come_last(p) &&
         std::none_of(p.buffers.begin(), p.buffers.end(), [](const buffer& b) { return b.alias_group.has_value(); });
}

// The former places as the caller gave them, in the order of the problem.
struct former_places {
  std::vector<std::optional<bytes>> offsets;
  std::vector<index> memory, slab;  // empty: unknown
};

// Returns the former plan, where every buffer that has bytes has a place in it and it is right for this problem too.
std::optional<plan> former_plan(const problem& p, const former_places& before) {
  if (!hints_come_last(p)) return {};
  plan out{.status = status::feasible, .solver = "former"};
  out.offsets.reserve(p.buffers.size());
  for (index i = 0; i < p.buffers.size(); ++i) {
    const bytes at = before.offsets[i].value_or(p.buffers[i].offset.value_or(0));
    if (at > max_address || (!before.offsets[i] && p.footprint(i) != 0)) return {};
    out.offsets.push_back(at);
    out.arena_bytes = std::max(out.arena_bytes, at + p.footprint(i));
  }
  if (verify(p, out)) return {};
  return out;
}

// Makes room for what has no place any more among the former places, by ejection chains below the limit.
std::optional<plan> repaired(const problem& p, const former_places& before, bytes limit, const patience& wait) {
  if (!hints_are_places(p)) return {};
  const instance in = make_instance(p, wait);
  if (!in.representable || wait.was_over()) return {};
  const auto target = static_cast<units>(limit / in.unit);
  std::vector<std::uint32_t> items(in.items.size());
  std::vector<index> buffer_of(in.items.size());
  std::iota(items.begin(), items.end(), 0U);
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (in.item_of[i] != no_item) buffer_of[in.item_of[i]] = i;
  }
  std::stable_sort(items.begin(), items.end(), [&](auto a, auto b) { return in.items[a].size > in.items[b].size; });
  occupancy taken{in};
  // Items without a free place begin above the limit, so that the chains place them.
  layout l{.offsets = std::vector<units>(in.items.size(), target)};
  for (const std::uint32_t i : items) {
    const auto& at = before.offsets[buffer_of[i]];
    if (in.items[i].pin != no_offset) return {};
    if (!at || *at % in.unit != 0 || *at > max_address) continue;
    const auto place = static_cast<units>(*at / in.unit);
    if (place % in.items[i].alignment != 0 || !taken.is_free(i, place)) continue;
    taken.insert(i, place);
    l.offsets[i] = place;
  }
  if (!eject_around(in, {}, l, target, policy::repair_ejections, wait)) return {};
  plan out{.status = status::feasible, .solver = "repaired"};
  for (index i = 0; i < p.buffers.size(); ++i) {
    const bool empty = in.item_of[i] == no_item;
    out.offsets.push_back(empty ? p.buffers[i].offset.value_or(before.offsets[i].value_or(0))
                                : static_cast<bytes>(l.offsets[in.item_of[i]]) * in.unit);
    out.arena_bytes = std::max(out.arena_bytes, out.offsets[i] + p.footprint(i));
  }
  if (out.arena_bytes > limit || verify(p, out)) return {};
  return out;
}

void count_moved(const problem& p, const former_places& before, replanned& out) {
  out.moved = 0;
  out.moved_bytes = 0;
  const plan& now = out.layout;
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (!before.offsets[i] || p.footprint(i) == 0) continue;
    const bool elsewhere = (!before.memory.empty() && !now.memory_of.empty() && before.memory[i] != now.memory_of[i]) ||
                           (!before.slab.empty() && !now.slab_of.empty() && before.slab[i] != now.slab_of[i]);
    if (!elsewhere && now.offset(i) == *before.offsets[i]) continue;
    ++out.moved;
    out.moved_bytes += p.buffers[i].size;
  }
}

// Takes the former plan, or the repaired one, where it moves less and its arena is within the tolerance.
void prefer_former(const problem& p, const former_places& before, double tolerance, const patience& wait,
                   replanned& out) {
  plan& now = out.layout;
  const bytes arena = now.arena();
  const bytes limit = arena + static_cast<bytes>(tolerance * static_cast<double>(arena));
  const auto take = [&](std::optional<plan>&& other) {
    if (!other || other->arena() > limit) return;
    replanned candidate{.layout = std::move(*other)};
    count_moved(p, before, candidate);
    if (candidate.moved > out.moved || (candidate.moved == out.moved && candidate.layout.arena() >= now.arena()))
      return;
    candidate.layout.lower_bound_bytes = now.lower_bound();
    candidate.layout.proof = std::move(now.proof);
    candidate.layout.work = now.work;
    candidate.layout.deadline_hit = now.deadline_hit;
    if (candidate.layout.arena() == now.lower_bound()) candidate.layout.status = status::optimal;
    out = std::move(candidate);
  };
  take(former_plan(p, before));
  if (out.moved != 0 && !out.fewest) take(repaired(p, before, limit, wait));
}

result<replanned> replan_in_order(const problem& p, const problem& wished, const former_places& before,
                                  const options& o, double tolerance) {
  replanned out;
  const patience wait{o};
  if (hints_are_places(p)) {
    out.layout = solve_single(wished, o, wait, &out.fewest);
    out.layout.deadline_hit = wait.was_over();
    if (out.layout.has_offsets()) {
      if (const auto broken = verify(p, out.layout)) return error{errc::internal, broken->rule, broken->a};
      // A proof that is more than can be checked may be right all the same.
      if (const auto wrong = verify_bound_within(p, 0, out.layout.proof, bound_patience(p)))
        return error{errc::internal, wrong->rule, wrong->a.value_or(0)};
    }
  } else {
    auto answer = solve_within(wished, o, wait);
    if (!answer) return answer.error();
    out.layout = std::move(*answer);
  }
  if (!out.layout.has_offsets() || (!out.layout.optimal() && !ends_no_higher(p))) {
    // The old places may not fit the capacity, may have taken the work that a plan needs or may have led to a larger
    // arena.
    auto answer = solve_within(p, o, wait);
    if (!answer) return answer.error();
    const bool lower = answer->has_offsets() && answer->arena() < out.layout.arena();
    if (!out.layout.has_offsets() || lower) out = {.layout = std::move(*answer)};
  }
  if (!out.layout.has_offsets()) return out;
  count_moved(p, before, out);
  prefer_former(p, before, tolerance, wait, out);
  // The most hints kept need not be the fewest buffers moved if a new buffer has a hint of its own.
  for (index i = 0; i < p.buffers.size(); ++i) {
    out.fewest = out.fewest && (before.offsets[i] || !p.buffers[i].hint);
  }
  if (out.moved == 0) out.fewest = true;
  return out;
}

}  // namespace

result<replanned> replan(const problem& p, std::span<const std::optional<bytes>> before, const options& o,
                         std::span<const index> before_memory, std::span<const index> before_slab, double tolerance) {
  const std::size_t n = p.buffers.size();
  if (before.size() != n || (!before_memory.empty() && before_memory.size() != n) ||
      (!before_slab.empty() && before_slab.size() != n)) {
    return error{errc::invalid_input, "problem: not one old offset a buffer", before.size()};
  }
  if (!(tolerance >= 0 && tolerance <= 1)) {
    return error{errc::invalid_input, "problem: the tolerance is not a number from 0 to 1", 0};
  }
  problem wished = p;
  for (index i = 0; i < n; ++i) {
    if (before[i]) wished.buffers[i].hint = *before[i] <= max_address ? before[i] : std::nullopt;
  }
  if (auto ok = validate(wished); !ok) return ok.error();
  former_places places{{before.begin(), before.end()},
                       {before_memory.begin(), before_memory.end()},
                       {before_slab.begin(), before_slab.end()}};
  const auto other = in_canonical_order(wished);
  if (!other) return replan_in_order(p, wished, places, o, tolerance);
  // The old places take part in the order, so that they do not depend on the caller's either.
  problem in_order = other->in_order;
  former_places in_place;
  for (index k = 0; k < n; ++k) {
    const index i = other->given[k];
    in_order.buffers[k].hint = p.buffers[i].hint;
    in_place.offsets.push_back(places.offsets[i]);
    if (!places.memory.empty()) in_place.memory.push_back(places.memory[i]);
    if (!places.slab.empty()) in_place.slab.push_back(places.slab[i]);
  }
  auto found = replan_in_order(in_order, other->in_order, in_place, o, tolerance);
  if (!found) {
    const auto at = found.error().number;
    return error{found.error().code, found.error().what, at < n ? other->given[at] : at};
  }
  to_given_order(*other, found->layout);
  return found;
}

}  // namespace berth::plan

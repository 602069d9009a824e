#include "plan/wishes/replan.hpp"

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
  if (verify_within(p, out, {})) return {};
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
  if (out.arena_bytes > limit || verify_within(p, out, {})) return {};
  return out;
}

void count_moved(const problem& p, const former_places& before, plan& now) {
  now.moved = 0;
  now.moved_bytes = 0;
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (!before.offsets[i] || p.footprint(i) == 0) continue;
    const bool elsewhere =
        (!before.memory_of.empty() && !now.memory_of.empty() && before.memory_of[i] != now.memory_of[i]) ||
        (!before.slab_of.empty() && !now.slab_of.empty() && before.slab_of[i] != now.slab_of[i]);
    if (!elsewhere && now.offset(i) == *before.offsets[i]) continue;
    ++now.moved;
    now.moved_bytes += p.buffers[i].size;
  }
}

// Takes the former plan, or the repaired one, where it moves less and its arena is within the tolerance.
void prefer_former(const problem& p, const former_places& before, const patience& wait, plan& now) {
  const bytes arena = now.arena();
  const bytes limit = arena + static_cast<bytes>(before.tolerance * static_cast<double>(arena));
  const auto take = [&](std::optional<plan>&& other) {
    if (!other || other->arena() > limit) return;
    count_moved(p, before, *other);
    if (other->moved > now.moved || (other->moved == now.moved && other->arena() >= now.arena())) return;
    other->lower_bound_bytes = now.lower_bound();
    other->proof = std::move(now.proof);
    other->work = now.work;
    other->deadline_hit = now.deadline_hit;
    if (other->arena() == now.lower_bound()) other->status = status::optimal;
    now = *std::move(other);
  };
  take(former_plan(p, before));
  if (now.moved != 0 && !now.moved_fewest) take(repaired(p, before, limit, wait));
}

result<plan> replan_in_order(const problem& p, const problem& wished, const former_places& before, const options& o,
                             const patience& wait) {
  plan out;
  if (hints_are_places(p)) {
    bool fewest = false;
    out = solve_single(wished, o, wait, &fewest);
    out.moved_fewest = fewest;
    out.deadline_hit = wait.was_over();
    if (out.has_offsets()) {
      if (const auto broken = verify_within(p, out, {})) return error{errc::internal, broken->rule, broken->a};
      // A proof that is more than can be checked may be right all the same.
      if (const auto wrong = verify_bound_within(p, 0, out.proof, bound_patience(p)))
        return error{errc::internal, wrong->rule, wrong->a.value_or(0)};
    }
  } else {
    auto answer = solve_within(wished, o, wait);
    if (!answer) return answer.error();
    out = std::move(*answer);
  }
  if (!out.has_offsets() || (!out.optimal() && !ends_no_higher(p))) {
    // The old places may not fit the capacity, may have taken the work that a plan needs or may have led to a larger
    // arena.
    auto answer = solve_within(p, o, wait);
    if (!answer) return answer.error();
    const bool lower = answer->has_offsets() && answer->arena() < out.arena();
    if (!out.has_offsets() || lower) out = std::move(*answer);
  }
  if (!out.has_offsets()) return out;
  count_moved(p, before, out);
  prefer_former(p, before, wait, out);
  // The most hints kept need not be the fewest buffers moved if a new buffer has a hint of its own.
  for (index i = 0; i < p.buffers.size(); ++i) {
    out.moved_fewest = out.moved_fewest && (before.offsets[i] || !p.buffers[i].hint);
  }
  if (out.moved == 0) out.moved_fewest = true;
  return out;
}

}  // namespace

result<plan> replan(const problem& p, const former_places& before, const options& o, const patience& wait) {
  const std::size_t n = p.buffers.size();
  if (before.offsets.size() != n || (!before.memory_of.empty() && before.memory_of.size() != n) ||
      (!before.slab_of.empty() && before.slab_of.size() != n)) {
    return error{errc::invalid_input, "problem: not one old offset a buffer", before.offsets.size()};
  }
  if (!(before.tolerance >= 0 && before.tolerance <= 1)) {
    return error{errc::invalid_input, "problem: the tolerance is not a number from 0 to 1", 0};
  }
  problem wished = p;
  for (index i = 0; i < n; ++i) {
    const auto& at = before.offsets[i];
    if (at) wished.buffers[i].hint = *at <= max_address ? at : std::nullopt;
  }
  if (auto ok = validate(wished); !ok) return ok.error();
  const auto other = in_canonical_order(wished);
  if (!other) return replan_in_order(p, wished, before, o, wait);
  // The old places take part in the order, so that they do not depend on the caller's either.
  problem in_order = other->in_order;
  former_places in_place{.tolerance = before.tolerance};
  for (index k = 0; k < n; ++k) {
    const index i = other->given[k];
    in_order.buffers[k].hint = p.buffers[i].hint;
    in_place.offsets.push_back(before.offsets[i]);
    if (!before.memory_of.empty()) in_place.memory_of.push_back(before.memory_of[i]);
    if (!before.slab_of.empty()) in_place.slab_of.push_back(before.slab_of[i]);
  }
  auto found = replan_in_order(in_order, other->in_order, in_place, o, wait);
  if (!found) {
    const auto at = found.error().number;
    return error{found.error().code, found.error().what, at < n ? other->given[at] : at};
  }
  to_given_order(*other, *found);
  return found;
}

}  // namespace berth::plan

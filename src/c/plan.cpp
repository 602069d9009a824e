// The planner's C face: structs in, handles checked, berth/plan called, statuses out.
#include "berth/plan.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <thread>

#include "berth/plan/evaluate.hpp"
#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "c/handles.hpp"
#include "c/solve_options.hpp"
#include "c/status.hpp"
#include "core/make_room.hpp"

namespace {

using berth::c::fail;
using berth::c::no_memory;
using berth::c::no_such;
using berth::c::options_of;
using berth::c::read;
using berth::c::report;
using berth::c::succeed;
using berth::plan::index;

struct held_problem {
  std::mutex lock;
  berth::plan::problem problem;
};

struct held_plan {
  berth::plan::plan plan;
  std::size_t places = 0;  // buffers or stays
};

berth::c::handles<held_problem>& problems() {
  static berth::c::never_destroyed<berth::c::handles<held_problem>> all{1};
  return all.value;
}
berth::c::handles<held_plan>& plans() {
  static berth::c::never_destroyed<berth::c::handles<held_plan>> all{2};
  return all.value;
}

// --- problems

// Calls change(problem) with the lock held. A change that runs out of memory leaves the problem as it was.
template <class Change>
berth_status change(berth_problem* handle, Change what) {
  const auto held = problems().find(handle);
  if (held == nullptr) return no_such(handle, "problem");
  BERTH_TRY {
    const std::lock_guard lock{held->lock};
    return what(held->problem);
  }
  BERTH_CATCH_BAD_ALLOC(return no_memory())
}

// Calls change(buffer) in the same way.
template <class Change>
berth_status change_buffer(berth_problem* handle, index number, Change what) {
  return change(handle, [&](berth::plan::problem& p) {
    if (number >= p.buffers.size()) return fail(BERTH_INVALID, "buffer: there is no such one");
    return what(p.buffers[number]);
  });
}

bool has_room(const berth::plan::problem& p, std::size_t count) noexcept {
  return count <= std::numeric_limits<index>::max() - 1 - p.buffers.size();
}

berth_status append_pairs(std::vector<berth::plan::pair>& to, const std::uint32_t (*pairs)[2], std::size_t count) {
  if (pairs == nullptr && count != 0) return fail(BERTH_INVALID, "pairs: null");
  if (count > to.max_size() - to.size()) return fail(BERTH_INVALID, "pairs: too many");
  berth::detail::make_room(to, count);
  for (std::size_t i = 0; i < count; ++i) to.push_back({pairs[i][0], pairs[i][1]});
  return succeed();
}

berth::plan::buffer buffer_of(const berth_buffer& b) {
  berth::plan::buffer out;
  out.size = b.size;
  out.live = {b.lower, b.upper};
  if (b.lifetimes != nullptr) {
    for (std::size_t i = 0; i < b.lifetime_count; ++i) {
      out.lifetimes.push_back({b.lifetimes[i].lower, b.lifetimes[i].upper});
    }
  }
  out.alignment = b.alignment;
  if ((b.fields & BERTH_HAS_OFFSET) != 0) out.offset = b.offset;
  if ((b.fields & BERTH_HAS_HINT) != 0) out.hint = b.hint;
  // A number that does not fit becomes one that validate() refuses.
  constexpr std::uint64_t most = std::numeric_limits<index>::max();
  if ((b.fields & BERTH_HAS_ALIAS_GROUP) != 0) out.alias_group = static_cast<index>(std::min(b.alias_group, most));
  if (b.memories != nullptr) out.memories.assign(b.memories, b.memories + b.memory_count);
  return out;
}

// --- solving

// Runs work(options) in a thread of its own while this one calls back. A callback of a language with a lock is thus
// called by the thread that called in. False if there is no thread.
template <class Work>
bool watched(const berth_solve_options& in, berth::plan::options o, Work work) {
  berth::plan::progress seen;
  std::atomic<bool> stop{false};
  o.watch = &seen;
  o.stop = &stop;
  std::mutex lock;
  std::condition_variable ended;
  bool done = false;
  std::thread worker;
  const auto body = [&] {
    work(o);
    const std::lock_guard held{lock};
    done = true;
    ended.notify_one();
  };
#if defined(__cpp_exceptions)
  try {
    worker = std::thread{body};
  } catch (const std::exception&) {
    return false;
  }
#else
  worker = std::thread{body};
#endif
  {
    std::unique_lock held{lock};
    while (!ended.wait_for(held, std::chrono::milliseconds{10}, [&] { return done; })) {
      held.unlock();
      if (!stop.load(std::memory_order_relaxed) && in.progress(in.context, seen.arena.load(std::memory_order_relaxed),
                                                               seen.lower_bound.load(std::memory_order_relaxed),
                                                               seen.work.load(std::memory_order_relaxed)) != 0) {
        stop.store(true, std::memory_order_relaxed);
      }
      held.lock();
    }
  }
  worker.join();
  return true;
}

// Solves a copy of the problem by solver(problem, options), which gives a result<plan>, and makes a handle of the plan.
template <class Solver>
berth_status solve_by(const berth_problem* handle, const berth_solve_options* given, berth_plan** out, Solver solver) {
  if (out == nullptr) return fail(BERTH_INVALID, "berth_plan** out: null");
  const auto held = problems().find(handle);
  if (held == nullptr) return no_such(handle, "problem");
  berth_solve_options in;
  berth::plan::options o;
  if (const auto no = options_of(given, in, o)) return no;
  BERTH_TRY {
    berth::plan::problem p;
    {
      const std::lock_guard lock{held->lock};
      p = held->problem;
    }
    std::optional<berth::result<berth::plan::plan>> answer;
    const auto work = [&](const berth::plan::options& with) {
      BERTH_TRY {
        answer = solver(p, with);
      }
      BERTH_CATCH_BAD_ALLOC(answer = berth::result<berth::plan::plan>{berth::error{berth::errc::out_of_memory}})
    };
    if (in.progress == nullptr) {
      work(o);
    } else if (!watched(in, o, work)) {
      return fail(BERTH_NO_MEMORY, "no thread for the search, which a progress callback needs");
    }
    if (!*answer) return report(answer->error());
    auto made = std::make_shared<held_plan>();
    made->plan = std::move(**answer);
    made->places = made->plan.stays.empty() ? p.buffers.size() : made->plan.stays.size();
    void* const number = plans().add(std::move(made));
    if (number == nullptr) return fail(BERTH_NO_MEMORY, "too many plans are alive");
    *out = static_cast<berth_plan*>(number);
    return succeed();
  }
  BERTH_CATCH_BAD_ALLOC(return no_memory())
}

int32_t outcome_of(const berth::plan::plan& p) noexcept {
  switch (p.status) {
    case berth::plan::status::optimal: return BERTH_OPTIMAL;
    case berth::plan::status::feasible: return BERTH_FEASIBLE;
    case berth::plan::status::infeasible: return BERTH_INFEASIBLE;
    case berth::plan::status::unknown: return BERTH_UNKNOWN;
  }
  return BERTH_UNKNOWN;
}

// Finds the plan whose lists of `count` elements are to be written to `to`.
berth_status find_to_copy(const berth_plan* handle, const void* to, std::size_t count,
                          std::shared_ptr<held_plan>& held) {
  held = plans().find(handle);
  if (held == nullptr) return no_such(handle, "plan");
  if (to == nullptr && count != 0) return fail(BERTH_INVALID, "the array to write to: null");
  if (!held->plan.has_offsets()) return fail(BERTH_NO_OFFSETS, "the plan is infeasible or unknown: no offsets");
  return BERTH_OK;
}

// Writes one number a buffer or stay; all are 0 if the plan has none.
template <class To, class From>
berth_status copy_of(const berth_plan* handle, To* to, std::size_t count, From numbers) {
  std::shared_ptr<held_plan> held;
  if (const auto no = find_to_copy(handle, to, count, held)) return no;
  if (count != held->places)
    return fail(BERTH_INVALID, "count: not the number of the problem's buffers, or of the plan's stays", held->places);
  const auto& from = held->plan.*numbers;
  for (std::size_t i = 0; i < count; ++i) to[i] = from.empty() ? 0 : from[i];
  return succeed();
}

// Writes convert(element) for each element of a list of the plan.
template <class To, class List, class Convert>
berth_status list_of(const berth_plan* handle, To* to, std::size_t count, List list, Convert convert) {
  std::shared_ptr<held_plan> held;
  if (const auto no = find_to_copy(handle, to, count, held)) return no;
  const auto& from = held->plan.*list;
  if (count != from.size()) return fail(BERTH_INVALID, "count: not that of the summary", from.size());
  std::ranges::transform(from, to, convert);
  return succeed();
}

}  // namespace

extern "C" {

const char* berth_error_text(void) {
  return berth::c::last_text();
}

size_t berth_error_index(void) {
  return berth::c::last_index();
}

berth_status berth_problem_create(const berth_problem_options* options, berth_problem** out) {
  if (out == nullptr) return fail(BERTH_INVALID, "berth_problem** out: null");
  berth_problem_options o{};
  if (options != nullptr) {
    if (const auto no = read(options, sizeof o, o, "problem options: wrong struct_size")) return no;
  }
  BERTH_TRY {
    auto made = std::make_shared<held_problem>();
    berth::plan::problem& p = made->problem;
    p.alignment = o.alignment == 0 ? 1 : o.alignment;
    p.granularity = o.granularity == 0 ? 1 : o.granularity;
    p.tail_pad = o.tail_pad;
    if (o.capacity != 0) p.capacity = o.capacity;
    if (o.max_slab != 0) p.max_slab = o.max_slab;
    void* const number = problems().add(std::move(made));
    if (number == nullptr) return fail(BERTH_NO_MEMORY, "too many problems are alive");
    *out = static_cast<berth_problem*>(number);
    return succeed();
  }
  BERTH_CATCH_BAD_ALLOC(return no_memory())
}

void berth_problem_destroy(berth_problem* problem) {
  if (problem != nullptr && !problems().remove(problem)) {
    no_such(problem, "problem");
    return;
  }
  succeed();
}

berth_status berth_problem_add(berth_problem* problem, const berth_buffer* buffer, uint32_t* index) {
  berth_buffer b;
  if (const auto no = read(buffer, sizeof b, b, "buffer: null, or wrong struct_size")) return no;
  if ((b.fields & ~std::uint64_t{7}) != 0) return fail(BERTH_NEWER_CALLER, "buffer: unknown bits in fields");
  if ((b.lifetimes == nullptr && b.lifetime_count != 0) || (b.memories == nullptr && b.memory_count != 0)) {
    return fail(BERTH_INVALID, "buffer: a count without an array");
  }
  constexpr std::size_t most = std::min<std::size_t>(std::numeric_limits<std::uint32_t>::max(), PTRDIFF_MAX / 4);
  if (b.memory_count > most) return fail(BERTH_INVALID, "buffer: too many memories");
  return change(problem, [&](berth::plan::problem& p) {
    if (!has_room(p, 1)) return fail(BERTH_INVALID, "buffer: too many");
    const auto at = p.add(buffer_of(b));
    if (index != nullptr) *index = at;
    return succeed();
  });
}

berth_status berth_problem_add_many(berth_problem* problem, size_t count, const uint64_t* size, const int64_t* lower,
                                    const int64_t* upper) {
  if (count != 0 && (size == nullptr || lower == nullptr || upper == nullptr)) {
    return fail(BERTH_INVALID, "an array: null");
  }
  return change(problem, [&](berth::plan::problem& p) {
    if (!has_room(p, count)) return fail(BERTH_INVALID, "buffer: too many");
    berth::detail::make_room(p.buffers, count);
    for (std::size_t i = 0; i < count; ++i) p.add({.size = size[i], .live = {lower[i], upper[i]}});
    return succeed();
  });
}

berth_status berth_problem_add_memory(berth_problem* problem, const berth_memory* memory, uint32_t* index) {
  berth_memory m;
  if (const auto no = read(memory, sizeof m, m, "memory: null, or wrong struct_size")) return no;
  if (m.reserved == nullptr && m.reserved_count != 0) return fail(BERTH_INVALID, "memory: a count without an array");
  return change(problem, [&](berth::plan::problem& p) {
    if (p.capacity) return fail(BERTH_INVALID, "memory: the problem's options gave a capacity to its one memory");
    berth::plan::memory made;
    if (m.capacity != 0) made.capacity = m.capacity;
    made.alignment = m.alignment == 0 ? 1 : m.alignment;
    made.cost = m.cost;
    for (std::size_t i = 0; i < m.reserved_count; ++i) {
      made.reserved.emplace_back(m.reserved[2 * i], m.reserved[2 * i + 1]);
    }
    p.memories.push_back(std::move(made));
    if (index != nullptr) *index = static_cast<std::uint32_t>(p.memories.size() - 1);
    return succeed();
  });
}

berth_status berth_problem_add_conflicts(berth_problem* problem, const uint32_t (*pairs)[2], size_t count) {
  return change(problem, [&](berth::plan::problem& p) {
    std::vector<berth::plan::pair> all = p.conflicts ? *p.conflicts : std::vector<berth::plan::pair>{};
    if (const auto no = append_pairs(all, pairs, count)) return no;
    p.conflicts = std::move(all);
    return succeed();
  });
}

berth_status berth_problem_add_separations(berth_problem* problem, const uint32_t (*pairs)[2], size_t count) {
  return change(problem, [&](berth::plan::problem& p) { return append_pairs(p.separations, pairs, count); });
}

berth_status berth_problem_add_reuse_penalty(berth_problem* problem, uint32_t a, uint32_t b, double weight) {
  return change(problem, [&](berth::plan::problem& p) {
    p.reuse_penalties.push_back({a, b, weight});
    return succeed();
  });
}

berth_status berth_problem_add_dimension(berth_problem* problem, uint64_t least, uint64_t most, uint32_t* index) {
  return change(problem, [&](berth::plan::problem& p) {
    p.dimensions.push_back({.least = least, .most = most});
    if (index != nullptr) *index = static_cast<std::uint32_t>(p.dimensions.size() - 1);
    return succeed();
  });
}

berth_status berth_problem_set_size(berth_problem* problem, uint32_t buffer, const berth_size_term* terms,
                                    size_t count) {
  if (terms == nullptr && count != 0) return fail(BERTH_INVALID, "terms: null");
  return change(problem, [&](berth::plan::problem& p) {
    if (buffer >= p.buffers.size()) return fail(BERTH_INVALID, "buffer: there is no such one");
    if (count == 0) return fail(BERTH_INVALID, "terms: none");
    std::vector<berth::plan::size_term> sum;
    for (const berth_size_term& t : std::span{terms, count}) {
      if (t.dimensions == nullptr && t.dimension_count != 0)
        return fail(BERTH_INVALID, "term: a count without an array");
      for (const std::uint32_t d : std::span{t.dimensions, t.dimension_count}) {
        if (d >= p.dimensions.size()) return fail(BERTH_INVALID, "term: there is no such dimension", d);
      }
      sum.push_back({.factor = t.factor, .dimensions = {t.dimensions, t.dimensions + t.dimension_count}});
    }
    p.buffers[buffer].terms = std::move(sum);
    return succeed();
  });
}

berth_status berth_problem_add_uses(berth_problem* problem, uint32_t buffer, const berth_use* uses, size_t count) {
  if (uses == nullptr && count != 0) return fail(BERTH_INVALID, "uses: null");
  return change_buffer(problem, buffer, [&](berth::plan::buffer& b) {
    berth::detail::make_room(b.uses, count);
    for (const berth_use& u : std::span{uses, count}) {
      b.uses.push_back({.at = u.at, .touched = u.touched, .write = u.write != 0});
      if (u.memory != BERTH_ANY_MEMORY) b.uses.back().memory = u.memory;
    }
    return succeed();
  });
}

berth_status berth_problem_add_step(berth_problem* problem, int64_t at, double duration) {
  return change(problem, [&](berth::plan::problem& p) {
    p.steps.push_back({at, duration});
    return succeed();
  });
}

berth_status berth_problem_add_link(berth_problem* problem, uint32_t from, uint32_t to, double bandwidth,
                                    double latency) {
  return change(problem, [&](berth::plan::problem& p) {
    p.links.push_back({from, to, bandwidth, latency});
    return succeed();
  });
}

berth_status berth_problem_validate(const berth_problem* problem) {
  return change(const_cast<berth_problem*>(problem), [](const berth::plan::problem& p) {
    const auto ok = validate(p);
    return ok ? succeed() : report(ok.error());
  });
}

berth_status berth_solve(const berth_problem* problem, const berth_solve_options* options, berth_plan** out) {
  return solve_by(problem, options, out,
                  [](const berth::plan::problem& p, const berth::plan::options& o) { return solve(p, o); });
}

berth_status berth_replan(const berth_problem* problem, const berth_solve_options* options, const uint64_t* before,
                          size_t count, berth_plan** out, size_t* moved) {
  if (before == nullptr && count != 0) return fail(BERTH_INVALID, "before: null");
  return solve_by(
      problem, options, out,
      [&](const berth::plan::problem& p, const berth::plan::options& o) -> berth::result<berth::plan::plan> {
        if (count != p.buffers.size()) {
          return berth::error{berth::errc::invalid_input, "before: not one offset a buffer", count};
        }
        berth::plan::former_places former;
        former.offsets.resize(count);
        for (std::size_t i = 0; i < count; ++i) {
          if (before[i] != BERTH_NEW_BUFFER) former.offsets[i] = before[i];
        }
        berth::plan::options keeping = o;
        keeping.former = &former;
        auto answer = solve(p, keeping);
        if (answer && moved != nullptr) *moved = answer->moved;
        return answer;
      });
}

void berth_plan_destroy(berth_plan* plan) {
  if (plan != nullptr && !plans().remove(plan)) {
    no_such(plan, "plan");
    return;
  }
  succeed();
}

berth_status berth_plan_summarize(const berth_plan* plan, berth_plan_summary* summary) {
  const auto held = plans().find(plan);
  if (held == nullptr) return no_such(plan, "plan");
  const berth::plan::plan& p = held->plan;
  berth_plan_summary s{};
  s.outcome = outcome_of(p);
  s.deadline_hit = p.deadline_hit ? 1 : 0;
  s.arena = p.arena();
  s.lower_bound = p.lower_bound();
  s.work = p.work;
  s.reuse_penalty = p.reuse_penalty;
  // Texts are static and end with a zero.
  s.solver = p.solver.empty() ? "" : p.solver.data();
  s.reason = p.reason.empty() ? "" : p.reason.data();
  s.culprit = p.culprit;
  s.number = p.number;
  s.cost = p.cost;
  s.cost_bound = p.cost_bound;
  s.access = p.access;
  s.stall = p.stall;
  s.copied = p.copied;
  s.stays = p.stays.size();
  s.moves = p.moves.size();
  return berth::c::write(s, sizeof s, summary, "summary: null, or wrong struct_size");
}

berth_status berth_plan_offsets(const berth_plan* plan, uint64_t* offsets, size_t count) {
  return copy_of(plan, offsets, count, &berth::plan::plan::offsets);
}

berth_status berth_plan_memories(const berth_plan* plan, uint32_t* memories, size_t count) {
  return copy_of(plan, memories, count, &berth::plan::plan::memory_of);
}

berth_status berth_plan_slabs(const berth_plan* plan, uint32_t* slabs, size_t count) {
  return copy_of(plan, slabs, count, &berth::plan::plan::slab_of);
}

berth_status berth_plan_evaluate(const berth_plan* plan, const berth_problem* problem, const uint64_t* values,
                                 size_t value_count, uint64_t* offsets, size_t count, uint64_t* arena) {
  const auto held = plans().find(plan);
  if (held == nullptr) return no_such(plan, "plan");
  if ((values == nullptr && value_count != 0) || (offsets == nullptr && count != 0) || arena == nullptr) {
    return fail(BERTH_INVALID, "values, offsets or arena: null");
  }
  return change(const_cast<berth_problem*>(problem), [&](const berth::plan::problem& p) {
    if (p.dimensions.empty() || held->plan.order.size() != p.buffers.size()) {
      return fail(BERTH_INVALID, "plan: not of this problem with dimensions");
    }
    const auto found = evaluate(p, held->plan, {values, value_count}, {offsets, count});
    if (!found) return report(found.error());
    *arena = *found;
    return succeed();
  });
}

berth_status berth_plan_stays(const berth_plan* plan, berth_stay* stays, size_t count) {
  return list_of(plan, stays, count, &berth::plan::plan::stays, [](const berth::plan::stay& s) {
    return berth_stay{s.buffer, s.memory, s.live.lower, s.live.upper, s.ready};
  });
}

berth_status berth_plan_moves(const berth_plan* plan, berth_move* moves, size_t count) {
  return list_of(plan, moves, count, &berth::plan::plan::moves, [](const berth::plan::move& m) {
    return berth_move{m.from, m.to, m.during.lower, m.during.upper, m.begin, m.done};
  });
}

berth_status berth_verify(const berth_problem* problem, const uint64_t* offsets, const uint32_t* memories,
                          const uint32_t* slabs, size_t count) {
  return change(const_cast<berth_problem*>(problem), [&](const berth::plan::problem& p) {
    if (auto ok = validate(p); !ok) return report(ok.error());
    if (p.has_traffic()) return fail(BERTH_INVALID, "problem: has uses, steps or links; its plans have stays");
    if (count != p.buffers.size() || (offsets == nullptr && count != 0)) {
      return fail(BERTH_INVALID, "offsets: null, or not one a buffer");
    }
    if (memories == nullptr && count != 0 && p.memories.size() > 1)
      return fail(BERTH_INVALID, "memories: null, and there are several");
    if (slabs == nullptr && count != 0 && p.max_slab)
      return fail(BERTH_INVALID, "slabs: null, and the problem has them");
    berth::plan::plan claimed;
    claimed.status = berth::plan::status::feasible;
    claimed.offsets.assign(offsets, offsets + count);
    if (memories != nullptr) claimed.memory_of.assign(memories, memories + count);
    if (slabs != nullptr) claimed.slab_of.assign(slabs, slabs + count);
    const auto broken = verify_places(p, claimed);
    return broken ? fail(BERTH_REFUSED, broken->rule, broken->a) : succeed();
  });
}

berth_status berth_plan_check_bound(const berth_plan* plan, const berth_problem* problem) {
  const auto held = plans().find(plan);
  if (held == nullptr) return no_such(plan, "plan");
  return change(const_cast<berth_problem*>(problem), [&](const berth::plan::problem& p) {
    if (auto ok = validate(p); !ok) return report(ok.error());
    const berth::plan::plan& answer = held->plan;
    const bool same = std::ranges::all_of(answer.stays, [&p](const berth::plan::stay& s) {
      return s.buffer < p.buffers.size() && s.memory < p.memories.size();
    });
    if (!same) return fail(BERTH_INVALID, "plan: of another problem");
    const auto wrong = answer.stays.empty()
                           ? verify_bound(p, answer.lower_bound(), answer.proof)
                           : verify_bound(problem_of_stays(p, answer.stays), answer.lower_bound(), answer.proof);
    return wrong ? fail(BERTH_REFUSED, wrong->rule, wrong->a.value_or(0)) : succeed();
  });
}

}  // extern "C"

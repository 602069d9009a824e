#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "berth/plan/certificate.hpp"
#include "berth/plan/verify.hpp"
#include "model/packed.hpp"

namespace berth::model {

namespace {

// Returns whether each buffer lies in the cheapest of its memories. The memories' costs count or, if none has any, the
// order of the buffer's list. Then no plan is cheaper.
bool is_cheapest(const plan::problem& p, const plan::plan& answer) {
  const auto count = static_cast<plan::index>(p.memories.size());
  if (count <= 1) return true;
  const bool priced = std::ranges::any_of(p.memories, [](const plan::memory& m) { return m.cost > 0; });
  for (plan::index i = 0; i < p.buffers.size(); ++i) {
    const std::vector<plan::index>& own = p.buffers[i].memories;  // empty: all
    const plan::index chosen = answer.memory_of[i];
    if (!priced && chosen != (own.empty() ? 0 : own.front())) return false;
    for (plan::index m = 0; priced && m < count; ++m) {
      const bool may_lie_there = own.empty() || std::ranges::find(own, m) != own.end();
      if (may_lie_there && p.memories[m].cost < p.memories[chosen].cost) return false;
    }
  }
  return true;
}

// Returns whether the plan pays no reuse penalty at all. Returns false too for weights within the error that verify()
// allows a sum.
bool pays_nothing(const plan::problem& p, const plan::plan& answer) {
  constexpr double least_weight = 1e-6;
  return answer.reuse_penalty == 0 && std::ranges::none_of(p.reuse_penalties, [](const plan::reuse_penalty& r) {
           return r.weight > 0 && r.weight < least_weight;
         });
}

// Returns whether the arguments that `about` picks prove that more than `capacity` bytes are needed.
template <class About>
bool proves_more_than(const plan::problem& p, const plan::plan& answer, bytes capacity, About about) {
  plan::certificate some;
  std::ranges::copy_if(answer.proof, std::back_inserter(some), about);
  return !some.empty() && capacity < max_bytes && !plan::verify_bound(p, capacity + 1, some);
}

}  // namespace

bool is_refuted(const plan::problem& p, const plan::plan& answer) {
  const auto about_all = [](const plan::argument& g) { return !g.memory; };
  if (p.memories.empty()) return proves_more_than(p, answer, p.capacity.value_or(plan::max_address), about_all);
  std::optional<bytes> all = 0;
  for (plan::index m = 0; m < p.memories.size(); ++m) {
    const bytes capacity = p.memories[m].capacity.value_or(plan::max_address);
    if (proves_more_than(p, answer, capacity, [m](const plan::argument& g) { return g.memory == m; })) return true;
    if (all) all = checked_add(*all, capacity);
  }
  return all && proves_more_than(p, answer, *all, about_all);
}

bool judge(const problem_file& file, const plan::plan& answer, bool prove) {
  const plan::problem& p = file.problem;
  require_valid(file);
  if (answer.has_offsets()) {
    if (const auto broken = plan::verify(p, answer)) throw packed_error{std::string{"packed plan: "} + broken->rule};
    if (answer.optimal() != (answer.arena() == answer.lower_bound())) return false;
  }
  // For other values and for the cost there is no certificate.
  if (!prove || !p.dimensions.empty() || p.has_traffic()) return false;
  if (answer.deadline_hit) return false;
  if (!answer.has_offsets()) return answer.status == plan::status::infeasible && is_refuted(p, answer);
  if (!answer.optimal() || !pays_nothing(p, answer) || !is_cheapest(p, answer)) return false;
  if (std::ranges::any_of(p.buffers, [](const plan::buffer& b) { return b.hint.has_value(); })) return false;
  return !plan::verify_bound(p, answer.lower_bound(), answer.proof);
}

}  // namespace berth::model

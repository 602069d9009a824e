#include <algorithm>

#include "berth/plan/certificate.hpp"
#include "berth/plan/verify.hpp"
#include "python/packed.hpp"

namespace berth::python {

void require_whole(const solved& plan) {
  model::require_valid(*plan.file);
  if (plan.answer.has_offsets() && arena_taken(plan) != plan.answer.arena()) {
    refuse("packed plan: its arena is not what its offsets take");
  }
}

bool judge(const solved& plan, bool prove) {
  const plan::problem& p = plan.file->problem;
  const plan::plan& answer = plan.answer;
  model::require_valid(*plan.file);
  if (answer.has_offsets()) {
    if (const auto broken = plan::verify(p, answer)) refuse(std::string{"packed plan: "} + broken->rule);
    if (answer.optimal() != (answer.arena() == answer.lower_bound())) return false;
  }
  if (!prove) return false;
  const bool best = answer.has_offsets() ? answer.optimal()
                                         : answer.status == plan::status::infeasible && p.memories.empty() &&
                                               p.capacity && answer.lower_bound() > *p.capacity;
  if (!best || answer.deadline_hit || p.memories.size() > 1 || !p.reuse_penalties.empty()) return false;
  if (std::ranges::any_of(p.buffers, [](const plan::buffer& b) { return b.hint.has_value(); })) return false;
  return !plan::verify_bound(p, answer.lower_bound(), answer.proof);
}

}  // namespace berth::python

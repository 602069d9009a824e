#include "berth/plan/tiers.hpp"

#include <cmath>

#include "berth/core/contract.hpp"
#include "berth/plan/verify.hpp"
#include "plan/memories/memories.hpp"
#include "plan/reuse.hpp"

namespace berth::plan {

result<tier_plan> solve_tiers(const problem& p, std::span<const double> touched, const options& o) {
  if (auto ok = validate(p); !ok) return ok.error();
  if (p.memories.empty()) return error{errc::invalid_input, "problem: tiers without memories", 0};
  if (touched.size() != p.buffers.size()) {
    return error{errc::invalid_input, "problem: not one number of touched bytes a buffer", touched.size()};
  }
  for (index i = 0; i < touched.size(); ++i) {
    if (!std::isfinite(touched[i]) || touched[i] < 0) {
      return error{errc::invalid_input, "buffer: touched bytes are not a number >= 0", i};
    }
  }
  const std::vector<unit> units = units_of(p);
  std::vector<std::vector<double>> cost(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    double bytes_touched = 0;
    for (const index i : units[u].members) bytes_touched += touched[i];
    for (const index m : units[u].memories) cost[u].push_back(bytes_touched * p.memories[m].cost);
  }
  memories_plan found = solve_memories(p, units, cost, o);
  if (found.layout.status == status::unknown && o.work == effort::fast) {
    options patient = o;
    patient.work = effort::normal;
    found = solve_memories(p, units, cost, patient);
  }
  tier_plan answer{.layout = std::move(found.layout), .cost = found.cost, .least = found.least};
  if (!answer.layout.has_offsets()) return answer;
  if (!p.reuse_penalties.empty()) lower_reuse_penalty(p, o, answer.layout);
  if (const auto broken = verify(p, answer.layout)) expects(false, broken->rule);
  return answer;
}

}  // namespace berth::plan

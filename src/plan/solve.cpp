// The order of the work: validate; choose each unit's memory; place each memory (cut into slabs where asked) with the
// engine of one memory; spend what freedom is left on the reuse penalties; verify.
#include "berth/plan/solve.hpp"

#include <algorithm>

#include "berth/core/contract.hpp"
#include "berth/plan/verify.hpp"
#include "plan/memories/memories.hpp"
#include "plan/remaining.hpp"
#include "plan/reuse.hpp"

namespace berth::plan {
namespace {

// What unit u costs in each of its memories: its bytes times the memory's cost; where no memory has a cost, its bytes
// times the memory's place in the order of preference.
std::vector<std::vector<double>> costs_of(const problem& p, const std::vector<unit>& units) {
  const bool priced = std::any_of(p.memories.begin(), p.memories.end(), [](const memory& m) { return m.cost > 0; });
  std::vector<std::vector<double>> cost(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (std::size_t k = 0; k < units[u].memories.size(); ++k) {
      const double each = priced ? p.memories[units[u].memories[k]].cost : static_cast<double>(k);
      cost[u].push_back(each * static_cast<double>(units[u].total));
    }
  }
  return cost;
}

plan without_penalties(const problem& p, const options& o) {
  if (p.memories.size() <= 1) return solve_one_memory(p, p.max_slab, o);
  const std::vector<unit> units = units_of(p);
  return solve_memories(p, units, costs_of(p, units), o).layout;
}

}  // namespace

result<plan> solve(const problem& p, const options& o) {
  if (auto ok = validate(p); !ok) return ok.error();
  const remaining left{o};
  plan answer = without_penalties(p, o);
  if (answer.status == status::unknown && o.work == effort::fast) {
    options patient = left.now();
    patient.work = effort::normal;
    answer = without_penalties(p, patient);
  }
  if (!answer.has_offsets()) return answer;
  if (!p.reuse_penalties.empty()) lower_reuse_penalty(p, left.now(), answer);
  if (const auto broken = verify(p, answer)) expects(false, broken->rule);
  if (const auto wrong = check_bound(p, 0, answer.proof)) expects(false, wrong->rule);
  return answer;
}

}  // namespace berth::plan

#include "berth/plan/solve.hpp"

#include "berth/core/contract.hpp"
#include "berth/plan/verify.hpp"
#include "plan/single.hpp"

namespace berth::plan {

result<plan> solve(const problem& p, const options& o) {
  if (auto ok = validate(p); !ok) return ok.error();
  if (p.memories.size() > 1 || p.max_slab) {
    return error{errc::unsupported, "problem: several memories or slabs", p.memories.size()};
  }
  plan answer = solve_single(p, o);
  if (answer.has_offsets()) expects(!verify(p, answer), "solve: the plan breaks a rule of its problem");
  return answer;
}

}  // namespace berth::plan

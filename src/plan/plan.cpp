#include "berth/plan/plan.hpp"

namespace berth::plan {

const char* name(enum status s) noexcept {
  switch (s) {
    case status::optimal: return "optimal";
    case status::feasible: return "feasible";
    case status::infeasible: return "infeasible";
    case status::unknown: return "unknown";
  }
  return "unknown";
}

}  // namespace berth::plan

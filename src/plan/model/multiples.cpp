#include "plan/model/multiples.hpp"

#include <algorithm>
#include <map>

#include "plan/policy.hpp"

namespace berth::plan {

std::vector<units> steps_of(const instance& in) {
  std::map<units, std::uint32_t> count;
  for (std::uint32_t i = 0; i < in.own_items; ++i) {
    if (in.items[i].pin == no_offset && in.items[i].alignment > 1) ++count[in.items[i].alignment];
  }
  std::vector<units> steps;
  for (const auto& [alignment, many] : count) steps.push_back(alignment);
  std::stable_sort(steps.begin(), steps.end(), [&](units a, units b) { return count[a] > count[b]; });
  steps.resize(std::min(steps.size(), policy::most_steps));
  return steps;
}

}  // namespace berth::plan

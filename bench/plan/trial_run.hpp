// Techniques that are switched off by name, in a program built with BERTH_PLAN_TRIAL; else there are none.
#pragma once

#include <string>
#include <vector>

namespace berth_bench {

// Returns names such as "folding", or "recipe:3" if there are several. Lists each kind of a technique with kinds.
[[nodiscard]] std::vector<std::string> technique_names();

// Returns false if there is no such technique.
[[nodiscard]] bool switch_off(const std::string& name);
void switch_all_on();

}  // namespace berth_bench

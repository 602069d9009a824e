// Techniques switched off by their names: of a program that was built with BERTH_PLAN_TRIAL; else there are none.
#pragma once

#include <string>
#include <vector>

namespace berth_bench {

// "folding"; "recipe:3" where there are several. A technique of several kinds has each of them in the list.
[[nodiscard]] std::vector<std::string> technique_names();

// False: there is no such technique.
[[nodiscard]] bool switch_off(const std::string& name);
void switch_all_on();

}  // namespace berth_bench

#include "plan/trial_run.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "plan/search/recipes.hpp"
#include "plan/trial.hpp"

namespace {

using berth::plan::technique;

struct named {
  const char* name;
  technique what;
  std::size_t kinds = 0;  // 0: it is one
};

// Also compiled without switches: an outdated technique is an error in every build.
constexpr std::array names{
    named{"squeaky_wheel", technique::squeaky_wheel},
    named{"outward", technique::outward},
    named{"cuts", technique::cuts},
    named{"ejections", technique::ejections},
    named{"peaks", technique::peaks},
    named{"order", technique::order, 5},
    named{"sections", technique::sections},
    named{"holes", technique::holes},
    named{"decomposition", technique::decomposition},
    named{"memory", technique::memory},
    named{"multiples", technique::multiples},
    named{"recipe", technique::recipe, berth::plan::recipes.size()},
    named{"restarts", technique::restarts},
    named{"folding", technique::folding},
    named{"skylines", technique::skylines},
    named{"descent", technique::descent},
    named{"capacities", technique::capacities},
    named{"hint_searches", technique::hint_searches},
    named{"hint_halves", technique::hint_halves},
    named{"hint_proof", technique::hint_proof},
    named{"reuse", technique::reuse},
    named{"repair", technique::repair},
    named{"slab_splits", technique::slab_splits},
    named{"slabs_by_height", technique::slabs_by_height},
    named{"grown_slabs", technique::grown_slabs, 2},
    named{"slab_moves", technique::slab_moves},
};

std::vector<std::pair<technique, std::size_t>> off;

}  // namespace

#ifdef BERTH_PLAN_TRIAL
constexpr bool on_trial = true;

bool berth::plan::uses(technique t, std::size_t which) noexcept {
  return std::find(off.begin(), off.end(), std::pair{t, which}) == off.end();
}
#else
constexpr bool on_trial = false;
#endif

namespace berth_bench {

std::vector<std::string> technique_names() {
  std::vector<std::string> out;
  for (const named& n : names) {
    if (!on_trial) break;
    if (n.kinds == 0) out.emplace_back(n.name);
    for (std::size_t k = 0; k < n.kinds; ++k) out.push_back(n.name + (':' + std::to_string(k)));
  }
  return out;
}

bool switch_off(const std::string& name) {
  const std::string word = name.substr(0, name.find(':'));
  const auto at = std::find_if(names.begin(), names.end(), [&](const named& n) { return n.name == word; });
  if (!on_trial || at == names.end()) return false;
  const std::size_t which = word.size() == name.size() ? 0 : std::stoul(name.substr(word.size() + 1));
  off.emplace_back(at->what, which);
  return true;
}

void switch_all_on() {
  off.clear();
}

}  // namespace berth_bench

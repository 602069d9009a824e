// Searches again below a bound, and writes down its steps.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>

#include "berth/plan/refutation.hpp"
#include "plan/model/conflicts.hpp"
#include "plan/search/recipes.hpp"
#include "plan/search/search.hpp"
#include "plan/single/components.hpp"
#include "plan/single/parts.hpp"

namespace berth::plan {
namespace {

constexpr std::uint64_t first_nodes = 1000, growth = 4;  // of each order by turns

struct recorded {
  std::unique_ptr<search_record> steps;
  std::unique_ptr<search> by;
};

// Returns the steps that refute a capacity of the instance, whose item i stands for buffers[i]. Returns an empty text
// if the nodes or the wait end before. All recipes take turns, so that a slow one does not delay a quick one.
std::string refute_instance(const instance& in, std::span<const index> buffers, units capacity, std::uint64_t nodes,
                            const patience& wait) {
  const conflict_count size = count_conflicts(in);
  if (size.members > policy::most_graph_members || !size.fits_memory(in)) return {};
  const conflict_graph graph = make_conflicts(in);
  const failed_states nothing{0};
  switches rules;
  rules.decomposition = false;
  std::array<recorded, recipes.size()> all;
  for (std::uint64_t slice = first_nodes;; slice *= growth) {
    for (std::size_t k = 0; k < recipes.size(); ++k) {
      recorded& r = all[k];
      if (!r.by) {
        strategy how = make_strategy(in, graph, recipes[k], k);
        how.restart = 0;
        r.steps = std::make_unique<search_record>();
        r.by = std::make_unique<search>(in, graph, capacity, std::move(how), rules, nothing);
        r.by->record(*r.steps);
      }
      for (const std::uint64_t end = r.by->nodes() + std::min(slice, nodes); r.by->nodes() < end;) {
        const std::uint64_t before = r.by->nodes();
        const search_status got = r.by->run(std::min(end - before, policy::nodes_between_looks));
        nodes -= r.by->nodes() - before;
        if (got == search_status::exhausted) return r.steps->text(in, graph, buffers);
        if (got == search_status::found || wait.over(policy::looks_between_readings)) return {};
      }
      if (nodes == 0) return {};
    }
  }
}

std::string numbers(std::span<const index> all) {
  std::string out;
  for (const index i : all) out += ' ' + std::to_string(i);
  return out;
}

// Returns the lines of a block from "of" on: the problem, of one memory, has no plan below `bound`. An empty text: not
// refuted. `named`: the buffers' numbers in the log.
std::string refute_below(const problem& p, std::span<const index> named, bytes bound, std::uint64_t nodes,
                         const patience& wait) {
  const instance in = make_instance(p);
  if (!in.representable) return {};
  std::vector<index> buffer_of(in.items.size(), 0);
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (in.item_of[i] != no_item) buffer_of[in.item_of[i]] = named[i];
  }
  const auto capacity = static_cast<units>((bound - 1) / in.unit);
  std::vector<component> parts = components_of(in);
  if (parts.size() < 2) {
    std::vector<index> own(buffer_of.begin(), buffer_of.begin() + in.own_items);
    const std::string steps = refute_instance(in, own, capacity, nodes, wait);
    return steps.empty() ? steps : "of" + numbers(own) + '\n' + steps;
  }
  // Tries the fullest first: only one of them needs the bound, and it is full.
  const auto fullest = [](const component& c) {
    const std::vector<units> heights = section_heights(c.in);
    return *std::max_element(heights.begin(), heights.end()) * c.scale;
  };
  std::stable_sort(parts.begin(), parts.end(),
                   [&](const component& a, const component& b) { return fullest(a) > fullest(b); });
  // Each gets its share, twice what is left of it the second time, until one is refuted.
  for (std::uint64_t share = std::min<std::uint64_t>(nodes, 10 * first_nodes);; share = std::min(nodes, 8 * share)) {
    for (const component& c : parts) {
      std::vector<index> own;
      for (const std::uint32_t i : c.items) own.push_back(buffer_of[i]);
      const std::string steps = refute_instance(c.in, own, capacity / c.scale, share, wait);
      if (!steps.empty()) return "of" + numbers(own) + '\n' + steps;
      if (wait.was_over()) return {};
    }
    if (share == nodes) return {};
  }
}

// Returns the buffers that can live in memory m only, with all that share their bases.
std::vector<index> only_in(const problem& p, index m) {
  std::vector<index> out;
  for (const bundle& u : bundles_of(p, true)) {
    if (u.memories.size() == 1 && u.memories[0] == m) out.insert(out.end(), u.members.begin(), u.members.end());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Returns by memory the bounds that only a search proves.
std::map<index, bytes> searched_bounds(const problem& p, const plan& answer) {
  std::map<index, bytes> by_stacks, by_search;
  for (const argument& why : answer.proof) {
    bytes& best = (why.kind == argument::kind::search ? by_search : by_stacks)[why.memory.value_or(0)];
    best = std::max(best, why.bound);
  }
  std::erase_if(by_search, [&](const auto& b) { return b.second <= by_stacks[b.first]; });
  if (p.memories.size() <= 1) return by_search;
  const bool named = std::all_of(answer.proof.begin(), answer.proof.end(), [](const argument& a) { return a.memory; });
  return named ? by_search : std::map<index, bytes>{};
}

}  // namespace

result<std::string> refute(const problem& p, const plan& answer, std::uint64_t nodes, const options& o) {
  if (auto ok = validate(p); !ok) return ok.error();
  const std::map<index, bytes> wanted = searched_bounds(p, answer);
  if (p.max_slab && !wanted.empty()) return error{errc::unsupported, "refutation: the problem is cut into slabs", 0};
  const patience wait{o};
  std::array<char, 17> fingerprint{};
  std::snprintf(fingerprint.data(), fingerprint.size(), "%016llx", static_cast<unsigned long long>(fingerprint_of(p)));
  std::string log = "berth-refutation/1 " + std::string{fingerprint.data()} + '\n';
  for (const auto& [m, bound] : wanted) {
    std::vector<index> members(p.buffers.size());
    std::iota(members.begin(), members.end(), index{0});
    if (p.memories.size() > 1) members = only_in(p, m);
    const std::string block = refute_below(part_of(p, m, members), members, bound, nodes, wait);
    if (block.empty()) {
      return error{errc::limit_exceeded, "refutation: no search below the bound ended within its nodes", m};
    }
    log += "bound " + std::to_string(bound);
    if (p.memories.size() > 1) log += " memory " + std::to_string(m);
    log += '\n' + block;
  }
  return log;
}

}  // namespace berth::plan

// Problems planned over several memories.
#include "berth/model/memories.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "berth/model/input_error.hpp"
#include "berth/plan/bound.hpp"
#include "model/files/text.hpp"

namespace berth::model {
namespace {

// Returns the uses of a buffer whose steps are unknown: it is written when a lifetime begins, and read at its last
// tick.
std::vector<plan::use> uses_of_life(const plan::buffer& b) {
  std::vector<plan::use> uses;
  const auto size = static_cast<double>(b.size);
  const std::vector<plan::interval> all = b.lifetimes.empty() ? std::vector{b.live} : b.lifetimes;
  for (const plan::interval& life : all) {
    uses.push_back({.at = life.lower, .touched = size, .write = true});
    if (life.upper > life.lower && life.upper - 1 > life.lower) uses.push_back({.at = life.upper - 1, .touched = size});
  }
  return uses;
}

void require_plain(const problem_file& file) {
  const plan::problem& p = file.problem;
  const char* what = !p.dimensions.empty() ? "has dimensions"
                     : !p.memories.empty() ? "has pools of its own"
                     : p.capacity          ? "has a capacity of its own"
                     : p.conflicts         ? "has conflicts instead of lifetimes"
                                           : nullptr;
  if (what != nullptr) throw input_error(file.path, std::string{"cannot be put into other memories: it "} + what);
}

// Returns the memory that weights start in: the costliest that holds only weights, or else the costliest of all. If
// weights do not fit there, the next one; if they fit in none, the largest.
plan::index home_of_weights(const problem_file& file, std::span<const hierarchy_memory> memories) {
  std::vector<plan::index> order;
  for (plan::index m = 0; m < memories.size(); ++m) {
    if (memories[m].contents != holds::nothing) order.push_back(m);
  }
  std::ranges::stable_sort(order, [&](plan::index a, plan::index b) {
    const bool only = memories[a].contents == holds::weights;
    if (only != (memories[b].contents == holds::weights)) return only;
    return memories[a].memory.cost > memories[b].memory.cost;
  });
  for (const plan::index m : order) {
    bytes left = memories[m].memory.capacity.value_or(plan::max_address);
    const bool room = std::ranges::all_of(file.weights, [&](plan::index w) {
      const auto size = checked_align_up(file.problem.footprint(w), memories[m].memory.alignment);
      if (!size || *size > left) return false;
      left -= *size;
      return true;
    });
    if (room) return m;
  }
  return *std::ranges::max_element(order, {},
                                   [&](plan::index m) { return memories[m].memory.capacity.value_or(max_bytes); });
}

void place_weights(problem_file& file, std::span<const hierarchy_memory> memories, bool copies) {
  if (file.weights.empty()) return;
  const plan::index home = home_of_weights(file, memories);
  for (const plan::index w : file.weights) {
    const bytes size = file.problem.footprint(w);
    std::vector<plan::index>& allowed = file.problem.buffers[w].memories;
    allowed = {home};
    for (plan::index m = 0; copies && memories[home].bandwidth > 0 && m < memories.size(); ++m) {
      const hierarchy_memory& to = memories[m];
      const bool fits = !to.memory.capacity || size <= *to.memory.capacity;
      if (m != home && to.contents == holds::everything && to.bandwidth > 0 && fits) allowed.push_back(m);
    }
    // Each run finds the weight at home.
    std::vector<plan::use>& uses = file.problem.buffers[w].uses;
    uses.insert(uses.begin(), {.at = file.problem.buffers[w].live.lower, .touched = 0, .memory = home});
  }
}

void add_links(problem_file& file, std::span<const hierarchy_memory> memories) {
  for (plan::index a = 0; a < memories.size(); ++a) {
    for (plan::index b = 0; b < memories.size(); ++b) {
      if (a == b || memories[a].bandwidth <= 0 || memories[b].bandwidth <= 0) continue;
      // A memory of weights is not written.
      if (memories[b].contents != holds::everything) continue;
      file.problem.links.push_back({.from = a,
                                    .to = b,
                                    .bandwidth = std::min(memories[a].bandwidth, memories[b].bandwidth),
                                    .latency = memories[a].latency + memories[b].latency});
    }
  }
}

bool may_use(const plan::buffer& b, plan::index m) {
  return b.memories.empty() || std::ranges::find(b.memories, m) != b.memories.end();
}

// Returns the memory in which a use demands the buffer when its only lifetime begins.
std::optional<plan::index> born_in(const problem_file& file, plan::index i) {
  const plan::buffer& b = file.problem.buffers[i];
  if (b.uses.empty() || !b.lifetimes.empty()) return std::nullopt;
  const plan::use& first = b.uses.front();
  return first.at == b.live.lower ? first.memory : std::nullopt;
}

}  // namespace

std::vector<hierarchy_memory> memories_of(const target& t) {
  std::vector<hierarchy_memory> made;
  for (const target_memory& m : t.memories) {
    if (m.contents == holds::nothing) continue;
    made.push_back({.memory = {.name = std::string{m.name},
                               .capacity = m.size.value,
                               .alignment = m.alignment.value,
                               .cost = 1 / m.bandwidth.value},
                    .contents = m.contents,
                    .bandwidth = m.bandwidth.value,
                    .latency = m.latency.value});
  }
  return made;
}

void place_in(problem_file& file, std::span<const hierarchy_memory> memories, bool copies) {
  require_plain(file);
  plan::problem& p = file.problem;
  std::vector<plan::index> everything;
  bytes common = 0;
  for (plan::index m = 0; m < memories.size(); ++m) {
    if (memories[m].contents == holds::everything) everything.push_back(m);
    p.memories.push_back(memories[m].memory);
    common = std::gcd(common, memories[m].memory.alignment);
  }
  if (everything.empty()) throw input_error(file.path, "no memory holds anything but weights");
  if (!plan::make_stricter(p, {.start_alignment = common})) {
    throw input_error(file.path, "an alignment of the problem and those of the memories exceed 64 bits together");
  }
  if (!p.has_traffic()) {
    for (plan::buffer& b : p.buffers) b.uses = uses_of_life(b);
  }
  if (everything.size() != memories.size()) {
    for (plan::buffer& b : p.buffers) b.memories = everything;
  }
  place_weights(file, memories, copies);
  if (copies) add_links(file, memories);
}

std::string reason_without_plan(const problem_file& file) {
  const plan::problem& p = file.problem;
  const auto capacity_of = [&](plan::index m) { return p.memories[m].capacity.value_or(plan::max_address); };
  const auto end_of = [&](plan::index i) { return p.buffers[i].offset.value_or(0) + p.footprint(i); };
  for (plan::index i = 0; i < p.buffers.size(); ++i) {
    std::optional<plan::index> largest;
    for (plan::index m = 0; m < p.memories.size(); ++m) {
      if (may_use(p.buffers[i], m) && (!largest || capacity_of(m) > capacity_of(*largest))) largest = m;
    }
    if (!largest || end_of(i) <= capacity_of(*largest)) continue;
    return "buffer " + quote(p.buffers[i].name) + (p.buffers[i].offset ? " ends at " : " takes ") +
           std::to_string(end_of(i)) + " B, and the largest memory that it may use, " +
           quote(p.memories[*largest].name) + ", has " + std::to_string(capacity_of(*largest)) + " B";
  }
  std::vector<plan::index> all(p.memories.size());
  std::iota(all.begin(), all.end(), 0);
  const auto fits = [&](plan::index i, plan::index m) {
    return may_use(p.buffers[i], m) && end_of(i) <= capacity_of(m);
  };
  for (plan::index m = 0; !p.conflicts && m < p.memories.size(); ++m) {
    plan::problem bound;
    bound.granularity = p.granularity;
    bound.tail_pad = p.tail_pad;
    for (plan::index i = 0; i < p.buffers.size(); ++i) {
      plan::buffer b = p.buffers[i];
      const bool only =
          fits(i, m) && std::ranges::none_of(all, [&](plan::index other) { return other != m && fits(i, other); });
      if (b.alias_group || (!only && born_in(file, i) != m)) continue;
      if (!only) b.live.upper = b.live.lower + 1;  // it may leave
      b.memories.clear();
      bound.add(std::move(b));
    }
    const bytes live = plan::max_live(bound);
    if (live <= capacity_of(m)) continue;
    return "buffers that must lie in " + quote(p.memories[m].name) + " take " + std::to_string(live) +
           " B at once, and it has " + std::to_string(capacity_of(m)) + " B";
  }
  return "";
}

double slowest_access(const problem_file& file) {
  double sum = 0;
  for (plan::index i = 0; i < file.problem.buffers.size(); ++i) {
    const auto born = born_in(file, i);
    double most = born ? file.problem.memories[*born].cost : 0;
    for (plan::index m = 0; !born && m < file.problem.memories.size(); ++m) {
      if (may_use(file.problem.buffers[i], m)) most = std::max(most, file.problem.memories[m].cost);
    }
    for (const plan::use& u : file.problem.buffers[i].uses) {
      sum += u.touched * (u.memory ? file.problem.memories[*u.memory].cost : most);
    }
  }
  return sum;
}

}  // namespace berth::model

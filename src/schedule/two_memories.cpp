// Moves alone: with_planned_copies().
#include <algorithm>
#include <tuple>

#include "berth/plan/solve.hpp"
#include "schedule/dropping.hpp"

namespace berth::schedule {
namespace {

constexpr plan::index fast = 0, slow = 1;

// Step i is at 3 i + 1: between two steps an eviction and a prefetch in its place have a tick each.
plan::tick tick_of(std::size_t step) {
  return 3 * static_cast<plan::tick>(step) + 1;
}
std::uint32_t first_step_at(plan::tick t) {
  return static_cast<std::uint32_t>(std::max<plan::tick>(t + 1, 0) / 3);
}

struct moves_question {
  plan::problem memories;
  std::vector<std::uint32_t> root;  // by buffer; of workspaces no_node
};

moves_question ask(const means& by, const std::vector<std::uint32_t>& steps, bytes capacity) {
  moves_question made;
  made.memories.memories = {{.name = "fast", .capacity = capacity}, {.name = "slow", .cost = 1}};
  const double rate = by.link->bandwidth, latency = by.link->latency;
  made.memories.links = {{fast, slow, rate, latency}, {slow, fast, rate, latency}};
  const auto add = [&](std::uint32_t root, bytes size, plan::interval live, std::vector<plan::use> uses) {
    const bool moves = root != no_node && by.moves[root] != 0;
    made.memories.buffers.push_back({.size = size, .live = live, .uses = std::move(uses)});
    if (!moves) made.memories.buffers.back().memories = {fast};
    made.root.push_back(root);
  };
  const timeline line = trace_steps(by.n, steps);
  for (const stay& s : line.stays) {
    const bool there = by.n.producer[s.root] == no_node;
    const plan::tick born = there ? 0 : tick_of(s.born);
    // An operand reused in place makes room for the result: its last use counts as before that step.
    const plan::tick last = tick_of(s.last) - (s.taken ? 1 : 0);
    std::vector<plan::use> uses{{.at = born, .write = true, .memory = fast}};
    for (const std::uint32_t u : s.uses) uses.push_back({.at = std::min(tick_of(u), last), .memory = fast});
    if (s.last == steps.size()) uses.push_back({.at = last, .memory = fast});
    add(s.root, by.n.root[s.root], {born, last + 1}, std::move(uses));
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bytes extra = by.n.extra[steps[i]];
    if (extra != 0) add(no_node, extra, {tick_of(i), tick_of(i) + 1}, {});
    made.memories.steps.push_back({tick_of(i), by.link->overlap ? by.cost[steps[i]] : 0});
  }
  return made;
}

}  // namespace

std::vector<std::uint32_t> with_planned_copies(const means& by, const std::vector<std::uint32_t>& steps, bytes aim,
                                               const std::atomic<bool>* stop) {
  if (aim <= by.n.base) return steps;
  const moves_question q = ask(by, steps, aim - by.n.base);
  const auto found = plan::solve(q.memories, {.work = plan::effort::fast, .stop = stop});
  if (!found) return steps;
  // The step that they precede, out before in, in the planner's order.
  std::vector<std::tuple<std::uint32_t, bool, std::uint32_t>> copies;
  std::vector<std::uint8_t> gone(by.n.root.size(), 0);
  for (const plan::move& m : found->moves) {
    const std::uint32_t root = q.root[m.buffer];
    const bool in = found->stays[m.to].memory == fast;
    if (!in && gone[root] != 0) continue;  // it is there still
    gone[root] = 1;
    copies.emplace_back(first_step_at(in ? m.during.lower : m.during.upper), in,
                        in ? copy_in(by.n, root) : copy_out(by.n, root));
  }
  std::ranges::stable_sort(copies, {}, [](const auto& c) { return std::pair{std::get<0>(c), std::get<1>(c)}; });
  std::vector<std::uint32_t> made;
  std::size_t next = 0;
  for (std::uint32_t i = 0; i <= steps.size(); ++i) {
    for (; next < copies.size() && std::get<0>(copies[next]) <= i; ++next) made.push_back(std::get<2>(copies[next]));
    if (i < steps.size()) made.push_back(steps[i]);
  }
  for (; next < copies.size(); ++next) made.push_back(std::get<2>(copies[next]));
  return made;
}

}  // namespace berth::schedule

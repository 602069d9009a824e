// The table of `berth plan FILE`.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "berth/model/memories.hpp"
#include "berth/model/plan_file.hpp"
#include "berth/plan/bound.hpp"
#include "model/files/plan_text.hpp"
#include "tool/plan_call.hpp"
#include "tool/printable.hpp"
#include "tool/units.hpp"

namespace berth::tool {
namespace {

std::string text_of_dimensions(const plan::problem& p) {
  std::string text;
  for (const plan::dimension& d : p.dimensions) {
    text += (text.empty() ? "" : ", ") + d.name + " " + std::to_string(d.least) + " to " + std::to_string(d.most);
  }
  return text;
}

// Prints the times of a plan and its copies. `unit`: of the times, or "".
void print_moves(const model::problem_file& file, const plan::plan& answer, const char* unit) {
  const plan::problem& p = file.problem;
  std::printf("  access time   %.6g%s%s; all in the slowest memories %.6g%s\n", answer.access, unit,
              answer.moves.empty() ? ""
              : answer.unmoved     ? (", without moves " + nlohmann::json(*answer.unmoved).dump() + unit).c_str()
                                   : ", without moves there is no plan",
              model::slowest_access(file), unit);
  std::printf("  stall         %.6g%s; access and stall are at least %.6g%s\n", answer.stall, unit, answer.cost_bound,
              unit);
  std::printf("  copied        %s\n", human_exactly(answer.copied).c_str());
  for (const plan::move& m : answer.moves) {
    const auto pool = [&](plan::index stay) { return printable(p.memories[answer.stays[stay].memory].name); };
    std::printf("    %-12s %s -> %s, ticks %lld to %lld, time %.6g to %.6g\n",
                printable(p.buffers[m.buffer].name).c_str(), pool(m.from).c_str(), pool(m.to).c_str(),
                static_cast<long long>(m.during.lower), static_cast<long long>(m.during.upper), m.begin, m.done);
  }
}

void print_pools(const model::problem_file& file, const plan::plan& answer) {
  const plan::problem& p = file.problem;
  const std::vector<bytes> arena = model::arena_by_memory(p, answer);
  for (plan::index m = 0; m < p.memories.size(); ++m) {
    const plan::memory& one = p.memories[m];
    plan::problem in;  // what lies in this memory
    bytes sum = 0;
    for (plan::index i = 0; i < p.buffers.size(); ++i) {
      if (model::memory_of(answer, i) != m) continue;
      plan::buffer b = p.buffers[i];
      b.memories.clear();
      b.size = p.footprint(i);
      b.granularity = 1;
      b.tail_pad = 0;
      sum += b.size;
      in.add(std::move(b));
    }
    std::printf("    %-12s%s%s; %zu buffer%s of %s", printable(one.name).c_str(), human_exactly(arena[m]).c_str(),
                one.capacity ? (" of " + human_exactly(*one.capacity)).c_str() : "", in.buffers.size(),
                in.buffers.size() == 1 ? "" : "s", human(sum).c_str());
    if (!p.conflicts) std::printf(", alive at once %s", human(plan::max_live(in)).c_str());
    std::printf("\n");
  }
}

}  // namespace

void print_table(const plan_call& call, const model::problem_file& file, const plan_answer& got, bool interrupted) {
  const plan::problem& p = file.problem;
  const plan::plan& answer = got.plan;
  const double over = answer.lower_bound() == 0 ? 0
                                                : 100.0 * static_cast<double>(answer.arena() - answer.lower_bound()) /
                                                      static_cast<double>(answer.lower_bound());
  std::printf("%s\n", printable(call.file == "-" ? "standard input" : call.file).c_str());
  std::printf("  buffers       %zu\n", p.buffers.size());
  if (!p.dimensions.empty()) {
    std::printf("  dimensions    %s; what follows is at the largest values\n", text_of_dimensions(p).c_str());
    std::printf("  supports      %zu\n", answer.supports.size());
  }
  // The arena and its bound are those of the stays if buffers move.
  const bool moves = p.has_traffic();
  const model::stays_as_buffers stays = moves ? model::as_buffers(file, answer) : model::stays_as_buffers{};
  const model::problem_file& placed = moves ? stays.file : file;
  std::printf("  without reuse %s\n", human_exactly(model::no_reuse_bytes(placed)).c_str());
  std::printf("  arena         %s", human_exactly(answer.arena()).c_str());
  if (got.most_bytes) std::printf("; at the largest values %s", human_exactly(*got.most_bytes).c_str());
  std::printf("\n");
  print_pools(placed, answer);
  std::printf("  lower bound   %s\n", human_exactly(answer.lower_bound()).c_str());
  if (answer.optimal()) {
    std::printf("  optimal       yes, proved%s\n", moves ? ", of these stays alone" : "");
  } else if (!file.counts_all) {
    std::printf("  optimal       not proved: a note names memory that is not counted exactly\n");
  } else {
    std::printf("  optimal       not proved: at most %.3f %% above\n", over);
  }
  const bool priced = std::ranges::any_of(p.memories, [](const plan::memory& m) { return m.cost > 0; });
  if (priced && !moves) {
    std::printf("  cost          %.6g; ", answer.cost);
    if (answer.cost <= answer.cost_bound) {
      std::printf("the least, proved\n");
    } else {
      std::printf("at least %.6g\n", answer.cost_bound);
    }
  }
  if (!p.reuse_penalties.empty()) std::printf("  reuse penalty %g\n", answer.reuse_penalty);
  if (moves) print_moves(file, answer, call.memories.any() ? " ns" : "");
  if (!call.keep.empty()) {
    std::printf("  moved         %zu buffers, %s%s\n", answer.moved, human_exactly(answer.moved_bytes).c_str(),
                answer.moved_fewest ? "; fewer cannot, proved" : "");
  }
  if (got.diff) print(*got.diff, call.diff);
  if (got.proof_steps) {
    std::printf("  proof         %s: %llu steps, checked%s\n", printable(call.proof).c_str(),
                static_cast<unsigned long long>(*got.proof_steps),
                *got.proof_steps == 0 ? "; the certificate proves the bound" : "");
  }
  std::printf("  found by      %s, %llu search nodes, %.1f ms%s\n", std::string{answer.solver}.c_str(),
              static_cast<unsigned long long>(answer.work), got.elapsed_ms,
              !answer.deadline_hit ? ""
              : interrupted        ? ", stopped by Ctrl-C"
                                   : ", stopped by the deadline");
  if (!call.out.empty()) std::printf("  written to    %s\n", printable(call.out).c_str());
  if (!call.problem.empty()) std::printf("  problem       %s\n", printable(call.problem).c_str());
  if (!file.kernels.empty()) std::printf("  kernels       %s, whose workspaces are planned\n", file.kernels.c_str());
  for (const std::string& note : file.notes) std::printf("  note          %s\n", printable(note).c_str());
}

}  // namespace berth::tool

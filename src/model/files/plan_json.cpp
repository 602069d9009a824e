// Writes berth-plan/1 and CSV.
#include <algorithm>

#include "berth/model/input_error.hpp"
#include "berth/model/memories.hpp"
#include "berth/model/plan_file.hpp"
#include "model/files/plan_text.hpp"
#include "model/files/size_expression.hpp"
#include "model/files/text.hpp"

namespace berth::model {
namespace {

void append_ids(std::string& out, const problem_file& file, std::span<const plan::index> ids) {
  out += '[';
  for (const plan::index i : ids) {
    if (out.back() != '[') out += ',';
    append_id(out, file, file.problem.buffers[i].name);
  }
  out += ']';
}

void append_exactly(std::string& out, double n) {
  out += json(n).dump();  // the shortest text that is read as the same number
}

void append_certificate(std::string& out, const problem_file& file, const plan::certificate& proof) {
  out += ",\"certificate\":[";
  for (const plan::argument& why : proof) {
    if (out.back() == '}') out += ',';
    out += why.kind == plan::argument::kind::stack ? "{\"argument\":\"stack\"" : "{\"argument\":\"search\"";
    append(out += ",\"bound\":", why.bound);
    if (why.memory && !file.problem.memories.empty()) {
      append_string(out += ",\"pool\":", file.problem.memories[*why.memory].name);
    }
    if (why.at) append(out += ",\"at\":", *why.at);
    if (!why.buffers.empty()) {
      append_ids(out += ",\"buffers\":", file, why.buffers);
    }
    if (why.step != 1) append(out += ",\"step\":", why.step);
    out += '}';
  }
  out += ']';
}

void append_pools(std::string& out, const plan::problem& p, const plan::plan& answer) {
  const auto arenas = arena_by_memory(p, answer);
  out += ",\"pools\":[";
  for (std::size_t m = 0; m < arenas.size(); ++m) {
    append_string(out += m == 0 ? "{\"id\":" : ",{\"id\":", p.memories[m].name);
    append(out += ",\"arena_bytes\":", arenas[m]);
    out += '}';
  }
  out += ']';
}

void append_moves(std::string& out, const problem_file& file, const plan::plan& answer) {
  append_exactly(out += ",\"access_time\":", answer.access);
  append_exactly(out += ",\"stall_time\":", answer.stall);
  append_exactly(out += ",\"slowest_time\":", slowest_access(file));
  out += ",\"unmoved_time\":";
  if (answer.unmoved) append_exactly(out, *answer.unmoved);
  if (!answer.unmoved) out += "null";
  append(out += ",\"copied_bytes\":", answer.copied);
  out += ",\"moves\":[";
  for (const plan::move& m : answer.moves) {
    const auto pool = [&](plan::index stay) { return file.problem.memories[answer.stays[stay].memory].name; };
    append_id(out += out.back() == '[' ? "\n{\"id\":" : ",\n{\"id\":", file, file.problem.buffers[m.buffer].name);
    append_string(out += ",\"from\":", pool(m.from));
    append_string(out += ",\"to\":", pool(m.to));
    append(out += ",\"start\":", m.during.lower);
    append(out += ",\"end\":", m.during.upper);
    append_exactly(out += ",\"begin_time\":", m.begin);
    append_exactly(out += ",\"done_time\":", m.done);
    out += '}';
  }
  out += ']';
}

void append_order(std::string& out, const problem_file& file, const plan::plan& answer) {
  out += ",\"dimensions\":[";
  for (const plan::dimension& d : file.problem.dimensions) {
    if (out.back() != '[') out += ',';
    append_string(out += "{\"name\":", d.name);
    append(out += ",\"least\":", d.least);
    append(out += ",\"most\":", d.most);
    out += '}';
  }
  append_ids(out += "],\"order\":", file, answer.order);
}

// Returns by buffer the buffers that it lies on.
std::vector<std::span<const plan::index>> supports_by_buffer(const plan::plan& answer) {
  std::vector<std::span<const plan::index>> out(answer.order.size());
  for (std::size_t k = 0; k < answer.order.size(); ++k) {
    const std::uint32_t first = answer.first_support[k];
    out[answer.order[k]] = std::span{answer.supports}.subspan(first, answer.first_support[k + 1] - first);
  }
  return out;
}

// Appends the keys before the buffers.
void append_summary(std::string& out, const problem_file& file, const problem_file& placed, const plan::plan& answer,
                    double elapsed_ms) {
  const plan::problem& p = file.problem;
  append(out += "{\"format\":\"berth-plan/1\",\"arena_bytes\":", answer.arena());
  append(out += ",\"lower_bound\":", answer.lower_bound());
  append(out += ",\"no_reuse_bytes\":", no_reuse_bytes(placed));
  out += answer.optimal() ? ",\"optimal\":true" : ",\"optimal\":false";
  append_string(out += ",\"status\":", name(answer.status));
  out += ",\"verified\":true";
  append_string(out += ",\"solver\":", answer.solver);
  append(out += ",\"work\":", answer.work);
  if (answer.deadline_hit) out += ",\"deadline_hit\":true";
  if (!p.reuse_penalties.empty()) append_exactly(out += ",\"reuse_penalty\":", answer.reuse_penalty);
  const bool priced = std::ranges::any_of(p.memories, [](const plan::memory& m) { return m.cost > 0; });
  if (priced) {
    append_exactly(out += ",\"cost\":", answer.cost);
    append_exactly(out += ",\"cost_bound\":", answer.cost_bound);
  }
  append(out += ",\"elapsed_ms\":", elapsed_ms);
  if (!file.rules.empty()) append_string(out += ",\"rules\":", file.rules);
  append(out += ",\"size_granularity\":", p.granularity);
  append(out += ",\"tail_pad\":", p.tail_pad);
  // Ids do not tell one stay of a buffer from another.
  if (!answer.proof.empty() && answer.stays.empty()) append_certificate(out, file, answer.proof);
  if (!p.memories.empty()) append_pools(out, placed.problem, answer);
  if (p.has_traffic()) append_moves(out, file, answer);
  if (!p.dimensions.empty()) append_order(out, file, answer);
  if (!file.kernels.empty()) append_string(out += ",\"kernels\":", file.kernels);
  if (!file.notes.empty()) {
    out += ",\"notes\":" + json(file.notes).dump(-1, ' ', true, json::error_handler_t::replace);
  }
}

}  // namespace

std::string plan_json(const problem_file& file, const plan::plan& answer, double elapsed_ms, std::string_view more) {
  const bool moves = file.problem.has_traffic(), order = !file.problem.dimensions.empty();
  const stays_as_buffers stays = moves ? as_buffers(file, answer) : stays_as_buffers{};
  const problem_file& placed = moves ? stays.file : file;
  const plan::problem& p = placed.problem;
  const auto supports = order ? supports_by_buffer(answer) : std::vector<std::span<const plan::index>>{};
  std::string out;
  out.reserve(256 + p.buffers.size() * 80);
  append_summary(out, file, placed, answer, elapsed_ms);
  out += more;
  out += ",\"buffers\":[";
  for (plan::index i = 0; i < p.buffers.size(); ++i) {
    append_id(out += i == 0 ? "\n{\"id\":" : ",\n{\"id\":", file, p.buffers[i].name);
    append(out += ",\"offset\":", answer.offset(i));
    append(out += ",\"size\":", p.buffers[i].size);
    const plan::interval live = whole_life(p, i);
    append(out += ",\"lower\":", live.lower);
    append(out += ",\"upper\":", live.upper);
    if (!p.memories.empty()) append_string(out += ",\"pool\":", p.memories[memory_of(answer, i)].name);
    if (!answer.slab_of.empty()) append(out += ",\"slab\":", answer.slab_of[i]);
    if (p.buffers[i].granularity != 0) append(out += ",\"size_granularity\":", p.buffers[i].granularity);
    if (p.buffers[i].tail_pad) append(out += ",\"tail_pad\":", *p.buffers[i].tail_pad);
    if (order) {
      append(out += ",\"alignment\":", p.alignment_of(i));
      append_string(out += ",\"size_formula\":", size_text(terms_of(p.buffers[i]), p.dimensions));
      append_ids(out += ",\"supports\":", file, supports[i]);
    }
    out += '}';
  }
  out += "]}\n";
  return out;
}

std::string no_plan_json(const problem_file& file, const plan::plan& answer, std::string_view reason,
                         double elapsed_ms) {
  std::string out = "{\"format\":\"berth-plan/1\",\"feasible\":";
  out += answer.status == plan::status::infeasible ? "false" : "null";
  append_string(out += ",\"status\":", name(answer.status));
  append_string(out += ",\"reason\":", reason);
  if (file.problem.capacity) append(out += ",\"capacity\":", *file.problem.capacity);
  append(out += ",\"arena_bytes\":null,\"solver\":null,\"lower_bound\":", answer.lower_bound());
  append(out += ",\"optimal\":false,\"verified\":false,\"work\":", answer.work);
  append(out += ",\"elapsed_ms\":", elapsed_ms);
  if (!answer.proof.empty() && !file.problem.has_traffic()) append_certificate(out, file, answer.proof);
  return out + ",\"buffers\":[]}\n";
}

std::string plan_csv(const problem_file& file, const plan::plan& answer) {
  if (!answer.stays.empty()) {
    const stays_as_buffers stays = as_buffers(file, answer);
    return plan_csv(stays.file, stays.answer);
  }
  const plan::problem& p = file.problem;
  const auto require_plain = [&](const std::string& id) {
    if (id.find_first_of(",\r\n") == std::string::npos && trim(id) == id) return;
    throw input_error(file.path, "the id " + quote(id) + " cannot stand in CSV");
  };
  for (const plan::buffer& b : p.buffers) require_plain(b.name);
  for (const plan::memory& m : p.memories) require_plain(m.name);
  std::string out = "id,lower,upper,size,offset";
  if (!p.memories.empty()) out += ",pool";
  if (!answer.slab_of.empty()) out += ",slab";
  out += '\n';
  for (plan::index i = 0; i < p.buffers.size(); ++i) {
    const plan::interval live = whole_life(p, i);
    out += guarded(p.buffers[i].name);
    append(out += ',', live.lower);
    append(out += ',', live.upper);
    append(out += ',', p.buffers[i].size);
    append(out += ',', answer.offset(i));
    if (!p.memories.empty()) (out += ',') += guarded(p.memories[memory_of(answer, i)].name);
    if (!answer.slab_of.empty()) append(out += ',', answer.slab_of[i]);
    out += '\n';
  }
  return out;
}

}  // namespace berth::model

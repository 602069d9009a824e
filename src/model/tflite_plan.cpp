#include "berth/model/tflite_plan.hpp"

#include <algorithm>
#include <optional>

#include "berth/model/input_error.hpp"
#include "model/files/plan_text.hpp"
#include "model/tflite_scratch.hpp"
#include "model/tflite_times.hpp"
#include "model/tflite_write.hpp"

namespace berth::model {
namespace {

constexpr bytes alignment = 16;                              // MicroArenaBufferAlignment()
constexpr bytes most_bytes = (bytes{1} << 31) - alignment;   // sizes and offsets have 32 bits with a sign
constexpr std::size_t most_requests = std::size_t{1} << 15;  // TFLM's planner takes the square of their number

// A request to TFLM's planner.
struct request {
  bytes size = 0;  // a multiple of the alignment
  micro_life life;
  std::optional<bytes> pinned;

  friend bool operator==(const request&, const request&) = default;
};

// Returns the size of the head as GreedyMemoryPlanner lays it out. Pinned requests come first, then the largest, the
// later one of two equals. Each gets the first gap that is large enough between those alive with it.
bytes greedy_head(const std::vector<request>& all) {
  std::vector<const request*> order;
  for (const request& r : all) {
    if (r.pinned) order.push_back(&r);
  }
  const auto pinned = static_cast<std::ptrdiff_t>(order.size());
  for (auto r = all.rbegin(); r != all.rend(); ++r) {
    if (!r->pinned) order.push_back(&*r);
  }
  std::stable_sort(order.begin() + pinned, order.end(),
                   [](const request* a, const request* b) { return a->size > b->size; });
  struct placed {
    bytes at;
    const request* what;
  };
  std::vector<placed> by_offset;
  bytes head = 0;
  for (const request* r : order) {
    bytes at = r->pinned.value_or(0);
    for (const placed& p : by_offset) {
      if (r->pinned) break;
      if (p.what->life.first > r->life.last || r->life.first > p.what->life.last) continue;
      if (p.at >= at && p.at - at >= r->size) break;
      at = std::max(at, p.at + p.what->size);
    }
    const auto after = std::ranges::upper_bound(by_offset, at, {}, &placed::at);
    by_offset.insert(after, {at, r});
    head = std::max(head, at + r->size);
  }
  return head;
}

struct requests {
  std::vector<request> all;         // tensors, then scratch
  std::vector<std::size_t> tensor;  // by request, counted over all subgraphs; those of scratch are left out
  std::vector<micro_scratch> scratch;
  bytes variables = 0;
  std::vector<bool> online;  // by tensor: no place may be said

  friend bool operator==(const requests&, const requests&) = default;
};

bytes rounded(const tflite_graph& g, bytes size) {
  const auto up = checked_align_up(size, alignment);
  if (!up || *up > most_bytes) g.file.fail("a tensor or scratch of 2 GiB or more");
  return *up;
}

void add(requests& out, const tflite_graph& g, const request& r) {
  if (out.all.size() == most_requests) g.file.fail("more than 2^15 tensors and scratch buffers to place");
  out.all.push_back(r);
}

void add_tensors(requests& out, tflite_graph& g, const micro_times& times) {
  std::size_t number = 0;
  for (std::size_t s = 0; s < g.subgraphs.size(); ++s) {
    out.online.resize(number + g.subgraphs[s].tensors.size());
    for (std::size_t t = 0; t < g.subgraphs[s].tensors.size(); ++t, ++number) {
      const tflite_tensor& it = g.subgraphs[s].tensors[t];
      if (it.variable) {  // they lie in the tail
        out.variables += rounded(g, g.size_of(s, t, tflite_sizes::micro));
        // MicroAllocator::AllocateVariables looks at the offset of the first subgraph's tensor t, whosever t is.
        out.online[t] = true;
      }
      if (it.constant || it.variable) continue;
      const bytes size = g.size_of(s, t, tflite_sizes::micro);
      if (size == 0) continue;
      add(out, g, {.size = rounded(g, size), .life = times.tensors[s][t], .pinned = std::nullopt});
      out.tensor.push_back(number);
    }
  }
}

void require_operator(const tflite_graph& g, const micro_scratch& s) {
  const std::string named = "scratch of " + tflite_graph::operator_called(s.subgraph, s.operation) + ", and there are ";
  if (s.subgraph >= g.subgraphs.size()) g.file.fail(named + std::to_string(g.subgraphs.size()) + " subgraphs");
  const std::size_t count = g.subgraphs[s.subgraph].operators.size();
  if (s.operation >= count) g.file.fail(named + std::to_string(count));
}

void add_scratch(requests& out, tflite_graph& g, const micro_times& times, const std::vector<micro_scratch>& given) {
  for (const micro_scratch& s : given) require_operator(g, s);
  for (std::size_t s = 0; s < g.subgraphs.size(); ++s) {
    for (std::size_t op = 0; op < g.subgraphs[s].operators.size(); ++op) {
      std::vector<bytes> sizes;
      bool said = false;
      for (const micro_scratch& it : given) {
        if (it.subgraph != s || it.operation != op) continue;
        said = true;
        sizes.push_back(it.size);
      }
      if (!said) sizes = reference_scratch(g, s, op);
      std::erase(sizes, 0);
      const micro_life life = times.operators[s][op];
      if (!sizes.empty() && life.first == -1) {
        g.file.fail(tflite_graph::operator_called(s, op) +
                    " asks for scratch, and no operator calls its subgraph: TFLM plans it with a size that nobody set");
      }
      for (const bytes size : sizes) {
        add(out, g, {.size = rounded(g, size), .life = life, .pinned = std::nullopt});
        out.scratch.push_back({.operation = op, .size = size, .subgraph = s});
      }
    }
  }
}

requests requests_of(const std::string& path, std::string_view text, const std::vector<micro_scratch>& scratch) {
  tflite_graph g = read_tflite_graph(path, text, tflite_reads::all);
  const micro_times times = times_for_micro(g);
  requests out;
  add_tensors(out, g, times);
  add_scratch(out, g, times, scratch);
  return out;
}

// If parts of a file share bytes, a position that is adjusted for one of them means something else to another.
bool reads_as(const requests& before, const std::string& path, std::string_view text,
              const std::vector<micro_scratch>& scratch) {
  try {
    return requests_of(path, text, scratch) == before;
  } catch (const input_error&) {
    return false;
  }
}

}  // namespace

micro_plan plan_for_micro(const std::string& path, std::string_view text, const std::vector<micro_scratch>& scratch,
                          const plan::options& options) {
  if (tflite_graph g = read_tflite_graph(path, text, tflite_reads::first); has_tensors_in_scratch(g)) {
    g.file.fail(std::string{offline_plan_name} +
                " puts tensors into an operator's scratch, whose code relies on it: another plan is not written");
  }
  const requests r = requests_of(path, text, scratch);
  micro_plan out;
  out.offsets.assign(r.online.size(), -1);
  out.scratch = r.scratch;
  out.variables = r.variables;
  out.own_head = greedy_head(r.all);
  plan::problem problem;
  problem.alignment = alignment;
  std::vector<std::size_t> planned;  // by buffer: the request
  for (std::size_t i = 0; i < r.all.size(); ++i) {
    const micro_life& life = r.all[i].life;
    if (life.last < 0) continue;
    const plan::tick first = life.first < 0 ? life.read : life.first;
    problem.add({.name = std::to_string(i), .size = r.all[i].size, .live = {first, life.last + 1}});
    planned.push_back(i);
  }
  const auto solved = plan::solve(problem, options);
  if (!solved) throw input_error(path, solved.error().what);
  out.lower_bound = solved->lower_bound();
  std::vector<request> pinned = r.all;
  for (std::size_t b = 0; b < planned.size(); ++b) {
    if (planned[b] >= r.tensor.size()) continue;  // TFLM has no place to pin scratch
    const std::size_t tensor = r.tensor[planned[b]];
    if (r.online[tensor]) continue;
    const bytes at = solved->offsets[b];
    if (at > most_bytes - r.all[planned[b]].size) throw input_error(path, "an arena of 2 GiB or more");
    pinned[planned[b]].pinned = at;
    out.offsets[tensor] = static_cast<std::int32_t>(at);
  }
  out.head = greedy_head(pinned);
  if (out.head > out.own_head) return out;
  if (out.head > most_bytes) throw input_error(path, "an arena of 2 GiB or more");
  out.model = with_offline_plan(path, text, out.offsets);
  if (!reads_as(r, path, out.model, scratch)) {
    throw input_error(path, "a broken TFLite model: its parts overlap, so that no plan can be written into it");
  }
  return out;
}

std::string micro_header(const micro_plan& plan, std::string_view prefix) {
  const c_names named{prefix};
  const auto define = [&](const char* macro, bytes n) {
    return "#define " + named(macro) + ' ' + std::to_string(n) + "ull\n";
  };
  return named(
             "/* Written by `berth plan`: the tensor arena of a model in TensorFlow Lite for Microcontrollers. Do not "
             "edit. */\n"
             "#ifndef BERTH_ARENA_H\n#define BERTH_ARENA_H\n\n") +
         "/* The head: tensors and the scratch of kernels, as TFLM lays them out around the plan in the model. */\n" +
         define("BERTH_HEAD_BYTES", plan.head) +
         "/* Where the arena has to begin; elsewhere TFLM leaves bytes out at its start. */\n" +
         define("BERTH_ARENA_ALIGNMENT", alignment) + "/* Variables: the part of the tail that the model says. */\n" +
         define("BERTH_VARIABLE_BYTES", plan.variables) +
         "/* An arena with so many bytes for the rest of the tail, which is not known here: the interpreter's tables "
         "and\n"
         "   what kernels keep. MicroInterpreter::arena_used_bytes() has the sum once tensors are allocated. Before "
         "that\n"
         "   TFLM's planner works where the head will be, with some 60 bytes for each tensor and scratch buffer. */\n" +
         named(
             "#define BERTH_ARENA_BYTES(rest) \\\n"
             "  (BERTH_HEAD_BYTES + BERTH_VARIABLE_BYTES + ((rest) + 15ull) / 16ull * 16ull)\n\n#endif\n");
}

}  // namespace berth::model

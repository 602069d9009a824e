#include "berth/model/tflite_plan.hpp"

#include <algorithm>
#include <optional>

#include "berth/model/input_error.hpp"
#include "model/tflite_scratch.hpp"
#include "model/tflite_write.hpp"

namespace berth::model {
namespace {

constexpr bytes alignment = 16;               // MicroArenaBufferAlignment()
constexpr bytes most_bytes = bytes{1} << 31;  // offsets have 32 bits with a sign

// What TFLM's planner sees: times count operators from 1, 0 is before the first, -1 never.
struct request {
  bytes size = 0;  // a multiple of the alignment
  plan::tick first = -1;
  plan::tick last = -1;
  std::optional<bytes> pinned;
};

// The size of the head as GreedyMemoryPlanner lays it out: what is pinned first, then the largest, each in the first
// gap between those alive with it that is large enough. Of equals the one that was asked for last comes first.
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
      if (p.what->first > r->last || r->first > p.what->last) continue;
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
  std::vector<std::size_t> tensor;  // by request; those of scratch are left out
  std::vector<micro_scratch> scratch;
};

void add(requests& to, const tflite_graph& g, bytes size, plan::tick first, plan::tick last) {
  const auto rounded = checked_align_up(size, alignment);
  if (!rounded || *rounded > most_bytes) g.file.fail("a tensor or scratch beyond 2 GiB");
  to.all.push_back({.size = *rounded, .first = first, .last = last, .pinned = std::nullopt});
}

requests requests_of(tflite_graph& g, const std::vector<micro_scratch>& given) {
  requests out;
  for (std::size_t t = 0; t < g.tensors.size(); ++t) {
    const tflite_tensor& it = g.tensors[t];
    if (it.constant || it.variable) continue;  // variables lie in the tail
    const bytes size = g.size_of(t);
    if (size == 0) continue;
    const bool used = it.lower != tflite_tensor::never;
    add(out, g, size, used ? it.lower + 1 : -1, used ? it.upper : -1);
    out.tensor.push_back(t);
  }
  for (const micro_scratch& s : given) {
    if (s.operation >= g.operators.size()) {
      g.file.fail("scratch of operator " + std::to_string(s.operation) + ", and there are " +
                  std::to_string(g.operators.size()));
    }
  }
  const auto codes = g.file.tables(g.model, tflite_field::model::operator_codes);
  for (std::size_t op = 0; op < g.operators.size(); ++op) {
    std::vector<bytes> sizes;
    const auto named = [op](const micro_scratch& s) { return s.operation == op; };
    if (std::ranges::any_of(given, named)) {
      for (const micro_scratch& s : given) {
        if (named(s)) sizes.push_back(s.size);
      }
    } else {
      sizes = reference_scratch(g, codes, op);
    }
    for (const bytes size : sizes) {
      if (size == 0) continue;
      add(out, g, size, static_cast<plan::tick>(op) + 1, static_cast<plan::tick>(op) + 1);
      out.scratch.push_back({op, size});
    }
  }
  return out;
}

}  // namespace

micro_plan plan_for_micro(const std::string& path, std::string_view text, const std::vector<micro_scratch>& scratch,
                          const plan::options& options) {
  tflite_graph g = read_tflite_graph(path, text);
  if (g.subgraphs != 1) {
    g.file.fail("has " + std::to_string(g.subgraphs) +
                " subgraphs: when the others run is not in the first one's plan");
  }
  requests r = requests_of(g, scratch);
  micro_plan out;
  out.offsets.assign(g.tensors.size(), -1);
  out.scratch = r.scratch;
  out.own_head = greedy_head(r.all);
  plan::problem problem;
  problem.alignment = alignment;
  std::vector<std::size_t> planned;  // by buffer: the request
  for (std::size_t i = 0; i < r.all.size(); ++i) {
    if (r.all[i].first < 0) continue;
    problem.add({.name = std::to_string(i), .size = r.all[i].size, .live = {r.all[i].first, r.all[i].last + 1}});
    planned.push_back(i);
  }
  const auto solved = plan::solve(problem, options);
  if (!solved) throw input_error(path, solved.error().what);
  out.lower_bound = solved->lower_bound();
  for (std::size_t b = 0; b < planned.size(); ++b) {
    if (planned[b] >= r.tensor.size()) continue;  // TFLM has no place to pin scratch
    const bytes at = solved->offsets[b];
    if (at > most_bytes - r.all[planned[b]].size) throw input_error(path, "an arena beyond 2 GiB");
    r.all[planned[b]].pinned = at;
    out.offsets[r.tensor[planned[b]]] = static_cast<std::int32_t>(at);
  }
  out.head = greedy_head(r.all);
  if (out.head <= out.own_head) out.model = with_offline_plan(path, text, out.offsets);
  return out;
}

}  // namespace berth::model

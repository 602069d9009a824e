// A TensorFlow Lite model's first subgraph as a planning problem.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "model/files/checks.hpp"
#include "model/files/readers.hpp"
#include "model/files/text.hpp"
#include "model/tflite.hpp"

namespace berth::model {
namespace {

// The plan that the file has, for the first subgraph. Cost: O(n log n) of tensors and operands.
class offline_places {
 public:
  explicit offline_places(tflite_graph& g) : g_{g}, offsets_{g.offline_plan()} {
    for (std::size_t t = 0; t < g.subgraphs.front().tensors.size(); ++t) {
      sizes_.push_back(at(t) ? g.size_of(0, t, tflite_sizes::lite) : 0);
    }
    const tflite_subgraph& first = g.subgraphs.front();
    for (std::size_t op = 0; op < first.operators.size() && !offsets_.empty(); ++op) find_parts(op);
  }

  // The offset of tensor t, if it has one.
  [[nodiscard]] std::optional<bytes> at(std::size_t t) const {
    if (t >= offsets_.size() || offsets_[t] < 0) return std::nullopt;
    const tflite_tensor& it = g_.subgraphs.front().tensors[t];
    if (it.constant || it.lower == tflite_tensor::never) return std::nullopt;
    return static_cast<bytes>(offsets_[t]);
  }

  [[nodiscard]] bool has_parts() const { return !in_scratch_.empty(); }

  // When tensor t has bytes of its own; empty: it is a part of scratch throughout.
  [[nodiscard]] std::vector<plan::interval> lifetimes(std::size_t t) const {
    const tflite_tensor& it = g_.subgraphs.front().tensors[t];
    const auto parts = in_scratch_.find(t);
    if (parts == in_scratch_.end()) return {{it.lower, it.upper}};
    return without_gaps({it.lower, it.upper}, parts->second).value_or(std::vector<plan::interval>{});
  }

  // Throws input_error where two tensors share a byte while both are alive.
  void verify() const {
    struct life {
      plan::interval live;
      std::size_t tensor;
    };
    std::vector<life> all;
    for (std::size_t t = 0; t < sizes_.size(); ++t) {
      if (sizes_[t] == 0) continue;
      for (const plan::interval& live : lifetimes(t)) all.push_back({live, t});
    }
    std::ranges::stable_sort(all, {}, [](const life& l) { return l.live.lower; });
    std::map<bytes, life> alive;  // by offset; no two share a byte
    for (const life& it : all) {
      const bytes from = *at(it.tensor), to = from + sizes_[it.tensor];
      auto next = alive.lower_bound(from);
      const auto ends = [&](const life& other) {
        if (other.live.upper > it.live.lower) fail(other.tensor, it.tensor);
      };
      while (next != alive.end() && next->first < to) {
        ends(next->second);
        next = alive.erase(next);
      }
      while (next != alive.begin()) {
        const auto before = std::prev(next);
        if (before->second.live.upper > it.live.lower) {
          if (before->first + sizes_[before->second.tensor] > from) fail(before->second.tensor, it.tensor);
          break;
        }
        alive.erase(before);
      }
      alive.insert_or_assign(from, it);
    }
  }

 private:
  // Finds the tensors of an operator that lie in its largest scratch: the arena of Ethos-U has the operator's inputs
  // and outputs in it.
  void find_parts(std::size_t op) {
    const tflite_subgraph& first = g_.subgraphs.front();
    std::vector<std::int32_t> touched = g_.file.numbers(first.operators[op], tflite_field::operation::inputs);
    const auto outputs = g_.file.numbers(first.operators[op], tflite_field::operation::outputs);
    touched.insert(touched.end(), outputs.begin(), outputs.end());
    std::optional<std::size_t> largest;
    for (const std::int32_t i : touched) {
      const auto t = static_cast<std::size_t>(i);
      if (i >= 0 && first.tensors[t].scratch && at(t) && (!largest || sizes_[t] > sizes_[*largest])) largest = t;
    }
    if (!largest) return;
    const bytes from = *at(*largest), to = from + sizes_[*largest];
    const auto now = static_cast<plan::tick>(op);
    for (const std::int32_t i : touched) {
      const auto t = static_cast<std::size_t>(i);
      if (i < 0 || t == *largest || !at(t) || *at(t) < from || *at(t) + sizes_[t] > to) continue;
      in_scratch_[t].push_back({now, now + 1});
    }
  }

  [[noreturn]] void fail(std::size_t a, std::size_t b) const {
    const auto named = [&](std::size_t t) {
      return g_.called(0, t) + " at " + std::to_string(*at(t)) + " to " + std::to_string(*at(t) + sizes_[t]);
    };
    g_.file.fail(std::string{offline_plan_name} + " puts " + named(a) + " and " + named(b) + " while both are alive");
  }

  tflite_graph& g_;
  std::vector<std::int32_t> offsets_;
  std::vector<bytes> sizes_;                                                 // of tensors with an offset
  std::unordered_map<std::size_t, std::vector<plan::interval>> in_scratch_;  // by tensor
};

constexpr std::size_t unplaced = SIZE_MAX;

// Adds the uses of a subgraph's tensors. Operators run from tick 1 on, so that a copy can precede the first one.
// `buffer_of`: by tensor; unplaced: it has none.
void add_uses(problem_file& out, tflite_graph& graph, const std::vector<std::size_t>& buffer_of) {
  const auto& tensors = graph.subgraphs.front().tensors;
  std::unordered_set<std::size_t> scratch;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].scratch) scratch.insert(buffer_of[t]);
  }
  const std::vector<flatbuffer::place>& operators = graph.subgraphs.front().operators;
  for (std::size_t op = 0; op < operators.size(); ++op) {
    for (const unsigned field : {tflite_field::operation::inputs, tflite_field::operation::outputs}) {
      std::vector<std::size_t> all;
      for (const std::int32_t t : graph.file.numbers(operators[op], field)) {
        if (t >= 0 && buffer_of[static_cast<std::size_t>(t)] != unplaced)
          all.push_back(buffer_of[static_cast<std::size_t>(t)]);
      }
      std::ranges::sort(all);  // one that an operator reads twice is touched once
      all.erase(std::unique(all.begin(), all.end()), all.end());
      for (const std::size_t b : all) {
        const bool both = scratch.contains(b);  // is written, and read again
        out.problem.buffers[b].uses.push_back(
            {.at = static_cast<plan::tick>(op) + 1,
             .touched = static_cast<double>(out.problem.buffers[b].size) * (both ? 2 : 1),
             .write = both || field == tflite_field::operation::outputs});
      }
    }
  }
}

// Marks the tensors in one list of operands of `at`.
void mark(tflite_graph& graph, flatbuffer::place at, unsigned field, std::vector<bool>& which) {
  for (const std::int32_t t : graph.file.numbers(at, field)) {
    if (t >= 0) which[static_cast<std::size_t>(t)] = true;
  }
}

}  // namespace

bool has_tensors_in_scratch(tflite_graph& g) {
  return offline_places{g}.has_parts();
}

problem_file read_tflite(const std::string& path, std::string_view text, const dimensions& said, reads what) {
  tflite_graph graph = read_tflite_graph(path, text, tflite_reads::first, said);
  problem_file out;
  out.path = path;
  out.problem.alignment = 16;
  const auto& tensors = graph.subgraphs.front().tensors;
  const offline_places places{graph};
  places.verify();
  if (what == reads::uses && places.has_parts()) {
    graph.file.fail(std::string{offline_plan_name} +
                    " puts tensors into the scratch of an operator, which needs them there: the model has no plan over "
                    "several memories");
  }
  std::vector<bool> is_read(tensors.size()), given(tensors.size());  // by an operator; before the first one
  mark(graph, graph.subgraphs.front().at, tflite_field::subgraph::inputs, given);
  for (const flatbuffer::place op : graph.subgraphs.front().operators) {
    mark(graph, op, tflite_field::operation::inputs, is_read);
  }
  std::unordered_map<std::uint32_t, plan::index> weight_in;  // by buffer of the file, which weights may share
  graph.open = graph.scalars = 0;                            // counted below
  const auto end = std::max<plan::tick>(1, static_cast<plan::tick>(graph.subgraphs.front().operators.size()));
  std::size_t pinned = 0, parts = 0;
  std::unordered_set<std::string> taken;
  std::vector<std::size_t> buffer_of(tensors.size(), unplaced);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const tflite_tensor& it = tensors[t];
    const bool weight = it.constant && what == reads::uses && is_read[t];
    if (!weight && (it.lower == tflite_tensor::never || it.constant)) continue;
    plan::buffer b{.name = graph.key_of(0, t), .size = graph.size_of(0, t, tflite_sizes::lite), .live = {0, end + 1}};
    if (!weight) {
      std::vector<plan::interval> lifetimes{{given[t] || it.variable ? 0 : it.lower + 1, it.upper + 1}};
      pinned += places.at(t) ? 1 : 0;
      if (what == reads::buffers) {  // the file's plan has one memory
        b.offset = places.at(t);
        lifetimes = places.lifetimes(t);
      }
      if (lifetimes.empty()) {
        ++parts;
        continue;
      }
      b.live = {lifetimes.front().lower, lifetimes.back().upper};
      if (lifetimes.size() > 1) b.lifetimes = std::move(lifetimes);
    }
    const auto stored = weight ? graph.file.number<std::uint32_t>(it.at, tflite_field::tensor::buffer, 0) : 0;
    if (const auto known = weight_in.find(stored); stored != 0 && known != weight_in.end()) {
      buffer_of[t] = known->second;
      bytes& size = out.problem.buffers[known->second].size;
      size = std::max(size, b.size);
      continue;
    }
    while (!taken.insert(b.name).second) b.name += "#" + std::to_string(t);
    buffer_of[t] = out.problem.add(std::move(b));
    if (weight) {
      out.weights.push_back(static_cast<plan::index>(buffer_of[t]));
      weight_in.emplace(stored, out.weights.back());
    }
    // Its contents stay between runs.
    if (what == reads::uses && it.variable) out.problem.buffers[buffer_of[t]].alias_group = buffer_of[t];
  }
  if (what == reads::uses) add_uses(out, graph, buffer_of);
  make_good_ids(out);
  out.notes = graph.notes();
  if (pinned != 0) {
    out.notes.push_back("the file's " + std::string{offline_plan_name} + " has the offsets of " +
                        std::to_string(pinned) + " tensors" +
                        (what == reads::uses ? ", which are for one memory and are not used" : ""));
  }
  if (parts != 0) out.notes.push_back(std::to_string(parts) + " tensors lie in the scratch of their operators");
  return out;
}

}  // namespace berth::model

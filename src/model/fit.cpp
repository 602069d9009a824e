#include "model/fit.hpp"

#include <algorithm>
#include <functional>

#include "berth/model/input_error.hpp"
#include "berth/model/onnx.hpp"
#include "berth/model/problem_file.hpp"
#include "berth/model/program.hpp"
#include "berth/model/runner.hpp"
#include "berth/plan/evaluate.hpp"
#include "model/file.hpp"
#include "model/files/readers.hpp"
#include "model/graph_problem.hpp"
#include "model/tflite_order.hpp"

namespace berth::model {

namespace {

using measure = std::function<fit_point(std::int64_t)>;

constexpr bytes block_alignment = 64;  // of a pool on the host (pool.hpp, "Rounding"), and of each weight in its block

bytes sum_within(const fit_question& q, bytes a, bytes b) {
  const auto both = checked_add(a, b);
  if (!both || *both > plan::max_address) throw input_error(q.path, "what it needs exceeds 2^62 bytes");
  return *both;
}

void complete(const fit_question& q, fit_point& p, bytes arena, bytes lower_bound) {
  p.activations = arena - std::min(arena, sum_within(q, p.states, p.workspace));
  const bytes weights = align_up(p.weights, block_alignment);
  p.total = sum_within(q, weights, align_up(arena, block_alignment));
  p.rounding = p.total - p.weights - arena;
  p.least_total = sum_within(q, weights, align_up(lower_bound, block_alignment));
  p.fits = p.total <= q.memory;
}

plan::plan planned(const fit_question& q, const problem_file& file) {
  auto answer = plan::solve(file.problem, q.options);
  if (!answer) throw input_error(q.path, answer.error().what);
  return *std::move(answer);
}

fit_point of_model(const fit_question& q, std::int64_t value) {
  dimensions said = q.dimensions;
  said[q.dimension] = value;
  const program made = lower(read_onnx(q.path, said));
  const problem_file file =
      problem_of_graph(q.path, made.graph, rules::host(), [&made](value_id v) { return made.graph[v].name; });
  const plan::plan answer = planned(q, file);
  fit_point p{.value = value};
  for (const program::constant& c : made.constants) {
    p.weights = sum_within(q, p.weights, align_up(made.graph[c.value].size, block_alignment));
  }
  for (const berth::value& v : made.graph.values()) {
    if (v.kind == value_kind::state) p.states = sum_within(q, p.states, v.size);
  }
  p.workspace = largest_workspace(made);
  complete(q, p, answer.arena(), answer.lower_bound());
  return p;
}

// The arena of the first subgraph, and the whole file: TensorFlow Lite keeps it in memory for its weights.
fit_point of_tflite(const fit_question& q, const std::string& text, std::int64_t value) {
  dimensions said = q.dimensions;
  said[q.dimension] = value;
  const problem_file file = read_tflite(q.path, text, said);
  const plan::plan answer = planned(q, file);
  fit_point p{.value = value, .weights = text.size()};
  complete(q, p, answer.arena(), answer.lower_bound());
  return p;
}

void require_within(const fit_question& q, const plan::dimension& d, std::int64_t value) {
  if (static_cast<bytes>(value) >= d.least && static_cast<bytes>(value) <= d.most) return;
  throw input_error(q.path, "dimension '" + d.name + "' is from " + std::to_string(d.least) + " to " +
                                std::to_string(d.most) + ", not " + std::to_string(value));
}

// Measures one order, evaluated at each value.
measure of_problem(const fit_question& q) {
  const problem_file file = read_problem(q.path);
  if (file.problem.dimensions.empty()) throw input_error(q.path, "neither a model nor a problem with dimensions");
  require_valid(file);
  const auto& all = file.problem.dimensions;
  std::vector<bytes> values;
  std::size_t asked = all.size();
  for (std::size_t d = 0; d < all.size(); ++d) {
    const auto given = q.dimensions.find(all[d].name);
    const bool is_asked = all[d].name == q.dimension;
    if (is_asked) asked = d;
    if (!is_asked && given == q.dimensions.end()) throw input_error(q.path, "no value for '" + all[d].name + "'");
    for (const std::int64_t value : {is_asked ? q.least : given->second, is_asked ? q.most : given->second}) {
      require_within(q, all[d], value);
    }
    values.push_back(is_asked ? 0 : static_cast<bytes>(given->second));
  }
  if (asked == all.size()) throw input_error(q.path, "no dimension is called '" + q.dimension + "'");
  for (const auto& given : q.dimensions) {
    if (std::none_of(all.begin(), all.end(), [&](const auto& each) { return each.name == given.first; })) {
      throw input_error(q.path, "no dimension is called '" + given.first + "'");
    }
  }
  plan::problem without_limit = file.problem;
  without_limit.capacity.reset();
  auto order = plan::solve(without_limit, q.options);
  if (!order) throw input_error(q.path, order.error().what);
  return [&q, file, order = std::move(*order), values, asked](std::int64_t value) {
    std::vector<bytes> at = values, offsets(file.problem.buffers.size());
    at[asked] = static_cast<bytes>(value);
    const auto arena = plan::evaluate(file.problem, order, at, offsets);
    if (!arena) throw input_error(q.path, arena.error().what);
    plan::problem there = plan::at_values(file.problem, at).value();
    there.capacity.reset();
    const plan::plan own = plan::solve(there, {.work = plan::effort::fast}).value();
    fit_point p{.value = value};
    complete(q, p, *arena, own.lower_bound());
    return p;
  };
}

measure measure_of(const fit_question& q) {
  if (q.path.ends_with(".onnx")) return [&q](std::int64_t v) { return of_model(q, v); };
  if (!q.path.ends_with(".tflite")) return of_problem(q);
  return [&q, text = read_file(q.path)](std::int64_t v) {
    if (!is_tflite(text)) throw input_error(q.path, "not a TFLite model");
    return of_tflite(q, text, v);
  };
}

}  // namespace

fit_answer fit(const fit_question& q) {
  if (q.least < 1 || q.least > q.most) throw input_error(q.path, q.dimension + ": not a range from 1 on");
  if (q.dimensions.contains(q.dimension)) throw input_error(q.path, q.dimension + " has a value already");
  const measure at = measure_of(q);
  std::map<std::int64_t, fit_point> tried;
  const auto fits = [&](std::int64_t value) {
    auto [point, fresh] = tried.try_emplace(value);
    if (fresh) point->second = at(value);
    return point->second.fits;
  };
  fit_answer answer;
  std::int64_t low = q.least, high = q.most;  // low fits, what lies above high does not
  if (fits(low)) {
    if (fits(high)) low = high;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2 + (high - low) % 2;
      if (fits(middle)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    answer.value = low;
  }
  // The value that did not fit: right above the answer.
  const auto above = answer.value ? tried.upper_bound(*answer.value) : tried.find(q.least);
  answer.proved = above == tried.end() || above->second.least_total > q.memory;
  for (const auto& [value, point] : tried) answer.tried.push_back(point);
  return answer;
}

}  // namespace berth::model

#include "berth/model/symbolic_file.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <variant>

#include "berth/model/input_error.hpp"
#include "berth/model/plan_file.hpp"
#include "model/file.hpp"
#include "model/files/json_fields.hpp"
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

// By buffer: its supports.
std::vector<std::span<const plan::index>> supports_by_buffer(const plan::symbolic_plan& answer) {
  std::vector<std::span<const plan::index>> out(answer.order.size());
  for (std::size_t k = 0; k < answer.order.size(); ++k) {
    out[answer.order[k]] = std::span{answer.supports}.subspan(answer.first[k], answer.first[k + 1] - answer.first[k]);
  }
  return out;
}

std::vector<plan::size_term> in_order(std::vector<plan::size_term> terms) {
  for (plan::size_term& t : terms) std::ranges::sort(t.dimensions);
  std::ranges::sort(terms, {}, [](const plan::size_term& t) { return std::tie(t.dimensions, t.factor); });
  return terms;
}

void require(const std::optional<json_value>& said, bytes mine) {
  if (said && said->as_bytes() != mine) said->fail("is not the problem's, which is " + std::to_string(mine));
}

// Requires sizes, alignments and dimensions in the plan to be the problem's: a program that uses the plan takes them
// from it. `file` is as strict as the plan's rules make it.
void require_the_same(const json_value& root, const problem_file& file) {
  const plan::problem& p = file.problem;
  require(root.find("size_granularity"), p.granularity);
  require(root.find("tail_pad"), p.tail_pad);
  const auto said = root.find("dimensions");
  if (!said) return;
  const std::vector<plan::dimension>& mine = file.symbolic->dimensions;
  if (said->size() != mine.size()) said->fail("are not those of the problem");
  for (std::size_t k = 0; k < mine.size(); ++k) {
    const json_value d = said->at(k);
    if (d.at("name").as_id() != mine[k].name) d.fail("is not the problem's, which is " + quote(mine[k].name));
    require(d.at("least"), mine[k].least);
    require(d.at("most"), mine[k].most);
  }
}

void require_the_same(const json_value& v, const problem_file& file, plan::index i, const dimension_numbers& numbers) {
  const plan::problem& p = file.problem;
  require(v.find("alignment"), p.alignment_of(i));
  require(v.find("size_granularity"), p.granularity_of(i));
  require(v.find("tail_pad"), p.tail_pad_of(i));
  const auto formula = v.find("size_formula");
  if (!formula) return;
  const auto terms = parse_size(formula->as_id(), numbers);
  if (const auto* wrong = std::get_if<std::string>(&terms)) formula->fail(*wrong);
  if (in_order(std::get<0>(terms)) == in_order(file.symbolic->of[i])) return;
  formula->fail("is not the problem's size, " + quote(size_text(file.symbolic->of[i], file.symbolic->dimensions)));
}

}  // namespace

std::string symbolic_plan_json(const problem_file& file, const plan::symbolic_plan& answer, double elapsed_ms,
                               std::string_view said) {
  const plan::symbolic_sizes& sizes = *file.symbolic;
  std::string more = std::string{said} + ",\"dimensions\":[";
  for (const plan::dimension& d : sizes.dimensions) {
    if (more.back() != '[') more += ',';
    append_string(more += "{\"name\":", d.name);
    append(more += ",\"least\":", d.least);
    append(more += ",\"most\":", d.most);
    more += '}';
  }
  append_ids(more += "],\"order\":", file, answer.order);
  const auto supports = supports_by_buffer(answer);
  return plan_json(file, answer.most, elapsed_ms, more, [&](std::string& out, plan::index i) {
    append(out += ",\"alignment\":", file.problem.alignment_of(i));
    append_string(out += ",\"size_formula\":", size_text(sizes.of[i], sizes.dimensions));
    append_ids(out += ",\"supports\":", file, supports[i]);
  });
}

plan::symbolic_plan read_symbolic_plan(const std::string& path, problem_file& file) {
  return read_symbolic_text(path, read_text_file(path), file);
}

plan::symbolic_plan read_symbolic_text(const std::string& path, std::string_view text, problem_file& file) {
  const json document = parse_json(path, text);
  const json_value root{document, "", path, 0};
  const auto order = root.is_object() ? root.find("order") : std::nullopt;
  if (!order) root.fail("no key 'order': not a plan for all values of the dimensions");

  plan::symbolic_plan out;
  out.most = read_plan_text(path, text, file);
  std::unordered_map<std::string_view, plan::index> buffers;
  for (plan::index i = 0; i < file.problem.buffers.size(); ++i) buffers.emplace(file.problem.buffers[i].name, i);
  const auto named = [&](const json_value& v) {
    const std::string id = v.as_id();
    const auto it = buffers.find(id);
    if (it == buffers.end()) v.fail("the problem has no buffer " + quote(id));
    return it->second;
  };
  require_the_same(root, file);
  const dimension_numbers numbers = numbers_of(file.symbolic->dimensions);
  const json_value list = root.at("buffers");
  const auto lines = lines_of_elements(text, "buffers", 1);
  std::vector<std::vector<plan::index>> supports(buffers.size());
  for (std::size_t k = 0; k < list.size(); ++k) {
    const json_value v = list.at(k, lines.size() == list.size() ? lines[k] : 0);
    const json_value below = v.at("supports");
    const plan::index i = named(v.at("id"));
    require_the_same(v, file, i, numbers);
    for (std::size_t b = 0; b < below.size(); ++b) supports[i].push_back(named(below.at(b)));
  }
  out.first.push_back(0);
  std::vector<bool> ordered(buffers.size());  // a second time in the order is wrong, and its supports would count again
  for (std::size_t k = 0; k < order->size(); ++k) {
    const plan::index i = out.order.emplace_back(named(order->at(k)));
    if (!ordered[i]) out.supports.insert(out.supports.end(), supports[i].begin(), supports[i].end());
    ordered[i] = true;
    out.first.push_back(static_cast<std::uint32_t>(out.supports.size()));
  }
  return out;
}

}  // namespace berth::model

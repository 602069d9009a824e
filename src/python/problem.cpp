#include "python/problem.hpp"

#include <algorithm>
#include <cmath>

#include "berth/model/plan_file.hpp"
#include "berth/plan/bound.hpp"
#include "berth/plan/evaluate.hpp"
#include "berth/plan/verify.hpp"
#include "berth/rules/placement.hpp"
#include "model/files/size_expression.hpp"

namespace berth::python {

namespace {

plan::interval to_interval(py::handle pair, const char* field) {
  if (!py::isinstance<py::sequence>(pair) || py::len(pair) != 2) refuse(std::string{field} + ": not a pair of times");
  const auto both = py::reinterpret_borrow<py::sequence>(pair);
  return {to_tick(both[0], field), to_tick(both[1], field)};
}

rules::placement placement_of(const py::object& alignment, const py::object& granularity,
                              const std::optional<std::string>& name) {
  rules::placement asked{.start_alignment = to_bytes(alignment, "alignment"),
                         .size_granularity = to_bytes(granularity, "granularity")};
  if (!name) return asked;
  const auto found = rules::find(*name);
  if (!found) refuse("rules: there are none named '" + *name + "'");
  const auto both = rules::strictest(asked, *found);
  if (!both) refuse("alignment, granularity: too large together with the rules");
  return *both;
}

}  // namespace

problem::problem(model::problem_file file) : file_{std::make_shared<model::problem_file>(std::move(file))} {}

problem problem::create(const py::object& alignment, const py::object& granularity, const py::object& capacity,
                        const py::object& max_slab, const std::optional<std::string>& rules) {
  model::problem_file file{.path = "problem", .problem = plan::problem{placement_of(alignment, granularity, rules)}};
  file.problem.capacity = to_bytes_or_none(capacity, "capacity");
  file.problem.max_slab = to_bytes_or_none(max_slab, "max_slab");
  return problem{std::move(file)};
}

model::problem_file& problem::to_change() {
  if (file_.use_count() > 1) file_ = std::make_shared<model::problem_file>(*file_);
  return *file_;
}

index problem::add(const py::object& size, const py::object& live, const py::object& lifetimes,
                   std::optional<std::string> id, const py::object& alignment, const py::object& offset,
                   const py::object& hint, std::optional<index> alias_group, const std::vector<std::string>& pools) {
  plan::buffer b;
  b.name = id ? *std::move(id) : std::to_string(this->size());
  auto [most, terms] = size_of(size);
  b.size = most;
  b.terms = std::move(terms);
  if (!live.is_none() && !lifetimes.is_none()) refuse("buffer '" + b.name + "': live or lifetimes, not both");
  if (!live.is_none()) b.live = to_interval(live, "live");
  if (!lifetimes.is_none()) {
    for (const py::handle each : lifetimes) b.lifetimes.push_back(to_interval(each, "lifetimes"));
  }
  if (!alignment.is_none()) b.alignment = to_bytes(alignment, "alignment");
  b.offset = to_bytes_or_none(offset, "offset");
  b.hint = to_bytes_or_none(hint, "hint");
  b.alias_group = alias_group;
  for (const std::string& name : pools) b.memories.push_back(memory(file_->problem, name));
  for (; ids_of_ < this->size(); ++ids_of_) ids_.insert(file_->problem.buffers[ids_of_].name);
  if (!ids_.insert(b.name).second) refuse("buffer '" + b.name + "' is there already");
  ++ids_of_;
  model::problem_file& file = to_change();
  if (!file.lines.empty()) file.lines.push_back(0);
  return file.problem.add(std::move(b));
}

std::pair<bytes, std::vector<plan::size_term>> problem::size_of(const py::object& size) const {
  const std::vector<plan::dimension>& dimensions = file_->problem.dimensions;
  if (dimensions.empty() || !py::isinstance<py::str>(size)) return {to_bytes(size, "size"), {}};
  auto parsed = model::parse_size(size.cast<std::string>(), model::numbers_of(dimensions));
  if (const auto* wrong = std::get_if<std::string>(&parsed)) refuse("size: " + *wrong);
  auto& terms = std::get<0>(parsed);
  plan::problem alone;
  alone.dimensions = dimensions;
  alone.buffers.push_back({.terms = terms});
  const auto one = plan::at_most(alone);
  if (!one) refuse("size: at the largest values it exceeds 2^62 bytes");
  return {one->buffers[0].size, std::move(terms)};
}

void problem::add_dimension(std::string name, const py::object& least, const py::object& most) {
  plan::dimension d{.name = std::move(name), .least = to_bytes(least, "least"), .most = to_bytes(most, "most")};
  if (!model::is_dimension_name(d.name)) {
    refuse("dimension '" + d.name + "': not a letter, then letters, digits and underscores");
  }
  if (d.least > d.most) refuse("dimension '" + d.name + "': its bounds are reversed");
  auto& all = to_change().problem.dimensions;
  if (std::any_of(all.begin(), all.end(), [&d](const plan::dimension& other) { return other.name == d.name; })) {
    refuse("dimension '" + d.name + "' is there already");
  }
  all.push_back(std::move(d));
}

index problem::add_pool(std::string name, const py::object& capacity, const py::object& alignment,
                        const py::object& reserved, double cost) {
  for (const plan::memory& m : file_->problem.memories) {
    if (m.name == name) refuse("pool '" + name + "' is there already");
  }
  plan::memory m{.name = std::move(name),
                 .capacity = to_bytes_or_none(capacity, "capacity"),
                 .alignment = to_bytes(alignment, "alignment"),
                 .cost = cost};
  for (const py::handle each : reserved) {
    const auto range = py::cast<std::pair<py::object, py::object>>(each);
    m.reserved.emplace_back(to_bytes(range.first, "reserved"), to_bytes(range.second, "reserved"));
  }
  plan::problem& p = to_change().problem;
  p.memories.push_back(std::move(m));
  return static_cast<index>(p.memories.size() - 1);
}

void problem::add_use(index buffer, const py::object& at, double touched, bool write,
                      const std::optional<std::string>& pool) {
  (void)checked(buffer, buffer);
  plan::use u{.at = to_tick(at, "at"), .touched = touched, .write = write};
  if (pool) u.memory = memory(file_->problem, *pool);
  std::vector<plan::use>& all = to_change().problem.buffers[buffer].uses;
  all.insert(std::ranges::upper_bound(all, u.at, {}, &plan::use::at), u);
}

void problem::add_step(const py::object& at, double duration) {
  const plan::step s{to_tick(at, "at"), duration};
  std::vector<plan::step>& all = to_change().problem.steps;
  all.insert(std::ranges::upper_bound(all, s.at, {}, &plan::step::at), s);
}

void problem::add_link(const std::string& from, const std::string& to, double bandwidth, double latency) {
  const plan::link l{memory(file_->problem, from), memory(file_->problem, to), bandwidth, latency};
  to_change().problem.links.push_back(l);
}

void problem::set_conflicts(const std::optional<std::vector<std::pair<index, index>>>& pairs) {
  std::optional<std::vector<plan::pair>> conflicts;
  if (pairs) {
    conflicts.emplace();
    for (const auto& [a, b] : *pairs) conflicts->push_back(checked(a, b));
  }
  to_change().problem.conflicts = std::move(conflicts);
}

void problem::separate(index a, index b) {
  const plan::pair both = checked(a, b);
  to_change().problem.separations.push_back(both);
}

void problem::penalize(index a, index b, double weight) {
  const plan::pair both = checked(a, b);
  to_change().problem.reuse_penalties.push_back({both.a, both.b, weight});
}

solved_pointer problem::plan_of(const py::object& offsets, const std::vector<std::string>& pools,
                                std::vector<index> slabs) const {
  model::require_valid(*file_);
  auto made = std::make_shared<solved>();
  made->file = file_;
  const plan::problem& p = made->file->problem;  // whatever an offset's own __index__ does to this one
  plan::plan& answer = made->answer;
  for (const py::handle each : offsets) {
    const bytes at = to_bytes(each, "offsets");
    if (at > plan::max_address) {
      throw refusal{"offsets[" + std::to_string(answer.offsets.size()) + "]: " + std::to_string(at) + " is above 2^62",
                    answer.offsets.size()};
    }
    answer.offsets.push_back(at);
  }
  if (answer.offsets.size() != p.buffers.size()) refuse("offsets: not one for each buffer");
  if (pools.size() != (p.memories.size() > 1 ? p.buffers.size() : 0)) refuse("pools: not one for each buffer");
  if (slabs.size() != (p.max_slab ? p.buffers.size() : 0)) refuse("slabs: not one for each buffer");
  answer.status = plan::status::feasible;
  answer.solver = "given";
  for (const std::string& name : pools) answer.memory_of.push_back(memory(p, name));
  answer.slab_of = std::move(slabs);
  answer.arena_bytes = arena_taken(*made);
  return made;
}

std::optional<std::string> problem::verify(const solved& answer) const {
  model::require_valid(*file_);
  const auto& buffers = file_->problem.buffers;
  const auto broken = plan::verify(file_->problem, answer.answer);
  if (!broken) return std::nullopt;
  std::string text = broken->rule;
  if (broken->a < buffers.size()) text += ": '" + buffers[broken->a].name + "'";
  if (broken->b != broken->a && broken->b < buffers.size()) text += " and '" + buffers[broken->b].name + "'";
  return text;
}

std::string problem::format(const solved& answer, const std::string& form) const {
  if (const auto broken = verify(answer)) refuse(*broken);
  if (form == "json") return model::plan_json(*file_, answer.answer, 0);
  if (form != "json" && !file_->problem.links.empty()) refuse("form: a plan with moves is written as json");
  if (form == "csv" && !file_->problem.dimensions.empty()) refuse("form: csv has no place for an order");
  if (form == "csv") return model::plan_csv(*file_, answer.answer);
  if (form == "h") return model::plan_header(*file_, answer.answer);
  refuse("form: '" + form + "' is none of json, csv, h");
}

bytes problem::max_live() const {
  model::require_valid(*file_);
  return plan::max_live(file_->problem);
}

std::vector<std::string> problem::ids() const {
  std::vector<std::string> names;
  names.reserve(size());
  for (const plan::buffer& b : file_->problem.buffers) names.push_back(b.name);
  return names;
}

std::vector<std::string> problem::pools_of(const solved& answer) const {
  std::vector<std::string> names;
  for (const index m : answer.answer.memory_of) {
    if (m >= file_->problem.memories.size()) refuse("the plan is of another problem");
    names.push_back(file_->problem.memories[m].name);
  }
  return names;
}

plan::pair problem::checked(index a, index b) const {
  if (std::max(a, b) >= size()) refuse("there is no buffer " + std::to_string(std::max(a, b)));
  return {a, b};
}

index problem::memory(const plan::problem& of, const std::string& name) {
  const auto& all = of.memories;
  const auto found = std::find_if(all.begin(), all.end(), [&](const plan::memory& m) { return m.name == name; });
  if (found == all.end()) refuse("there is no pool '" + name + "'");
  return static_cast<index>(found - all.begin());
}

}  // namespace berth::python

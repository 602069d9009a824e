// Reads plans: berth-plan/1 and CSV.
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

// Throws if a document says that it is something else than a plan.
void require_plan(const json_value& root) {
  const auto format = root.is_object() ? root.find("format") : std::nullopt;
  if (!format || format->as_id() == "berth-plan/1") return;
  format->fail(format->as_id() == "berth-problem/1" ? "a problem, not a plan" : "is not 'berth-plan/1'");
}

// Returns the status of an answer without a plan; nothing for a plan.
std::optional<plan::status> status_without_plan(const json_value& root) {
  const auto said = root.find("status");
  if (!said || root.find("arena_bytes")) return {};
  for (const plan::status s : {plan::status::infeasible, plan::status::unknown}) {
    if (said->as_id() == name(s)) return s;
  }
  return {};
}

// Makes the problem stricter by the rules of the plan, and requires it to be valid then.
void add_rules_of_plan(const json_value& root, problem_file& file) {
  plan::problem& p = file.problem;
  const auto join = [](const json_value& v, bytes mine) {
    const bytes said = v.as_bytes();
    if (said == 0) v.fail("is zero");
    const auto both = rules::strictest({.size_granularity = mine}, {.size_granularity = said});
    if (!both) v.fail("is too large together with the problem's");
    return both->size_granularity;
  };
  if (const auto f = root.find("rules")) {
    const auto rule = rules::find(f->as_id());
    if (!rule) f->fail("no rules are called " + quote(f->as_id()) + "; there are " + known_rules());
    if (!plan::make_stricter(p, *rule)) f->fail("its alignment and the problem's exceed 64 bits together");
  }
  if (const auto f = root.find("size_granularity")) p.granularity = join(*f, p.granularity);
  if (const auto f = root.find("tail_pad")) p.tail_pad = std::max(p.tail_pad, f->as_bytes());
  const json_value list = root.at("buffers");
  std::unordered_map<std::string_view, plan::index> named;
  for (std::size_t k = 0; k < list.size(); ++k) {
    const json_value v = list.at(k);
    const auto granularity = v.find("size_granularity"), pad = v.find("tail_pad");
    if (!granularity && !pad) continue;
    for (plan::index i = 0; named.empty() && i < p.buffers.size(); ++i) named.emplace(p.buffers[i].name, i);
    const auto it = named.find(v.at("id").as_id());
    if (it == named.end()) continue;  // the reader says so
    plan::buffer& b = p.buffers[it->second];
    if (granularity) b.granularity = join(*granularity, p.granularity_of(it->second));
    if (pad) b.tail_pad = std::max(p.tail_pad_of(it->second), pad->as_bytes());
  }
  const auto ok = plan::validate(p);
  if (!ok) root.fail(std::string{"the problem is not valid under its rules: "} + ok.error().what);
}

struct places_reader {
  const problem_file& file;
  problem_file* stricter;  // the same, where the plan's rules count for it
  const std::string& path;
  plan::plan answer;
  std::vector<bool> placed;
  std::unordered_map<std::string_view, plan::index> buffers;
  std::unordered_map<std::string_view, plan::index> pools;

  std::string others;  // tells of a plan for a model by other kernels

  const bool of_another;  // what the problem does not have is passed over

  places_reader(const std::string& plan_path, const problem_file& f, problem_file* same)
      : file{f}, stricter{same}, path{plan_path}, of_another{same == nullptr} {
    const auto& p = f.problem;
    for (plan::index i = 0; i < p.buffers.size(); ++i) buffers.emplace(p.buffers[i].name, i);
    for (plan::index m = 0; m < p.memories.size(); ++m) pools.emplace(p.memories[m].name, m);
    placed.resize(p.buffers.size());
    answer.offsets.resize(p.buffers.size());
    if (!p.memories.empty()) answer.memory_of.resize(p.buffers.size());
  }

  // The plan's entry of one buffer.
  struct row {
    std::string_view id;
    bytes offset = 0;
    std::optional<bytes> size;
    std::optional<std::string_view> pool;
    std::optional<plan::index> slab;
  };

  // Returns the fault, or nothing.
  [[nodiscard]] std::string place(const row& r) {
    const auto it = buffers.find(r.id);
    if (it == buffers.end()) return of_another ? "" : "the problem has no buffer " + quote(r.id);
    const plan::index i = it->second;
    if (placed[i]) return "buffer " + quote(r.id) + " is placed twice";
    if (!of_another && r.size && *r.size != file.problem.buffers[i].size) return other_size(file, i, *r.size) + others;
    placed[i] = true;
    answer.offsets[i] = r.offset;
    if (r.pool && !file.problem.memories.empty()) {
      const auto memory = pools.find(*r.pool);
      if (memory == pools.end() && !of_another) return "the problem has no pool " + quote(*r.pool);
      answer.memory_of[i] = memory == pools.end() ? static_cast<plan::index>(pools.size()) : memory->second;
    }
    if (!r.pool && !of_another && file.problem.memories.size() > 1) {
      const auto& allowed = file.problem.buffers[i].memories;
      if (allowed.size() != 1) return "the plan does not say in which pool buffer " + quote(r.id) + " is";
      answer.memory_of[i] = allowed.front();
    }
    // Slab 0 for all differs from no slab at all, for buffers that may move.
    const bool in_slab = r.slab && (*r.slab != 0 || file.problem.max_slab);
    if (in_slab && answer.slab_of.empty()) answer.slab_of.resize(placed.size());
    if (in_slab) answer.slab_of[i] = *r.slab;
    return {};
  }

  void read_json(std::string_view text) {
    const json document = parse_json(path, text);
    const auto lines = lines_of_elements(text, "buffers", 1);
    const json_value root{document, "", path, 0};
    require_plan(root);
    const auto none = status_without_plan(root);
    if (stricter != nullptr && !file.problem.dimensions.empty() && !none && !root.find("order")) {
      root.fail("no key 'order': not a plan for all values of the dimensions");
    }
    if (stricter != nullptr) add_rules_of_plan(root, *stricter);
    if (const auto f = root.find("kernels"); f && stricter != nullptr && f->as_id() != file.kernels) {
      if (!file.kernels.empty())
        others = "; it has workspaces of " + f->as_id() + ", here are those of " + file.kernels;
    }
    const json_value list = root.at("buffers");
    for (std::size_t k = 0; k < list.size(); ++k) {
      const json_value v = list.at(k, lines.size() == list.size() ? lines[k] : 0);
      const auto pool = v.find("pool"), slab = v.find("slab"), size = v.find("size");
      const std::string id = v.at("id").as_id(), in = pool ? pool->as_id() : "";
      row r{.id = id, .offset = v.at("offset").as_bytes()};
      if (slab) {
        const bytes number = slab->as_bytes();
        if (number >= std::max(placed.size(), list.size())) slab->fail("is not below the number of buffers");
        r.slab = static_cast<plan::index>(number);
      }
      if (size) r.size = size->as_bytes();
      if (pool) r.pool = in;
      const std::string wrong = place(r);
      if (!wrong.empty()) v.fail(wrong);
    }
    if (of_another) return;
    if (const auto f = root.find("certificate")) read_certificate(*f);
    answer.status = plan::status::feasible;
    if (const auto f = root.find("optimal"); f && f->as_bool()) answer.status = plan::status::optimal;
    if (const auto f = root.find("arena_bytes")) answer.arena_bytes = f->as_bytes();
    if (const auto f = root.find("lower_bound")) answer.lower_bound_bytes = f->as_bytes();
    if (const auto f = root.find("reuse_penalty")) answer.reuse_penalty = f->as_number();
    if (const auto f = root.find("cost")) answer.cost = f->as_number();
    if (const auto f = root.find("cost_bound")) answer.cost_bound = f->as_number();
    if (!root.find("arena_bytes")) answer.arena_bytes = arena();
    if (!root.find("reuse_penalty")) answer.reuse_penalty = penalty();
    if (!none) return;
    answer.status = *none;
    const auto capacity = root.find("capacity");
    if (!capacity || stricter == nullptr) return;
    std::optional<bytes>& own = stricter->problem.capacity;
    if (own && capacity->as_bytes() < *own) capacity->fail("is below the problem's, which is " + std::to_string(*own));
    if (file.problem.memories.empty()) own = capacity->as_bytes();
  }

  void read_certificate(const json_value& list) {
    for (std::size_t k = 0; k < list.size(); ++k) {
      const json_value v = list.at(k);
      v.only_keys({"argument", "bound", "pool", "at", "buffers", "step"});
      plan::argument& why = answer.proof.emplace_back();
      const std::string kind = v.at("argument").as_id();
      if (kind != "stack" && kind != "search") v.at("argument").fail("is neither 'stack' nor 'search'");
      if (kind == "search") why.kind = plan::argument::kind::search;
      why.bound = v.at("bound").as_bytes();
      if (const auto pool = v.find("pool")) {
        const std::string name = pool->as_id();
        const auto memory = pools.find(name);
        if (memory == pools.end()) pool->fail("the problem has no pool " + quote(name));
        why.memory = memory->second;
      }
      if (const auto at = v.find("at")) why.at = at->as_tick();
      if (const auto step = v.find("step")) why.step = step->as_bytes();
      const auto stacked = v.find("buffers");
      for (std::size_t b = 0; stacked && b < stacked->size(); ++b) {
        const json_value of = stacked->at(b);
        const std::string id = of.as_id();
        const auto known = buffers.find(id);
        if (known == buffers.end()) of.fail("the problem has no buffer " + quote(id));
        why.buffers.push_back(known->second);
      }
    }
  }

  void read_csv(std::string_view text) {
    std::unordered_map<std::string_view, std::size_t> columns;
    std::size_t line = 1;
    std::string_view header = cut_header(text, line);
    for (std::size_t c = 0; !header.empty(); ++c) {
      const std::string_view name = trim(cut(header, ','));
      if (!columns.emplace(name, c).second) throw input_error(path, line, "a second column for " + quote(name));
    }
    const auto id = columns.find("id"), offset = columns.find("offset");
    const auto pool = columns.find("pool"), slab = columns.find("slab"), size = columns.find("size");
    if (id == columns.end() || offset == columns.end())
      throw input_error(path, line, "not a plan: no columns id and offset");
    std::vector<std::string_view> fields;
    for (++line; !text.empty(); ++line) {
      std::string_view rest = trim(cut(text, '\n'));
      if (rest.empty()) continue;
      fields.clear();
      while (!rest.empty()) fields.push_back(trim(cut(rest, ',')));
      const auto field = [&](const auto& column) {
        return column->second < fields.size() ? fields[column->second] : std::string_view{};
      };
      const auto number = [&](const auto& column) {
        const auto n = parse_number<bytes>(field(column));
        if (n) return *n;
        throw input_error(path, line, std::string{column->first} + " is not a whole number: " + quote(field(column)));
      };
      row r{.id = unguarded(field(id)), .offset = number(offset)};
      if (size != columns.end()) r.size = number(size);
      if (pool != columns.end()) r.pool = unguarded(field(pool));
      if (slab != columns.end()) {
        const auto k = parse_number<plan::index>(field(slab));
        if (!k || (*k >= placed.size() && !of_another)) throw input_error(path, line, "no such slab");
        r.slab = *k;
      }
      const std::string wrong = place(r);
      if (!wrong.empty()) throw input_error(path, line, wrong);
    }
    if (of_another) return;
    answer.status = plan::status::feasible;
    answer.arena_bytes = arena();
    answer.reuse_penalty = penalty();
  }

  void read(std::string_view text) {
    const std::size_t start = text.find_first_not_of("\n\r\t ");
    if (start == std::string::npos) throw input_error(path, 1, "is empty");
    if (text[start] == '{') {
      read_json(text);
    } else {
      read_csv(text);
    }
  }

  // Returns the arena of the offsets, if the plan does not name it.
  bytes arena() const {
    bytes sum = 0;
    for (const bytes a : arena_by_memory(file.problem, answer)) sum += a;
    return sum;
  }
  double penalty() const {
    double sum = 0;
    const plan::problem& p = file.problem;
    for (const plan::reuse_penalty& r : p.reuse_penalties) {
      const bool same_place = memory_of(answer, r.a) == memory_of(answer, r.b) &&
                              slab_of(answer, r.a) == slab_of(answer, r.b) && p.footprint(r.a) != 0 &&
                              p.footprint(r.b) != 0;
      if (same_place && answer.offset(r.a) < answer.offset(r.b) + p.footprint(r.b) &&
          answer.offset(r.b) < answer.offset(r.a) + p.footprint(r.a)) {
        sum += r.weight;
      }
    }
    return sum;
  }
};

template <class List>
std::unordered_map<std::string, plan::index> numbers_by_name(const List& named) {
  std::unordered_map<std::string, plan::index> numbers;
  for (const auto& one : named) numbers.emplace(one.name, static_cast<plan::index>(numbers.size()));
  return numbers;
}

// Reads plans with stays.
class moves_reader {
 public:
  moves_reader(const std::string& path, problem_file& file)
      : path_{path},
        file_{file},
        buffers_{numbers_by_name(file.problem.buffers)},
        pools_{numbers_by_name(file.problem.memories)} {}

  plan::plan read(std::string_view text) {
    const json document = parse_json(path_, text);
    const json_value root{document, "", path_, 0};
    require_plan(root);
    add_rules_of_plan(root, file_);
    const auto lines = lines_of_elements(text, "buffers", 1);
    if (const auto none = status_without_plan(root)) {
      answer_.status = *none;
      return std::move(answer_);
    }
    const json_value list = root.at("buffers");
    for (std::size_t k = 0; k < list.size(); ++k) read_stay(list.at(k, lines.size() == list.size() ? lines[k] : 0));
    sort_stays();
    const json_value moves = root.at("moves");
    for (std::size_t k = 0; k < moves.size(); ++k) read_move(moves.at(k));
    answer_.status = plan::status::feasible;
    if (root.at("optimal").as_bool()) answer_.status = plan::status::optimal;
    answer_.arena_bytes = root.at("arena_bytes").as_bytes();
    answer_.lower_bound_bytes = root.at("lower_bound").as_bytes();
    if (const auto f = root.find("reuse_penalty")) answer_.reuse_penalty = f->as_number();
    answer_.access = root.at("access_time").as_number();
    answer_.stall = root.at("stall_time").as_number();
    answer_.cost = answer_.access + answer_.stall;
    if (const auto f = root.find("cost")) answer_.cost = f->as_number();
    answer_.copied = root.at("copied_bytes").as_bytes();
    answer_.cost_bound = root.at("cost_bound").as_number();
    return std::move(answer_);
  }

 private:
  using names = std::unordered_map<std::string, plan::index>;

  static plan::index named(const names& all, const json_value& v, const char* what) {
    const auto it = all.find(v.as_id());
    if (it == all.end()) v.fail(std::string{"the problem has no "} + what + ' ' + quote(v.as_id()));
    return it->second;
  }

  void read_stay(const json_value& v) {
    plan::stay s{.buffer = named(buffers_, v.at("id"), "buffer"), .memory = named(pools_, v.at("pool"), "pool")};
    if (const auto size = v.find("size"); size && size->as_bytes() != file_.problem.buffers[s.buffer].size) {
      v.fail(other_size(file_, s.buffer, size->as_bytes()));
    }
    s.live = {v.at("lower").as_tick(), v.at("upper").as_tick()};
    s.ready = s.live.lower;
    answer_.stays.push_back(s);
    answer_.offsets.push_back(v.at("offset").as_bytes());
    answer_.memory_of.push_back(s.memory);
    const auto slab = v.find("slab");
    const bytes number = slab ? slab->as_bytes() : 0;
    if (number > answer_.stays.size() + buffers_.size()) slab->fail("is not below the number of stays");
    if (slab) answer_.slab_of.resize(answer_.stays.size(), 0);
    if (slab) answer_.slab_of.back() = static_cast<plan::index>(number);
  }

  // By buffer, pool and first tick; `furthest` is the stay of the same buffer and pool, up to here, that ends last.
  struct sorted_stay {
    plan::index buffer, memory;
    plan::tick lower;
    plan::index furthest;
    [[nodiscard]] auto key() const { return std::tuple{buffer, memory, lower}; }
  };

  void sort_stays() {
    for (plan::index s = 0; s < answer_.stays.size(); ++s) {
      const plan::stay& one = answer_.stays[s];
      sorted_.push_back({one.buffer, one.memory, one.live.lower, s});
    }
    std::stable_sort(sorted_.begin(), sorted_.end(), [](const auto& a, const auto& b) { return a.key() < b.key(); });
    const auto end_of = [&](const sorted_stay& s) { return answer_.stays[s.furthest].live.upper; };
    for (std::size_t k = 1; k < sorted_.size(); ++k) {
      const sorted_stay& before = sorted_[k - 1];
      sorted_stay& me = sorted_[k];
      if (before.buffer == me.buffer && before.memory == me.memory && end_of(before) >= end_of(me)) {
        me.furthest = before.furthest;
      }
    }
  }

  // Returns the stay of a buffer in a pool over some ticks; it is there once at a time.
  plan::index stay_at(const json_value& v, plan::index buffer, plan::index pool, plan::tick at) const {
    const auto behind = std::upper_bound(sorted_.begin(), sorted_.end(), std::tuple{buffer, pool, at},
                                         [](const auto& key, const sorted_stay& s) { return key < s.key(); });
    if (behind != sorted_.begin()) {
      const sorted_stay& s = *std::prev(behind);
      if (s.buffer == buffer && s.memory == pool && at < answer_.stays[s.furthest].live.upper) return s.furthest;
    }
    v.fail("its buffer is not in this pool at " + std::to_string(at));
  }

  void read_move(const json_value& v) {
    v.only_keys({"id", "from", "to", "start", "end", "begin_time", "done_time"});
    plan::move m{.buffer = named(buffers_, v.at("id"), "buffer")};
    m.during = {v.at("start").as_tick(), v.at("end").as_tick()};
    m.from = stay_at(v.at("from"), m.buffer, named(pools_, v.at("from"), "pool"), m.during.lower);
    m.to = stay_at(v.at("to"), m.buffer, named(pools_, v.at("to"), "pool"), m.during.lower);
    m.begin = v.at("begin_time").as_number();
    m.done = v.at("done_time").as_number();
    answer_.stays[m.to].ready = m.during.upper;
    answer_.moves.push_back(m);
  }

  const std::string& path_;
  problem_file& file_;
  names buffers_, pools_;
  plan::plan answer_;
  std::vector<sorted_stay> sorted_;
};

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
  const std::vector<plan::dimension>& mine = file.problem.dimensions;
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
  if (in_order(std::get<0>(terms)) == in_order(terms_of(p.buffers[i]))) return;
  formula->fail("is not the problem's size, " + quote(size_text(terms_of(p.buffers[i]), p.dimensions)));
}

// Reads what a plan of a problem with dimensions has beside offsets.
void read_order(const std::string& path, std::string_view text, const problem_file& file, plan::plan& out) {
  const json document = parse_json(path, text);
  const json_value root{document, "", path, 0};
  const auto order = root.is_object() ? root.find("order") : std::nullopt;
  if (!order) root.fail("no key 'order': not a plan for all values of the dimensions");
  std::unordered_map<std::string_view, plan::index> buffers;
  for (plan::index i = 0; i < file.problem.buffers.size(); ++i) buffers.emplace(file.problem.buffers[i].name, i);
  const auto named = [&](const json_value& v) {
    const std::string id = v.as_id();
    const auto it = buffers.find(id);
    if (it == buffers.end()) v.fail("the problem has no buffer " + quote(id));
    return it->second;
  };
  require_the_same(root, file);
  const dimension_numbers numbers = numbers_of(file.problem.dimensions);
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
  out.first_support.push_back(0);
  std::vector<bool> ordered(buffers.size());  // a second time in the order is wrong, and its supports would count again
  for (std::size_t k = 0; k < order->size(); ++k) {
    const plan::index i = out.order.emplace_back(named(order->at(k)));
    if (!ordered[i]) out.supports.insert(out.supports.end(), supports[i].begin(), supports[i].end());
    ordered[i] = true;
    out.first_support.push_back(static_cast<std::uint32_t>(out.supports.size()));
  }
}

}  // namespace

plan::plan read_plan(const std::string& path, problem_file& file) {
  return read_plan_text(path, read_text_file(path), file);
}

plan::plan read_plan_text(const std::string& path, std::string_view text, problem_file& file) {
  if (file.problem.has_traffic()) return moves_reader{path, file}.read(text);
  places_reader reader{path, file, &file};
  reader.read(text);
  if (!reader.others.empty()) file.notes.push_back("the plan was made elsewhere" + reader.others);
  if (std::find(reader.placed.begin(), reader.placed.end(), false) != reader.placed.end()) {
    reader.answer.offsets.clear();
  }
  if (!file.problem.dimensions.empty() && reader.answer.has_offsets()) read_order(path, text, file, reader.answer);
  return std::move(reader.answer);
}

plan::former_places read_former_places(const std::string& path, const problem_file& file) {
  places_reader reader{path, file, nullptr};
  reader.read(read_text_file(path));
  plan::former_places out{.memory_of = std::move(reader.answer.memory_of)};
  for (plan::index i = 0; i < reader.placed.size(); ++i) {
    out.offsets.push_back(reader.placed[i] ? std::optional<bytes>{reader.answer.offsets[i]} : std::nullopt);
  }
  out.slab_of = std::move(reader.answer.slab_of);
  return out;
}

}  // namespace berth::model

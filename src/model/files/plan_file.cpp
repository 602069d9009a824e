#include "berth/model/plan_file.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <unordered_map>

#include "berth/model/input_error.hpp"
#include "model/file.hpp"
#include "model/files/json_fields.hpp"
#include "model/files/plan_text.hpp"
#include "model/files/text.hpp"

namespace berth::model {
namespace {

plan::index memory_of(const plan::plan& answer, plan::index i) {
  return answer.memory_of.empty() ? 0 : answer.memory_of[i];
}

plan::index slab_of(const plan::plan& answer, plan::index i) {
  return answer.slab_of.empty() ? 0 : answer.slab_of[i];
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
      out += ",\"buffers\":[";
      for (const plan::index i : why.buffers) {
        if (out.back() != '[') out += ',';
        append_id(out, file, file.problem.buffers[i].name);
      }
      out += ']';
    }
    if (why.step != 1) append(out += ",\"step\":", why.step);
    out += '}';
  }
  out += ']';
}

}  // namespace

plan::interval whole_life(const plan::problem& p, plan::index i) {
  const plan::buffer& b = p.buffers[i];
  if (!b.lifetimes.empty()) return {b.lifetimes.front().lower, b.lifetimes.back().upper};
  return {b.live.lower, std::max(b.live.lower, b.live.upper)};
}

std::vector<bytes> arena_by_memory(const plan::problem& p, const plan::plan& answer) {
  std::map<std::pair<plan::index, plan::index>, bytes> tops;  // by memory and slab
  for (plan::index i = 0; i < p.buffers.size(); ++i) {
    bytes& top = tops[{memory_of(answer, i), slab_of(answer, i)}];
    top = std::max(top, answer.offset(i) + p.footprint(i));
  }
  std::vector<bytes> arena(std::max<std::size_t>(1, p.memories.size()), 0);
  for (const auto& [place, top] : tops) arena[place.first] += top;
  return arena;
}

void append(std::string& out, double n) {
  char digits[40];
  out.append(digits, static_cast<std::size_t>(std::snprintf(digits, sizeof digits, "%.6g", n)));
}

void append_string(std::string& out, std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(),
                                 [](unsigned char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  if (plain) {
    ((out += '"') += text) += '"';
  } else {
    out += json(text).dump(-1, ' ', true, json::error_handler_t::replace);
  }
}

void append_id(std::string& out, const problem_file& file, std::string_view id) {
  if (file.numeric_ids && parse_number<std::int64_t>(id)) {
    out += id;
  } else {
    append_string(out, id);
  }
}

std::string other_size(const problem_file& file, plan::index i, bytes said) {
  const plan::buffer& b = file.problem.buffers[i];
  return "buffer " + quote(b.name) + " has " + std::to_string(said) + " bytes here, in the problem " +
         std::to_string(b.size);
}

namespace {

char capital(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

std::string plain_macro_name(std::string_view id) {
  std::string name;
  bool apart = false;  // something else stands before the next letter
  for (const char c : id) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter && apart && !name.empty()) name += '_';
    if (letter) name += capital(c);
    apart = !letter;
  }
  return name.empty() ? "UNNAMED" : name;
}

}  // namespace

c_names::c_names(std::string_view prefix) : macro_{plain_macro_name(prefix)} {
  if (prefix.empty() || macro_ == "UNNAMED") macro_ = "BERTH";
  if (macro_.front() >= '0' && macro_.front() <= '9') macro_.insert(0, "BERTH_");
  macro_ += '_';
  for (const char c : macro_) function_ += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string c_names::operator()(std::string_view fixed) const {
  constexpr std::string_view macro = "BERTH_", function = "berth_";
  std::string out;
  while (!fixed.empty()) {
    const bool is_macro = fixed.starts_with(macro), is_function = fixed.starts_with(function);
    out += is_macro ? macro_ : is_function ? function_ : std::string{fixed.front()};
    fixed.remove_prefix(is_macro || is_function ? macro.size() : 1);
  }
  return out;
}

std::vector<std::string> macro_names(const std::vector<std::string>& ids) {
  std::unordered_map<std::string, std::size_t> taken;  // how often it was asked for
  taken.reserve(ids.size());
  std::vector<std::string> names;
  names.reserve(ids.size());
  std::vector<std::size_t> later;
  for (const std::string& id : ids) {
    names.push_back(plain_macro_name(id));
    if (++taken[names.back()] > 1) later.push_back(names.size() - 1);
  }
  // All plain names are known now, so that no numbered one takes that of an id that comes after it.
  for (auto& [name, count] : taken) count = 1;
  for (const std::size_t i : later) {
    std::size_t& last = taken[names[i]];  // a reference that growth leaves valid
    std::string numbered;
    do {
      numbered = names[i] + "_" + std::to_string(++last);
    } while (!taken.emplace(numbered, 1).second);
    names[i] = std::move(numbered);
  }
  return names;
}

bytes base_alignment(const problem_file& file) {
  const plan::problem& p = file.problem;
  std::optional<rules::placement> all = rules::unconstrained();
  const auto join = [&](bytes alignment) {
    all = rules::strictest(*all, {.start_alignment = alignment});
    if (!all) throw input_error(file.path, "no alignment of 64 bits is a multiple of all alignments: no header");
  };
  for (plan::index i = 0; i < p.buffers.size(); ++i) join(p.alignment_of(i));
  for (const plan::memory& m : p.memories) join(m.alignment);
  return all->start_alignment;
}

std::string macro_comment(const std::string& id, std::string_view name) {
  if (std::equal(id.begin(), id.end(), name.begin(), name.end(), [](char a, char b) { return capital(a) == b; })) {
    return {};
  }
  std::string text = quote(id);
  std::replace(text.begin(), text.end(), '*', '?');  // no end of a comment, nor a second beginning
  return "/* " + text + " */\n";
}

std::string plan_json(const problem_file& file, const plan::plan& answer, double elapsed_ms) {
  return plan_json(file, answer, elapsed_ms, {}, {});
}

std::string plan_json(const problem_file& file, const plan::plan& answer, double elapsed_ms, std::string_view more,
                      const std::function<void(std::string&, plan::index)>& more_of) {
  const plan::problem& p = file.problem;
  std::string out;
  out.reserve(256 + p.buffers.size() * 80);
  append(out += "{\"format\":\"berth-plan/1\",\"arena_bytes\":", answer.arena());
  append(out += ",\"lower_bound\":", answer.lower_bound());
  append(out += ",\"no_reuse_bytes\":", no_reuse_bytes(file));
  out += answer.optimal() ? ",\"optimal\":true" : ",\"optimal\":false";
  append_string(out += ",\"status\":", name(answer.status));
  out += ",\"verified\":true";
  append_string(out += ",\"solver\":", answer.solver);
  append(out += ",\"work\":", answer.work);
  if (answer.deadline_hit) out += ",\"deadline_hit\":true";
  if (!p.reuse_penalties.empty()) (out += ",\"reuse_penalty\":") += json(answer.reuse_penalty).dump();
  append(out += ",\"elapsed_ms\":", elapsed_ms);
  if (!file.rules.empty()) append_string(out += ",\"rules\":", file.rules);
  append(out += ",\"size_granularity\":", p.granularity);
  append(out += ",\"tail_pad\":", p.tail_pad);
  if (!answer.proof.empty()) append_certificate(out, file, answer.proof);
  if (!p.memories.empty()) {
    const auto arenas = arena_by_memory(p, answer);
    out += ",\"pools\":[";
    for (std::size_t m = 0; m < arenas.size(); ++m) {
      append_string(out += m == 0 ? "{\"id\":" : ",{\"id\":", p.memories[m].name);
      append(out += ",\"arena_bytes\":", arenas[m]);
      out += '}';
    }
    out += ']';
  }
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
    if (more_of) more_of(out, i);
    out += '}';
  }
  out += "]}\n";
  return out;
}

std::string plan_csv(const problem_file& file, const plan::plan& answer) {
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

std::string plan_header(const problem_file& file, const plan::plan& answer, std::string_view prefix) {
  const plan::problem& p = file.problem;
  const c_names named{prefix};
  std::string out = named(
      "/* Written by `berth plan`: the place of every buffer. Do not edit. */\n"
      "#ifndef BERTH_PLAN_H\n#define BERTH_PLAN_H\n\n"
      "#ifdef __cplusplus\n#define BERTH_PLAN_ASSERT(what, text) static_assert(what, text)\n"
      "#else\n#define BERTH_PLAN_ASSERT(what, text) _Static_assert(what, text)\n#endif\n\n");
  const auto define = [&out](const std::string& macro, bytes n) {
    append(out += "#define " + macro + ' ', n);
    out += "ull\n";
  };
  define(named("BERTH_ARENA_BYTES"), answer.arena());
  define(named("BERTH_ARENA_ALIGNMENT"), base_alignment(file));
  const auto arenas = arena_by_memory(p, answer);
  const std::vector<std::string> pools = macro_names(names_of(p.memories)), buffers = macro_names(names_of(p.buffers));
  for (std::size_t m = 0; m < p.memories.size(); ++m) {
    out += macro_comment(p.memories[m].name, pools[m]);
    define(named("BERTH_POOL_") + pools[m] + "_BYTES", arenas[m]);
  }
  for (plan::index i = 0; i < p.buffers.size(); ++i) {
    const std::string macro = named("BERTH_") + buffers[i];
    (out += '\n') += macro_comment(p.buffers[i].name, buffers[i]);
    define(macro + "_OFFSET", answer.offset(i));
    define(macro + "_SIZE", p.buffers[i].size);
    if (!p.memories.empty()) define(macro + "_POOL", memory_of(answer, i));
    if (!answer.slab_of.empty()) define(macro + "_SLAB", answer.slab_of[i]);
    const std::string arena =
        p.memories.empty() ? named("BERTH_ARENA_BYTES") : named("BERTH_POOL_") + pools[memory_of(answer, i)] + "_BYTES";
    out += named("BERTH_PLAN_ASSERT(") + macro + "_OFFSET + " + macro + "_SIZE <= " + arena + ", \"" + macro +
           " ends in the arena\");\n";
    append(out += named("BERTH_PLAN_ASSERT(") + macro + "_OFFSET % ", p.alignment_of(i));
    out += "ull == 0, \"" + macro + " is aligned\");\n";
  }
  return out + "\n#endif\n";
}

void require_plan(const json_value& root) {
  const auto format = root.is_object() ? root.find("format") : std::nullopt;
  if (!format || format->as_id() == "berth-plan/1") return;
  format->fail(format->as_id() == "berth-problem/1" ? "a problem, not a plan" : "is not 'berth-plan/1'");
}

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

namespace {

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
    if (!root.find("arena_bytes")) answer.arena_bytes = arena();
    if (!root.find("reuse_penalty")) answer.reuse_penalty = penalty();
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

}  // namespace

plan::plan read_plan(const std::string& path, problem_file& file) {
  return read_plan_text(path, read_text_file(path), file);
}

plan::plan read_plan_text(const std::string& path, std::string_view text, problem_file& file) {
  places_reader reader{path, file, &file};
  reader.read(text);
  if (!reader.others.empty()) file.notes.push_back("the plan was made elsewhere" + reader.others);
  if (std::find(reader.placed.begin(), reader.placed.end(), false) != reader.placed.end()) {
    reader.answer.offsets.clear();
  }
  return std::move(reader.answer);
}

former_places read_former_places(const std::string& path, const problem_file& file) {
  places_reader reader{path, file, nullptr};
  reader.read(read_text_file(path));
  former_places out{.offsets = {}, .memory_of = std::move(reader.answer.memory_of), .slab_of = {}};
  for (plan::index i = 0; i < reader.placed.size(); ++i) {
    out.offsets.push_back(reader.placed[i] ? std::optional<bytes>{reader.answer.offsets[i]} : std::nullopt);
  }
  out.slab_of = std::move(reader.answer.slab_of);
  return out;
}

}  // namespace berth::model

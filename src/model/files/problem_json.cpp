// berth-problem/1 (docs/plan.md).
#include <algorithm>
#include <unordered_map>

#include "berth/model/input_error.hpp"
#include "berth/plan/evaluate.hpp"
#include "model/files/checks.hpp"
#include "model/files/dsa_json.hpp"
#include "model/files/json_fields.hpp"
#include "model/files/readers.hpp"
#include "model/files/size_expression.hpp"
#include "model/files/text.hpp"
#include "model/files/traffic_json.hpp"

namespace berth::model {
namespace {

plan::interval read_interval(const json_value& v) {
  if (v.size() != 2) v.fail("is not a pair of times");
  return {v.at(std::size_t{0}).as_tick(), v.at(1).as_tick()};
}

std::vector<plan::interval> read_intervals(const json_value& v) {
  std::vector<plan::interval> list;
  for (std::size_t k = 0; k < v.size(); ++k) list.push_back(read_interval(v.at(k)));
  return list;
}

bytes read_alignment(const json_value& v) {
  const bytes n = v.as_bytes();
  if (n == 0) v.fail("is zero");
  return n;
}

rules::placement read_rules(const json_value& v) {
  const auto found = rules::find(v.as_id());
  if (!found) v.fail("no rules are called " + quote(v.as_id()) + "; there are " + known_rules());
  return *found;
}

struct document_reader {
  problem_file file;
  std::unordered_map<std::string, plan::index> buffers;
  std::unordered_map<std::string, plan::index> pools;
  dimension_numbers dimensions;
  std::unordered_map<std::string, plan::index> groups;
  rules::placement rules;       // that the problem names; nothing stricter than none where it does not
  bool digits_as_text = false;  // an id that is a number is text: then all are written as text

  // Reads either rules by their name, or a granularity and a pad; an alignment beside either.
  void read_rounding(const json_value& root) {
    plan::problem& p = file.problem;
    if (const auto f = root.find("alignment")) p.alignment = read_alignment(*f);
    const auto granularity = root.find("size_granularity"), pad = root.find("tail_pad");
    if (granularity) p.granularity = read_alignment(*granularity);
    if (pad) p.tail_pad = pad->as_bytes();
    const auto named = root.find("rules");
    if (!named) return;
    if (granularity || pad) named->fail("beside size_granularity or tail_pad, which say the same");
    rules = read_rules(*named);
    if (!plan::make_stricter(p, rules)) {
      named->fail("the alignment and that of the rules exceed 64 bits together");
    }
  }

  void read_pool(const json_value& v) {
    v.only_keys({"id", "capacity", "alignment", "reserved", "cost"});
    plan::memory m;
    m.name = v.at("id").as_id();
    if (!pools.emplace(m.name, static_cast<plan::index>(file.problem.memories.size())).second) {
      v.fail("a second pool with the id " + quote(m.name));
    }
    if (const auto f = v.find("capacity")) m.capacity = f->as_bytes();
    if (const auto f = v.find("alignment")) m.alignment = read_alignment(*f);
    if (const auto f = v.find("cost")) m.cost = f->as_number();
    if (const auto f = v.find("reserved")) {
      for (std::size_t k = 0; k < f->size(); ++k) {
        const json_value range = f->at(k);
        if (range.size() != 2) range.fail("is not a pair of offsets");
        m.reserved.emplace_back(range.at(std::size_t{0}).as_bytes(), range.at(1).as_bytes());
      }
    }
    file.problem.memories.push_back(std::move(m));
  }

  void read_dimension(const json_value& v) {
    v.only_keys({"name", "least", "most"});
    plan::dimension d{v.at("name").as_id(), v.at("least").as_bytes(), v.at("most").as_bytes()};
    if (!is_dimension_name(d.name)) v.at("name").fail("is not a letter, then letters, digits and underscores");
    if (d.least > d.most) v.fail("its bounds are reversed");
    if (!dimensions.emplace(d.name, static_cast<plan::index>(file.problem.dimensions.size())).second) {
      v.fail("a second dimension called " + quote(d.name));
    }
    file.problem.dimensions.push_back(std::move(d));
  }

  void read_size(const json_value& v, plan::buffer& b) {
    if (file.problem.dimensions.empty() || v.is_number()) {
      b.size = v.as_bytes();
    } else {
      auto parsed = parse_size(v.as_id(), dimensions);
      if (const auto* wrong = std::get_if<std::string>(&parsed)) v.fail(*wrong);
      b.terms = std::get<0>(std::move(parsed));
    }
  }

  // Refuses by name the constraints that an order of the buffers cannot keep, before any planning.
  void read_sizes_at_most(const json_value& root) {
    for (const char* key : {"pools", "max_slab", "reuse_penalties"}) {
      if (const auto f = root.find(key); f && !(f->is_list() && f->size() == 0)) f->fail("not with dimensions");
    }
    for (plan::index i = 0; i < file.problem.buffers.size(); ++i) {
      const plan::buffer& b = file.problem.buffers[i];
      const char* key = b.offset ? "offset" : b.hint ? "hint" : b.alias_group ? "alias_group" : nullptr;
      if (key != nullptr) fail_at(i, std::string{key} + " is not supported with dimensions");
    }
    const auto largest = plan::at_most(file.problem);
    if (!largest) fail_at(static_cast<plan::index>(largest.error().number), "its largest size exceeds 2^62 bytes");
    for (plan::index i = 0; i < file.problem.buffers.size(); ++i) {
      file.problem.buffers[i].size = largest->buffers[i].size;
    }
  }

  [[noreturn]] void fail_at(plan::index i, const std::string& what) const {
    const std::string text = "buffer " + quote(file.problem.buffers[i].name) + ": " + what;
    if (file.lines.empty()) throw input_error(file.path, text);
    throw input_error(file.path, file.lines[i], text);
  }

  void read_lifetime(const json_value& v, plan::buffer& b) const {
    if (const auto f = v.find("lifetimes")) {
      b.lifetimes = read_intervals(*f);
      std::sort(b.lifetimes.begin(), b.lifetimes.end(), [](const auto& x, const auto& y) { return x.lower < y.lower; });
      if (b.lifetimes.empty()) f->fail("is empty");
      return;
    }
    const auto lower = v.find("lower"), upper = v.find("upper");
    if (!lower && !upper && file.problem.conflicts) return;
    b.live = {v.at("lower").as_tick(), v.at("upper").as_tick()};
    if (const auto f = v.find("gaps")) {
      const auto gaps = read_intervals(*f);
      if (gaps.empty()) return;
      auto left = without_gaps(b.live, gaps);
      if (!left) f->fail("not inside the lifetime, or nothing of it remains");
      b.lifetimes = std::move(*left);
    }
  }

  void read_buffer(const json_value& v) {
    v.only_keys({"id", "size", "lower", "upper", "gaps", "lifetimes", "alignment", "offset", "hint", "alias_group",
                 "pools", "uses", "rules"});
    plan::buffer b;
    b.name = v.at("id").as_id();
    (v.at("id").is_number() ? file.numeric_ids : digits_as_text) |= parse_number<std::int64_t>(b.name).has_value();
    read_size(v.at("size"), b);
    read_lifetime(v, b);
    if (const auto f = v.find("alignment")) b.alignment = read_alignment(*f);
    const auto own = v.find("rules");
    const rules::placement of = own ? read_rules(*own) : rules;
    if (own || b.alignment != 0) {
      const auto both = rules::strictest(of, {.start_alignment = std::max<bytes>(b.alignment, 1)});
      if (!both) v.fail("its alignment and that of its rules exceed 64 bits together");
      b.alignment = both->start_alignment;
    }
    if (own) {
      b.granularity = of.size_granularity;
      b.tail_pad = of.tail_pad;
    }
    if (const auto f = v.find("offset")) b.offset = f->as_bytes();
    if (const auto f = v.find("hint")) b.hint = f->as_bytes();
    if (const auto f = v.find("alias_group")) {
      b.alias_group = groups.emplace(f->as_id(), static_cast<plan::index>(groups.size())).first->second;
    }
    if (const auto f = v.find("pools")) {
      for (std::size_t k = 0; k < f->size(); ++k) {
        const auto it = pools.find(f->at(k).as_id());
        if (it == pools.end()) f->at(k).fail("no pool has the id " + quote(f->at(k).as_id()));
        b.memories.push_back(it->second);
      }
      if (b.memories.empty()) f->fail("is empty: the buffer could live nowhere");
    }
    buffers.emplace(b.name, static_cast<plan::index>(file.problem.buffers.size()));
    file.problem.add(std::move(b));
  }

  plan::index buffer_named(const json_value& v) const {
    const auto it = buffers.find(v.as_id());
    if (it == buffers.end()) v.fail("no buffer has the id " + quote(v.as_id()));
    return it->second;
  }

  plan::pair read_pair(const json_value& v, std::size_t length) const {
    if (v.size() != length) v.fail("is not a list of " + std::to_string(length));
    return {buffer_named(v.at(std::size_t{0})), buffer_named(v.at(1))};
  }

  void read(const json_value& root, const std::vector<std::uint32_t>& lines) {
    root.only_keys({"format", "dimensions", "alignment", "size_granularity", "tail_pad", "rules", "capacity",
                    "max_slab", "pools", "buffers", "conflicts", "separations", "reuse_penalties", "transfers",
                    "steps"});
    read_rounding(root);
    plan::problem& p = file.problem;
    if (const auto f = root.find("capacity")) p.capacity = f->as_bytes();
    if (const auto f = root.find("max_slab")) p.max_slab = f->as_bytes();
    if (const auto f = root.find("pools")) {
      for (std::size_t k = 0; k < f->size(); ++k) read_pool(f->at(k));
    }
    if (const auto f = root.find("dimensions")) {
      for (std::size_t k = 0; k < f->size(); ++k) read_dimension(f->at(k));
    }
    const auto conflicts = root.find("conflicts");
    if (conflicts) p.conflicts.emplace();
    const json_value list = root.at("buffers");
    for (std::size_t k = 0; k < list.size(); ++k) read_buffer(list.at(k, lines.size() == list.size() ? lines[k] : 0));
    if (lines.size() == list.size()) file.lines = lines;
    file.numeric_ids &= !digits_as_text;
    require_good_ids(file);
    if (conflicts) {
      for (std::size_t k = 0; k < conflicts->size(); ++k) p.conflicts->push_back(read_pair(conflicts->at(k), 2));
    }
    if (const auto f = root.find("separations")) {
      for (std::size_t k = 0; k < f->size(); ++k) p.separations.push_back(read_pair(f->at(k), 2));
    }
    if (const auto f = root.find("reuse_penalties")) {
      for (std::size_t k = 0; k < f->size(); ++k) {
        const plan::pair of = read_pair(f->at(k), 3);
        p.reuse_penalties.push_back({of.a, of.b, f->at(k).at(2).as_number()});
      }
    }
    if (!p.dimensions.empty()) read_sizes_at_most(root);
  }
};

}  // namespace

problem_file read_problem_json(const std::string& path, std::string_view text) {
  const json document = parse_json(path, text);
  const json_value root{document, "", path, 0};
  if (root.is_object() && !root.find("format") && root.find("problem")) {
    const auto version = root.find("schema_version");
    if (version && version->as_bytes() != 1) version->fail("is not 1: another version may mean other rules");
    return read_dsa_problem(path, root.at("problem"), lines_of_elements(text, "buffers", 2));
  }
  const auto format = root.find("format");
  const std::string form = format ? format->as_id() : root.find("arena_bytes") ? "berth-plan/1" : "";
  if (form == "berth-plan/1") root.fail("a plan, not a problem");
  if (form == "berth-snapshot/1") root.fail("a snapshot, not a problem");
  if (form == "berth-debug/1") root.fail("a report of BERTH_DEBUG, not a problem");
  if (root.at("format").as_id() != "berth-problem/1") root.fail("format is not 'berth-problem/1'");
  document_reader reader;
  reader.file.path = path;
  reader.read(root, lines_of_elements(text, "buffers", 1));
  read_traffic(root, reader.file);
  return std::move(reader.file);
}

}  // namespace berth::model

#include "tool/trace_input.hpp"

#include <cmath>
#include <map>
#include <new>
#include <unordered_map>

#include "berth/model/input_error.hpp"
#include "model/file.hpp"
#include "model/files/json_fields.hpp"
#include "model/files/readers.hpp"
#include "model/files/text.hpp"
#include "tool/model_argument.hpp"
#include "tool/planned.hpp"
#include "tool/printable.hpp"
#include "tool/problem_argument.hpp"
#include "tool/verb.hpp"
#include "trace/blocks.hpp"
#include "trace/fields.hpp"

namespace berth::tool {
namespace {

using model::json_value;

constexpr bytes most_bytes = bytes{1} << 62;  // that sums of sizes may reach

plan_facts read_plan_facts(const json_value& root) {
  plan_facts plan{.arena = root.at("arena_bytes").as_bytes(),
                  .lower_bound = root.at("lower_bound").as_bytes(),
                  .optimal = root.at("optimal").as_bool(),
                  .solver = root.at("solver").as_id(),
                  .buffers = {}};
  if (plan.lower_bound > plan.arena) root.fail("lower_bound exceeds arena_bytes");
  const json_value list = root.at("buffers");
  plan.buffers.reserve(list.size());
  bytes sum = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json_value b = list.at(i);
    trace::rectangle r{.name = b.at("id").as_id(),
                       .offset = b.at("offset").as_bytes(),
                       .size = b.at("size").as_bytes(),
                       .lower = b.at("lower").as_tick(),
                       .upper = b.at("upper").as_tick(),
                       .memory = ""};
    if (const auto pool = b.find("pool")) r.memory = pool->as_id();
    if (const auto slab = b.find("slab")) r.memory += (r.memory.empty() ? "slab " : ", slab ") + slab->as_id();
    if (r.lower > r.upper) b.fail("buffer " + model::quote(r.name) + " ends before it begins");
    if (r.size > plan.arena || r.offset > plan.arena - r.size) {
      b.fail("buffer " + model::quote(r.name) + " does not lie in the arena");
    }
    if (r.size > most_bytes - sum) b.fail("the sizes add up to more than 2^62 bytes");
    sum += r.size;
    plan.buffers.push_back(std::move(r));
  }
  if (const auto kernels = root.find("kernels")) plan.kernels = kernels->as_id();
  const auto no_reuse = root.find("no_reuse_bytes");
  plan.no_reuse = no_reuse ? no_reuse->as_bytes() : sum;
  return plan;
}

// Returns the most bytes alive at once; for several memories or slabs each alone, added up.
bytes peak_of_memories(const std::vector<trace::rectangle>& buffers) {
  std::map<std::string_view, std::vector<life>> by_memory;
  for (const trace::rectangle& r : buffers) by_memory[r.memory].push_back({"", r.size, r.lower, r.upper});
  bytes sum = 0;
  for (const auto& [memory, lives] : by_memory) sum += trace::peak_of(lives).second;
  return sum;
}

// Reads CSV whose every row has an offset as a plan. It may be a problem of pins too, but its picture is the same. Its
// lower bound is the peak of live bytes. Returns nothing for any other text, which its own reader then judges.
std::optional<plan_facts> read_plan_csv(const std::string& path, std::string_view text) {
  std::unordered_map<std::string_view, std::size_t> columns;
  std::size_t line = 1;
  std::string_view header = model::cut_header(text, line);
  for (std::size_t c = 0; !header.empty(); ++c) {
    if (!columns.emplace(model::trim(model::cut(header, ',')), c).second) return std::nullopt;
  }
  for (const char* needed : {"id", "lower", "upper", "size", "offset"}) {
    if (!columns.contains(needed)) return std::nullopt;
  }
  if (columns.contains("gaps")) return std::nullopt;
  plan_facts plan{.says_arena = false, .solver = "unknown", .buffers = {}};
  std::map<std::string, bytes> tops;
  std::vector<std::string_view> fields;
  for (++line; !text.empty(); ++line) {
    std::string_view rest = model::trim(model::cut(text, '\n'));
    if (rest.empty()) continue;
    fields.clear();
    while (!rest.empty()) fields.push_back(model::trim(model::cut(rest, ',')));
    const auto field = [&](const char* name) {
      const std::size_t c = columns.at(name);
      return c < fields.size() ? fields[c] : std::string_view{};
    };
    const auto size = model::parse_number<bytes>(field("size")), offset = model::parse_number<bytes>(field("offset"));
    const auto lower = model::parse_number<std::int64_t>(field("lower"));
    const auto upper = model::parse_number<std::int64_t>(field("upper"));
    if (!size || !offset || !lower || !upper || *lower > *upper) return std::nullopt;
    if (*offset > most_bytes || *size > most_bytes - plan.no_reuse) {
      throw model::input_error(path, line, "the sizes or offsets exceed 2^62 bytes");
    }
    trace::rectangle r{std::string{model::unguarded(field("id"))}, *offset, *size, *lower, *upper, ""};
    if (columns.contains("pool")) r.memory = model::unguarded(field("pool"));
    if (columns.contains("slab")) r.memory += (r.memory.empty() ? "slab " : ", slab ") + std::string{field("slab")};
    tops[r.memory] = std::max(tops[r.memory], r.offset + r.size);
    plan.no_reuse += r.size;
    plan.buffers.push_back(std::move(r));
  }
  for (const auto& [memory, top] : tops) {
    if (top > most_bytes - plan.arena) throw model::input_error(path, "its memories exceed 2^62 bytes together");
    plan.arena += top;
  }
  plan.lower_bound = std::min(peak_of_memories(plan.buffers), plan.arena);
  plan.optimal = plan.arena == plan.lower_bound;
  return plan;
}

// Checks the log as a whole. Names lines here, where the text is known: parse_csv() ignores empty ones.
void require_consistent(const std::string& path, std::string_view text, const trace::log& log) {
  const auto fail = [&path, text](std::size_t event, const std::string& what) {
    std::string_view rest = text;
    std::size_t line = 1;
    (void)model::cut_header(rest, line);
    for (++line; !rest.empty(); ++line) {
      const std::string_view row = model::cut(rest, '\n');
      if (!row.empty() && row != "\r" && event-- == 0) throw model::input_error(path, line, what);
    }
    throw model::input_error(path, what);
  };
  std::unordered_map<std::uint64_t, bytes> alive;
  bytes live = 0;
  for (std::size_t i = 0; i < log.size(); ++i) {
    if (log[i].allocate) {
      if (!alive.emplace(log[i].id, log[i].size).second) {
        fail(i, "id " + std::to_string(log[i].id) + " is allocated twice");
      }
      if (log[i].size > most_bytes - live) fail(i, "more than 2^62 bytes are alive");
      live += log[i].size;
    } else if (const auto block = alive.find(log[i].id); block != alive.end()) {
      live -= block->second;
      alive.erase(block);
    }
  }
}

std::uint32_t as_u32(const json_value& v) {
  const bytes n = v.as_bytes();
  if (n > UINT32_MAX) v.fail("is not a whole number of 32 bits");
  return static_cast<std::uint32_t>(n);
}

// Between 0 and 2^53.
double as_time(const json_value& v) {
  const double t = v.as_number();
  if (!(t >= 0 && t <= 9007199254740992.0)) v.fail("is no time");
  return t;
}

template <class Statistics, class ForEach>
void read_statistics(const json_value& root, const char* key, std::optional<Statistics>& out, ForEach for_each) {
  const auto object = root.find(key);
  if (!object) return;
  for_each(out.emplace(), [&](const char* name, auto& member) {
    if (trace::is_recent_field(name) && !object->find(name)) return;
    using number = std::remove_reference_t<decltype(member)>;
    if constexpr (std::is_same_v<number, bool>) {
      member = object->at(name).as_bool();
    } else {
      const bytes n = object->at(name).as_bytes();
      member = static_cast<number>(n);
      if (member != n) object->at(name).fail("is too large for this machine");
    }
  });
}

// Checks the numbers against each other.
void require_consistent(const json_value& of, const pool_statistics& p) {
  const auto require = [&of](bool ok, const char* what) {
    if (!ok) of.fail(what);
  };
  require(p.cached <= p.reserved && p.free <= p.reserved - p.cached, "cached and free exceed reserved");
  require(p.live_rounded == p.reserved - p.cached - p.free, "live_rounded, cached and free are not reserved together");
  require(p.live <= p.live_rounded, "live exceeds live_rounded");
  require(p.largest_hole <= p.free, "largest_hole exceeds free");
  require(p.unusable <= p.free, "unusable exceeds free");
  require(p.live_peak <= p.reserved_peak, "live_peak exceeds reserved_peak");
  require(p.reserved <= p.reserved_peak, "reserved exceeds reserved_peak");
  require(p.frees <= p.allocations, "more frees than allocations");
  require(p.cache_hits <= p.allocations, "more cache_hits than allocations");
  require(p.device_hits <= p.allocations, "more device_hits than allocations");
}

trace::snapshot read_snapshot(const json_value& root) {
  root.only_keys({"format", "ended", "forgotten", "dropped", "pool", "options", "failed", "device", "allocation",
                  "sites", "events"});
  trace::snapshot s;
  s.ended = root.at("ended").as_bool();
  s.forgotten = root.at("forgotten").as_bytes();
  s.dropped = root.at("dropped").as_bytes();
  read_statistics(root, "pool", s.pool, [](auto& of, auto f) { trace::for_each_pool_field(of, f); });
  read_statistics(root, "device", s.device, [](auto& of, auto f) { trace::for_each_device_field(of, f); });
  read_statistics(root, "options", s.options, [](auto& of, auto f) { trace::for_each_option_field(of, f); });
  if (const auto f = root.find("failed")) {
    std::optional<pool_statistics> at;
    read_statistics(*f, "pool", at, [](auto& of, auto each) { trace::for_each_pool_field(of, each); });
    if (!at) f->fail("lacks its pool");
    require_consistent(f->at("pool"), *at);
    if (!s.pool || at->reserved > s.pool->reserved_peak) f->fail("reserved exceeds the pool's reserved_peak");
    s.failed = {f->at("size").as_bytes(), *at};
  }
  if (const auto a = root.find("allocation")) {
    s.allocation = {a->at("count").as_bytes(), as_time(a->at("mean_us")), as_time(a->at("longest_us"))};
  }
  if (s.pool) require_consistent(root.at("pool"), *s.pool);
  const json_value sites = root.at("sites");
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const json_value site = sites.at(i);
    s.sites.push_back({site.at(std::size_t{0}).as_id(), as_u32(site.at(1))});
  }
  const json_value events = root.at("events");
  s.events.reserve(events.size());
  std::unordered_map<std::uint64_t, bytes> alive;
  bytes live = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const json_value row = events.at(i);
    if (row.size() != 7) row.fail("is not [a or f, address, size, stream, thread, time, site]");
    const std::string kind = row.at(std::size_t{0}).as_id();
    if (kind != "a" && kind != "f") row.fail("is neither a nor f: " + model::quote(kind));
    trace::event e{.allocate = kind == "a",
                   .stream = as_u32(row.at(3)),
                   .thread = as_u32(row.at(4)),
                   .site = as_u32(row.at(6)),
                   .address = row.at(1).as_bytes(),
                   .size = row.at(2).as_bytes(),
                   .t_us = as_time(row.at(5))};
    if (e.site > s.sites.size()) row.fail("names a site that is not there");
    if (e.size > UINT64_MAX - e.address) row.fail("ends beyond the address space");
    if (e.allocate) {
      if (!alive.emplace(e.address, e.size).second) row.fail("allocates an address that is alive");
      if (e.size > (bytes{1} << 62) - live) row.fail("more than 2^62 bytes are alive");
      live += e.size;
    } else {
      const auto at = alive.find(e.address);
      if (at == alive.end()) row.fail("frees an address that is not alive");
      // If events were lost, the free of another block may stand there; it counts for the known one.
      if (e.size != at->second && s.dropped == 0) {
        row.fail("frees " + std::to_string(e.size) + " bytes of a block of " + std::to_string(at->second));
      }
      e.size = at->second;
      live -= at->second;
      alive.erase(at);
    }
    s.events.push_back(e);
  }
  return s;
}

// Throws input_error if the engine's log is not one.
trace::engine_log checked(const std::string& path, result<trace::engine_log> log, const char* unit) {
  if (log) return *std::move(log);
  if (log.error().number == 0) throw model::input_error(path, log.error().what);
  if (*unit == '\0') throw model::input_error(path, log.error().number, log.error().what);
  throw model::input_error(path, unit + std::to_string(log.error().number) + ": " + log.error().what);
}

// Returns the lives of allocations and frees in order; what_of names a block.
template <class Events, class WhatOf>
std::vector<life> lives_of(const Events& events, WhatOf what_of) {
  const std::vector<std::size_t> other = trace::partners(events);
  std::vector<life> out;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!events[i].allocate) continue;
    const std::size_t end = std::min(other[i], events.size());
    out.push_back({what_of(events[i]), events[i].size, static_cast<std::int64_t>(i), static_cast<std::int64_t>(end)});
  }
  return out;
}

}  // namespace

trace_input read_trace_input(const std::string& path) try {
  std::string text = model::read_file(path);
  if (text.starts_with('\x80')) return checked(path, trace::parse_pytorch_snapshot(text), "byte ");
  if (trace::is_xla_proto(text)) return checked(path, trace::parse_xla_proto(text), "byte ");
  if (trace::is_xla_text(text)) return checked(path, trace::parse_xla_text(text), "");
  model::drop_byte_order_mark(text);
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos) throw model::input_error(path, 1, "is empty");
  std::string_view rest = text;
  std::size_t line = 1;
  const std::string_view first = model::cut_header(rest, line);
  const bool graph = first.find("\"ggml-graph-trace/") != std::string_view::npos;
  if (text[start] == '{' && !graph) {
    const model::json document = model::parse_json(path, text);
    const json_value root{document, "", path, 0};
    const auto format = root.find("format");
    if (format && format->as_id() == "berth-snapshot/1") return read_snapshot(root);
    if (format ? format->as_id() == "berth-plan/1" : root.find("arena_bytes").has_value()) return read_plan_facts(root);
  }
  if (first.starts_with("ev,")) {
    auto log = trace::parse_csv(text);
    if (!log) throw model::input_error(path, log.error().number, log.error().what);
    require_consistent(path, text, *log);
    return *std::move(log);
  }
  if (first.starts_with("Thread,Time,Action")) return checked(path, trace::parse_rmm_csv(text), "");
  if (auto plan = read_plan_csv(path, text)) return *std::move(plan);
  return model::problem_of_text(path, text);
} catch (const std::bad_alloc&) {
  throw model::input_error(path, "does not fit in memory");
}

shown_input read_shown_input(const std::string& argument, const std::vector<std::string>& dims, progress_line& line) {
  line.stage("reading " + file_name(argument));
  if (names_a_model(argument) || !dims.empty()) {
    const model::problem_file file = read_problem_arguments({argument}, false, dims);
    line.stage("planning");
    return facts_planned(file, line);
  }
  trace_input input = read_trace_input(argument);
  if (const auto* file = std::get_if<model::problem_file>(&input)) {
    line.stage("planning");
    return facts_planned(*file, line);
  }
  if (auto* plan = std::get_if<plan_facts>(&input)) return std::move(*plan);
  if (auto* log = std::get_if<trace::log>(&input)) return std::move(*log);
  if (auto* log = std::get_if<trace::engine_log>(&input)) return std::move(*log);
  return std::get<trace::snapshot>(std::move(input));
}

std::string place_of(const trace::snapshot& s, std::uint32_t site) {
  if (site == 0) return "unknown place";
  const trace::site& at = s.sites[site - 1];
  return at.line == 0 ? at.file : at.file + ":" + std::to_string(at.line);
}

std::vector<life> lives(const shown_input& input) {
  if (const auto* plan = std::get_if<plan_facts>(&input)) {
    std::vector<life> out;
    for (const trace::rectangle& r : plan->buffers) out.push_back({r.name, r.size, r.lower, r.upper});
    return out;
  }
  if (const auto* log = std::get_if<trace::log>(&input)) {
    return lives_of(*log, [](const trace::log_entry& e) { return std::to_string(e.size) + " bytes each"; });
  }
  const auto* engine = std::get_if<trace::engine_log>(&input);
  const trace::snapshot& snapshot = engine != nullptr ? engine->history : std::get<trace::snapshot>(input);
  return lives_of(snapshot.events, [&snapshot](const trace::event& e) { return place_of(snapshot, e.site); });
}

}  // namespace berth::tool

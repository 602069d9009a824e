#include "berth/model/problem_file.hpp"

#include <algorithm>

#include "berth/graph/pipeline.hpp"
#include "berth/model/ggml_trace.hpp"
#include "berth/model/input_error.hpp"
#include "berth/trace/engine_log.hpp"
#include "model/file.hpp"
#include "model/files/readers.hpp"
#include "model/files/text.hpp"
#include "model/graph_problem.hpp"

namespace berth::model {
namespace {

enum class format : std::uint8_t { csv, json, ggml_trace, allocation_list, tflite, xla, none };

// Finds the format by the first characters that are not blank or a comment: a header row ends long before 4 KiB.
format format_of(std::string_view start) {
  if (start.substr(0, 8).ends_with("TFL3") && start.size() >= 8) return format::tflite;
  if (is_xla_assignment(start) || trace::is_xla_proto(start) || trace::is_xla_text(start)) return format::xla;
  while (!start.empty()) {
    const std::string_view line = trim(cut(start, '\n'));
    if (line.empty() || line.front() == '#') continue;
    if (line.find("\"ggml-graph-trace/") != std::string_view::npos) return format::ggml_trace;
    if (line.front() == '{' || line.front() == '[') return format::json;
    for (const std::string_view key : {"ALLOC", "FREE", "ALIGN", "MODEL"}) {
      if (line.substr(0, line.find(' ')) == key) return format::allocation_list;
    }
    const bool text =
        std::all_of(line.begin(), line.end(), [](char c) { return c == '\t' || (c >= 0x20 && c < 0x7f); });
    return text && line.find(',') != std::string_view::npos ? format::csv : format::none;
  }
  return format::none;
}

problem_file read_ggml_problem(const std::string& path, std::string_view text, reads what) {
  const ggml_trace trace = parse_ggml_trace(path, text);
  const std::vector<model_weight> none;  // the trace lists no weights
  problem_file file = problem_of_graph(
      path, trace.graph, trace.rules, [&](value_id v) { return std::to_string(trace.id_of[v.index]); },
      what == reads::uses ? &none : nullptr);
  file.numeric_ids = true;
  return file;
}

problem_file read_any(const std::string& path, const dimensions& said, reads what) {
  input_file in{path};
  std::string text;
  in.append_to(text, 4096);
  drop_byte_order_mark(text);
  const format found = format_of(text);
  if (text.empty() || found == format::none) return problem_of_text(path, text, said, what);  // which says so
  if (found == format::csv && text.size() >= 4093 && text.find('\n') == std::string::npos) {
    throw input_error(path, 1, "the header row is longer than 4096 characters");
  }
  // Refuses a file by its first lines before it reads gigabytes of it.
  if (found == format::csv && text.size() >= 4093) {
    (void)read_problem_csv(path, std::string_view{text}.substr(0, text.rfind('\n') + 1));
  }
  in.append_rest_to(text, longest_text);
  return problem_of_text(path, text, said, what);
}

}  // namespace

problem_file read_problem(const std::string& path, const dimensions& said) {
  return read_any(path, said, reads::buffers);
}

problem_file read_uses(const std::string& path, const dimensions& said) {
  return read_any(path, said, reads::uses);
}

problem_file problem_of_text(const std::string& path, std::string_view text, const dimensions& said, reads what) {
  const format found = format_of(text.substr(0, 4096));
  if (text.empty()) throw input_error(path, 1, "is empty");
  if (!said.empty() && found != format::tflite) {
    throw input_error(path, "no dimension is called " + quote(said.begin()->first) + ": --dim is for models");
  }
  switch (found) {
    case format::ggml_trace: return read_ggml_problem(path, text, what);
    case format::csv: return read_problem_csv(path, text);
    case format::json: return read_problem_json(path, text);
    case format::tflite: return read_tflite(path, text, said, what);
    case format::allocation_list: return read_allocation_list(path, text);
    case format::xla: return read_xla(path, text);
    case format::none: break;
  }
  throw input_error(
      path, 1,
      "neither CSV with a header row, nor JSON, nor ALLOC and FREE, nor a TFLite model, nor XLA's HloProto "
      "or BufferAssignment");
}

problem_file read_pipeline(const std::vector<std::string>& paths) {
  std::vector<ggml_trace> traces;
  std::vector<const graph*> graphs;
  traces.reserve(paths.size());
  rules::placement rules = rules::unconstrained();
  for (const std::string& path : paths) {
    graphs.push_back(&traces.emplace_back(read_ggml_trace(path)).graph);
    rules = rules::strictest(rules, traces.back().rules).value_or(rules);
  }
  graph_fault why;
  const auto joined = join(graphs, links_by_name(graphs), &why);
  if (!joined) throw input_error(paths.front(), "pipeline: " + why.text);
  return problem_of_graph(paths.front(), joined->whole, rules, [&](value_id v) {
    return joined->whole[v].name + "#" + std::to_string(v.index);  // ggml's names repeat
  });
}

std::string known_rules() {
  std::string known;
  for (const auto& r : rules::all()) (known += known.empty() ? "" : ", ") += r.name;
  return known;
}

void add_rules(problem_file& file, std::string_view name) {
  const auto rule = rules::find(name);
  if (!rule) throw input_error(file.path, "no rules are called " + quote(name) + "; there are " + known_rules());
  if (!plan::make_stricter(file.problem, *rule)) {
    throw input_error(file.path, "an alignment of the problem and that of the rules exceed 64 bits together");
  }
  file.rules = name;
}

bytes no_reuse_bytes(const problem_file& file) noexcept {
  const plan::problem& p = file.problem;
  bytes sum = 0;
  for (plan::index i = 0; i < p.buffers.size(); ++i) sum += p.footprint(i);
  for (const bytes size : file.taken_over) sum += align_up(size, p.granularity) + p.tail_pad;
  return sum;
}

void require_valid(const problem_file& file) {
  const auto ok = plan::validate(file.problem);
  if (ok) return;
  const error& e = ok.error();
  const std::string_view what{e.what};
  const std::string_view kind = what.substr(0, what.find(':'));
  const auto& buffers = file.problem.buffers;
  const auto pair_text = [&](plan::index a, plan::index b) {
    return " " + quote(buffers[a].name) + " and " + quote(buffers[b].name) + std::string{what.substr(kind.size())};
  };
  if (kind == "buffer") {
    const std::string text = "buffer " + quote(buffers[e.number].name) + std::string{what.substr(kind.size())};
    if (file.lines.empty() || file.lines[e.number] == 0) throw input_error(file.path, text);
    throw input_error(file.path, file.lines[e.number], text);
  }
  if (kind == "memory") {
    throw input_error(file.path,
                      "pool " + quote(file.problem.memories[e.number].name) + std::string{what.substr(kind.size())});
  }
  if (kind == "conflict") {
    throw input_error(file.path, "conflict of" + pair_text((*file.problem.conflicts)[e.number].a,
                                                           (*file.problem.conflicts)[e.number].b));
  }
  if (kind == "separation") {
    const plan::pair& s = file.problem.separations[e.number];
    throw input_error(file.path, "separation of" + pair_text(s.a, s.b));
  }
  if (kind == "penalty") {
    const plan::reuse_penalty& r = file.problem.reuse_penalties[e.number];
    throw input_error(file.path, "reuse penalty of" + pair_text(r.a, r.b));
  }
  if (kind == "step") {
    throw input_error(file.path, "step at " + std::to_string(file.problem.steps[e.number].at) +
                                     std::string{what.substr(kind.size())});
  }
  if (kind == "link") {
    const plan::link& l = file.problem.links[e.number];
    throw input_error(file.path, "transfer from " + quote(file.problem.memories[l.from].name) + " to " +
                                     quote(file.problem.memories[l.to].name) + std::string{what.substr(kind.size())});
  }
  const std::string text{kind == "problem" ? what.substr(kind.size() + 2) : what};
  throw input_error(file.path, text + " (" + std::to_string(e.number) + ")");
}

}  // namespace berth::model

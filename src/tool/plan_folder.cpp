#include "tool/plan_folder.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "berth/model/input_error.hpp"
#include "berth/model/plan_file.hpp"
#include "berth/model/problem_file.hpp"
#include "berth/plan/certificate.hpp"
#include "berth/plan/verify.hpp"
#include "model/file.hpp"
#include "model/files/plan_text.hpp"
#include "model/kept_plan.hpp"
#include "tool/output.hpp"
#include "tool/plan_cache.hpp"
#include "tool/planned.hpp"
#include "tool/printable.hpp"
#include "tool/problem_argument.hpp"
#include "tool/verb.hpp"

namespace berth::tool {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::size_t at_once = 256;  // files whose cache entries are asked for together

std::string text_of(const ordered_json& j) {
  return j.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
}

// Returns every file below the folder but hidden ones, pipes and devices, and those below `out` and the cache, as paths
// within it, in an order that is the same everywhere.
std::vector<std::string> files_below(const std::string& folder, const std::string& out, const std::string& cache) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::recursive_directory_iterator at{folder, failed}, end; !failed && at != end; at.increment(failed)) {
    const bool hidden = at->path().filename().string().starts_with(".");
    std::error_code gone;
    if (at->is_directory(gone)) {
      if (hidden || fs::equivalent(at->path(), out, gone) || fs::equivalent(at->path(), cache, gone))
        at.disable_recursion_pending();
    } else if (!hidden && !fs::is_other(at->status(gone))) {
      names.push_back(at->path().lexically_relative(folder).generic_string());
    }
  }
  if (failed) throw model::input_error(folder, "cannot be listed: " + failed.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::string key_of(std::string_view content, const folder_call& call) {
  const std::string of_call = model::options_text(call.effort, call.options) + call.rules + ' ' +
                              (call.capacity ? std::to_string(*call.capacity) : "") + '\n';
  return model::hex(model::sha256(of_call + model::sha256(content)));
}

std::string without_line_breaks(std::string json) {
  std::erase(json, '\n');  // those in texts are written as \n
  return json;
}

struct planned_file {
  std::string json;
  bool has_plan = false;
};

model::problem_file read_problem(const std::string& path, const folder_call& call) {
  model::problem_file file = read_problem_arguments({path}, false, {});
  if (!call.rules.empty()) model::add_rules(file, call.rules);
  if (call.capacity && !file.problem.memories.empty()) {
    throw model::input_error(path, "--capacity: the problem has pools with capacities of their own");
  }
  if (call.capacity) file.problem.capacity = call.capacity;
  model::require_valid(file);
  return file;
}

// A file of the shard, and what a cache knows of it.
struct task {
  std::string name, key;
  std::optional<model::problem_file> file;
  model::ordered problem;
  std::string kept_as;
};

// Returns the plan that the cache keeps, or else plans, and keeps that.
plan::plan plan_or_take(const task& each, const folder_call& call, plan_cache* cache,
                        const std::map<std::string, std::string>& kept, model::plan_texts& texts, std::size_t& hits) {
  const auto entry = kept.find(each.kept_as);
  if (entry != kept.end()) {
    std::string why;
    if (auto plan = model::plan_of_entry(*each.file, each.problem, entry->second, texts, why)) {
      ++hits;
      return std::move(*plan);
    }
    if (why != model::unproved) cache->warn(each.kept_as + " is planned again: " + why);
  }
  const auto start = std::chrono::steady_clock::now();
  plan::plan answer = plan_of(*each.file, call.options);
  if (!answer.deadline_hit && !each.kept_as.empty()) {
    const std::chrono::duration<float> took = std::chrono::steady_clock::now() - start;
    cache->put(each.kept_as, model::entry_of(answer, each.problem, took.count()));
  }
  return answer;
}

planned_file json_of(const model::problem_file& file, const plan::plan& answer, double elapsed_ms) {
  if (!answer.has_offsets()) {
    return {without_line_breaks(model::no_plan_json(file, answer, reason_of(file, answer), elapsed_ms))};
  }
  return {without_line_breaks(model::plan_json(file, answer, elapsed_ms)), true};
}

// Returns whether a plan that a former call wrote passes verify(), and its certificate proves its bound. A bound that
// rests on a search has no certificate there, so it is planned again. Returns false for an answer without a plan:
// nothing in the line proves it.
bool is_right(const std::string& path, const folder_call& call, const ordered_json& said) try {
  const std::string plan_json = text_of(said);
  if (!said.at("verified").get<bool>() || !said.at("arena_bytes").is_number()) return false;
  model::problem_file file = read_problem(path, call);
  const plan::plan answer = model::read_plan_text(path, plan_json, file);
  if (plan::verify(file.problem, answer)) return false;
  if (file.problem.has_traffic()) return true;
  if (said.at("status") != name(answer.status)) return false;
  return !plan::verify_bound(file.problem, answer.lower_bound(), answer.proof);
} catch (const std::exception&) {
  return false;  // no plan of this problem
}

// Lines that former calls have written for this shard of any number, by file and key.
std::map<std::string, std::string> lines_of(const folder_call& call) {
  std::map<std::string, std::string> lines;
  const std::string start = "shard-" + std::to_string(call.shard) + "-of-";
  std::error_code failed;
  for (fs::directory_iterator at{call.out, failed}, end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(start) || !name.ends_with(".jsonl") || !at->is_regular_file(failed)) continue;
    std::ifstream in{at->path(), std::ios::binary};
    for (std::string line; std::getline(in, line);) {
      const ordered_json j = ordered_json::parse(line, nullptr, false);
      if (!j.is_object() || !j.contains("file") || !j["file"].is_string() || !j.contains("key") ||
          !j["key"].is_string() || !j.contains("plan") || !j["plan"].is_object()) {
        continue;
      }
      lines[j["file"].get<std::string>() + '\n' + j["key"].get<std::string>()] = line;
    }
  }
  return lines;
}

struct tally {
  std::size_t files = 0, kept = 0, planned = 0, cached = 0, without_plan = 0, failed = 0;
  std::string first_failure;
};

// Reads the problems, and returns what the cache keeps of them. A file that cannot be read is left for line_of().
std::map<std::string, std::string> look_up(std::span<task> some, const folder_call& call, plan_cache& cache) {
  std::vector<std::string> names;
  for (task& each : some) {
    try {
      each.file = read_problem((fs::path{call.folder} / each.name).string(), call);
    } catch (const std::exception&) {
      continue;
    }
    each.problem = model::in_its_own_order(*each.file);
    each.kept_as = model::name_of(each.problem, call.effort, call.options);
    names.push_back(each.kept_as);
  }
  return cache.get(names);
}

std::string line_of(task& each, const folder_call& call, plan_cache* cache,
                    const std::map<std::string, std::string>& entries, tally& t) {
  std::string line = "{\"file\":" + text_of(each.name) + ",\"key\":" + text_of(each.key);
  const std::string path = (fs::path{call.folder} / each.name).string();
  try {
    if (!each.file) each.file = read_problem(path, call);
    model::plan_texts texts;
    const auto start = std::chrono::steady_clock::now();
    const plan::plan answer = plan_or_take(each, call, cache, entries, texts, t.cached);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    const planned_file one = json_of(*each.file, answer, took.count());
    ++t.planned;
    if (!one.has_plan) ++t.without_plan;
    return line + ",\"plan\":" + one.json + "}\n";
  } catch (const std::exception& why) {
    if (t.failed++ == 0) t.first_failure = why.what();
    return line + ",\"error\":" + text_of(why.what()) + "}\n";
  }
}

}  // namespace

void parse_shard(const std::string& text, folder_call& call) {
  const char* const end = text.data() + text.size();
  const auto [slash, first] = std::from_chars(text.data(), end, call.shard);
  const bool split = first == std::errc{} && slash != end && *slash == '/';
  const auto [stop, second] = split ? std::from_chars(slash + 1, end, call.shards) : std::from_chars_result{end, first};
  if (!split || second != std::errc{} || stop != end || call.shard < 1 || call.shard > call.shards ||
      call.shards > model::most_shards) {
    throw usage_error("--shard " + text + ": expected I/N, with I from 1 to N");
  }
}

int plan_folder(const folder_call& call) {
  if (call.out.empty()) throw usage_error("a folder is planned into a folder: --out DIR");
  if (call.out == "-") throw usage_error("--out: of a folder a folder, not standard output");
  std::error_code failed;
  fs::create_directories(call.out, failed);
  if (!fs::is_directory(call.out, failed)) throw usage_error("--out: '" + call.out + "' cannot be a folder");
  if (fs::equivalent(call.folder, call.out, failed)) throw usage_error("--out: the folder of the problems itself");
  const std::string path =
      (fs::path{call.out} / ("shard-" + std::to_string(call.shard) + "-of-" + std::to_string(call.shards) + ".jsonl"))
          .string();
  const std::vector<std::string> names = files_below(call.folder, call.out, call.cache);
  if (fs::exists(path, failed) && !fs::is_regular_file(path, failed))
    throw usage_error("--out: '" + path + "' is no file");
  if (fs::is_symlink(path, failed)) {  // a link is followed in writing
    for (const std::string& name : names) refuse_input_as_output(path, {(fs::path{call.folder} / name).string()});
  }
  const auto former = lines_of(call);
  std::vector<task> left;
  std::string kept;
  tally t;
  for (const std::string& name : names) {
    const std::string in_folder = (fs::path{call.folder} / name).string();
    std::string content = name, key;
    try {
      content = model::read_file(in_folder);
      key = key_of(content, call);
    } catch (const model::input_error&) {  // said when it is planned
    }
    if (model::shard_of(content, call.shards) != call.shard - 1) continue;
    ++t.files;
    const std::string as_written = ordered_json::parse(text_of(name)).get<std::string>();
    const auto found = former.find(as_written + '\n' + key);
    if (found == former.end() || !is_right(in_folder, call, ordered_json::parse(found->second)["plan"])) {
      left.push_back({.name = name, .key = key});
      continue;
    }
    ++t.kept;
    kept += found->second + '\n';
  }
  model::write_file(path, kept);
  std::optional<plan_cache> cache;
  if (!call.cache.empty()) cache.emplace(call.cache);
  std::ofstream out{path, std::ios::binary | std::ios::app};
  for (std::size_t i = 0; i < left.size(); i += at_once) {
    const std::span<task> some{left.data() + i, std::min(at_once, left.size() - i)};
    const auto entries = cache ? look_up(some, call, *cache) : std::map<std::string, std::string>{};
    for (task& each : some) {
      const std::string line = line_of(each, call, cache ? &*cache : nullptr, entries, t);
      if (!(out << line << std::flush)) throw model::input_error(path, "cannot be written");
      each.file.reset();
      each.problem = {};
    }
  }
  if (call.json) {
    print_json(ordered_json{{"shard", call.shard},
                            {"shards", call.shards},
                            {"files", t.files},
                            {"kept", t.kept},
                            {"planned", t.planned},
                            {"cached", t.cached},
                            {"without_plan", t.without_plan},
                            {"failed", t.failed},
                            {"out", path}});
  } else if (!call.quiet) {
    std::printf(
        "%s: %zu of %zu files: %zu planned, %zu of them from the cache, %zu kept, %zu without a plan, %zu not read\n",
        printable(path).c_str(), t.files, names.size(), t.planned, t.cached, t.kept, t.without_plan, t.failed);
  }
  if (t.failed != 0) {
    throw usage_error(std::to_string(t.failed) + " of " + std::to_string(t.files) +
                      " files could not be planned; the first: " + t.first_failure);
  }
  return t.without_plan != 0 ? answer_is_no : done;
}

}  // namespace berth::tool

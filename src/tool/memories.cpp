// berth memories: the memories of known targets, and where each figure is from.
#include "tool/memories.hpp"

#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "tool/command_line.hpp"
#include "tool/output.hpp"
#include "tool/units.hpp"

namespace berth::tool {
namespace {

using target_json = nlohmann::ordered_json;

// Parses "sram=256KiB,cost=1,..." into a memory.
class memory_text {
 public:
  explicit memory_text(const std::string& text) : text_{text} {}

  model::hierarchy_memory parse() {
    std::string_view rest = text_;
    take_size(next(rest));
    bool priced = false;
    while (!rest.empty()) {
      const std::string_view part = next(rest);
      const std::size_t equals = part.find('=');
      if (equals == std::string_view::npos) fail("'" + std::string{part} + "' is not KEY=VALUE");
      const std::string key{part.substr(0, equals)};
      if (!seen_.insert(key).second) fail("'" + key + "' is there twice");
      take(key, std::string{part.substr(equals + 1)});
      priced = priced || key == "cost";
    }
    if (!priced && made_.bandwidth <= 0) fail("it has neither a cost nor a bandwidth");
    if (!priced) made_.memory.cost = 1 / made_.bandwidth;
    return made_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw usage_error("--memory " + text_ + ": " + what); }

  static std::string_view next(std::string_view& rest) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    return part;
  }

  void take_size(std::string_view part) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) fail("expected NAME=BYTES first");
    made_.memory.name = part.substr(0, equals);
    made_.memory.capacity = bytes_of("size", std::string{part.substr(equals + 1)});
  }

  void take(const std::string& key, const std::string& value) {
    if (key == "cost") {
      made_.memory.cost = number_of(key, value, 0);
    } else if (key == "bandwidth") {
      made_.bandwidth = number_of(key, value, 1 / plan::max_amount);
    } else if (key == "latency") {
      made_.latency = number_of(key, value, 0);
    } else if (key == "align") {
      made_.memory.alignment = bytes_of(key, value);
    } else if (key == "holds") {
      if (value != "everything" && value != "weights") fail("holds: '" + value + "' is not everything or weights");
      made_.contents = value == "weights" ? model::holds::weights : model::holds::everything;
    } else {
      fail("unknown key '" + key + "'; there are cost, bandwidth, latency, align, holds");
    }
  }

  [[nodiscard]] bytes bytes_of(const std::string& key, const std::string& value) const {
    const auto n = parse_bytes(value);
    if (!n || *n > plan::max_address) fail(key + ": '" + value + "' is not a number of bytes up to 2^62");
    if (*n == 0) fail(key + ": is 0");
    return *n;
  }

  [[nodiscard]] double number_of(const std::string& key, const std::string& value, double least) const {
    double n = 0;
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), n);
    const bool whole = code == std::errc{} && end == value.data() + value.size();
    if (!whole || !plan::is_amount(n) || n < least) {
      fail(key + ": '" + value + "' is not a number " + (least == 0 ? "from 0" : "above 0") + " to 1e100");
    }
    return n;
  }

  const std::string& text_;
  std::set<std::string> seen_;
  model::hierarchy_memory made_;
};

template <class T>
target_json json_of(const model::sourced<T>& figure) {
  return {{"value", figure.value},
          {"assumed", figure.document.empty()},
          {"document", figure.document.empty() ? target_json(nullptr) : target_json(figure.document)}};
}

target_json json_of(const model::target& t) {
  target_json memories = target_json::array();
  for (const model::target_memory& m : t.memories) {
    memories.push_back({{"name", m.name},
                        {"holds", name(m.contents)},
                        {"size_bytes", json_of(m.size)},
                        {"alignment", json_of(m.alignment)},
                        {"bandwidth_gb_s", json_of(m.bandwidth)},
                        {"latency_ns", m.contents == model::holds::nothing ? target_json(nullptr) : json_of(m.latency)},
                        {"cost_ns_a_byte", 1 / m.bandwidth.value}});
  }
  return {{"name", t.name}, {"what", t.what}, {"memories", std::move(memories)}};
}

template <class T>
std::string marked(const std::string& text, const model::sourced<T>& figure) {
  return text + (figure.document.empty() ? " (assumed)" : "");
}

std::string number(double n) {
  char digits[40];
  return {digits, static_cast<std::size_t>(std::snprintf(digits, sizeof digits, "%.4g", n))};
}

void print(const model::target& t) {
  std::printf("%-15s %s\n", std::string{t.name}.c_str(), std::string{t.what}.c_str());
  std::vector<std::string_view> documents;
  for (const model::target_memory& m : t.memories) {
    std::string latency;  // of copies
    if (m.contents != model::holds::nothing) latency = ", " + marked(number(m.latency.value) + " ns", m.latency);
    std::printf("  %-10s %s, start %s, %s%s, %s ns a byte; holds %s\n", std::string{m.name}.c_str(),
                marked(human(m.size.value), m.size).c_str(),
                marked(std::to_string(m.alignment.value), m.alignment).c_str(),
                marked(number(m.bandwidth.value) + " GB/s", m.bandwidth).c_str(), latency.c_str(),
                number(1 / m.bandwidth.value).c_str(), name(m.contents));
    for (const std::string_view d : {m.size.document, m.alignment.document, m.bandwidth.document, m.latency.document}) {
      if (!d.empty() && std::ranges::find(documents, d) == documents.end()) documents.push_back(d);
    }
  }
  for (const std::string_view d : documents) std::printf("  document   %s\n", std::string{d}.c_str());
}

}  // namespace

void add_memory_options(CLI::App& app, memories_call& call) {
  std::vector<std::string> names;
  for (const model::target& t : model::targets()) names.emplace_back(t.name);
  app.add_option("--memories", call.target,
                 "Plans over the memories of this target (see berth memories), by the bytes that each step touches")
      ->check(CLI::IsMember(names));
  app.add_option(
         "--memory", call.by_hand,
         "Adds a memory, and again for more. cost: ns a byte touched (default 1/bandwidth); bandwidth: GB/s, of\n"
         "copies too; latency: ns of a copy; holds: everything or weights")
      ->check(not_empty)
      ->type_name("NAME=BYTES[,cost=X][,bandwidth=X][,latency=X][,align=N][,holds=X]")
      ->allow_extra_args(false);
  app.add_flag("--no-copies", call.no_copies, "With --memories or --memory: each value stays in one memory");
}

std::vector<model::hierarchy_memory> memories_named(const memories_call& call) {
  std::vector<model::hierarchy_memory> all;
  if (!call.target.empty()) all = model::memories_of(*model::find_target(call.target));
  for (const std::string& text : call.by_hand) all.push_back(memory_text{text}.parse());
  if (all.empty()) throw usage_error("--no-copies: with --memories or --memory only");
  std::set<std::string> names;
  for (const model::hierarchy_memory& m : all) {
    if (!names.insert(m.memory.name).second)
      throw usage_error("--memory: two memories are called '" + m.memory.name + "'");
  }
  return all;
}

std::function<int()> declare_memories(CLI::App& app) {
  auto as_json = std::make_shared<bool>(false);
  app.add_flag("--json", *as_json, "One JSON object on standard output");
  return [as_json] {
    target_json all = target_json::array();
    for (const model::target& t : model::targets()) {
      if (!*as_json) print(t);
      all.push_back(json_of(t));
    }
    if (*as_json) print_json(target_json{{"targets", std::move(all)}});
    return static_cast<int>(done);
  };
}

}  // namespace berth::tool

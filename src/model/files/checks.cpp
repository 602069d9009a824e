#include "model/files/checks.hpp"

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "berth/model/input_error.hpp"
#include "model/files/json_fields.hpp"
#include "model/files/text.hpp"

namespace berth::model {
namespace {

// Asks the parser that plans are read with.
bool is_utf8(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x80; })) return true;
  std::string quoted{'"'};
  for (const char c : text) quoted += c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ' ? '?' : c;
  return json::accept(quoted + '"');
}

}  // namespace

void require_good_ids(const problem_file& file) {
  const auto& buffers = file.problem.buffers;
  // Ids that ascend, as numbers do (the shorter one first), are distinct.
  const auto ascends = [](const plan::buffer& a, const plan::buffer& b) {
    return a.name.size() != b.name.size() ? a.name.size() < b.name.size() : a.name < b.name;
  };
  const bool ascend = std::adjacent_find(buffers.begin(), buffers.end(), std::not_fn(ascends)) == buffers.end();
  std::unordered_set<std::string_view> seen;
  if (!ascend) seen.reserve(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::string& id = buffers[i].name;
    std::string what;
    if (id.empty()) what = "id is empty";
    if (!is_utf8(id)) what = "the id " + quote(id) + " is not UTF-8";
    if (!ascend && !seen.insert(id).second) what = "a second buffer with the id " + quote(id);
    if (what.empty()) continue;
    if (file.lines.empty()) throw input_error(file.path, what);
    throw input_error(file.path, file.lines[i], what);
  }
}

void make_good_ids(problem_file& file) {
  std::unordered_set<std::string> taken;
  taken.reserve(file.problem.buffers.size());
  for (std::size_t i = 0; i < file.problem.buffers.size(); ++i) {
    std::string& id = file.problem.buffers[i].name;
    if (!is_utf8(id)) id = json::parse(json(id).dump(-1, ' ', true, json::error_handler_t::replace)).get<std::string>();
    if (id.empty()) id = "#" + std::to_string(i);
    while (!taken.insert(id).second) id += "#" + std::to_string(i);
  }
}

std::optional<std::vector<plan::interval>> without_gaps(plan::interval live, std::vector<plan::interval> gaps) {
  std::sort(gaps.begin(), gaps.end(), [](const auto& a, const auto& b) { return a.lower < b.lower; });
  std::vector<plan::interval> left;
  plan::tick from = live.lower;
  for (const plan::interval& gap : gaps) {
    if (gap.lower >= gap.upper || gap.lower < live.lower || gap.upper > live.upper) return std::nullopt;
    if (gap.lower > from) left.push_back({from, gap.lower});
    from = std::max(from, gap.upper);
  }
  if (from < live.upper) left.push_back({from, live.upper});
  if (left.empty()) return std::nullopt;
  return left;
}

}  // namespace berth::model

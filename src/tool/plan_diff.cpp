#include "tool/plan_diff.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "berth/model/input_error.hpp"
#include "tool/printable.hpp"
#include "tool/units.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

// The sum over memories and slabs of the highest end, each size rounded as the problem rounds that of the same id; one
// that the problem no longer has, as it rounds those about which it says nothing.
bytes arena_under(const std::string& path, const plan::problem& p, const plan_facts& plan) {
  const auto checked = [&path](std::optional<bytes> n) {
    if (!n) throw model::input_error(path, "its sizes exceed 64 bits as the problem rounds them (--diff)");
    return *n;
  };
  std::unordered_map<std::string_view, plan::index> ids;
  ids.reserve(p.buffers.size());
  for (plan::index i = 0; i < p.buffers.size(); ++i) ids.emplace(p.buffers[i].name, i);
  std::map<std::string_view, bytes> tops;
  for (const trace::rectangle& r : plan.buffers) {
    const auto i = ids.find(r.name);
    const bool known = i != ids.end();
    const auto rounded = checked_align_up(r.size, known ? p.granularity_of(i->second) : p.granularity);
    const auto end = checked_add(r.offset, checked(rounded));
    const auto padded = checked_add(checked(end), known ? p.tail_pad_of(i->second) : p.tail_pad);
    tops[r.memory] = std::max(tops[r.memory], checked(padded));
  }
  bytes arena = 0;
  for (const auto& [memory, top] : tops) arena = checked(checked_add(arena, top));
  return arena;
}

}  // namespace

plan_diff diff_to(const std::string& former, const model::problem_file& file, const plan_facts& now,
                  const std::string& growth) {
  const trace_input read = read_trace_input(former);
  const auto* const before = std::get_if<plan_facts>(&read);
  if (before == nullptr) throw model::input_error(former, "is no plan, as berth plan --out writes it (--diff)");
  const bytes arena = before->says_arena ? before->arena : arena_under(former, file.problem, *before);
  plan_diff d{.arena_before = arena, .arena = now.arena, .at_peaks = {}};
  const auto allowed = parse_bytes_or_share(growth, arena);
  if (!allowed)
    throw usage_error("--growth: '" + growth + "' is neither a number of bytes, such as 64KiB, nor a percentage");
  d.allowed = *allowed;
  const std::vector<life> old_lives = lives(*before), new_lives = lives(now);
  const peak was = peak_of(old_lives), is = peak_of(new_lives);
  if (!before->kernels.empty() && before->kernels != now.kernels) {
    d.kernels_before = before->kernels;
    d.kernels = now.kernels.empty() ? "none" : now.kernels;
  }
  d.peak_before = was.size;
  d.peak = is.size;
  d.at_peaks = compare(alive_at(old_lives, was.at), alive_at(new_lives, is.at));
  return d;
}

std::string diff_json(const plan_diff& d) {
  nlohmann::ordered_json buffers = nlohmann::ordered_json::array();
  for (const change& c : d.at_peaks) {
    buffers.push_back({{"id", c.what}, {"before", c.before.size}, {"after", c.after.size}});
  }
  nlohmann::ordered_json all{{"ok", d.ok()},
                             {"arena_before", d.arena_before},
                             {"allowed_growth", d.allowed},
                             {"peak_before", d.peak_before},
                             {"peak", d.peak},
                             {"at_peaks", buffers}};
  if (!d.kernels.empty()) all.update({{"kernels_before", d.kernels_before}, {"kernels", d.kernels}});
  return "\"diff\":" + all.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

void print(const plan_diff& d, const std::string& former) {
  constexpr std::size_t most = 10;
  const bool grew = d.arena >= d.arena_before;
  const std::string by = (grew ? "+" : "-") + human(grew ? d.arena - d.arena_before : d.arena_before - d.arena);
  std::printf("  against %s\n", printable(former).c_str());
  std::printf("    arena       %s, %s\n", by.c_str(),
              d.ok() ? "as allowed" : ("more than the " + human(d.allowed) + " allowed").c_str());
  if (!d.kernels.empty()) {
    std::printf("    kernels     %s, before %s\n", printable(d.kernels).c_str(), printable(d.kernels_before).c_str());
  }
  std::printf("    alive       %s at the peak, before %s%s\n", human_exactly(d.peak).c_str(),
              human_exactly(d.peak_before).c_str(), d.at_peaks.empty() ? "; the same buffers" : ", of which");
  print(d.at_peaks, most);
}

}  // namespace berth::tool

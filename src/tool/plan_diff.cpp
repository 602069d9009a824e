#include "tool/plan_diff.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <variant>

#include "berth/model/input_error.hpp"
#include "tool/printable.hpp"
#include "tool/units.hpp"
#include "tool/verb.hpp"

namespace berth::tool {

plan_diff diff_to(const std::string& former, const plan_facts& now, const std::string& growth) {
  const trace_input read = read_trace_input(former);
  const auto* const before = std::get_if<plan_facts>(&read);
  if (before == nullptr) throw model::input_error(former, "is no plan, as berth plan --out writes it (--diff)");
  plan_diff d{.arena_before = before->arena, .arena = now.arena, .at_peaks = {}};
  const auto allowed = parse_bytes_or_share(growth, before->arena);
  if (!allowed)
    throw usage_error("--growth: '" + growth + "' is neither a number of bytes, such as 64KiB, nor a percentage");
  d.allowed = *allowed;
  const std::vector<life> old_lives = lives(*before), new_lives = lives(now);
  const peak was = peak_of(old_lives), is = peak_of(new_lives);
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
  const nlohmann::ordered_json all{{"ok", d.ok()},
                                   {"arena_before", d.arena_before},
                                   {"allowed_growth", d.allowed},
                                   {"peak_before", d.peak_before},
                                   {"peak", d.peak},
                                   {"at_peaks", buffers}};
  return "\"diff\":" + all.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

void print(const plan_diff& d, const std::string& former) {
  constexpr std::size_t most = 10;
  const bool grew = d.arena >= d.arena_before;
  const std::string by = (grew ? "+" : "-") + human(grew ? d.arena - d.arena_before : d.arena_before - d.arena);
  std::printf("  against %s\n", printable(former).c_str());
  std::printf("    arena       %s, %s\n", by.c_str(),
              d.ok() ? "as allowed" : ("more than the " + human(d.allowed) + " allowed").c_str());
  std::printf("    alive       %s at the peak, before %s%s\n", human_exactly(d.peak).c_str(),
              human_exactly(d.peak_before).c_str(), d.at_peaks.empty() ? "; the same buffers" : ", of which");
  print(d.at_peaks, most);
}

}  // namespace berth::tool

#include "profile.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace ascend_simulator {
namespace {

constexpr std::size_t gib = std::size_t{1} << 30;

//                        name   as the chip says it  memory     media     host   1 GB   V1     FLOAT  streams
//                        events
constexpr chip chips[] = {{"310", "Ascend310", 8 * gib, 4 * gib, false, false, true, false, 1024, 1023},
                          {"310P", "Ascend310P3", 24 * gib, 4 * gib, false, false, true, false, 1024, 1023},
                          {"910", "Ascend910A", 32 * gib, 4 * gib, false, false, true, false, 2048, 65535},
                          {"A2", "Ascend910B3", 64 * gib, 16 * gib, true, true, true, true, 1984, 65536},
                          {"A3", "Ascend910_9391", 64 * gib, 16 * gib, true, true, true, true, 1984, 65536},
                          {"950", "Ascend950PR", 128 * gib, 16 * gib, true, true, false, true, 1984, 65536}};

const char* variable(const char* name) {
  const char* const value = secure_getenv(name);
  return value != nullptr && *value != 0 ? value : nullptr;
}

// Parses a number with an optional K, M or G behind it (1024 each). Returns false for any other text.
bool parse_bytes(std::string_view text, std::size_t& out) {
  const char* const end = text.data() + text.size();
  const auto [rest, wrong] = std::from_chars(text.data(), end, out);
  if (wrong != std::errc{}) return false;
  const std::string_view unit{rest, static_cast<std::size_t>(end - rest)};
  int shift = 0;
  if (unit == "K") shift = 10;
  if (unit == "M") shift = 20;
  if (unit == "G") shift = 30;
  if (!unit.empty() && shift == 0) return false;
  if (out > SIZE_MAX >> shift) return false;
  out <<= shift;
  return true;
}

template <class Number>
bool parse_number(std::string_view text, Number& out) {
  const auto [rest, wrong] = std::from_chars(text.data(), text.data() + text.size(), out);
  return wrong == std::errc{} && rest == text.data() + text.size();
}

void read_profile(settings& s) {
  const char* const wanted = variable("ASCEND_SIMULATOR_PROFILE");
  std::string_view name = wanted != nullptr ? wanted : s.old_calls_only ? "310P:8.0" : "A2:8.5";
  std::string_view cann = s.old_calls_only ? "8.0" : "8.5";
  if (const auto colon = name.find(':'); colon != std::string_view::npos) {
    cann = name.substr(colon + 1);
    name = name.substr(0, colon);
  }
  bool found = false;
  for (const chip& one : chips) {
    if (name != one.name) continue;
    s.on = one;
    found = true;
  }
  if (!found) {
    s.wrong.append("no profile '").append(name).append("'; there are 310, 310P, 910, A2, A3 and 950");
  } else if (cann != "8.0" && cann != "8.5") {
    s.wrong.append("no CANN '").append(cann).append("' in the profile; there are 8.0 and 8.5");
  } else if (s.old_calls_only && cann != "8.0") {
    s.wrong = "this library of the simulator is that of CANN 8.0 alone";
  }
  s.strict = cann == "8.0";
}

void read_schedule(settings& s) {
  const char* const wanted = variable("ASCEND_SIMULATOR_SCHEDULE");
  const std::string_view name = wanted != nullptr ? wanted : "eager";
  if (name == "latest") {
    s.order = schedule::latest;
  } else if (name.substr(0, 7) == "random:" && parse_number(name.substr(7), s.seed)) {
    s.order = schedule::random;
  } else if (name != "eager") {
    s.wrong.append("no schedule '").append(name).append("'; there are eager, latest and random:SEED");
  }
}

void read_faults(settings& s) {
  const char* const wanted = variable("ASCEND_SIMULATOR_FAIL");
  std::string_view rest = wanted != nullptr ? wanted : "";
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(one.size() < rest.size() ? one.size() + 1 : one.size());
    const auto first = one.find(':');
    const auto second = one.find(':', first == std::string_view::npos ? first : first + 1);
    settings::fault made{std::string{one.substr(0, first)}, 0, 0};
    if (second == std::string_view::npos || !parse_number(one.substr(first + 1, second - first - 1), made.nth) ||
        !parse_number(one.substr(second + 1), made.code) || made.nth < 1) {
      s.wrong.append("ASCEND_SIMULATOR_FAIL wants FUNCTION:NTH:CODE[,...], not '").append(one).append("'");
      return;
    }
    s.faults.push_back(std::move(made));
  }
}

void read_size(settings& s, const char* name, std::size_t& out) {
  const char* const wanted = variable(name);
  if (wanted != nullptr && !parse_bytes(wanted, out)) s.wrong.append(name).append(" wants bytes, as 512M");
}

}  // namespace

settings read_settings() {
  settings s{.on = chips[3]};
#ifdef ASCEND_SIMULATOR_OLD
  s.old_calls_only = true;
#endif
  read_profile(s);
  read_schedule(s);
  read_faults(s);
  s.total = s.on.memory;
  std::size_t held = 0;
  read_size(s, "ASCEND_SIMULATOR_MEMORY", s.total);
  read_size(s, "ASCEND_SIMULATOR_HELD_BY_OTHERS", held);
  s.memory = held < s.total ? s.total - held : 0;
  const char* const code = variable("ASCEND_SIMULATOR_INIT");
  if (code != nullptr && !parse_number(code, s.start_code)) {
    s.wrong.append("ASCEND_SIMULATOR_INIT wants a code, as 100039, not '").append(code).append("'");
  }
  return s;
}

}  // namespace ascend_simulator

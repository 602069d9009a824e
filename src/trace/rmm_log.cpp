#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "trace/history_builder.hpp"
#include "trace/text.hpp"

namespace berth::trace {
namespace {

// Reads 13:24:56.123456, 13:24:56:123456 of older versions, or seconds. In microseconds.
bool read_time(std::string_view text, double& us) {
  std::uint64_t seconds = 0, part = 0;
  for (int i = 0; i < 2 && text.find(':') != std::string_view::npos; ++i) {
    if (!read(cut(text, ':'), part) || part > 59) return false;
    seconds = (seconds + part) * 60;
  }
  if (!read(text.substr(0, text.find_first_of(".:")), part) || part > (std::uint64_t{1} << 33)) return false;
  seconds += part;
  (void)cut(text, text.find('.') != std::string_view::npos ? '.' : ':');
  double fraction = 0, unit = 1;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    fraction += (c - '0') * (unit /= 10);
  }
  us = 1e6 * (static_cast<double>(seconds) + fraction);
  return true;
}

// Numbers threads and streams in the order they are met: a log writes them as numbers, as addresses or as names. The
// keys point into the log's text.
using numbers = std::unordered_map<std::string_view, std::uint32_t>;
std::uint32_t number_of(std::string_view name, numbers& known) {
  return known.try_emplace(name, static_cast<std::uint32_t>(known.size())).first->second;
}

}  // namespace

result<engine_log> parse_rmm_csv(std::string_view text) {
  constexpr double hour = 3600e6, day = 24 * hour;
  engine_log out;
  out.engine = "RMM";
  history_builder builder;
  numbers threads, streams;
  std::uint64_t line = 0, cut_off = 0;
  double start = -1, before = 0, days = 0;
  const auto wrong = [&line](const char* what) { return error{errc::invalid_input, what, line}; };
  while (!text.empty()) {
    ++line;
    const bool last = text.find('\n') == std::string_view::npos;
    std::string_view row = cut(text, '\n');
    if (!row.empty() && row.back() == '\r') row.remove_suffix(1);
    if (line == 1 && !row.starts_with("Thread,Time,Action,Pointer,Size,Stream")) {
      return wrong("a log of RMM begins with Thread,Time,Action,Pointer,Size,Stream");
    }
    if (line == 1 || row.empty()) continue;
    if (last && std::ranges::count(row, ',') < 5) {  // a program that crashed never wrote the rest of its buffer
      cut_off = 1;
      break;
    }
    event e;
    e.thread = number_of(cut(row, ','), threads);
    double time = 0;
    if (!read_time(cut(row, ','), time)) return wrong("Time is no time");
    const std::string_view action = cut(row, ',');
    std::string_view pointer = cut(row, ',');
    if (!read(cut(row, ','), e.size)) return wrong("Size is not a number of bytes");
    e.stream = number_of(cut(row, ','), streams);
    if (start < 0) start = before = time;
    // The clock knows no date. A thread may be late, by an hour at most, with what it dated before midnight.
    const bool yesterday = days > 0 && time > before + day - hour;
    if (time + day / 2 < before) days += day;
    if (!yesterday) before = time;
    e.t_us = time + days - (yesterday ? day : 0) - start;
    if (action == "allocate failure") {
      out.failed.push_back({.before = builder.events(), .size = e.size, .stream = e.stream});
      continue;
    }
    if (action != "allocate" && action != "free" && action != "deallocate") {
      return wrong("Action is none of allocate, free and allocate failure");
    }
    if (pointer == "(nil)") continue;  // of no bytes
    if (pointer.starts_with("0x")) pointer.remove_prefix(2);
    if (!read(pointer, e.address, 16)) return wrong("Pointer is no address");
    if (e.address == 0) continue;
    if (!(action == "allocate" ? builder.allocate(e) : builder.free(e))) {
      return wrong("more than 2^62 bytes are alive, or a block ends beyond the address space");
    }
  }
  if (line == 0) return wrong("the file is empty");
  builder.finish(out);
  out.unmatched += cut_off;
  return out;
}

}  // namespace berth::trace

#include <algorithm>
#include <cinttypes>
#include <cmath>

#include "berth/trace/snapshot.hpp"
#include "core/print.hpp"
#include "trace/blocks.hpp"
#include "trace/text.hpp"

namespace berth::trace {

result<log> parse_csv(std::string_view text) {
  log out;
  constexpr std::size_t most_events = std::size_t{1} << 26;  // some gigabytes
  std::size_t number = 1;
  const auto wrong = [&number](const char* what) { return error{errc::invalid_input, what, number}; };
  if (!cut_header(text, number).starts_with("ev,id,size,stream,thread,t_us")) {
    return wrong("an allocation log begins with ev,id,size,stream,thread,t_us");
  }
  for (++number; !text.empty(); ++number) {
    std::string_view line = cut(text, '\n');
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    if (out.size() == most_events) return wrong("more than 2^26 events");
    log_entry e;
    const std::string_view ev = cut(line, ',');
    if (ev != "a" && ev != "f") return wrong("ev is neither a nor f");
    e.allocate = ev == "a";
    if (!read(cut(line, ','), e.id)) return wrong("id is not a number");
    const std::string_view size = cut(line, ',');
    if (!read(size, e.size) && (e.allocate || !size.empty())) return wrong("size is not a number of bytes");
    if (!read(cut(line, ','), e.stream)) return wrong("stream is not a number");
    if (!read(cut(line, ','), e.thread)) return wrong("thread is not a number");
    if (!read(cut(line, ','), e.t_us) || !std::isfinite(e.t_us)) return wrong("t_us is not a number");
    out.push_back(e);
  }
  return out;
}

std::string to_csv(const log& l) {
  std::string out = "ev,id,size,stream,thread,t_us\n";
  for (const log_entry& e : l) {
    detail::print(out, "%c,%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%" PRIu32 ",%.3f\n", e.allocate ? 'a' : 'f', e.id,
                  e.size, e.stream, e.thread, e.t_us);
  }
  return out;
}

log_summary summarize(const log& l) {
  log_summary s;
  const std::vector<std::size_t> other = partners(l);
  for (std::size_t i = 0; i < l.size(); ++i) {
    if (l[i].allocate) {
      ++s.allocations;
      s.live_at_end += l[i].size;
      s.peak_live = std::max(s.peak_live, s.live_at_end);
    } else if (other[i] == no_event) {
      ++s.unmatched_frees;
    } else {
      ++s.frees;
      s.live_at_end -= l[other[i]].size;
    }
  }
  s.blocks_at_end = s.allocations - s.frees;
  return s;
}

}  // namespace berth::trace

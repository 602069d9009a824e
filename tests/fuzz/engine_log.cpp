// Other engines' logs of their own allocators: what is taken holds what a snapshot promises.
#include "berth/trace/engine_log.hpp"

#include <algorithm>
#include <unordered_map>

#include "fuzz/fuzz.hpp"

using namespace berth;

namespace {

// Every reader makes a snapshot that PyTorch's own tools accept.
void comes_back(const trace::snapshot& s) {
  const auto back = trace::parse_pytorch_snapshot(trace::to_pytorch_pickle(s));
  fuzz::require(back.has_value(), "a history is one of PyTorch's");
  const auto of_nothing = [](const trace::event& e) { return e.size == 0; };
  if (back->alive_before != 0 || std::ranges::any_of(s.events, of_nothing)) return;
  const auto same = [](const trace::event& a, const trace::event& b) {
    return a.allocate == b.allocate && a.address == b.address && a.size == b.size;
  };
  fuzz::require(std::ranges::equal(s.events, back->history.events, same), "a history comes back as it was written");
}

void check(const result<trace::engine_log>& read) {
  if (!read) return;
  fuzz::require(read->devices > 0 && read->alive_before <= read->history.events.size(), "more than there is");
  std::unordered_map<std::uint64_t, bytes> alive;
  double last = 0;
  for (const trace::event& e : read->history.events) {
    fuzz::require(e.site <= read->history.sites.size(), "a site that is not there");
    fuzz::require(e.t_us >= last && e.t_us <= 0x1p54, "time runs backwards");
    last = e.t_us;
    if (e.allocate) {
      fuzz::require(alive.emplace(e.address, e.size).second, "allocated while it is alive");
    } else {
      const auto at = alive.find(e.address);
      fuzz::require(at != alive.end() && at->second == e.size, "freed as it was not allocated");
      alive.erase(at);
    }
  }
  for (const trace::failed_request& f : read->failed) {
    fuzz::require(f.before <= read->history.events.size(), "failed after the end");
    fuzz::require(f.reserved <= read->reserved_peak, "more was reserved than at the peak");
  }
  const trace::log_summary sum = trace::summarize(trace::to_log(read->history));
  fuzz::require(sum.unmatched_frees == 0 && sum.peak_live <= bytes{1} << 62, "more is alive than can be");
  comes_back(read->history);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  check(trace::parse_pytorch_snapshot(text));
  check(trace::parse_rmm_csv(text));
  check(trace::parse_xla_proto(text));
  check(trace::parse_xla_text(text));
  (void)trace::is_xla_proto(text);
  (void)trace::is_xla_text(text);
  return 0;
}

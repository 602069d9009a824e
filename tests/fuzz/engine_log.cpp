// Other engines' logs of their own allocators: what is taken holds what a snapshot promises.
#include "berth/trace/engine_log.hpp"

#include <unordered_map>

#include "fuzz/fuzz.hpp"

using namespace berth;

namespace {

void check(const result<trace::engine_log>& read) {
  if (!read) return;
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
  }
  const trace::log_summary sum = trace::summarize(trace::to_log(read->history));
  fuzz::require(sum.unmatched_frees == 0 && sum.peak_live <= bytes{1} << 62, "more is alive than can be");
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

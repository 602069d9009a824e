// The inputs of `berth report`, `view` and `replay`: plans, allocation logs and snapshots.
#include <algorithm>
#include <cmath>

#include "berth/trace/picture.hpp"
#include "berth/trace/profile.hpp"
#include "fuzz/fuzz.hpp"
#include "tool/trace_input.hpp"

using namespace berth;

namespace {

bool near(double a, double b) {
  return std::abs(a - b) <= 0.001 + 1e-9 * std::abs(a);
}

// As a file of ours and as PyTorch's a snapshot says what it said.
void comes_back(const trace::snapshot& s) {
  const auto read = tool::read_trace_input(fuzz::path_of(trace::to_json(s)));
  const auto& back = std::get<trace::snapshot>(read);
  fuzz::require(back.ended == s.ended && back.dropped == s.dropped && back.sites.size() == s.sites.size(), "snapshot");
  fuzz::require(std::ranges::equal(s.events, back.events,
                                   [&](const trace::event& a, const trace::event& b) {
                                     return a.allocate == b.allocate && a.stream == b.stream && a.thread == b.thread &&
                                            a.address == b.address && a.size == b.size && a.site == b.site &&
                                            near(a.t_us, b.t_us);
                                   }),
                "a snapshot comes back as it was written");
  const auto engine = trace::parse_pytorch_snapshot(trace::to_pytorch_pickle(s));
  fuzz::require(engine.has_value(), "a snapshot is one of PyTorch's");
  const auto zero = std::ranges::count_if(s.events, [](const trace::event& e) { return e.size == 0; });
  if (zero == 0 && engine->alive_before == 0) {
    fuzz::require(std::ranges::equal(s.events, engine->history.events,
                                     [](const trace::event& a, const trace::event& b) {
                                       return a.allocate == b.allocate && a.address == b.address && a.size == b.size;
                                     }),
                  "a history comes back from PyTorch's form");
  }
  const trace::log_summary sum = trace::summarize(trace::to_log(s));
  fuzz::require(sum.unmatched_frees == 0 && sum.allocations - sum.frees == trace::alive(s).size(), "who is alive");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string& path = fuzz::path_of({reinterpret_cast<const char*>(data), size});
  fuzz::reading(path, [&] {
    const tool::trace_input input = tool::read_trace_input(path);
    if (const auto* plan = std::get_if<tool::plan_facts>(&input)) (void)tool::lives(*plan);
    const auto* log = std::get_if<trace::log>(&input);
    trace::log made;
    if (const auto* s = std::get_if<trace::snapshot>(&input)) {
      (void)trace::measure(*s);
      made = trace::to_log(*s);
      (void)trace::to_open_metrics(trace::profile_of(made), s->pool);
      comes_back(trace::snapshot{*s});
      log = &made;
    }
    if (log == nullptr) return;
    (void)tool::lives(*log);
    const trace::log_summary sum = trace::summarize(*log);
    fuzz::require(sum.frees <= sum.allocations, "no more is freed than was allocated");
    const auto back = trace::parse_csv(trace::to_csv(*log));
    const auto same = [](const trace::log_entry& a, const trace::log_entry& b) {
      return a.allocate == b.allocate && a.id == b.id && a.size == b.size && a.stream == b.stream &&
             a.thread == b.thread && near(a.t_us, b.t_us);
    };
    fuzz::require(back && std::ranges::equal(*log, *back, same), "a log comes back as it was written");
    fuzz::require(trace::to_open_metrics(trace::profile_of(*log)).ends_with("# EOF\n"), "metrics have an end");
  });
  return 0;
}

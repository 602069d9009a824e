// What `berth report`, `view` and `replay` read: plans, allocation logs and snapshots.
#include "fuzz/fuzz.hpp"
#include "tool/trace_input.hpp"

using namespace berth;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string& path = fuzz::path_of({reinterpret_cast<const char*>(data), size});
  fuzz::reading(path, [&] {
    const tool::trace_input input = tool::read_trace_input(path);
    if (const auto* plan = std::get_if<tool::plan_facts>(&input)) (void)tool::lives(*plan);
    const auto* log = std::get_if<trace::log>(&input);
    trace::log made;
    if (const auto* s = std::get_if<trace::snapshot>(&input)) {
      (void)trace::measure(*s);
      (void)trace::alive(*s);
      made = trace::to_log(*s);
      log = &made;
    }
    if (log == nullptr) return;
    (void)tool::lives(*log);
    const trace::log_summary sum = trace::summarize(*log);
    fuzz::require(sum.frees <= sum.allocations, "no more is freed than was allocated");
    const auto back = trace::parse_csv(trace::to_csv(*log));
    fuzz::require(back && back->size() == log->size(), "a log comes back as it was written");
  });
  return 0;
}

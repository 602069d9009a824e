// One reader of planning problems (FUZZ_READER), and what it accepts through the planner, the checker and back.
#include "berth/model/plan_file.hpp"
#include "berth/model/problem_file.hpp"
#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "fuzz/fuzz.hpp"
#include "model/files/readers.hpp"

using namespace berth;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = "input";
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  fuzz::reading(path, [&] {
    model::problem_file f = model::FUZZ_READER(path, text);
    model::require_valid(f);
    constexpr std::size_t few = 40;  // what large problems cost is the planner's own tests'
    if (f.problem.buffers.size() > few || f.problem.memories.size() > 4 || f.traffic || f.symbolic) return;
    const auto answer = plan::solve(f.problem, {.work = plan::effort::fast, .node_limit = 50});
    fuzz::require(answer.has_value(), "a valid problem has an answer");
    if (!answer->has_offsets()) return;
    fuzz::require(!plan::verify(f.problem, *answer), "a plan is right");
    const std::string& written = fuzz::path_of(model::plan_json(f, *answer, 0));
    const plan::plan back = model::read_plan(written, f);
    fuzz::require(back.offsets == answer->offsets, "a plan comes back as it was written");
  });
  return 0;
}

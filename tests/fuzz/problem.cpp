// One reader of planning problems (FUZZ_READER), and what it accepts through the planner, the checker and back.
#include "berth/model/plan_file.hpp"
#include "berth/model/problem_file.hpp"
#include "berth/plan/certificate.hpp"
#include "berth/plan/evaluate.hpp"
#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "fuzz/fuzz.hpp"
#include "model/files/readers.hpp"

using namespace berth;

namespace {

constexpr plan::options quick{.work = plan::effort::fast, .node_limit = 50};

// The order holds at the least and at the largest values.
void require_order(const plan::problem& p, const plan::plan& order) {
  for (const bool most : {false, true}) {
    std::vector<bytes> values, offsets(p.buffers.size());
    for (const plan::dimension& d : p.dimensions) values.push_back(most ? d.most : d.least);
    const auto arena = plan::evaluate(p, order, values, offsets);
    auto there = plan::at_values(p, values);
    fuzz::require(arena && there, "an order holds at every value");
    there->capacity.reset();
    plan::plan at{.offsets = offsets, .arena_bytes = *arena};
    at.status = plan::status::feasible;
    const auto wrong = plan::verify(*there, at);
    fuzz::require(!wrong, wrong ? wrong->rule : "");
    fuzz::require(*arena <= order.arena(), "no value needs more than the largest");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = "input";
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  fuzz::reading(path, [&] {
    model::problem_file f = model::FUZZ_READER(path, text);
    model::require_valid(f);
    constexpr std::size_t few = 40;  // what large problems cost is the planner's own tests'
    if (f.problem.buffers.size() > few || f.problem.memories.size() > 4) return;
    const auto answer = plan::solve(f.problem, quick);
    fuzz::require(answer.has_value(), "a valid problem has an answer");
    if (!answer->has_offsets()) return;
    fuzz::require(!plan::verify(f.problem, *answer), "a plan is right");
    if (!f.problem.dimensions.empty()) {
      require_order(f.problem, *answer);
      (void)model::plan_header(f, *answer);
    }
    const std::string& written = fuzz::path_of(model::plan_json(f, *answer, 0));
    const plan::plan back = model::read_plan(written, f);
    fuzz::require(back.offsets == answer->offsets && back.order == answer->order && back.stays == answer->stays,
                  "a plan comes back as it was written");
    const auto wrong = plan::verify(f.problem, back);
    fuzz::require(!wrong, wrong ? wrong->rule : "");  // what it says of itself, too
    if (f.problem.has_traffic()) return;              // its bound has no certificate in the file
    fuzz::require(!plan::verify_bound(f.problem, back.lower_bound(), back.proof) ==
                      !plan::verify_bound(f.problem, answer->lower_bound(), answer->proof),
                  "a certificate comes back as it was written");
  });
  return 0;
}

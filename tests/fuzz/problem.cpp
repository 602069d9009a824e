// One reader of planning problems (FUZZ_READER), and what it accepts through the planner, the checker and back.
#include "berth/model/moves_file.hpp"
#include "berth/model/plan_file.hpp"
#include "berth/model/problem_file.hpp"
#include "berth/model/symbolic_file.hpp"
#include "berth/plan/certificate.hpp"
#include "berth/plan/moves.hpp"
#include "berth/plan/solve.hpp"
#include "berth/plan/symbolic.hpp"
#include "berth/plan/verify.hpp"
#include "fuzz/fuzz.hpp"
#include "model/files/readers.hpp"

using namespace berth;

namespace {

constexpr plan::options quick{.work = plan::effort::fast, .node_limit = 50};

// With moves: what is planned is right, and comes back as it was written.
void plan_moves(model::problem_file f) {
  const auto answer = plan::solve_moves(f.problem, *f.traffic, quick);
  if (!answer) fuzz::require(answer.error().code != errc::internal, answer.error().what);
  if (!answer || !answer->layout.has_offsets()) return;
  const auto wrong = plan::verify(f.problem, *f.traffic, *answer);
  fuzz::require(!wrong, wrong ? wrong->rule : "");
  const std::string& written = fuzz::path_of(model::moves_json(f, *answer, 0));
  const plan::moves_plan back = model::read_moves_plan(written, f);
  const auto lost = plan::verify(f.problem, *f.traffic, back);
  fuzz::require(!lost, lost ? lost->rule : "");
}

// With dimensions: the order holds at the least and at the largest values, and comes back as it was written.
void plan_symbolic(model::problem_file f) {
  f.problem.capacity.reset();  // which solve_symbolic() leaves to its caller
  const auto order = plan::solve_symbolic(f.problem, *f.symbolic, quick);
  if (!order) return fuzz::require(order.error().code != errc::internal, order.error().what);
  for (const bool most : {false, true}) {
    std::vector<bytes> values, offsets(f.problem.buffers.size());
    for (const plan::dimension& d : f.symbolic->dimensions) values.push_back(most ? d.most : d.least);
    const auto arena = plan::evaluate(f.problem, *f.symbolic, *order, values, offsets);
    const auto there = plan::at_values(f.problem, *f.symbolic, values);
    fuzz::require(arena && there, "an order holds at every value");
    plan::plan at{.offsets = offsets, .arena_bytes = *arena};
    at.status = plan::status::feasible;
    const auto wrong = plan::verify(*there, at);
    fuzz::require(!wrong, wrong ? wrong->rule : "");
    fuzz::require(*arena <= order->most.arena(), "no value needs more than the largest");
  }
  const std::string& written = fuzz::path_of(model::symbolic_plan_json(f, *order, 0));
  const plan::symbolic_plan back = model::read_symbolic_plan(written, f);
  const auto lost = plan::verify(f.problem, *f.symbolic, back);
  fuzz::require(!lost && back.order == order->order, "an order comes back as it was written");
  (void)model::symbolic_plan_header(f, *order);
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
    if (f.traffic) return plan_moves(std::move(f));
    if (f.symbolic) return plan_symbolic(std::move(f));
    const auto answer = plan::solve(f.problem, quick);
    fuzz::require(answer.has_value(), "a valid problem has an answer");
    if (!answer->has_offsets()) return;
    fuzz::require(!plan::verify(f.problem, *answer), "a plan is right");
    const std::string& written = fuzz::path_of(model::plan_json(f, *answer, 0));
    const plan::plan back = model::read_plan(written, f);
    fuzz::require(back.offsets == answer->offsets, "a plan comes back as it was written");
    const auto wrong = plan::verify(f.problem, back);
    fuzz::require(!wrong, wrong ? wrong->rule : "");  // what it says of itself, too
    fuzz::require(!plan::verify_bound(f.problem, back.lower_bound(), back.proof) ==
                      !plan::verify_bound(f.problem, answer->lower_bound(), answer->proof),
                  "a certificate comes back as it was written");
  });
  return 0;
}

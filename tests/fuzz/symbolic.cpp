// Plans of problems with dimensions, made of choices. The proof for all values holds, and at some values so does the
// check that knows nothing of orders.
#include "berth/plan/evaluate.hpp"
#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "fuzz/problems.hpp"

using namespace berth;

namespace {

void add_sizes(fuzz::draws& d, plan::problem& p) {
  for (unsigned k = 1 + d.upto(2); k > 0; --k) {
    const bytes least = d.one_in(32) ? d.of(fuzz::odd_sizes) : d.upto(4);
    p.dimensions.push_back({"d", least, d.one_in(32) ? d.of(fuzz::odd_sizes) : least + d.upto(20)});
  }
  for (plan::buffer& b : p.buffers) {
    for (unsigned k = d.upto(2); k > 0; --k) {
      plan::size_term term{d.one_in(64) ? d.of(fuzz::odd_sizes) : d.upto(9), {}};
      for (unsigned f = d.upto(2); f > 0; --f) term.dimensions.push_back(d.upto(d.one_in(64) ? 9 : 0));
      b.terms.push_back(term);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::choices c{data, size};
  fuzz::draws d{c};
  constexpr plan::effort efforts[] = {plan::effort::fast, plan::effort::normal};
  const plan::options o{.work = d.of(efforts), .node_limit = 1 + d.upto(255)};
  plan::problem p = fuzz::problem_maker{d, {.memories = d.one_in(16), .most_buffers = 32}}.made();
  add_sizes(d, p);
  p.capacity.reset();
  const auto found = plan::solve(p, o);
  const auto most = plan::at_most(p);
  if (!most || !plan::validate(*most)) {
    fuzz::require(!found, "what is not valid has no plan");
    return 0;
  }
  if (!found) return 0;  // of what an order cannot keep
  if (const auto wrong = plan::verify(p, *found)) fuzz::require(false, wrong->rule);
  std::vector<bytes> values(p.dimensions.size());
  for (int k = 0; k < 4; ++k) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto& [name, least, last] = p.dimensions[i];
      values[i] = k == 0 ? last : k == 1 ? least : least + d.upto(255) % (std::min<bytes>(last - least, 999) + 1);
    }
    plan::plan there;
    there.status = plan::status::feasible;
    there.offsets.resize(p.buffers.size());
    const auto arena = plan::evaluate(p, *found, values, there.offsets);
    fuzz::require(bool{arena}, "values between the bounds have offsets");
    fuzz::require(k != 0 || *arena == found->arena(), "the most is at the most");
    fuzz::require(*arena <= found->arena(), "no value needs a larger arena");
    there.arena_bytes = *arena;
    plan::problem then = *plan::at_values(p, values);
    if (const auto wrong = plan::verify(then, there)) fuzz::require(false, wrong->rule);
  }
  return 0;
}

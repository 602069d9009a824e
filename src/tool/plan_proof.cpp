#include "tool/plan_proof.hpp"

#include "berth/model/input_error.hpp"
#include "model/file.hpp"

namespace berth::tool {
namespace {

constexpr std::uint64_t usual_nodes = 10'000'000;          // a minute or some
constexpr std::size_t longest_log = std::size_t{1} << 30;  // some hundred million steps

}  // namespace

std::uint64_t write_proof(const std::string& path, const model::problem_file& file, const plan::plan& answer,
                          const plan::options& o) {
  const plan::problem& p = file.problem;
  const std::uint64_t nodes = o.node_limit != 0 ? o.node_limit : usual_nodes;
  const auto log = plan::refute(p, answer, nodes, o);
  if (!log && log.error().code == errc::limit_exceeded) {
    throw model::input_error(path, "not written: the search below the bound did not end within " +
                                       std::to_string(nodes) + " nodes; --work N and --deadline allow more");
  }
  if (!log) throw model::input_error(path, std::string{"not written: "} + log.error().what);
  std::vector<plan::refutation> proved;
  if (const auto fault = plan::check_refutations(p, *log, proved)) {
    throw model::input_error(path, "not written: line " + std::to_string(fault->line) + " of the log is wrong (" +
                                       fault->rule + "), which is a mistake of berth");
  }
  if (const auto wrong = plan::verify_bound(p, answer.lower_bound(), answer.proof, proved)) {
    throw model::input_error(path, std::string{"not written: "} + wrong->rule);
  }
  model::write_file(path, *log);
  std::uint64_t steps = 0;
  for (const plan::refutation& r : proved) steps += r.steps;
  return steps;
}

std::vector<plan::refutation> read_proof(const std::string& path, const plan::problem& p) {
  const std::string log = model::read_file(path, longest_log);
  std::vector<plan::refutation> proved;
  if (const auto fault = plan::check_refutations(p, log, proved)) {
    throw model::input_error(path, fault->line, fault->rule);
  }
  return proved;
}

}  // namespace berth::tool

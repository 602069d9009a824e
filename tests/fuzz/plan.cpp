// Plans of several kinds, each against a problem of its kind: the first byte says which.
#include "berth/model/plan_file.hpp"
#include "berth/plan/verify.hpp"
#include "fuzz/fuzz.hpp"
#include "model/files/readers.hpp"

using namespace berth;

namespace {

constexpr const char* texts[] = {
    R"({"format":"berth-problem/1","alignment":4,"buffers":[{"id":"x","size":4,"lower":0,"upper":6},
{"id":7,"size":8,"lower":2,"upper":4},{"id":"z","size":9,"lower":3,"upper":8}],"reuse_penalties":[["x","z",1.5]]})",
    R"({"format":"berth-problem/1","max_slab":64,"pools":[{"id":"fast","capacity":100,"reserved":[[0,16]]},{"id":"slow"}],
"buffers":[{"id":"x","size":4,"lower":0,"upper":6},{"id":"y","size":40,"lower":0,"upper":6},
{"id":"z","size":40,"lower":3,"upper":8,"pools":["slow"]}]})",
    R"({"format":"berth-problem/1","dimensions":[{"name":"n","least":1,"most":5}],"buffers":[
{"id":"x","size":"4*n + 25","lower":0,"upper":2},{"id":"y","size":100,"lower":1,"upper":3},
{"id":"z","size":"n*n","lower":0,"upper":3}]})",
    R"({"format":"berth-problem/1","pools":[{"id":"dram","cost":1},{"id":"sram","capacity":24,"cost":0.1}],
"transfers":[{"from":"dram","to":"sram","bandwidth":2.0,"latency":0.5},{"from":"sram","to":"dram","bandwidth":4}],
"steps":[[0,4.0],[2,2.5],[6,1]],"buffers":[
{"id":"x","size":16,"lower":0,"upper":8,"uses":[{"at":0,"bytes":160,"write":true},{"at":6,"bytes":99}]},
{"id":"y","size":12,"lower":2,"upper":5,"uses":[{"at":2},{"at":4}]}]})",
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const model::problem_file problems[] = {
      model::read_problem_json("0", texts[0]), model::read_problem_json("1", texts[1]),
      model::read_problem_json("2", texts[2]), model::read_problem_json("3", texts[3])};
  model::problem_file f = problems[data[0] % 4];  // which takes the rules that a plan was made under
  const std::string& path = fuzz::path_of({reinterpret_cast<const char*>(data) + 1, size - 1});
  fuzz::reading(path, [&] {
    const plan::plan back = model::read_plan(path, f);
    (void)plan::verify(f.problem, back);
    if (!f.problem.has_traffic()) (void)plan::verify_bound(f.problem, back.lower_bound(), back.proof);
  });
  fuzz::reading(path, [&] { (void)model::read_former_places(path, f); });
  return 0;
}

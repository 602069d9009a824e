// Traces of ggml's graphs, and the plan of the graph.
#include "berth/graph/graph_plan.hpp"
#include "fuzz/fuzz.hpp"
#include "model/files/readers.hpp"

using namespace berth;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = "input";
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  fuzz::reading(path, [&] {
    const model::ggml_trace t = model::parse_ggml_trace(path, text);
    fuzz::require(t.graph.fault().ok(), "a graph that was read has no fault");
    if (t.graph.values().size() > 60) return;
    const auto made = plan_graph(t.graph, {.search = {.work = plan::effort::fast}, .rules = t.rules, .verify = false});
    if (!made) return;
    const graph_fault wrong = verify_plan(t.graph, *made, t.rules);
    fuzz::require(wrong.ok(), wrong.text);
  });
  return 0;
}

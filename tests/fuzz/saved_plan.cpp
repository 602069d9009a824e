// Saved plans of one graph, with checksums that are right: an enemy's would be.
#include <numeric>
#include <vector>

#include "berth/graph/graph_plan.hpp"
#include "fuzz/fuzz.hpp"
#include "graph/random_graph.hpp"

using namespace berth;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const graph g = test::random_graph(7, {.nodes = 12, .lanes = 2});
  static const std::vector<std::byte> right = test::run_without_reuse(g);
  rules::placement rules = rules::unconstrained();
  rules.start_alignment = 4;
  std::vector<std::byte> file(size);
  for (std::size_t i = 0; i < size; ++i) file[i] = static_cast<std::byte>(data[i]);
  std::uint64_t h = 0xCBF29CE484222325u;
  for (std::size_t i = 20; i < size; ++i) h = (h ^ data[i]) * 0x100000001B3u;
  for (std::size_t i = 0; i < 8 && size >= 20; ++i) file[12 + i] = static_cast<std::byte>(h >> 8 * i);
  const auto loaded = load_plan(file, g, rules);
  if (!loaded || loaded->arena() > 1 << 20) return 0;
  std::vector<std::uint32_t> order(g.nodes().size());
  std::iota(order.begin(), order.end(), 0u);
  fuzz::require(test::run_with_plan(g, *loaded, order) == right, "a plan that was taken runs right");
  const auto again = load_plan(save_plan(*loaded), g, rules);
  fuzz::require(again && again->offset_of == loaded->offset_of && again->workspace_of == loaded->workspace_of,
                "a plan that was taken comes back as it was");
  return 0;
}

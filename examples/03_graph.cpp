// Places a graph in one planned arena: in-place reuse, a view, a workspace; the plan is saved for the next start.
#include <berth/graph/arena.hpp>
#include <berth/graph/graph_plan.hpp>
#include <berth/pool/pool.hpp>
#include <cstdio>

int main() {
  using namespace berth;
  const tensor_type map{.shape = {64, 56, 56}};
  graph g;
  const value_id image = g.input("image", {.shape = {3, 224, 224}});
  const value_id conv = g.node("conv", {image}, map, {.op = "conv", .workspace = 1 << 20});
  const value_id relu = g.node("relu", {conv}, map, {.op = "relu", .in_place = {0}});
  const value_id half = g.view(relu, {.shape = {32, 56, 56}});  // the first 32 channels
  const value_id gate = g.node("gate", {half}, {.shape = {32, 56, 56}}, {.op = "sigmoid"});
  g.output(g.node("scores", {gate}, {.shape = {1000}}, {.op = "linear"}));

  stream queue{device::host()};
  pool memory{device::host()};
  graph_fault why;
  auto placed = arena::reserve(g, memory, queue, arena_options{}, &why);  // plans, allocates one block
  if (!placed) {
    std::printf("%s\n", why.text.c_str());
    return 1;
  }
  const bind_outcome again = placed->bind(g).value();  // before every run: is this still the graph?
  const auto file = save_plan(placed->get_plan());     // for the next start
  const auto loaded = load_plan(file, g, rules::host(), &why);

  std::printf("arena %llu bytes, bound %llu, without reuse %llu; bound again: %s\n",
              static_cast<unsigned long long>(placed->get_plan().arena()),
              static_cast<unsigned long long>(placed->get_plan().lower_bound()),
              static_cast<unsigned long long>(placed->get_plan().no_reuse_bytes), name(again));
  std::printf("relu lies on conv: %s; saved plan of %zu bytes: %s\n",
              placed->address(relu) == placed->address(conv) ? "yes" : "no", file.size(),
              loaded ? "right for this graph" : why.text.c_str());
  return loaded ? 0 : 1;
}

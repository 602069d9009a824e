// One of each value that scripts/berth_gdb.py shows: printers.cmake says how gdb is to show them.
#include "berth/berth.hpp"
#include "look_here.hpp"

int main() {
  using namespace berth;
  plan::problem problem;
  problem.alignment = 64;
  problem.add({.name = "x", .size = 100, .live = {0, 2}});
  problem.add({.name = "y", .size = 200, .lifetimes = {{1, 3}, {5, 6}}});
  const result<plan::plan> good = plan::solve(problem);
  const plan::plan plan = *good;
  const result<void> bad = error{errc::io, "nobody is there", 7};
  const result<void> nothing{};
  graph g;
  const value_id v = g.input("x", {.shape = {4}});
  g.output(g.node("n", {v}, {.shape = {4}}));
  const node_id none;
  block empty;
  const void* all[] = {&problem, &good, &plan, &bad, &nothing, &g, &v, &none, &empty};
  look_here(all);
}

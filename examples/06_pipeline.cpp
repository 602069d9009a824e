// Two graphs that never run together share one arena; the passed value lives in between.
#include <berth/graph/pipeline.hpp>
#include <berth/pool/pool.hpp>
#include <cstdio>

int main() {
  using namespace berth;
  graph encode;
  const value_id sound = encode.input("sound", {.shape = {3000, 80}});
  const value_id hidden = encode.node("hidden", {sound}, {.shape = {1500, 1536}}, {.op = "mul_mat"});
  const value_id heard = encode.node("heard", {hidden}, {.shape = {1500, 384}}, {.op = "mul_mat"});
  encode.output(heard);

  graph decode;
  const value_id from = decode.external("heard", {.shape = {1500, 384}});  // the other graph's
  const value_id token = decode.input("token", {.shape = {448}, .type = element::i32});
  const value_id mixed = decode.node("mixed", {token, from}, {.shape = {448, 1500}}, {.op = "attention"});
  decode.output(decode.node("logits", {mixed}, {.shape = {448, 5000}}, {.op = "mul_mat"}));

  stream queue{device::host()};
  pool memory{device::host()};
  const graph* const graphs[] = {&encode, &decode};
  graph_fault why;
  const auto shared = pipeline_arena::reserve(graphs, links_by_name(graphs), memory, queue, {}, &why);
  if (!shared) {
    std::printf("%s\n", why.text.c_str());
    return 1;
  }
  const bytes alone = plan_graph(encode)->arena() + plan_graph(decode)->arena();
  std::printf("one arena %llu bytes, one each %llu; 'heard' is handed over in place: %s\n",
              static_cast<unsigned long long>(shared->get_plan().arena()), static_cast<unsigned long long>(alone),
              shared->address(0, heard) == shared->address(1, from) ? "yes" : "no");
  return shared->check(1, decode) ? 0 : 1;  // before every run
}

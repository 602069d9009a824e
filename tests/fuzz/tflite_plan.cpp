// A plan written into a model. No two tensors alive together share a byte, and the result is a model still, with the
// same plan.
#include "berth/model/tflite_plan.hpp"

#include <vector>

#include "fuzz/fuzz.hpp"
#include "model/files/readers.hpp"
#include "model/tflite_times.hpp"

using namespace berth;

namespace {

struct placed {
  std::int64_t from, to;
  model::micro_life life;
};

void require_apart(const std::string& path, std::string_view text, const model::micro_plan& plan) {
  model::tflite_graph g = model::read_tflite_graph(path, text, model::tflite_reads::all);
  const model::micro_times times = model::times_for_micro(g);
  std::vector<placed> all;
  std::size_t number = 0;
  for (std::size_t s = 0; s < g.subgraphs.size(); ++s) {
    for (std::size_t t = 0; t < g.subgraphs[s].tensors.size(); ++t) {
      const std::int64_t at = plan.offsets.at(number++);
      if (at < 0) continue;
      const auto size = static_cast<std::int64_t>(g.size_of(s, t, model::tflite_sizes::micro));
      placed it{at, at + size, times.tensors[s][t]};
      if (it.life.first < 0) it.life.first = it.life.read;
      fuzz::require(at % 16 == 0 && size > 0 && it.life.first >= 0, "a place where none belongs");
      fuzz::require(it.to <= static_cast<std::int64_t>(plan.head), "behind the head");
      for (const placed& other : all) {
        const bool together = it.life.first <= other.life.last && other.life.first <= it.life.last;
        fuzz::require(!together || it.to <= other.from || other.to <= it.from, "on a tensor that is alive");
      }
      all.push_back(it);
    }
  }
  fuzz::require(number == plan.offsets.size(), "a place for no tensor");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const std::string path = "m.tflite";
  fuzz::reading(path, [&] {
    if (model::read_tflite(path, text).problem.buffers.size() > 200) return;  // that would be a test of the planner
    const plan::options options{.work = plan::effort::fast};
    const model::micro_plan once = model::plan_for_micro(path, text, {}, options);
    fuzz::require(once.lower_bound <= once.head, "below the bound");
    require_apart(path, text, once);
    fuzz::require(once.model.empty() == (once.head > once.own_head), "written where it is no better");
    if (once.model.empty()) return;
    const model::micro_plan twice = model::plan_for_micro(path, once.model, {}, options);
    fuzz::require(once.offsets == twice.offsets && once.head == twice.head, "another model than it was");
  });
  return 0;
}

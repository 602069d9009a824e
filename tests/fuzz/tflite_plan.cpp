// A plan written into a model: what comes out is a model still, with the same plan.
#include "berth/model/tflite_plan.hpp"

#include "fuzz/fuzz.hpp"
#include "model/files/readers.hpp"

using namespace berth;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const std::string path = "m.tflite";
  fuzz::reading(path, [&] {
    if (model::read_tflite(path, text).problem.buffers.size() > 200) return;  // that would be a test of the planner
    const plan::options options{.work = plan::effort::fast};
    const model::micro_plan once = model::plan_for_micro(path, text, {}, options);
    fuzz::require(once.lower_bound <= once.head, "below the bound");
    fuzz::require(once.model.empty() == (once.head > once.own_head), "written where it is no better");
    if (once.model.empty()) return;
    const model::micro_plan twice = model::plan_for_micro(path, once.model, {}, options);
    fuzz::require(once.offsets == twice.offsets && once.head == twice.head, "another model than it was");
  });
  return 0;
}

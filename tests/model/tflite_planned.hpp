#pragma once

#include <string>
#include <vector>

#include "berth/model/input_error.hpp"
#include "berth/model/tflite_plan.hpp"
#include "model/tflite_maker.hpp"

namespace berth::model_test {

inline berth::model::micro_plan planned(const model& m, const std::vector<berth::model::micro_scratch>& scratch = {}) {
  return berth::model::plan_for_micro("m.tflite", m.bytes(), scratch, {});
}

// Returns the error for a model that is refused; "" for another.
inline std::string complaint(const model& m, const std::vector<berth::model::micro_scratch>& scratch = {}) {
  try {
    (void)planned(m, scratch);
  } catch (const berth::model::input_error& e) {
    return e.what();
  }
  return "";
}

}  // namespace berth::model_test

// A model of ONNX made by hand, written and run, or refused.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "berth/model/onnx.hpp"
#include "berth/model/program.hpp"
#include "model/complaint.hpp"
#include "model/file.hpp"
#include "model/onnx_maker.hpp"
#include "model/running.hpp"
#include "support/temporary_folder.hpp"

namespace berth::test {

class onnx_models : public testing::Test {
 protected:
  std::vector<std::vector<float>> run(const onnx_maker& m, std::vector<std::vector<float>> inputs,
                                      const model::dimensions& bound = {}) const {
    model::write_file(path_, m.text());
    pool memory{device::host()};
    stream s{device::host()};
    auto made = model::runner::create(model::lower(model::read_onnx(path_, bound)), memory, s).value();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      s.copy(made.input(i), inputs[i].data(), inputs[i].size() * sizeof(float)).value();
    }
    made.run().value();
    s.synchronize().value();
    std::vector<std::vector<float>> outputs;
    for (std::size_t i = 0; i < made.get_program().outputs.size(); ++i) {
      const auto count = static_cast<std::size_t>(count_of(made.get_program().outputs[i].shape));
      outputs.emplace_back(made.output(i), made.output(i) + count);
    }
    return outputs;
  }
  std::string complaint(const onnx_maker& m, const model::dimensions& bound = {}) const {
    model::write_file(path_, m.text());
    return complaint_of(path_, [&] { (void)model::lower(model::read_onnx(path_, bound)); });
  }

  support::temporary_folder folder_;
  const std::string path_ = folder_.path("model.onnx");
};

}  // namespace berth::test

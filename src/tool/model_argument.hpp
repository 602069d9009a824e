// A model named on the command line: builtin:NAME, or an .onnx file and its --dim options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "berth/model/description.hpp"
#include "berth/model/onnx.hpp"

namespace berth::tool {

[[nodiscard]] bool names_a_model(const std::string& argument);

// `dims`: "name=N" each. Throws usage_error or input_error.
[[nodiscard]] model::description read_model(const std::string& argument, const std::vector<std::string>& dims);

// Returns the graph of a model to plan. A model that runs here is planned as it would run, with its kernels' layouts
// and workspaces. Any other file is planned by its shapes alone (model::read_onnx_shapes), and the first note says so.
// `runs` false: an .onnx file is planned by its shapes alone, without a note. Throws as read_model() does.
[[nodiscard]] model::shapes_graph read_model_graph(const std::string& argument, const std::vector<std::string>& dims,
                                                   bool runs = true);
// Returns the same of an .onnx file's bytes. `runs` false: by its shapes alone, with no note about that.
[[nodiscard]] model::shapes_graph read_onnx_graph(const std::string& path, std::string_view file, bool runs,
                                                  const std::vector<std::string>& dims);

}  // namespace berth::tool

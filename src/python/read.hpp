// berth.read: reads every file that holds a problem.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "python/problem.hpp"

namespace berth::python {

// Returns os.fsencode() of a str, bytes or os.PathLike.
[[nodiscard]] std::string path_of(const py::object& path);

// Reads a problem. `path` is a str, bytes or os.PathLike; `dims` bind the open dimensions of an ONNX model. The sizes
// of a problem with dimensions are those at the largest values.
[[nodiscard]] problem read(const py::object& path, const std::map<std::string, std::int64_t>& dims);

// berth.fit, if the module has models: returns the dict that `berth fit --json` prints. `dims` has one pair (lowest,
// highest) and numbers for the other dimensions.
[[nodiscard]] py::dict fit(const py::object& path, const py::object& memory, const py::dict& dims,
                           const std::string& effort);

void declare_graph(py::module_& m);

}  // namespace berth::python

// berth.read: every file of which there is a problem.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "python/problem.hpp"

namespace berth::python {

// `path` is a str, bytes or os.PathLike; `dims` bind what an ONNX model leaves open. The sizes of a problem with
// dimensions are those at the largest values.
[[nodiscard]] problem read(const py::object& path, const std::map<std::string, std::int64_t>& dims);

}  // namespace berth::python

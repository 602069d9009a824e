// The error of a wrong argument: berth.InputError, a ValueError of one line, as the readers report a file.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "berth/core/bytes.hpp"
#include "berth/plan/problem.hpp"

namespace berth::python {

namespace py = pybind11;
using plan::index;

class refusal : public std::invalid_argument {
 public:
  explicit refusal(const std::string& what, std::optional<std::size_t> item = std::nullopt)
      : std::invalid_argument{what}, item_{item} {}
  // Returns the place of the fault, if the argument is a list or an array.
  [[nodiscard]] std::optional<std::size_t> item() const noexcept { return item_; }

 private:
  std::optional<std::size_t> item_;
};

[[noreturn]] inline void refuse(const std::string& what) {
  throw refusal{what};
}

// Convert Python's and numpy's integers (any with __index__). Refuse one outside 64 bits by name, not by a signature
// that did not match. A float is a TypeError, as everywhere in Python.
[[nodiscard]] bytes to_bytes(py::handle number, const char* field);
[[nodiscard]] std::optional<bytes> to_bytes_or_none(py::handle number, const char* field);
[[nodiscard]] plan::tick to_tick(py::handle number, const char* field);

// Declares InputError, which refusals and the readers' input_error become.
void declare_errors(py::module_& m);

}  // namespace berth::python

#include "python/refusal.hpp"

#include <string_view>

#include "berth/model/input_error.hpp"
#include "model/packed.hpp"

namespace berth::python {

namespace {

PyObject* input_error_class = nullptr;  // lives as long as the module, which is never unloaded

// Returns a path, which is bytes, as os.fsdecode() has it.
py::object decoded(std::string_view text) {
  PyObject* const made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

void raise_input_error(const char* what, py::object file, py::object line, py::object item) {
  const py::object made = py::reinterpret_borrow<py::object>(input_error_class)(decoded(what));
  made.attr("file") = std::move(file);
  made.attr("line") = std::move(line);
  made.attr("index") = std::move(item);
  PyErr_SetObject(input_error_class, made.ptr());
}

std::string text_of(py::handle number) {
  return py::str(number).cast<std::string>();
}

// Returns a new reference to a Python integer; throws the TypeError of anything else.
py::object as_index(py::handle number) {
  PyObject* const whole = PyNumber_Index(number.ptr());
  if (whole == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(whole);
}

}  // namespace

bytes to_bytes(py::handle number, const char* field) {
  const py::object whole = as_index(number);
  const unsigned long long value = PyLong_AsUnsignedLongLong(whole.ptr());
  if (PyErr_Occurred() == nullptr) return value;
  PyErr_Clear();
  refuse(std::string{field} + ": " + text_of(whole) + " is not a number of bytes");
}

std::optional<bytes> to_bytes_or_none(py::handle number, const char* field) {
  if (number.is_none()) return std::nullopt;
  return to_bytes(number, field);
}

plan::tick to_tick(py::handle number, const char* field) {
  const py::object whole = as_index(number);
  const long long value = PyLong_AsLongLong(whole.ptr());
  if (PyErr_Occurred() == nullptr) return value;
  PyErr_Clear();
  refuse(std::string{field} + ": " + text_of(whole) + " is not a time of 64 bits");
}

void declare_errors(py::module_& m) {
  input_error_class =
      PyErr_NewExceptionWithDoc("berth.InputError",
                                "What is wrong with a problem, a file or an argument, in one line; file, "
                                "line and index say where, or are None.",
                                PyExc_ValueError, nullptr);
  if (input_error_class == nullptr) throw py::error_already_set();
  for (const char* place : {"file", "line", "index"}) {
    py::handle{input_error_class}.attr(place) = py::none();
  }
  m.attr("InputError") = py::reinterpret_borrow<py::object>(input_error_class);
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const model::input_error& e) {
      raise_input_error(e.what(), decoded(e.file()), e.line() != 0 ? py::object{py::int_(e.line())} : py::none(),
                        py::none());
    } catch (const model::packed_error& e) {
      raise_input_error(e.what(), py::none(), py::none(), py::none());
    } catch (const refusal& e) {
      raise_input_error(e.what(), py::none(), py::none(), e.item() ? py::object{py::int_(*e.item())} : py::none());
    }
  });
}

}  // namespace berth::python

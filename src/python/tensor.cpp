#include "python/tensor.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <string_view>

#include "berth/core/bytes.hpp"

namespace berth::python {

namespace {

struct item_type {
  const char* name;
  dlpack::data_type type;
  const char* format;  // of Python's struct; null: it has none
  char kind;           // of the array interface
};

constexpr item_type item_types[] = {
    {"uint8", {dlpack::natural, 8, 1}, "B", 'u'},       {"uint16", {dlpack::natural, 16, 1}, "H", 'u'},
    {"uint32", {dlpack::natural, 32, 1}, "I", 'u'},     {"uint64", {dlpack::natural, 64, 1}, "Q", 'u'},
    {"int8", {dlpack::whole, 8, 1}, "b", 'i'},          {"int16", {dlpack::whole, 16, 1}, "h", 'i'},
    {"int32", {dlpack::whole, 32, 1}, "i", 'i'},        {"int64", {dlpack::whole, 64, 1}, "q", 'i'},
    {"float16", {dlpack::floating, 16, 1}, "e", 'f'},   {"bfloat16", {dlpack::bfloat, 16, 1}, nullptr, 0},
    {"float32", {dlpack::floating, 32, 1}, "f", 'f'},   {"float64", {dlpack::floating, 64, 1}, "d", 'f'},
    {"complex64", {dlpack::complex, 64, 1}, "Zf", 'c'}, {"complex128", {dlpack::complex, 128, 1}, "Zd", 'c'},
    {"bool", {dlpack::boolean, 8, 1}, "?", 'b'},
};

const item_type& find(dlpack::data_type type) {
  for (const item_type& t : item_types) {
    if (t.type == type) return t;
  }
  throw py::buffer_error("an item of " + std::to_string(type.bits) + " bits and kind " + std::to_string(type.code) +
                         " in " + std::to_string(type.lanes) + " lanes is of no type that Berth knows");
}

const item_type& named(const py::object& dtype) {
  std::string name;
  if (py::isinstance<py::str>(dtype)) {
    name = dtype.cast<std::string>();
  } else {
    for (const char* has : {"name", "__name__"}) {
      const py::object given = name.empty() ? py::getattr(dtype, has, py::none()) : py::none();
      if (!given.is_none()) name = py::str(given).cast<std::string>();
    }
  }
  for (const item_type& t : item_types) {
    if (name == t.name) return t;
  }
  std::string known;
  for (const item_type& t : item_types) known += (known.empty() ? "" : ", ") + std::string{t.name};
  refuse("dtype: '" + name + "' is none of " + known);
}

std::vector<std::int64_t> shape_of(const py::object& shape) {
  std::vector<std::int64_t> lengths;
  const auto add = [&](py::handle length) {
    lengths.push_back(to_tick(length, "shape"));
    if (lengths.back() < 0) refuse("shape: " + std::to_string(lengths.back()) + " is below 0");
  };
  if (PyIndex_Check(shape.ptr()) != 0) {
    add(shape);
  } else {
    for (const py::handle length : shape) add(length);
  }
  if (lengths.size() > 64) refuse("shape: more than 64 dimensions");
  return lengths;
}

dlpack::device device_of(const berth::device& d) {
  const device_properties& p = d.properties();
  if (p.name.starts_with("host")) return {dlpack::cpu, 0};
  if (p.name.starts_with("cuda:")) return {dlpack::cuda, std::stoi(p.name.substr(5))};
  return {0, 0};
}

// The arrays that Py_buffer points into.
struct shown {
  std::vector<Py_ssize_t> shape, strides;
};

int fill_buffer(PyObject* self, Py_buffer* view, int flags) {
  const auto refuse_view = [view](const std::string& why) {
    PyErr_SetString(PyExc_BufferError, why.c_str());
    view->obj = nullptr;
    return -1;
  };
  try {
    const auto& t = py::cast<const tensor&>(py::handle{self});
    const item_type& type = find(t.type);
    if (t.device.kind != dlpack::cpu) return refuse_view("the memory is not the host's");
    if (type.format == nullptr) return refuse_view(std::string{type.name} + " is no type of Python's buffers");
    if (t.read_only && (flags & PyBUF_WRITABLE) != 0) return refuse_view("it is read-only");
    const bool told = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
    const auto wanted = [flags](int all) { return (flags & all) == all; };
    if ((!told || wanted(PyBUF_C_CONTIGUOUS)) && !t.in_rows()) return refuse_view("its items do not lie row after row");
    if (wanted(PyBUF_F_CONTIGUOUS) && !t.in_columns()) return refuse_view("its items do not lie column after column");
    if (wanted(PyBUF_ANY_CONTIGUOUS) && !t.in_rows() && !t.in_columns()) return refuse_view("its items have gaps");
    t.settle();
    auto what = std::make_unique<shown>();
    for (std::size_t i = 0; i < t.shape.size(); ++i) {
      what->shape.push_back(static_cast<Py_ssize_t>(t.shape[i]));
      what->strides.push_back(static_cast<Py_ssize_t>(t.strides[i] * static_cast<std::int64_t>(t.item())));
    }
    view->buf = t.data;
    view->len = static_cast<Py_ssize_t>(t.size());
    view->readonly = t.read_only ? 1 : 0;
    view->itemsize = static_cast<Py_ssize_t>(t.item());
    view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(type.format) : nullptr;
    view->ndim = static_cast<int>(t.shape.size());
    view->shape = (flags & PyBUF_ND) != 0 ? what->shape.data() : nullptr;
    view->strides = told ? what->strides.data() : nullptr;
    view->suboffsets = nullptr;
    view->internal = what.release();
    view->obj = py::handle{self}.inc_ref().ptr();
    return 0;
  } catch (const std::exception& e) {
    return refuse_view(e.what());
  }
}

py::dict cuda_array_interface(const tensor& t) {
  const item_type& type = find(t.type);
  if (t.device.kind != dlpack::cuda) throw py::attribute_error("its memory is not CUDA's");
  if (type.kind == 0) throw py::attribute_error(std::string{type.name} + " is no type of the array interface");
  t.settle();
  using namespace py::literals;
  py::tuple strides{t.strides.size()};
  for (std::size_t i = 0; i < t.strides.size(); ++i) strides[i] = t.strides[i] * static_cast<std::int64_t>(t.item());
  return py::dict("shape"_a = py::tuple(py::cast(t.shape)),
                  "typestr"_a = std::string{"<"} + type.kind + std::to_string(t.item()),
                  "data"_a = py::make_tuple(reinterpret_cast<std::uintptr_t>(t.data), t.read_only),
                  "strides"_a = strides, "version"_a = 3, "stream"_a = py::none());
}

// Returns the stream of the side that is not the host's memory, if there is one; else of the side that is Berth's.
queue_pointer copier(const tensor& to, const tensor& from) {
  if (to.device.kind != dlpack::cpu) return to.on;
  if (from.device.kind != dlpack::cpu) return from.on;
  return to.on ? to.on : from.on;
}

void copy_from(const tensor& to, const tensor& from) {
  if (to.read_only) refuse("copy_from: it is read-only");
  if (to.size() != from.size() || to.type != from.type) refuse("copy_from: another size or another type");
  if (!to.in_rows() || !from.in_rows()) refuse("copy_from: items do not lie row after row");
  // DLPack has no name for many devices: the streams tell Berth's own apart.
  const bool alike = to.device == from.device && (!to.on || !from.on || to.on->home->device == from.on->home->device);
  if (!alike && to.device.kind != dlpack::cpu && from.device.kind != dlpack::cpu) {
    refuse("copy_from: from another device");
  }
  const queue_pointer on = copier(to, from);
  if (!on) refuse("copy_from: it is not Berth's memory; let its own library copy");
  if (from.on && from.on != on) from.settle();
  if (to.on && to.on != on) to.settle();
  const py::gil_scoped_release others_run;
  if (const auto done = on->work.copy(to.data, from.data, to.size()); !done) raise(done.error());
  // Waits, because a side in another order may be freed after this call.
  if (from.on == to.on) return;
  if (const auto done = on->work.synchronize(); !done) raise(done.error());
}

// Looks for a length of 0 first: without one, the product of the lengths is a number of existing bytes.
bool dense(const tensor& t, bool from_the_last) noexcept {
  if (std::ranges::find(t.shape, 0) != t.shape.end()) return true;
  std::int64_t next = 1;
  for (std::size_t n = 0; n < t.shape.size(); ++n) {
    const std::size_t i = from_the_last ? t.shape.size() - 1 - n : n;
    if (t.shape[i] != 1 && t.strides[i] != next) return false;
    next *= t.shape[i];
  }
  return true;
}

tensor as_read_only(const tensor& t) {
  tensor same = t;
  same.read_only = true;
  return same;
}

}  // namespace

bytes tensor::size() const noexcept {
  bytes all = item();
  for (const std::int64_t length : shape) all *= static_cast<bytes>(length);
  return all;
}

bool tensor::in_rows() const noexcept {
  return dense(*this, true);
}

bool tensor::in_columns() const noexcept {
  return dense(*this, false);
}

void tensor::settle() const {
  if (!on) return;
  const py::gil_scoped_release others_run;
  if (const auto done = on->work.synchronize(); !done) raise(done.error());
}

std::vector<std::int64_t> rows(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  if (std::ranges::find(shape, 0) != shape.end()) return strides;  // the others' product may be any number
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

bytes product(bytes item, const std::vector<std::int64_t>& shape) {
  bytes all = item;
  for (const std::int64_t length : shape) {
    const std::optional<bytes> more = checked_mul(all, static_cast<bytes>(length));
    if (!more || *more > static_cast<bytes>(PY_SSIZE_T_MAX)) refuse("shape: more bytes than there are addresses");
    all = *more;
  }
  return all;
}

void require_type(dlpack::data_type type) {
  (void)find(type);
}

void raise(const error& e) {
  const std::string text = std::string{name(e.code)} + ": " + e.what;
  if (e.code == errc::invalid_input || e.code == errc::overflow) refuse(text);
  const py::gil_scoped_acquire held;
  const bool memory = e.code == errc::out_of_memory || e.code == errc::limit_exceeded;
  PyErr_SetString(memory ? PyExc_MemoryError : PyExc_RuntimeError, text.c_str());
  throw py::error_already_set();
}

bytes tensor_items::size() const {
  return product(type.bits / 8, shape);
}

tensor_items items_of(const py::object& dtype, const py::object& shape) {
  const dlpack::data_type type = named(dtype).type;
  return {type, shape_of(shape)};
}

tensor_items items_within(bytes size, const py::object& dtype, const py::object& shape) {
  const dlpack::data_type type = named(dtype).type;
  tensor_items all{type,
                   shape.is_none() ? std::vector{static_cast<std::int64_t>(size / (type.bits / 8))} : shape_of(shape)};
  if (const bytes needed = all.size(); needed > size) {
    refuse("shape: it takes " + std::to_string(needed) + " bytes, and there are " + std::to_string(size));
  }
  return all;
}

tensor tensor_over(std::shared_ptr<const void> owner, queue_pointer on, void* data, tensor_items of) {
  tensor t;
  t.type = of.type;
  t.strides = rows(of.shape);
  t.shape = std::move(of.shape);
  t.device = device_of(on->home->device);
  t.owner = std::move(owner);
  t.on = std::move(on);
  t.data = static_cast<std::byte*>(data);
  return t;
}

void declare_tensor(py::module_& m) {
  using py::arg;
  const auto buffers = [](PyHeapTypeObject* type) {
    type->ht_type.tp_as_buffer = &type->as_buffer;
    type->as_buffer.bf_getbuffer = &fill_buffer;
    type->as_buffer.bf_releasebuffer = [](PyObject*, Py_buffer* view) { delete static_cast<shown*>(view->internal); };
  };
  py::class_<tensor>(m, "Tensor", py::custom_type_setup(buffers),
                     "Memory of a pool, an arena or another library, with a shape and a type. numpy.asarray() of it "
                     "shares its bytes, and keeps them.")
      .def_property_readonly("shape", [](const tensor& t) { return py::tuple(py::cast(t.shape)); })
      .def_property_readonly("dtype", [](const tensor& t) { return find(t.type).name; })
      .def_property_readonly("nbytes", &tensor::size)
      .def_property_readonly("address", [](const tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data); })
      .def_property_readonly("readonly", [](const tensor& t) { return t.read_only; })
      .def("as_readonly", &as_read_only, "The same bytes, not to be written to through it.")
      .def("copy_from", &copy_from, arg("source"),
           "Enqueues a copy where both are of one stream, else copies at once. One side may be a device's.")
      .def("__dlpack__", &to_dlpack, py::kw_only(), arg("stream") = py::none(), arg("max_version") = py::none(),
           arg("dl_device") = py::none(), arg("copy") = py::none(),
           "A DLPack capsule. On CUDA the memory comes back behind the work of the stream that is named, which lives "
           "until the capsule's taker lets go of it; -1 names none, and its reader waits itself before that.")
      .def("__dlpack_device__", &dlpack_device)
      .def_property_readonly(
          "__cuda_array_interface__", &cuda_array_interface,
          "The bytes, once its stream is done. It names no reader: whoever takes it waits for its own "
          "work on them before it lets go of this tensor.")
      .def("__repr__", [](const tensor& t) {
        return "<berth.Tensor " + std::string{find(t.type).name} + " " +
               py::repr(py::tuple(py::cast(t.shape))).cast<std::string>() + ">";
      });
  m.def("from_dlpack", &from_dlpack, arg("array"), "Another library's array, whose bytes it shares and keeps.");
}

}  // namespace berth::python

#include "python/tensor.hpp"

#include <pybind11/stl.h>

#include <array>
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
      if (name.empty() && py::hasattr(dtype, has)) name = py::str(dtype.attr(has)).cast<std::string>();
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

bytes product(bytes item, const std::vector<std::int64_t>& shape) {
  bytes all = item;
  for (const std::int64_t length : shape) {
    const std::optional<bytes> more = checked_mul(all, static_cast<bytes>(length));
    if (!more || *more > static_cast<bytes>(PY_SSIZE_T_MAX)) refuse("shape: more bytes than there are addresses");
    all = *more;
  }
  return all;
}

std::vector<std::int64_t> rows(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t next = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = next;
    next *= shape[i] == 0 ? 1 : shape[i];
  }
  return strides;
}

dlpack::device device_of(const berth::device& d) {
  const device_properties& p = d.properties();
  if (p.name.starts_with("host")) return {dlpack::cpu, 0};
  if (p.name.starts_with("cuda:")) return {dlpack::cuda, std::stoi(p.name.substr(5))};
  return {0, 0};
}

void require_known(const tensor& t) {
  if (t.device.kind == 0)
    throw py::buffer_error("DLPack has no name for memory of " + t.on->home->device.properties().name);
}

// A capsule's content: the tensor stays as long as whoever took it.
template <class Managed>
struct exported {
  Managed form{};
  tensor held;
};

template <class Managed>
py::object capsule_of(const tensor& t) {
  auto made = std::make_unique<exported<Managed>>();
  made->held = t;
  made->form.context = made.get();
  made->form.deleter = [](Managed* m) { delete static_cast<exported<Managed>*>(m->context); };
  dlpack::tensor& view = made->form.view;
  view.data = t.data;
  view.device = t.device;
  view.dimensions = static_cast<std::int32_t>(t.shape.size());
  view.type = t.type;
  view.shape = made->held.shape.data();
  view.strides = made->held.strides.data();
  if constexpr (requires { made->form.flags; }) {
    if (t.read_only) made->form.flags |= Managed::read_only;
  }
  PyObject* const capsule = PyCapsule_New(&made->form, Managed::name, [](PyObject* c) {
    if (PyCapsule_IsValid(c, Managed::name) == 0) return;  // taken: whoever has it calls the deleter
    auto* const form = static_cast<Managed*>(PyCapsule_GetPointer(c, Managed::name));
    form->deleter(form);
  });
  if (capsule == nullptr) throw py::error_already_set();
  (void)made.release();
  return py::reinterpret_steal<py::object>(capsule);
}

// https://data-apis.org/array-api/latest/API_specification/generated/array_api.array.__dlpack__.html
py::object to_dlpack(const tensor& t, const py::object& on, const py::object& max_version, const py::object& dl_device,
                     const py::object& copy) {
  require_known(t);
  if (!dl_device.is_none()) {
    const auto [kind, number] = dl_device.cast<std::pair<std::int32_t, std::int32_t>>();
    if (dlpack::device{kind, number} != t.device) throw py::buffer_error("it is not moved to another device");
  }
  if (!copy.is_none() && copy.cast<bool>()) throw py::buffer_error("it is not copied");
  const bool versioned = !max_version.is_none() && max_version.cast<std::pair<int, int>>().first >= 1;
  if (t.read_only && !versioned) throw py::buffer_error("it is read-only, which DLPack cannot say before 1.0");
  bool unordered = false;
  if (!on.is_none()) {
    if (t.device.kind == dlpack::cpu) throw py::buffer_error("stream: the host's memory takes None");
    const auto number = on.cast<std::int64_t>();
    if (number == 0 || number < -1) throw py::buffer_error("stream: " + std::to_string(number) + " is none");
    unordered = number == -1;
  }
  // What is there, is there for every stream of the reader's.
  if (!unordered) t.settle();
  return versioned ? capsule_of<dlpack::managed_versioned>(t) : capsule_of<dlpack::managed>(t);
}

template <class Managed>
std::optional<tensor> taken(const py::object& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), Managed::name) == 0) return std::nullopt;
  auto* const form = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), Managed::name));
  // Until the capsule is renamed it is the capsule that calls the deleter: what is refused here stays whole.
  tensor t;
  if constexpr (requires { form->version; }) {
    if (form->version.major != 1) {
      throw py::buffer_error("DLPack " + std::to_string(form->version.major) + " is not 1");
    }
    t.read_only = (form->flags & Managed::read_only) != 0;
  }
  const dlpack::tensor& view = form->view;
  (void)find(view.type);
  if (view.dimensions < 0 || view.dimensions > 64 || (view.dimensions > 0 && view.shape == nullptr)) {
    throw py::buffer_error("a DLPack tensor of " + std::to_string(view.dimensions) + " dimensions");
  }
  t.type = view.type;
  t.device = view.device;
  t.data = static_cast<std::byte*>(view.data) + view.byte_offset;
  t.shape.assign(view.shape, view.shape + view.dimensions);
  for (const std::int64_t length : t.shape) {
    if (length < 0) throw py::buffer_error("a DLPack tensor with a length below 0");
  }
  (void)product(t.item(), t.shape);
  if (view.strides != nullptr) {
    t.strides.assign(view.strides, view.strides + view.dimensions);
  } else {
    t.strides = rows(t.shape);
  }
  t.owner = std::shared_ptr<const void>{form, [form](const void*) {
                                          if (form->deleter != nullptr) form->deleter(form);
                                        }};
  if (PyCapsule_SetName(capsule.ptr(), Managed::used) != 0) throw py::error_already_set();
  return t;
}

// What Py_buffer points into.
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
    const bool in_rows = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS;
    if ((!told || in_rows) && !t.contiguous()) return refuse_view("its items do not lie row after row");
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

// The stream of the side that is not the host's memory, where one is; else of the side that is Berth's.
queue_pointer copier(const tensor& to, const tensor& from) {
  if (to.device.kind != dlpack::cpu) return to.on;
  if (from.device.kind != dlpack::cpu) return from.on;
  return to.on ? to.on : from.on;
}

void copy_from(const tensor& to, const tensor& from) {
  if (to.read_only) refuse("copy_from: it is read-only");
  if (to.size() != from.size() || to.type != from.type) refuse("copy_from: another size or another type");
  if (!to.contiguous() || !from.contiguous()) refuse("copy_from: items do not lie row after row");
  if (to.device != from.device && to.device.kind != dlpack::cpu && from.device.kind != dlpack::cpu) {
    refuse("copy_from: from another device");
  }
  const queue_pointer on = copier(to, from);
  if (!on) refuse("copy_from: it is not Berth's memory; let its own library copy");
  if (from.on && from.on != on) from.settle();
  if (to.on && to.on != on) to.settle();
  const py::gil_scoped_release others_run;
  if (const auto done = on->work.copy(to.data, from.data, to.size()); !done) raise(done.error());
  // Behind this call nobody keeps the bytes of a side that comes and goes in another order.
  if (from.on == to.on) return;
  if (const auto done = on->work.synchronize(); !done) raise(done.error());
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

bool tensor::contiguous() const noexcept {
  std::int64_t next = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != next) return false;
    next *= shape[i];
  }
  return true;
}

void tensor::settle() const {
  if (!on) return;
  const py::gil_scoped_release others_run;
  if (const auto done = on->work.synchronize(); !done) raise(done.error());
}

void raise(const error& e) {
  const std::string text = std::string{name(e.code)} + ": " + e.what;
  if (e.code == errc::invalid_input || e.code == errc::overflow) refuse(text);
  const py::gil_scoped_acquire held;
  const bool memory = e.code == errc::out_of_memory || e.code == errc::limit_exceeded;
  PyErr_SetString(memory ? PyExc_MemoryError : PyExc_RuntimeError, text.c_str());
  throw py::error_already_set();
}

bytes bytes_of(const py::object& dtype, const py::object& shape) {
  return product(named(dtype).type.bits / 8, shape_of(shape));
}

tensor tensor_over(std::shared_ptr<const void> owner, queue_pointer on, void* data, bytes size, const py::object& dtype,
                   const py::object& shape) {
  tensor t;
  t.type = named(dtype).type;
  t.shape = shape.is_none() ? std::vector{static_cast<std::int64_t>(size / t.item())} : shape_of(shape);
  const bytes needed = product(t.item(), t.shape);
  if (needed > size) {
    refuse("shape: it takes " + std::to_string(needed) + " bytes, and there are " + std::to_string(size));
  }
  t.strides = rows(t.shape);
  t.device = device_of(on->home->device);
  t.owner = std::move(owner);
  t.on = std::move(on);
  t.data = static_cast<std::byte*>(data);
  return t;
}

tensor from_dlpack(const py::object& array) {
  py::object capsule;
  if (PyCapsule_CheckExact(array.ptr()) != 0) {
    capsule = array;
  } else {
    try {
      capsule = array.attr("__dlpack__")(py::arg("max_version") = py::make_tuple(1, 0));
    } catch (py::error_already_set& e) {
      if (!e.matches(PyExc_TypeError)) throw;  // libraries from before 1.0 do not know the word
      capsule = array.attr("__dlpack__")();
    }
  }
  std::optional<tensor> t = taken<dlpack::managed_versioned>(capsule);
  if (!t) t = taken<dlpack::managed>(capsule);
  if (!t) throw py::buffer_error("no DLPack capsule, or one that somebody has taken already");
  return *std::move(t);
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
           arg("dl_device") = py::none(), arg("copy") = py::none())
      .def("__dlpack_device__",
           [](const tensor& t) {
             require_known(t);
             return py::make_tuple(t.device.kind, t.device.number);
           })
      .def_property_readonly("__cuda_array_interface__", &cuda_array_interface)
      .def("__repr__", [](const tensor& t) {
        return "<berth.Tensor " + std::string{find(t.type).name} + " " +
               py::repr(py::tuple(py::cast(t.shape))).cast<std::string>() + ">";
      });
  m.def("from_dlpack", &from_dlpack, arg("array"), "Another library's array, whose bytes it shares and keeps.");
}

}  // namespace berth::python

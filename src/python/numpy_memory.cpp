// numpy's arrays in a pool: the handler of NEP 49 (https://numpy.org/neps/nep-0049.html). Its layout and its two places
// in numpy's table are numpy's binary interface, the same in all versions from 1.22 on. They are written down here, so
// that the module needs no numpy to be built.
#include <algorithm>
#include <cstring>

#include "python/tensor.hpp"

namespace berth::python {

namespace {

struct numpy_allocator {
  void* context;
  void* (*malloc)(void* context, std::size_t size);
  void* (*calloc)(void* context, std::size_t count, std::size_t size);
  void* (*realloc)(void* context, void* data, std::size_t size);
  void (*free)(void* context, void* data, std::size_t size);
};
struct numpy_handler {
  char name[127];
  std::uint8_t version;
  numpy_allocator allocator;
};
// In numpy/core/include/numpy/__multiarray_api.h and numpyconfig.h:
constexpr int feature_version_at = 211;  // PyArray_GetNDArrayCFeatureVersion
constexpr int set_handler_at = 304;      // PyDataMem_SetHandler
constexpr unsigned with_handlers = 15;   // NPY_1_22_API_VERSION
constexpr const char* handler_name = "mem_handler";

// Lives as long as its capsule, which every array made with it holds.
struct memory_handler {
  numpy_handler table;
  std::shared_ptr<pool_home> home;
  stream* on;  // the home's
};

memory_source& source_of(void* context) {
  return static_cast<memory_handler*>(context)->home->pool;
}

// These functions throw nothing: failures are null, and numpy makes a MemoryError of that.
void* allocate(void* context, std::size_t size) noexcept {
  const auto got = source_of(context).allocate_raw(size == 0 ? 1 : size, *static_cast<memory_handler*>(context)->on);
  return got ? *got : nullptr;
}

void* allocate_zeroed(void* context, std::size_t count, std::size_t size) noexcept {
  const auto all = checked_mul(count, size);
  if (!all || *all > PY_SSIZE_T_MAX) return nullptr;
  void* const data = allocate(context, static_cast<std::size_t>(*all));
  if (data != nullptr) std::memset(data, 0, static_cast<std::size_t>(*all));
  return data;
}

void give_back(void* context, void* data, std::size_t) noexcept {
  source_of(context).free(data);  // by the pool's own book: numpy's size is not always what was asked for
}

void* allocate_anew(void* context, void* data, std::size_t size) noexcept {
  if (data == nullptr) return allocate(context, size);
  const auto& pool = static_cast<memory_handler*>(context)->home->pool;
  const std::optional<bytes> had = pool.size_of(data);
  void* const to = had ? allocate(context, size) : nullptr;
  if (to == nullptr) return nullptr;
  std::memcpy(to, data, std::min<std::size_t>(size, static_cast<std::size_t>(*had)));
  give_back(context, data, 0);
  return to;
}

using set_handler = PyObject* (*)(PyObject*);

set_handler numpys() {
  py::object table_capsule;
  for (const char* module : {"numpy._core.multiarray", "numpy.core.multiarray"}) {  // of numpy 2, and before
    try {
      table_capsule = py::module_::import(module).attr("_ARRAY_API");
      break;
    } catch (py::error_already_set& e) {
      if (!e.matches(PyExc_ImportError)) throw;
    }
  }
  if (!table_capsule) refuse("for_numpy: numpy is not installed");
  void** const table = static_cast<void**>(PyCapsule_GetPointer(table_capsule.ptr(), nullptr));
  if (table == nullptr) throw py::error_already_set();
  if (reinterpret_cast<unsigned (*)()>(table[feature_version_at])() < with_handlers) {
    refuse("for_numpy: this numpy is older than 1.22");
  }
  return reinterpret_cast<set_handler>(table[set_handler_at]);
}

// Entered once at a time; the former handler comes back at the end.
class numpy_memory {
 public:
  explicit numpy_memory(std::shared_ptr<pool_home> home) : home_{std::move(home)} {}

  void enter() {
    if (before_) refuse("for_numpy: it is entered already");
    const set_handler set = numpys();
    auto made = std::make_unique<memory_handler>();
    made->home = home_;
    made->on = &home_->host_stream();
    std::strncpy(made->table.name, "berth", sizeof made->table.name);
    made->table.version = 1;
    made->table.allocator = {made.get(), &allocate, &allocate_zeroed, &allocate_anew, &give_back};
    PyObject* const capsule = PyCapsule_New(&made->table, handler_name, [](PyObject* c) {
      auto* const table = static_cast<numpy_handler*>(PyCapsule_GetPointer(c, handler_name));
      delete static_cast<memory_handler*>(table->allocator.context);
    });
    if (capsule == nullptr) throw py::error_already_set();
    (void)made.release();
    const auto held = py::reinterpret_steal<py::object>(capsule);
    PyObject* const before = set(held.ptr());
    if (before == nullptr) throw py::error_already_set();
    before_ = py::reinterpret_steal<py::object>(before);
  }

  void exit() {
    if (!before_) refuse("for_numpy: it is not entered");
    PyObject* const ours = numpys()(before_.ptr());
    if (ours == nullptr) throw py::error_already_set();
    Py_DECREF(ours);
    before_ = py::object{};
  }

 private:
  std::shared_ptr<pool_home> home_;
  py::object before_;
};

}  // namespace

py::object for_numpy(const std::shared_ptr<pool_home>& home) {
  if (!home->device.properties().host_accessible) {
    refuse("for_numpy: numpy cannot reach the memory of " + home->device.properties().name);
  }
  return py::cast(std::make_unique<numpy_memory>(home));
}

void declare_numpy_memory(py::module_& m) {
  py::class_<numpy_memory>(m, "NumpyMemory", "What Pool.for_numpy() returns.")
      .def("__enter__", &numpy_memory::enter)
      .def("__exit__", [](numpy_memory& n, const py::args&) { n.exit(); });
}

}  // namespace berth::python

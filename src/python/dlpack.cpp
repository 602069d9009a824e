// A tensor as a DLPack capsule, and another library's capsule as a tensor.
#include <pybind11/stl.h>

#include <optional>

#include "python/tensor.hpp"

namespace berth::python {

namespace {

void require_known(const tensor& t) {
  if (t.device.kind != 0) return;
  throw py::buffer_error("DLPack has no name for memory of " + t.on->home->device.properties().name);
}

// A capsule's content: the tensor stays as long as its consumer.
template <class Managed>
struct exported {
  Managed form{};
  tensor held;
  std::optional<stream> reader;  // goes first, which waits for its work: only then may the bytes go
};

template <class Managed>
void let_go(Managed* m) {
  const std::unique_ptr<exported<Managed>> gone{static_cast<exported<Managed>*>(m->context)};
  if (!gone->reader) return;
  const others_run_meanwhile here;
  gone->reader.reset();
}

template <class Managed>
py::object capsule_of(const tensor& t, std::optional<stream> reader) {
  auto made = std::make_unique<exported<Managed>>();
  made->held = t;
  made->reader = std::move(reader);
  made->form.context = made.get();
  made->form.deleter = &let_go<Managed>;
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

// The streams of CUDA's that the protocol has numbers for; any other number is a handle.
constexpr std::int64_t nobodys = -1, legacy_default = 1, per_thread_default = 2;

// Has the block wait for the work of the stream that a reader on CUDA names, before it is used anew. The pool keeps the
// default stream, and the threads' own ones are in order with it. Any other stream is returned: it is known while the
// reader keeps the bytes. Another library's memory has no pool here. Its release waits for the default stream as for
// any other, since its owner may use it anew at once.
std::optional<stream> ordered_behind(const tensor& t, std::int64_t number) {
  if (number == nobodys) return std::nullopt;
  const bool by_default = number == legacy_default || number == per_thread_default;
  if (t.on && by_default) {
    pool_home& home = *t.on->home;
    home.pool.use_on(static_cast<const held_block*>(t.owner.get())->memory.data(), home.default_stream()).value();
    return std::nullopt;
  }
  auto of = t.on ? result<device>{t.on->home->device} : device::open("cuda:" + std::to_string(t.device.number));
  if (!of) raise(of.error());
  void* const handle = by_default ? nullptr : reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));
  auto reader = stream::wrap(*std::move(of), handle);
  if (!reader) raise(reader.error());
  return *std::move(reader);
}

template <class Managed>
std::optional<tensor> taken(const py::object& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), Managed::name) == 0) return std::nullopt;
  auto* const form = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), Managed::name));
  // The capsule calls the deleter until it is renamed: a refused one stays whole.
  tensor t;
  if constexpr (requires { form->version; }) {
    if (form->version.major != 1) {
      throw py::buffer_error("DLPack " + std::to_string(form->version.major) + " is not 1");
    }
    t.read_only = (form->flags & Managed::read_only) != 0;
  }
  const dlpack::tensor& view = form->view;
  require_type(view.type);
  if (view.device.kind <= 0) {
    throw py::buffer_error("a DLPack tensor on a device of kind " + std::to_string(view.device.kind));
  }
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
  if (PyCapsule_SetName(capsule.ptr(), Managed::used) != 0) throw py::error_already_set();
  // Without memory for this owner, it calls the deleter itself.
  t.owner = std::shared_ptr<const void>{form, [form](const void*) {
                                          if (form->deleter != nullptr) form->deleter(form);
                                        }};
  return t;
}

// Waits for the default stream, behind which producers enqueue. CUDA's streams made by Berth are not in order with it.
void wait_for_producer(const tensor& t) {
  if (t.device.kind != dlpack::cuda) return;
  const py::gil_scoped_release others_run;
  auto of = device::open("cuda:" + std::to_string(t.device.number));
  if (!of) raise(of.error());
  auto on = stream::wrap(*of, nullptr);
  if (!on) raise(on.error());
  if (const auto done = on->synchronize(); !done) raise(done.error());
}

bool on_cuda(const py::object& array) {
  if (!py::hasattr(array, "__dlpack_device__")) return false;
  return array.attr("__dlpack_device__")().cast<std::pair<std::int32_t, std::int32_t>>().first == dlpack::cuda;
}

}  // namespace

py::tuple dlpack_device(const tensor& t) {
  require_known(t);
  return py::make_tuple(t.device.kind, t.device.number);
}

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
  std::int64_t number = legacy_default;  // what None means
  if (!on.is_none()) {
    if (t.device.kind == dlpack::cpu) throw py::buffer_error("stream: the host's memory takes None");
    number = on.cast<std::int64_t>();
    if (number == 0 || number < nobodys) throw py::buffer_error("stream: " + std::to_string(number) + " is none");
  }
  // Settled bytes are there for every stream of the reader's.
  if (number != nobodys) t.settle();
  std::optional<stream> reader;
  if (t.device.kind == dlpack::cuda) reader = ordered_behind(t, number);
  if (versioned) return capsule_of<dlpack::managed_versioned>(t, std::move(reader));
  return capsule_of<dlpack::managed>(t, std::move(reader));
}

tensor from_dlpack(const py::object& array) {
  py::object capsule;
  if (PyCapsule_CheckExact(array.ptr()) != 0) {
    capsule = array;
  } else {
    py::dict words;
    if (on_cuda(array)) words["stream"] = legacy_default;
    try {
      capsule = array.attr("__dlpack__")(**words, py::arg("max_version") = py::make_tuple(1, 0));
    } catch (py::error_already_set& e) {
      if (!e.matches(PyExc_TypeError)) throw;  // libraries from before 1.0 do not know the word
      capsule = array.attr("__dlpack__")(**words);
    }
  }
  std::optional<tensor> t = taken<dlpack::managed_versioned>(capsule);
  if (!t) t = taken<dlpack::managed>(capsule);
  if (!t) throw py::buffer_error("no DLPack capsule, or one that somebody has taken already");
  wait_for_producer(*t);
  return *std::move(t);
}

}  // namespace berth::python

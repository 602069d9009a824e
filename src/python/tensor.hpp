// berth.Tensor: bytes of a pool's block, of an arena, or of another library's array, with a shape and a type. What
// array libraries read it by is DLPack, Python's buffer protocol and, on CUDA, __cuda_array_interface__.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "berth/device/stream.hpp"
#include "berth/pool/pool.hpp"
#include "python/dlpack.hpp"
#include "python/refusal.hpp"

namespace berth::python {

// A pool and the device it is on. Whatever was allocated from it keeps it.
struct pool_home {
  pool_home(berth::device d, const pool_options& options) : device{std::move(d)}, pool{device, options} {}
  berth::device device;
  berth::pool pool;
};

// A stream together with the pool whose blocks it orders.
struct queue {
  explicit queue(std::shared_ptr<pool_home> p) : home{std::move(p)}, work{home->device} {}
  std::shared_ptr<pool_home> home;
  stream work;
};
using queue_pointer = std::shared_ptr<queue>;

// A block in its stream's order. Its last holder may let go of it on any thread, with or without the interpreter's
// lock.
struct held_block {
  queue_pointer on;
  block memory;
};

struct tensor {
  std::shared_ptr<const void> owner;  // keeps the bytes
  queue_pointer on;                   // whose work may write them; null where they are not Berth's
  std::byte* data = nullptr;
  dlpack::device device{};
  dlpack::data_type type{};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in items
  bool read_only = false;

  [[nodiscard]] bytes item() const noexcept { return type.bits / 8; }
  [[nodiscard]] bytes size() const noexcept;  // in bytes, of its items
  [[nodiscard]] bool contiguous() const noexcept;
  // Until what was enqueued on its stream so far is done. Releases the interpreter's lock meanwhile.
  void settle() const;
};

// Of `bytes` from `data`, which `owner` keeps. `dtype` is a name, a numpy.dtype or what has a __name__ such as
// numpy.float32; `shape` is one number, a sequence of them, or None: as many items as fit.
[[nodiscard]] tensor tensor_over(std::shared_ptr<const void> owner, queue_pointer on, void* data, bytes size,
                                 const py::object& dtype, const py::object& shape);

// What a shape and a type take: for a block that is still to be allocated.
[[nodiscard]] bytes bytes_of(const py::object& dtype, const py::object& shape);

// Memory's failures become MemoryError, wrong arguments InputError, a device's RuntimeError.
[[noreturn]] void raise(const error& e);

[[nodiscard]] tensor from_dlpack(const py::object& array);

void declare_tensor(py::module_& m);
void declare_pool(py::module_& m);

// A context manager in which numpy's arrays lie in the pool.
[[nodiscard]] py::object for_numpy(const queue_pointer& on);
void declare_numpy_memory(py::module_& m);

}  // namespace berth::python

// berth.Tensor: bytes of a pool's block, of an arena, or of another library's array, with a shape and a type. Array
// libraries read it by DLPack, Python's buffer protocol and, on CUDA, __cuda_array_interface__.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "berth/device/stream.hpp"
#include "berth/pool/pool.hpp"
#include "python/dlpack.hpp"
#include "python/refusal.hpp"

namespace berth::python {

// Releases the interpreter's lock while it lives, if this thread has it. The end of a stream or a pool waits for work,
// which may be a function of Python's.
class others_run_meanwhile {
 public:
  others_run_meanwhile() : mine_{Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr} {}
  others_run_meanwhile(const others_run_meanwhile&) = delete;
  others_run_meanwhile& operator=(const others_run_meanwhile&) = delete;
  ~others_run_meanwhile() {
    if (mine_ != nullptr) PyEval_RestoreThread(mine_);
  }

 private:
  PyThreadState* const mine_;
};

// Makes an object whose end waits: its last holder may have the interpreter's lock.
template <class T, class... With>
std::shared_ptr<T> make_waiting(With&&... with) {
  return {new T(std::forward<With>(with)...), [](const T* gone) {
            const others_run_meanwhile here;
            delete gone;
          }};
}

// A pool and the device it is on. Its blocks keep it. A request waits for the work of all of the pool's streams rather
// than fail.
struct pool_home {
  pool_home(berth::device d, bytes limit);
  pool_home(const pool_home&) = delete;
  pool_home& operator=(const pool_home&) = delete;

  // Adds a stream whose work may hold the pool's memory back.
  void add(const stream& s);

  // Returns the stream of memory that the host writes at once: no other stream's work touches what the pool gives to
  // it. Both streams are made when first asked for, on any thread, and never enqueued on here.
  stream& host_stream();
  // Returns the device's default stream; blocks that readers on it have seen are freed behind its work.
  stream& default_stream();

  berth::device device;
  berth::pool pool;

 private:
  static bool wait_once(void* self, const pool_pressure& p);
  void wait_for_streams();

  std::mutex mutex_;
  std::vector<std::weak_ptr<stream_clock>> streams_;
  std::optional<stream> host_, default_;
};

// A stream together with the pool whose blocks it orders.
struct queue {
  explicit queue(std::shared_ptr<pool_home> p) : home{std::move(p)}, work{home->device} { home->add(work); }
  std::shared_ptr<pool_home> home;
  stream work;
};
using queue_pointer = std::shared_ptr<queue>;

// A block in its stream's order. Its last holder may drop it on any thread, with or without the interpreter's lock.
struct held_block {
  queue_pointer on;
  block memory;
};

struct tensor {
  std::shared_ptr<const void> owner;  // keeps the bytes; a held_block where `on` is set
  queue_pointer on;                   // whose work may write them; null where they are not Berth's
  std::byte* data = nullptr;
  dlpack::device device{};
  dlpack::data_type type{};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in items
  bool read_only = false;

  [[nodiscard]] bytes item() const noexcept { return type.bits / 8; }
  [[nodiscard]] bytes size() const noexcept;  // in bytes, of its items
  // Return whether items are dense, with those of the last index nearest to each other, or those of the first.
  [[nodiscard]] bool in_rows() const noexcept;
  [[nodiscard]] bool in_columns() const noexcept;
  // Waits for the work enqueued on its stream so far. Releases the interpreter's lock meanwhile.
  void settle() const;
};

// A type and a shape. Each is asked once: a shape may give its numbers only once.
struct tensor_items {
  dlpack::data_type type;
  std::vector<std::int64_t> shape;

  [[nodiscard]] bytes size() const;  // refused where it does not fit the addresses
};
// `dtype` is a name, a numpy.dtype or has a __name__ such as numpy.float32; `shape` is one number or gives numbers.
[[nodiscard]] tensor_items items_of(const py::object& dtype, const py::object& shape);
// `shape` may be None too: as many items as fit `size` bytes. Refuses more than these.
[[nodiscard]] tensor_items items_within(bytes size, const py::object& dtype, const py::object& shape);

// Makes a tensor over the bytes from `data`, which `owner` keeps and which hold the items.
[[nodiscard]] tensor tensor_over(std::shared_ptr<const void> owner, queue_pointer on, void* data, tensor_items of);

// Memory's failures become MemoryError, wrong arguments InputError, a device's RuntimeError.
[[noreturn]] void raise(const error& e);

// Return the strides of a shape's rows, in items, and the bytes it takes, which fit the addresses or are refused.
[[nodiscard]] std::vector<std::int64_t> rows(const std::vector<std::int64_t>& shape);
[[nodiscard]] bytes product(bytes item, const std::vector<std::int64_t>& shape);

// Throws a BufferError if Berth has no such type.
void require_type(dlpack::data_type type);

// Implement Python's __dlpack__ and __dlpack_device__:
// https://data-apis.org/array-api/latest/API_specification/generated/array_api.array.__dlpack__.html
[[nodiscard]] py::object to_dlpack(const tensor& t, const py::object& stream, const py::object& max_version,
                                   const py::object& dl_device, const py::object& copy);
[[nodiscard]] py::tuple dlpack_device(const tensor& t);
[[nodiscard]] tensor from_dlpack(const py::object& array);

void declare_tensor(py::module_& m);
void declare_pool(py::module_& m);

// A context manager in which numpy's arrays lie in the pool.
[[nodiscard]] py::object for_numpy(const std::shared_ptr<pool_home>& home);
void declare_numpy_memory(py::module_& m);

}  // namespace berth::python

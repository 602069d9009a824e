// berth.Pool, berth.Stream and berth.Arena: memory in stream order for Python. Blocks and arenas keep their pool.
#include "berth/pool/pool.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "python/solved.hpp"
#include "python/tensor.hpp"
#include "trace/fields.hpp"

namespace berth::python {

namespace {

// One block under a plan's offsets.
struct arena {
  std::shared_ptr<const solved> of;
  std::shared_ptr<const held_block> block;
};

queue_pointer open(const std::string& name, const py::object& limit) {
  const bytes most = to_bytes_or_none(limit, "limit").value_or(pool_options{}.limit);
  const py::gil_scoped_release others_run;
  result<device> opened = device::open(name);
  if (!opened) {
    if (opened.error().code == errc::no_such_device) refuse("device: " + std::string{opened.error().what});
    raise(opened.error());
  }
  return make_waiting<queue>(make_waiting<pool_home>(*std::move(opened), most));
}

queue_pointer stream_of(const queue_pointer& pool, const queue_pointer& asked) {
  if (!asked) return pool;
  if (asked->home != pool->home) refuse("stream: it is another pool's");
  return asked;
}

std::shared_ptr<const held_block> block_of(const queue_pointer& on, bytes size, bytes alignment) {
  const py::gil_scoped_release others_run;
  result<block> got = on->home->pool.allocate(size, on->work, block_options{.alignment = alignment});
  if (!got) raise(got.error());
  return std::make_shared<held_block>(held_block{on, *std::move(got)});
}

tensor allocate(const queue_pointer& pool, const py::object& shape, const py::object& dtype,
                const queue_pointer& asked) {
  const queue_pointer on = stream_of(pool, asked);
  tensor_items all = items_of(dtype, shape);
  const auto got = block_of(on, all.size(), 0);
  return tensor_over(got, on, got->memory.data(), std::move(all));
}

arena arena_of(const queue_pointer& pool, const solved_pointer& plan, const queue_pointer& asked) {
  if (!plan->answer.has_offsets()) refuse("plan: it has no offsets: " + reason_of(*plan));
  const plan::problem& p = plan->file->problem;
  if (!p.memories.empty() || p.max_slab) refuse("plan: of several memories or slabs, of which an arena is one");
  bytes alignment = p.alignment;
  for (const plan::buffer& b : p.buffers) alignment = std::max(alignment, b.alignment);
  for (const plan::buffer& b : p.buffers) {
    if (b.alignment != 0 && alignment % b.alignment != 0) alignment = 0;
  }
  if (!std::has_single_bit(alignment) || alignment % p.alignment != 0) {
    refuse("plan: its alignments are no powers of two, and a pool's are");
  }
  const queue_pointer on = stream_of(pool, asked);
  return {plan, block_of(on, plan->answer.arena_bytes, alignment)};
}

std::size_t buffer_of(const arena& a, const py::object& which) {
  const auto& buffers = a.of->file->problem.buffers;
  if (py::isinstance<py::str>(which)) {
    const auto name = which.cast<std::string>();
    const auto at = std::find_if(buffers.begin(), buffers.end(), [&](const auto& b) { return b.name == name; });
    if (at == buffers.end()) throw py::key_error(name);
    return static_cast<std::size_t>(at - buffers.begin());
  }
  const plan::tick i = to_tick(which, "buffer");
  if (i < 0 || static_cast<std::size_t>(i) >= buffers.size()) throw py::index_error("no such buffer");
  return static_cast<std::size_t>(i);
}

tensor tensor_of(const arena& a, const py::object& which, const py::object& dtype, const py::object& shape) {
  const std::size_t i = buffer_of(a, which);
  tensor_items all = items_within(a.of->file->problem.buffers[i].size, dtype, shape);
  std::byte* const base = static_cast<std::byte*>(a.block->memory.data());
  std::byte* const data = base == nullptr ? nullptr : base + a.of->answer.offsets[i];
  return tensor_over(a.block, a.block->on, data, std::move(all));
}

py::dict statistics(const queue_pointer& q) {
  const pool_statistics s = q->home->pool.statistics();
  py::dict out;
  trace::for_each_pool_field(s, [&out](const char* name, auto figure) { out[name] = figure; });
  out["fragmentation"] = s.fragmentation();
  out["rounding"] = s.rounding();
  out["idle"] = s.idle();
  return out;
}

// Python's pool: the pool's first stream. Both are one handle here, and two classes there.
struct pool_handle {
  queue_pointer on;
};
struct stream_handle {
  queue_pointer on;
};

queue_pointer asked_of(const std::optional<stream_handle>& s) {
  return s ? s->on : nullptr;
}

void declare_stream(py::module_& m) {
  py::class_<stream_handle>(m, "Stream", "Work in order. Blocks come and go in their stream's order.")
      .def("synchronize",
           [](const stream_handle& s) {
             const py::gil_scoped_release others_run;
             if (const auto done = s.on->work.synchronize(); !done) raise(done.error());
           })
      .def("query",
           [](const stream_handle& s) {
             const auto done = s.on->work.query();
             if (!done) raise(done.error());
             return *done;
           })
      .def_property_readonly("id", [](const stream_handle& s) { return s.on->work.id(); })
      .def_property_readonly(
          "native", [](const stream_handle& s) { return reinterpret_cast<std::uintptr_t>(s.on->work.native()); });
}

void declare_arena(py::module_& m) {
  using py::arg;
  py::class_<arena>(m, "Arena", "One block of a pool under a plan's offsets.")
      .def("__len__", [](const arena& a) { return a.of->answer.offsets.size(); })
      .def_property_readonly("nbytes", [](const arena& a) { return a.of->answer.arena_bytes; })
      .def("tensor", &tensor_of, arg("buffer"), py::kw_only(), arg("dtype") = "uint8", arg("shape") = py::none(),
           "The buffer with this index or id. It keeps the arena; that others share its bytes at other times is the "
           "plan's and the caller's affair.");
}

}  // namespace

pool_home::pool_home(berth::device d, bytes limit)
    : device{std::move(d)}, pool{device, {.limit = limit, .on_pressure = {&wait_once, this}}} {}

bool pool_home::wait_once(void* self, const pool_pressure& p) {
  if (p.attempt > 1) return false;
  static_cast<pool_home*>(self)->wait_for_streams();
  return true;
}

void pool_home::add(const stream& s) {
  const std::lock_guard held{mutex_};
  std::erase_if(streams_, [](const auto& one) { return one.expired(); });
  streams_.emplace_back(s.clock());
}

// Waits from the last one on: if add() drops some meanwhile, the others only move down.
void pool_home::wait_for_streams() {
  for (std::size_t left = std::numeric_limits<std::size_t>::max(); left > 0; --left) {
    std::shared_ptr<stream_clock> one;
    {
      const std::lock_guard held{mutex_};
      left = std::min(left, streams_.size());
      if (left == 0) return;
      one = streams_[left - 1].lock();
    }
    if (one) (void)stream::synchronize(*one);
  }
}

stream& pool_home::host_stream() {
  const std::lock_guard held{mutex_};
  if (!host_) {
    host_.emplace(device);
    streams_.emplace_back(host_->clock());
  }
  return *host_;
}

stream& pool_home::default_stream() {
  const std::lock_guard held{mutex_};
  if (!default_) {
    default_.emplace(stream::wrap(device, nullptr).value());
    streams_.emplace_back(default_->clock());
  }
  return *default_;
}

void declare_pool(py::module_& m) {
  using py::arg;
  declare_stream(m);
  declare_arena(m);
  py::class_<pool_handle>(m, "Pool", "Device memory that comes and goes in stream order.")
      .def(
          py::init([](const std::string& device, const py::object& limit) { return pool_handle{open(device, limit)}; }),
          arg("device") = "host", py::kw_only(), arg("limit") = py::none())
      .def(
          "allocate",
          [](const pool_handle& p, const py::object& shape, const py::object& dtype,
             const std::optional<stream_handle>& s) { return allocate(p.on, shape, dtype, asked_of(s)); },
          arg("shape"), py::kw_only(), arg("dtype") = "uint8", arg("stream") = py::none(),
          "A block with what it held before. It goes back when nobody has it any more.")
      .def(
          "arena",
          [](const pool_handle& p, const solved_pointer& plan, const std::optional<stream_handle>& s) {
            return arena_of(p.on, plan, asked_of(s));
          },
          arg("plan"), py::kw_only(), arg("stream") = py::none(), "One block for all buffers of a plan.")
      .def("stream", [](const pool_handle& p) { return stream_handle{make_waiting<queue>(p.on->home)}; })
      .def(
          "for_numpy", [](const pool_handle& p) { return for_numpy(p.on->home); },
          "A context manager: arrays that this thread (or asyncio task) makes inside it lie in the pool, for as long "
          "as they live.")
      .def("statistics", [](const pool_handle& p) { return statistics(p.on); })
      .def("report", [](const pool_handle& p) { return p.on->home->pool.report(); })
      .def(
          "trim",
          [](const pool_handle& p, const py::object& keep) {
            const bytes kept = to_bytes(keep, "keep");
            const py::gil_scoped_release others_run;
            return p.on->home->pool.trim(kept);
          },
          arg("keep") = 0, "Gives free memory back to the device; returns how much.")
      .def_property_readonly("device", [](const pool_handle& p) { return p.on->home->device.properties().name; });
}

}  // namespace berth::python

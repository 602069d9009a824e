// Problem.from_arrays: reads numpy, array.array and other buffers in place, lists item by item.
#include <pybind11/pybind11.h>
#include <sys/mman.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "python/problem.hpp"

namespace berth::python {

namespace {

// One column of integers. Holds the buffer, so that it is not resized meanwhile.
class column {
 public:
  column(const py::object& from, const char* name) : name_{name} {
    if (PyObject_CheckBuffer(from.ptr()) != 0) {
      take_buffer(from);
    } else {
      take_items(from);
    }
  }
  column(const column&) = delete;
  column& operator=(const column&) = delete;
  ~column() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }

  [[nodiscard]] std::size_t size() const { return size_; }

  [[nodiscard]] bytes as_bytes(std::size_t i) const {
    const number n = at(i);
    if (n.negative) refuse_at(i, std::to_string(static_cast<std::int64_t>(n.bits)) + " is not a number of bytes");
    return n.bits;
  }

  [[nodiscard]] plan::tick as_tick(std::size_t i) const {
    const number n = at(i);
    if (!n.negative && n.bits > static_cast<std::uint64_t>(std::numeric_limits<plan::tick>::max())) {
      refuse_at(i, std::to_string(n.bits) + " is not a time of 64 bits");
    }
    return static_cast<plan::tick>(n.bits);
  }

 private:
  struct number {
    std::uint64_t bits = 0;
    bool negative = false;
  };

  [[noreturn]] void refuse_at(std::size_t i, const std::string& why) const {
    throw refusal{std::string{name_} + "[" + std::to_string(i) + "]: " + why, i};
  }

  void take_buffer(const py::object& from) {
    if (PyObject_GetBuffer(from.ptr(), &view_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
      PyErr_Clear();
      take_items(from);  // what numpy cannot describe as a buffer, dates for one, is told item by item
      return;
    }
    const bool one = view_.ndim == 1;
    std::string_view format{view_.format != nullptr ? view_.format : "B"};
    const bool native = std::endian::native == std::endian::little;
    if (format.size() > 1 && (format[0] == '@' || format[0] == '=' || format[0] == (native ? '<' : '>'))) {
      format.remove_prefix(1);
    }
    const char type = format.size() == 1 ? format[0] : '?';
    signed_ = std::string_view{"bhilqn"}.find(type) != std::string_view::npos;
    const bool whole = signed_ || std::string_view{"BHILQN"}.find(type) != std::string_view::npos;
    const std::string was{view_.format != nullptr ? view_.format : ""};
    const int dimensions = view_.ndim;
    if (!one || !whole || view_.itemsize > 8) {
      PyBuffer_Release(&view_);
      if (!one) refuse(std::string{name_} + ": an array of " + std::to_string(dimensions) + " dimensions, not one");
      refuse(std::string{name_} + ": an array of '" + was + "', not of this machine's integers");
    }
    size_ = static_cast<std::size_t>(view_.shape[0]);
    width_ = static_cast<std::size_t>(view_.itemsize);
    stride_ = view_.strides != nullptr ? view_.strides[0] : view_.itemsize;
    base_ = static_cast<const std::byte*>(view_.buf);
  }

  void take_items(const py::object& from) {
    const auto held = py::reinterpret_steal<py::object>(
        PySequence_Fast(from.ptr(), "berth: a column is an array or a sequence of integers"));
    if (!held) throw py::error_already_set();
    // A tuple stays whole if an item's own __index__ changes the list.
    const auto items = py::reinterpret_steal<py::object>(PySequence_Tuple(held.ptr()));
    if (!items) throw py::error_already_set();
    const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(items.ptr()));
    for (std::size_t i = 0; i < count; ++i) {
      const py::handle item = PyTuple_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i));
      const auto whole = py::reinterpret_steal<py::object>(PyNumber_Index(item.ptr()));
      if (!whole) {
        PyErr_Clear();
        refuse_at(i, py::str(item).cast<std::string>() + " is not an integer");
      }
      int over = 0;
      const long long value = PyLong_AsLongLongAndOverflow(whole.ptr(), &over);
      std::uint64_t bits = static_cast<std::uint64_t>(value);
      if (over > 0) bits = PyLong_AsUnsignedLongLong(whole.ptr());
      if (over < 0 || PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        refuse_at(i, py::str(whole).cast<std::string>() + " does not fit 64 bits");
      }
      items_.push_back({bits, over == 0 && value < 0});
    }
    size_ = items_.size();
  }

  template <class Signed, class Unsigned>
  [[nodiscard]] number load(const std::byte* from) const {
    Unsigned bits;
    std::memcpy(&bits, from, sizeof bits);
    if (!signed_) return {bits, false};
    const auto value = static_cast<std::int64_t>(static_cast<Signed>(bits));
    return {static_cast<std::uint64_t>(value), value < 0};
  }

  [[nodiscard]] number at(std::size_t i) const {
    if (base_ == nullptr) return items_[i];
    const std::byte* const from = base_ + static_cast<std::ptrdiff_t>(i) * stride_;
    switch (width_) {
      case 1: return load<std::int8_t, std::uint8_t>(from);
      case 2: return load<std::int16_t, std::uint16_t>(from);
      case 4: return load<std::int32_t, std::uint32_t>(from);
      default: return load<std::int64_t, std::uint64_t>(from);
    }
  }

  const char* name_;
  Py_buffer view_{};
  std::size_t size_ = 0, width_ = 0;
  std::ptrdiff_t stride_ = 0;
  const std::byte* base_ = nullptr;
  bool signed_ = false;
  std::vector<number> items_;
};

// Reserves with pages of 2 MiB where the system has them. The memory of a million buffers is touched for the first time
// here; small pages would take some fifty thousand faults.
void in_large_pages(std::vector<plan::buffer>& to, std::size_t count) {
  to.reserve(count);
#ifdef MADV_HUGEPAGE
  constexpr std::uintptr_t large = std::uintptr_t{2} << 20;
  const auto begin = (reinterpret_cast<std::uintptr_t>(to.data()) + large - 1) / large * large;
  const auto end = reinterpret_cast<std::uintptr_t>(to.data() + count) / large * large;
  if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace

problem from_arrays(const py::object& size, const py::object& lower, const py::object& upper,
                    const py::object& alignments, const py::object& offset,
                    const std::optional<std::vector<std::string>>& ids, const py::object& alignment,
                    const py::object& granularity, const py::object& capacity, const py::object& max_slab,
                    const std::optional<std::string>& rules) {
  const column sizes{size, "size"}, lowers{lower, "lower"}, uppers{upper, "upper"};
  std::optional<column> aligned, pins;
  if (!alignments.is_none()) aligned.emplace(alignments, "alignments");
  if (!offset.is_none()) pins.emplace(offset, "offset");
  const std::size_t count = sizes.size();
  const auto same = [&](std::size_t n, const char* name) {
    if (n == count) return;
    throw refusal{std::string{name} + " has " + std::to_string(n) + " items, size has " + std::to_string(count),
                  std::min(n, count)};
  };
  same(lowers.size(), "lower");
  same(uppers.size(), "upper");
  if (aligned) same(aligned->size(), "alignments");
  if (pins) same(pins->size(), "offset");
  if (ids) same(ids->size(), "ids");
  if (count > std::numeric_limits<index>::max()) refuse("size: more buffers than have a number");

  model::problem_file file = *problem::create(alignment, granularity, capacity, max_slab, rules).file();
  auto& buffers = file.problem.buffers;
  in_large_pages(buffers, count);
  std::unordered_set<std::string_view> seen;
  for (std::size_t i = 0; i < count; ++i) {
    plan::buffer& b = buffers.emplace_back();
    b.size = sizes.as_bytes(i);
    b.live = {lowers.as_tick(i), uppers.as_tick(i)};
    if (b.live.lower >= b.live.upper) {
      throw refusal{"upper[" + std::to_string(i) + "]: " + std::to_string(b.live.upper) + " is not above lower, " +
                        std::to_string(b.live.lower),
                    i};
    }
    if (aligned) b.alignment = aligned->as_bytes(i);
    if (pins) b.offset = pins->as_bytes(i);
    if (ids && !seen.insert((*ids)[i]).second) {
      throw refusal{"ids[" + std::to_string(i) + "]: '" + (*ids)[i] + "' is there already", i};
    }
    b.name = ids ? (*ids)[i] : std::to_string(i);
  }
  return problem{std::move(file)};
}

}  // namespace berth::python

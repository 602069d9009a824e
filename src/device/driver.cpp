#include "device/driver.hpp"

#include <charconv>
#include <cstring>
#include <string>
#include <utility>

#include "device/backend.hpp"

namespace berth::detail {

result<int> device_number(std::string_view argument, const char* what) noexcept {
  int number = 0;
  const char* end = argument.data() + argument.size();
  const auto [rest, wrong] = std::from_chars(argument.data(), end, number);
  if (wrong != std::errc{} || rest != end || number < 0) return error{errc::invalid_input, what};
  return number;
}

result<void> device_backend::try_virtual_memory() {
  const bytes size = properties_.granule;
  struct step {  // undoes the completed steps
    device_backend& on;
    void* range = nullptr;
    std::uint64_t memory = 0;
    int mapped = 0;
    ~step() {
      auto* start = static_cast<std::byte*>(range);
      while (mapped > 0)
        (void)on.unmap(start + static_cast<std::size_t>(--mapped) * on.properties_.granule, on.properties_.granule);
      if (memory != 0) on.destroy_physical(memory, on.properties_.granule);
      if (range != nullptr) on.release(range, 2 * on.properties_.granule);
    }
  } made{*this};
  auto range = reserve(2 * size);
  if (!range) return range.error();
  made.range = *range;
  auto memory = create_physical(size, physical_form::granular);
  if (!memory) return memory.error();
  made.memory = *memory;
  auto* first = static_cast<std::byte*>(*range);
  for (std::byte* at : {first, first + size}) {
    if (auto ok = map(at, size, *memory, 0); !ok) return ok;
    ++made.mapped;
  }
  auto bytes_out = allocate(sizeof(std::uint64_t), memory_kind::pinned);
  if (!bytes_out) return bytes_out.error();
  struct pinned {
    device_backend& on;
    void* block;
    ~pinned() { on.free(block, sizeof(std::uint64_t), memory_kind::pinned); }
  } out{*this, *bytes_out};
  auto queue = create_queue(std::make_shared<stream_clock>(0));
  if (!queue) return queue.error();
  // Records the addresses in the book, as the queue may look for them there.
  auto range_entry = address_book::make_range({.size = 2 * size, .reservation = true});
  auto pinned_entry = address_book::make_range({.size = sizeof(std::uint64_t), .kind = memory_kind::pinned});
  book.add(std::move(range_entry), first);
  book.add(std::move(pinned_entry), out.block);
  auto done = (*queue)->fill(first, std::byte{0x5a}, sizeof(std::uint64_t));
  if (done) done = (*queue)->copy(out.block, first + size, sizeof(std::uint64_t));
  const auto ended = (*queue)->synchronize();
  (void)book.remove(first, {.size = 2 * size, .reservation = true});
  (void)book.remove(out.block, {.size = sizeof(std::uint64_t), .kind = memory_kind::pinned});
  if (!done) return done;
  if (!ended) return ended;
  std::uint64_t seen = 0;
  std::memcpy(&seen, host_address(out.block, memory_kind::pinned), sizeof seen);
  if (seen != 0x5a5a5a5a5a5a5a5aU) return error{errc::device_failed, "memory at two addresses is not the same", seen};
  return {};
}

void device_backend::probe_virtual_memory() {
  if (!properties_.virtual_memory) return;
  const auto works = try_virtual_memory();
  if (works) return;
  properties_.virtual_memory = false;
  properties_.granule = 0;
  properties_.max_mappings = 0;
  std::string note{"virtual memory does not work here and is not used: "};
  note.append(works.error().what).append(" (").append(std::to_string(works.error().number)).append(")");
  properties_.notes.push_back(std::move(note));
}

granule_table::entry granule_table::make(bytes size, bytes granule, physical_form form) {
  const bytes each = form == physical_form::whole ? size : granule;
  std::map<std::uint64_t, pieces> one;
  pieces& made = one.emplace(0, pieces{.each = each, .handles = {}}).first->second;
  made.handles.reserve(static_cast<std::size_t>(size / each));
  return one.extract(one.begin());
}

std::uint64_t granule_table::add(entry made) noexcept {
  const std::lock_guard lock{mutex_};
  made.key() = ++last_handle_;
  all_.insert(std::move(made));
  return last_handle_;
}

const granule_table::pieces& granule_table::find(std::uint64_t handle) const noexcept {
  const std::lock_guard lock{mutex_};
  return all_.find(handle)->second;
}

std::uint64_t granule_table::split(std::uint64_t handle, bytes at) {
  const std::lock_guard lock{mutex_};
  pieces& whole = all_.find(handle)->second;
  const auto first = whole.handles.begin() + static_cast<std::ptrdiff_t>(at / whole.each);
  all_.emplace(last_handle_ + 1, pieces{.each = whole.each, .handles = {first, whole.handles.end()}});
  whole.handles.erase(first, whole.handles.end());
  return ++last_handle_;
}

std::vector<std::uint64_t> granule_table::take(std::uint64_t handle) noexcept {
  const std::lock_guard lock{mutex_};
  return std::move(all_.extract(handle).mapped().handles);
}

}  // namespace berth::detail

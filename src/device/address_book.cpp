#include "device/address_book.hpp"

#include <iterator>
#include <utility>

namespace berth::detail {
namespace {

std::uintptr_t number(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address);
}

// The entry whose range [key, key + size) contains the address, or end().
template <class Map>
auto containing(Map& map, std::uintptr_t address) noexcept {
  auto it = map.upper_bound(address);
  if (it == map.begin()) return map.end();
  --it;
  return address - it->first < it->second.size ? it : map.end();
}

}  // namespace

address_book::range_entry address_book::make_range(range r) {
  std::map<std::uintptr_t, range> one;
  one.emplace(0, r);
  return one.extract(one.begin());
}

address_book::physical_entry address_book::make_physical(bytes size, physical_form form) {
  std::map<std::uint64_t, physical> one;
  one.emplace(0, physical{.size = size, .form = form});
  return one.extract(one.begin());
}

void address_book::add(range_entry entry, void* address) noexcept {
  entry.key() = number(address);
  const std::lock_guard lock{mutex_};
  ranges_.insert(std::move(entry));
}

bool address_book::remove(void* address, const range& r) noexcept {
  const std::lock_guard lock{mutex_};
  const auto it = ranges_.find(number(address));
  if (it == ranges_.end()) return false;
  if (it->second.size != r.size || it->second.kind != r.kind || it->second.reservation != r.reservation) return false;
  ranges_.erase(it);
  return true;
}

std::optional<address_book::located> address_book::find(const void* address) const noexcept {
  const std::lock_guard lock{mutex_};
  const auto it = containing(ranges_, number(address));
  if (it == ranges_.end()) return std::nullopt;
  return located{it->first, it->second};
}

std::optional<memory_kind> address_book::kind_of(const void* address) const noexcept {
  const auto found = find(address);
  if (!found) return std::nullopt;
  return found->what.kind;
}

void address_book::add(physical_entry entry, std::uint64_t handle) noexcept {
  entry.key() = handle;
  const std::lock_guard lock{mutex_};
  physicals_.insert(std::move(entry));
}

address_book::destroyed address_book::destroy(std::uint64_t handle, bytes size) noexcept {
  const std::lock_guard lock{mutex_};
  const auto it = physicals_.find(handle);
  if (it == physicals_.end() || it->second.size != size || it->second.destroyed) return destroyed::no_such_handle;
  if (it->second.mappings == 0) {
    physicals_.erase(it);
    return destroyed::now;
  }
  it->second.destroyed = true;
  return destroyed::later;
}

const char* address_book::begin_map(void* address, bytes size, std::uint64_t handle, bytes offset) {
  const std::lock_guard lock{mutex_};
  const std::uintptr_t start = number(address);
  const auto reservation = containing(ranges_, start);
  if (reservation == ranges_.end() || !reservation->second.reservation ||
      size > reservation->second.size - (start - reservation->first)) {
    return "map: the range is not inside one reservation";
  }
  const auto memory = physicals_.find(handle);
  if (memory == physicals_.end() || memory->second.destroyed) return "map: no such physical memory";
  if (offset > memory->second.size || size > memory->second.size - offset) {
    return "map: offset and size pass the end of the physical memory";
  }
  if (memory->second.form == physical_form::whole && size != memory->second.size) {
    return "map: a part of physical memory that was made to be mapped as a whole";
  }
  const auto next = mappings_.lower_bound(start);
  if (next != mappings_.end() && next->first - start < size) return "map: the range is mapped already";
  if (next != mappings_.begin()) {
    const auto before = std::prev(next);
    if (start - before->first < before->second.size) return "map: the range is mapped already";
  }
  mappings_.emplace_hint(next, start, mapping{size, handle, offset});
  ++memory->second.mappings;
  return nullptr;
}

bool address_book::whole_mappings(void* address, bytes size) const noexcept {
  const std::lock_guard lock{mutex_};
  std::uintptr_t at = number(address);
  for (auto it = mappings_.find(at); it != mappings_.end() && it->first == at && it->second.size <= size; ++it) {
    at += it->second.size;
    size -= it->second.size;
    if (size == 0) return true;
  }
  return false;
}

address_book::ended_mapping address_book::end_map(void* address) noexcept {
  const std::lock_guard lock{mutex_};
  const auto it = mappings_.find(number(address));
  const auto memory = physicals_.find(it->second.handle);
  ended_mapping ended{.size = it->second.size, .handle = memory->first, .physical_size = memory->second.size};
  mappings_.erase(it);
  if (--memory->second.mappings == 0 && memory->second.destroyed) {
    ended.last_of_destroyed = true;
    physicals_.erase(memory);
  }
  return ended;
}

std::size_t address_book::mapping_count() const noexcept {
  const std::lock_guard lock{mutex_};
  return mappings_.size();
}

bool address_book::has_mappings(void* address, bytes size) const noexcept {
  const std::lock_guard lock{mutex_};
  const std::uintptr_t start = number(address);
  const auto it = mappings_.lower_bound(start);
  return it != mappings_.end() && it->first - start < size;
}

}  // namespace berth::detail

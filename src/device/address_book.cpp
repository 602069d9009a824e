#include "device/address_book.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/make_room.hpp"

namespace berth::detail {
namespace {

std::uintptr_t number(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address);
}

// Returns the entry whose range [key, key + size) contains the address, or end().
template <class Map>
auto containing(Map& map, std::uintptr_t address) noexcept {
  auto it = map.upper_bound(address);
  if (it == map.begin()) return map.end();
  --it;
  return address - it->first < it->second.size ? it : map.end();
}

// Returns true if an entry's range shares an address with [begin, begin + size).
template <class Map, class SizeOf>
bool shares(const Map& map, std::uintptr_t begin, bytes size, SizeOf size_of) noexcept {
  const auto after = map.lower_bound(begin);
  if (after != map.end() && after->first - begin < size) return true;
  return after != map.begin() && begin - std::prev(after)->first < size_of(std::prev(after)->second);
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
  const range& known = it->second;
  if (known.size != r.size || known.kind != r.kind || known.reservation != r.reservation) return false;
  if (known.registered != r.registered) return false;
  ranges_.erase(it);
  return true;
}

bool address_book::begin_registration(const void* host, bytes size) {
  const std::uintptr_t begin = number(host);
  const std::lock_guard lock{mutex_};
  if (shares(registered_, begin, size, [](bytes n) { return n; })) return false;
  if (shares(ranges_, begin, size, [](const range& r) { return r.size; })) return false;
  registered_.emplace(begin, size);
  return true;
}

bool address_book::overlaps(const void* start, bytes size) const noexcept {
  const std::lock_guard lock{mutex_};
  return shares(ranges_, number(start), size, [](const range& r) { return r.size; });
}

bool address_book::has_physical(std::uint64_t handle) const noexcept {
  const std::lock_guard lock{mutex_};
  return physicals_.count(handle) != 0;
}

void address_book::end_registration(const void* host) noexcept {
  const std::lock_guard lock{mutex_};
  registered_.erase(number(host));
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
  if (it->second.shown.empty()) {
    physicals_.erase(it);
    return destroyed::now;
  }
  it->second.destroyed = true;
  return destroyed::later;
}

std::optional<address_book::split_entries> address_book::begin_split(std::uint64_t handle, bytes size, bytes at) const {
  split_entries entries{.memory = make_physical(size - at, physical_form::granular), .rests = {}};
  const std::lock_guard lock{mutex_};
  const auto memory = physicals_.find(handle);
  if (memory == physicals_.end() || memory->second.size != size || memory->second.destroyed ||
      memory->second.form != physical_form::granular) {
    return std::nullopt;
  }
  std::size_t behind = 0;
  for (const std::uintptr_t start : memory->second.shown) {
    const mapping& m = mappings_.find(start)->second;
    if (m.offset + m.size <= at) continue;
    ++behind;
    if (m.offset >= at) continue;
    std::map<std::uintptr_t, mapping> one;
    one.emplace(0, mapping{});
    entries.rests.push_back(one.extract(one.begin()));
  }
  entries.memory.mapped().shown.reserve(behind);
  return entries;
}

void address_book::split(std::uint64_t handle, bytes at, std::uint64_t rest, split_entries entries) noexcept {
  const std::lock_guard lock{mutex_};
  physical& first = physicals_.find(handle)->second;
  first.size = at;
  entries.memory.key() = rest;
  std::vector<std::uintptr_t>& shown = entries.memory.mapped().shown;
  std::erase_if(first.shown, [&](std::uintptr_t start) {
    mapping& m = mappings_.find(start)->second;
    if (m.offset + m.size <= at) return false;
    if (m.offset >= at) {
      m.offset -= at;
      m.handle = rest;
      shown.push_back(start);
      return true;
    }
    mapping_entry half = std::move(entries.rests.back());
    entries.rests.pop_back();
    half.key() = start + static_cast<std::uintptr_t>(at - m.offset);
    half.mapped() = {.size = m.offset + m.size - at, .handle = rest, .offset = 0};
    m.size = at - m.offset;
    shown.push_back(half.key());
    mappings_.insert(std::move(half));
    return false;
  });
  physicals_.insert(std::move(entries.memory));
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
  make_room(memory->second.shown);
  mappings_.emplace_hint(next, start, mapping{size, handle, offset});
  memory->second.shown.push_back(start);  // has reserved capacity
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
  std::vector<std::uintptr_t>& shown = memory->second.shown;
  *std::ranges::find(shown, it->first) = shown.back();
  shown.pop_back();
  mappings_.erase(it);
  if (shown.empty() && memory->second.destroyed) {
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

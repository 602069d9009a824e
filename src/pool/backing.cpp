#include "pool/backing.hpp"

#include <algorithm>
#include <new>

#include "core/make_room.hpp"
#include "device/backend.hpp"

namespace berth::detail {
namespace {

constexpr std::size_t most_mappings = 32768;     // of a pool; systems limit the whole process
constexpr bytes unknown_space = bytes{1} << 40;  // address space if the device does not report its memory's size

// With 32-bit addresses a pool without a limit holds at most a sixteenth of them, and as much again in stitched blocks.
constexpr bool few_addresses = sizeof(void*) < 8;
constexpr bytes most_space = few_addresses ? bytes{256} << 20 : max_bytes;
// The addresses of chunks may be this many times the bytes that may be held. So a chunk finds a hole although others
// were released in between. Stitched blocks get as much, as dead ones return only when their streams' work is done.
constexpr bytes most_ranges = few_addresses ? 2 : 8;

}  // namespace

backing::backing(device d, memory_kind kind, bytes limit, std::shared_ptr<shared_limit> shared, bytes quantum,
                 bool stitching)
    : device_{std::move(d)},
      kind_{kind},
      limit_{limit},
      shared_{std::move(shared)},
      quantum_{quantum},
      virtual_memory_{kind == memory_kind::device && device_.properties().virtual_memory},
      granule_{virtual_memory_ ? device_.properties().granule : quantum},
      max_mappings_{std::min(most_mappings, device_.properties().max_mappings)},
      form_{stitching ? physical_form::granular : physical_form::whole} {
  if (!virtual_memory_) return;
  const bytes total = device_.properties().total_memory;
  const bytes most = limit_ == max_bytes ? most_space : limit_;
  limit_ = align_down(limit_, granule_);
  most_ = align_down(std::min(most, total != 0 ? total : unknown_space), granule_);
}

bool backing::lift(bytes more) noexcept {
  const auto rounded = checked_align_up(more, granule_);
  const auto to = rounded ? checked_add(*rounded, reserved_) : std::nullopt;
  const bytes total = device_.properties().total_memory;
  if (!to || *to <= limit_ || (total != 0 && *to > total)) return false;
  limit_ = *to;
  most_ = std::max(most_, limit_);
  return true;
}

void backing::release_all() noexcept {
  for (retired_block& r : retired_) {
    r.use = {};
    r.uses.reset();
  }
  purge();
  bool clean = true;
  while (!chunks_.empty()) {
    const chunk c = chunks_.back();
    if (shrink(chunks_.size() - 1)) {
      chunks_.pop_back();
      continue;
    }
    // A device that cannot unmap has failed for good: the memory goes with the last mapping, the addresses with it.
    clean = false;
    device_.destroy_physical(c.handle, c.size);
    reserved_ -= c.size;
    if (shared_ != nullptr) shared_->give(c.size);
    chunks_.pop_back();
  }
  space_.release(device_, clean);
  windows_.release(device_, retired_.empty());
  retired_.clear();
}

bytes backing::most_addresses() const noexcept {
  return checked_mul(most_, most_ranges).value_or(max_bytes);
}

result<address_space::range> backing::reserve(bytes size) noexcept {
  if (most_ == 0) return error{errc::limit_exceeded, "pool: the limit is below the device's granule", limit_};
  if (const bytes most = most_addresses(); size > most - std::min(space_.size(), most)) {
    return error{errc::out_of_memory, "pool: the pool's address space", size};
  }
  return space_.extend(device_, size, most_);
}

result<void> backing::obtain(chunk& c, bool device_block) {
  ++device_calls_;
  if (device_block || !virtual_memory_) {
    const auto block = device_.allocate(c.size, kind_);
    if (!block) return block.error();
    c.address = *block;
    c.offset = next_device_block_;
    next_device_block_ += c.size + quantum_;  // chunks never touch
    return {};
  }
  const auto handle = device_.create_physical(c.size, form_);
  if (!handle) return handle.error();
  c.handle = *handle;
  c.address = space_.at(c.offset);
  auto mapped = device_.map(c.address, c.size, c.handle, 0);
  if (!mapped) device_.destroy_physical(c.handle, c.size);
  return mapped;
}

result<chunk> backing::grow(bytes offset, bytes size, bool device_block) {
  const error no_room{errc::limit_exceeded, "pool: the pool's limit", size};
  if (size > headroom()) return no_room;
  try {
    make_room(chunks_);
  } catch (const std::bad_alloc&) {
    return error{errc::out_of_memory, "pool: no memory for the pool's own records", size};
  }
  if (shared_ != nullptr && !shared_->take(size)) return no_room;  // another pool was faster
  chunk c{.offset = offset, .size = size};
  if (const auto obtained = obtain(c, device_block); !obtained) {
    if (shared_ != nullptr) shared_->give(size);
    return obtained.error();
  }
  chunks_.insert(std::ranges::upper_bound(chunks_, c.offset, {}, &chunk::offset), c);
  reserved_ += c.size;
  return c;
}

std::size_t backing::chunk_at(bytes offset) const noexcept {
  const auto next = std::ranges::upper_bound(chunks_, offset, {}, &chunk::offset);
  return static_cast<std::size_t>(next - chunks_.begin()) - 1;
}

bool backing::split(bytes offset) noexcept {
  const std::size_t i = chunk_at(offset);
  const bytes at = offset - chunks_[i].offset;
  if (at == 0 || at == chunks_[i].size) return true;
  try {
    make_room(chunks_);
  } catch (const std::bad_alloc&) {
    return false;
  }
  chunk& first = chunks_[i];
  if (is_device_block(first.offset)) return false;
  ++device_calls_;
  const auto rest = device_.split(first.handle, first.size, at);
  if (!rest) return false;
  chunk second = first;
  second.offset = offset;
  second.size = first.size - at;
  second.handle = *rest;
  second.address = static_cast<std::byte*>(first.address) + at;
  first.size = at;
  chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(i) + 1, second);
  return true;
}

bool backing::shrink(std::size_t chunk) noexcept {
  detail::chunk& gone = chunks_[chunk];
  ++device_calls_;
  if (is_device_block(gone.offset)) {
    device_.free(gone.address, gone.size, kind_);
  } else {
    if (!device_.unmap(gone.address, gone.size)) return false;
    device_.destroy_physical(gone.handle, gone.size);
  }
  reserved_ -= gone.size;
  if (shared_ != nullptr) shared_->give(gone.size);
  gone.size = 0;
  return true;
}

void backing::forget_gone() noexcept {
  std::erase_if(chunks_, [](const chunk& c) { return c.size == 0; });
}

void* backing::address(bytes offset) const noexcept {
  if (!is_device_block(offset)) return space_.at(offset);
  const auto next = std::ranges::upper_bound(chunks_, offset, {}, &chunk::offset);
  const chunk& c = *(next - 1);
  return static_cast<std::byte*>(c.address) + (offset - c.offset);
}

// Maps the granules [begin, end) of the linear space at `at`, chunk by chunk.
result<void> backing::map_piece(std::byte*& at, bytes begin, bytes end, std::size_t& made) {
  auto c = std::ranges::upper_bound(chunks_, begin, {}, &chunk::offset) - 1;
  while (begin < end) {
    const bytes n = std::min(end, c->offset + c->size) - begin;
    ++device_calls_;
    if (auto mapped = device_.map(at, n, c->handle, begin - c->offset); !mapped) return mapped;
    device_.backend().rest(space_.at(begin), n, c->handle);
    ++made;
    at += n;
    begin += n;
    ++c;
  }
  return {};
}

// Returns a hole for a stitched block of that size.
result<extent*> backing::window_for(bytes size, bool may_exceed) noexcept {
  const error no_room{errc::out_of_memory, "pool: no room for a stitched block", size};
  const auto any = [](const extent&) { return true; };
  if (extent* e = window_store_.find(window_store_.nobodys(), size, any)) return e;
  if (purge()) {
    if (extent* e = window_store_.find(window_store_.nobodys(), size, any)) return e;
  }
  const bytes most = may_exceed ? most_addresses() : most_;
  if (size > most - std::min(windows_.size(), most) || !window_store_.prepare(1)) return no_room;
  const auto range = windows_.extend(device_, size, most_);
  if (!range) return range.error();
  return window_store_.add(range->offset, range->size, nullptr, nullptr);
}

result<extent*> backing::stitch(std::span<const piece> pieces, bool may_exceed) {
  bytes size = 0;
  for (const piece& p : pieces) size += align_up(p.offset + p.size, granule_) - align_down(p.offset, granule_);
  const error no_room{errc::out_of_memory, "pool: no room for a stitched block", size};
  // A piece may lie in several chunks; each needs one mapping.
  const auto many = [&] { return mappings_ + chunks_.size() + pieces.size() + chunks_.size() > max_mappings_; };
  if (many() && (!purge() || many())) return no_room;
  const auto found = window_for(size, may_exceed);
  if (!found) return found.error();
  extent* const hole = *found;
  if (!window_store_.prepare(2)) return no_room;
  std::vector<piece> shown;
  try {
    make_room(retired_, stitched_ + 1);
    shown.assign(pieces.begin(), pieces.end());
  } catch (const std::bad_alloc&) {
    return no_room;
  }

  std::byte* const begin = windows_.at(hole->offset);
  std::byte* at = begin;
  std::size_t made = 0;
  for (const piece& p : pieces) {
    const auto mapped = map_piece(at, align_down(p.offset, granule_), align_up(p.offset + p.size, granule_), made);
    if (mapped) continue;
    if (at != begin) {
      const auto mapped_so_far = static_cast<bytes>(at - begin);
      if (!device_.unmap(begin, mapped_so_far)) {
        // Keeps the mappings like those of a dead block, for purge() to try again.
        extent* stuck = window_store_.take(hole, hole->offset, mapped_so_far);
        stuck->mappings = made;
        mappings_ += made;
        retired_bytes_ += stuck->size;
        retired_.push_back({stuck, std::move(shown), {}, nullptr});  // has reserved capacity
      }
    }
    return mapped.error();
  }
  extent* window = window_store_.take(hole, hole->offset, size);
  window->mappings = made;
  mappings_ += made;
  ++stitched_;
  return window;
}

void* backing::window_address(const extent& window) const noexcept {
  return windows_.at(window.offset);
}

void backing::retire(extent* window, std::vector<piece> shown, stream_use use,
                     std::shared_ptr<std::vector<stream_use>> uses) noexcept {
  --stitched_;
  retired_bytes_ += window->size;
  // There is room: stitch() reserved it for every live stitched block.
  retired_.push_back({window, std::move(shown), use, std::move(uses)});
}

bool backing::is_shown(bytes begin, bytes end) const noexcept {
  return std::ranges::any_of(retired_, [&](const retired_block& r) {
    return std::ranges::any_of(r.shown, [&](const piece& p) {
      return align_down(p.offset, granule_) < end && align_up(p.offset + p.size, granule_) > begin;
    });
  });
}

std::vector<bool> backing::still_shown() const {
  std::vector<bool> all(chunks_.size());
  for (const retired_block& r : retired_) {
    for (const piece& p : r.shown) {
      const auto first =
          std::ranges::upper_bound(chunks_, p.offset, {}, [](const chunk& c) { return c.offset + c.size; });
      for (auto c = first; c != chunks_.end() && c->offset < p.offset + p.size; ++c) {
        all[static_cast<std::size_t>(c - chunks_.begin())] = true;
      }
    }
  }
  return all;
}

bool backing::purge() noexcept {
  const auto gone = [this](const retired_block& r) {
    if (!r.use.done() || (r.uses && !std::ranges::all_of(*r.uses, &stream_use::done))) return false;
    ++device_calls_;
    if (!device_.unmap(windows_.at(r.window->offset), r.window->size)) return false;  // retried next time
    mappings_ -= r.window->mappings;
    retired_bytes_ -= r.window->size;
    window_store_.give(r.window, window_store_.nobodys());
    return true;
  };
  return std::erase_if(retired_, gone) != 0;
}

}  // namespace berth::detail

#include "pool/backing.hpp"

#include <algorithm>
#include <new>

#include "core/make_room.hpp"

namespace berth::detail {
namespace {

constexpr std::size_t most_mappings = 32768;     // of a pool; systems have a limit for the whole process
constexpr bytes unknown_space = bytes{1} << 40;  // address space for a device that does not tell its memory's size

// With 32-bit addresses a pool without a limit takes a sixteenth of them, and as much again for stitched blocks.
constexpr bool few_addresses = sizeof(void*) < 8;
constexpr bytes most_space = few_addresses ? bytes{256} << 20 : max_bytes;
constexpr bytes window_factor = few_addresses ? 2 : 8;
// The space is wider than what may be held at once, so that a chunk finds a hole although others went in between.
constexpr bytes space_factor = few_addresses ? 2 : 4;

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
  if (base_ != nullptr && clean) device_.release(base_, space_);
  if (window_base_ != nullptr && retired_.empty()) device_.release(window_base_, window_);
  base_ = window_base_ = nullptr;
  retired_.clear();
}

// Reserves `factor` times what may be held; where there are not so many addresses, half of that, and so on.
result<void*> backing::reserve_wide(bytes factor, bytes& size) const noexcept {
  result<void*> range = error{errc::overflow, "pool: more addresses than there are", most_};
  for (; factor != 0 && !range; factor /= 2) {
    const auto wide = checked_mul(most_, factor);
    if (!wide) continue;
    size = *wide;
    range = device_.reserve(size);
  }
  return range;
}

// The same for chunks. Where there are fewer addresses than the device has memory (`ulimit -v`, an emulator), a pool
// without a limit takes a quarter to a half of what is left: the rest of the program needs some too. One with a limit
// is to hold it, and asks again.
result<void*> backing::reserve_space() noexcept {
  auto range = reserve_wide(space_factor, space_);
  bytes fits = most_ < limit_ ? align_down(most_ / 2, granule_) : 0;
  for (; !range && fits >= 2 * granule_; fits = align_down(fits / 2, granule_)) {
    range = device_.reserve(fits);
    if (!range) continue;
    device_.release(*range, fits);
    space_ = align_down(fits / 2, granule_);
    range = device_.reserve(space_);
  }
  return range;
}

result<void> backing::open() noexcept {
  if (!virtual_memory_ || base_ != nullptr) return {};
  if (most_ == 0) return error{errc::limit_exceeded, "pool: the limit is below the device's granule", limit_};
  const auto base = reserve_space();
  if (!base) return base.error();
  base_ = static_cast<std::byte*>(*base);
  if (!window_store_.prepare(1)) return {};
  if (const auto window = reserve_wide(window_factor, window_)) {
    window_base_ = static_cast<std::byte*>(*window);
    window_store_.add(0, window_, nullptr, nullptr);
  } else {
    window_ = 0;
  }
  return {};
}

result<void> backing::obtain(chunk& c, bool device_block) {
  ++device_calls_;
  if (device_block || !virtual_memory_) {
    const auto block = device_.allocate(c.size, kind_);
    if (!block) return block.error();
    c.address = *block;
    c.offset = space_ + next_offset_;
    next_offset_ += c.size + quantum_;  // chunks never touch
    return {};
  }
  const auto handle = device_.create_physical(c.size, form_);
  if (!handle) return handle.error();
  c.handle = *handle;
  c.address = base_ + c.offset;
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
  if (shared_ != nullptr && !shared_->take(size)) return no_room;  // another pool was first
  chunk c{.offset = offset, .size = size};
  if (const auto obtained = obtain(c, device_block); !obtained) {
    if (shared_ != nullptr) shared_->give(size);
    return obtained.error();
  }
  chunks_.insert(std::ranges::upper_bound(chunks_, c.offset, {}, &chunk::offset), c);
  reserved_ += c.size;
  return c;
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
  if (!is_device_block(offset)) return base_ + offset;
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
    ++made;
    at += n;
    begin += n;
    ++c;
  }
  return {};
}

result<extent*> backing::stitch(std::span<const piece> pieces) {
  bytes size = 0;
  for (const piece& p : pieces) size += align_up(p.offset + p.size, granule_) - align_down(p.offset, granule_);
  const error no_room{errc::out_of_memory, "pool: no room for a stitched block", size};
  const auto room = [&]() -> extent* {
    // A piece may lie in several chunks; one mapping each.
    if (mappings_ + chunks_.size() + pieces.size() + chunks_.size() > max_mappings_) return nullptr;
    return window_store_.find(window_store_.nobodys(), size, [](const extent&) { return true; });
  };
  if (window_ == 0 || !window_store_.prepare(2)) return no_room;
  std::vector<piece> shown;
  try {
    make_room(retired_, stitched_ + 1);
    shown.assign(pieces.begin(), pieces.end());
  } catch (const std::bad_alloc&) {
    return no_room;
  }
  extent* hole = room();
  if (hole == nullptr && purge()) hole = room();
  if (hole == nullptr) return no_room;

  std::byte* const begin = window_base_ + hole->offset;
  std::byte* at = begin;
  std::size_t made = 0;
  for (const piece& p : pieces) {
    const auto mapped = map_piece(at, align_down(p.offset, granule_), align_up(p.offset + p.size, granule_), made);
    if (mapped) continue;
    if (at != begin) {
      const auto mapped_so_far = static_cast<bytes>(at - begin);
      if (!device_.unmap(begin, mapped_so_far)) {
        // Kept as a dead block's mappings are, for purge() to try again.
        extent* stuck = window_store_.take(hole, hole->offset, mapped_so_far);
        stuck->mappings = made;
        mappings_ += made;
        retired_.push_back({stuck, std::move(shown), {}, nullptr});  // there is room
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
  return window_base_ + window.offset;
}

void backing::retire(extent* window, std::vector<piece> shown, stream_use use,
                     std::shared_ptr<std::vector<stream_use>> uses) noexcept {
  --stitched_;
  // stitch() made room for every live stitched block.
  retired_.push_back({window, std::move(shown), use, std::move(uses)});
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
    if (!device_.unmap(window_base_ + r.window->offset, r.window->size)) return false;  // the next time, then
    mappings_ -= r.window->mappings;
    window_store_.give(r.window, window_store_.nobodys());
    return true;
  };
  return std::erase_if(retired_, gone) != 0;
}

}  // namespace berth::detail

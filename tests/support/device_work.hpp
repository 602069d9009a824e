// Work that makes every call of a device once, for tests in which one of them fails. Each stops at the first error,
// returns it, and gives back what it has.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <utility>

#include "berth/device/stream.hpp"

namespace berth::support {

inline result<void> a_bit_of_everything(const device& d) {
  constexpr bytes size = 4096;
  auto first = stream::create(d);
  if (!first) return first.error();
  auto second = stream::create(d);
  if (!second) return second.error();
  auto e = event::create(d);
  if (!e) return e.error();
  auto block = d.allocate(size);
  if (!block) return block.error();
  auto pinned = d.allocate(size, memory_kind::pinned);
  if (!pinned) {
    d.free(*block, size);
    return pinned.error();
  }
  std::array<std::byte, size> pageable{};
  const auto work = [&]() -> result<void> {
    if (auto ok = first->fill(*block, std::byte{1}, size); !ok) return ok;
    if (auto ok = first->record(*e); !ok) return ok;
    if (auto ok = first->record(*e); !ok) return ok;
    if (auto ok = second->wait(*e); !ok) return ok;
    if (auto ok = second->copy(*pinned, *block, size); !ok) return ok;
    if (auto ok = second->call([](void*) {}, nullptr); !ok) return ok;
    if (auto ok = second->copy(pageable.data(), *block, size); !ok) return ok;
    if (auto ok = e->query(); !ok) return ok.error();
    if (auto ok = e->synchronize(); !ok) return ok;
    if (auto ok = second->query(); !ok) return ok.error();
    return second->synchronize();
  };
  const auto done = work();
  { const stream waits_for_its_work{std::move(*second)}; }
  { const stream waits_for_its_work{std::move(*first)}; }
  d.free(*block, size);
  d.free(*pinned, size, memory_kind::pinned);
  return done;
}

inline result<void> a_bit_of_virtual_memory(const device& d) {
  const bytes granule = d.properties().granule;
  auto range = d.reserve(4 * granule);
  if (!range) return range.error();
  auto memory = d.create_physical(2 * granule);
  if (!memory) {
    d.release(*range, 4 * granule);
    return memory.error();
  }
  result<void> done = d.map(*range, 2 * granule, *memory, 0);
  if (done) {
    done = d.unmap(*range, 2 * granule);
    if (!done) {
      // A range that could not be unmapped is still mapped: it can be unmapped now.
      EXPECT_TRUE(d.unmap(*range, 2 * granule));
    }
  }
  d.destroy_physical(*memory, 2 * granule);
  d.release(*range, 4 * granule);
  return done;
}

}  // namespace berth::support

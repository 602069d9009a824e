// The pools of this process with common memory: those of one device, and those under one shared limit.
#pragma once

#include <memory>
#include <vector>

#include "berth/pool/pool.hpp"

namespace berth::detail {

// The keys of a listed pool.
struct pool_source {
  const void* device = nullptr;         // its backend
  const shared_limit* limit = nullptr;  // null: none
  memory_kind kind = memory_kind::device;
};

// All functions are thread-safe and take no pool's lock.
//
// Lists a pool until its state ends. May throw bad_alloc.
void list_pool(const pool_source& source, std::weak_ptr<void> state);
// Returns the other pools, `self` excluded, that share the limit or the device's memory of that kind. May throw
// bad_alloc.
[[nodiscard]] std::vector<std::shared_ptr<void>> pools_under(const shared_limit& limit, const void* self);
[[nodiscard]] std::vector<std::shared_ptr<void>> pools_of(const pool_source& source, const void* self);

}  // namespace berth::detail

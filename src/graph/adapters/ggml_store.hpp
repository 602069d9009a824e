// The memory of one buffer type, and its users.
//
// Compiled against the user's ggml, with berth_ggml.cpp; no part of the compiled library.
//
// Several allocators may share a store, each as a user from when it joins. A user holds a block from when a graph of
// its own was placed there, or reads from there, until it allocates its next graph. A block that a larger one has
// replaced is freed when its last holder leaves. So a graph that is computed again without a new allocation finds its
// memory, also if another allocator has made the store grow.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "berth/graph/in_memories.hpp"
#include "ggml-backend-impl.h"
#include "ggml-impl.h"

namespace berth::ggml {

struct block {
  ggml_backend_buffer_t buffer = nullptr;
  char* base = nullptr;
  bytes size = 0;
};

using users = std::vector<const void*>;  // allocators

inline void leave(users& from, const void* user) {
  from.erase(std::remove(from.begin(), from.end(), user), from.end());
}

inline void enter_once(users& into, const void* user) {
  if (std::find(into.begin(), into.end(), user) == into.end()) into.push_back(user);
}

// Returns a number that no store has had.
inline std::uint64_t next_layout() noexcept {
  static std::atomic<std::uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// A block of before the store grew.
struct old_block {
  block it;
  users holders;
};

// Blocks are the slabs of the plans.
struct store {
  ggml_backend_buffer_type_t type = nullptr;
  memory_rule rule{};
  std::vector<block> blocks{};
  users holders{};  // of the blocks
  std::vector<old_block> old{};
  users sharers{};                       // the first one counts the bytes
  std::uint64_t layout = next_layout();  // another number for other blocks, and for another store

  store(ggml_backend_buffer_type_t of, const void* user) : type{of}, sharers{user} {
    rule = {ggml_backend_buft_get_alignment(of), ggml_backend_buft_get_max_size(of)};
  }
  store(const store&) = delete;
  store& operator=(const store&) = delete;
  ~store() {
    free_blocks();
    for (const old_block& o : old) ggml_backend_buffer_free(o.it.buffer);
  }

  [[nodiscard]] bool is_shared() const noexcept { return sharers.size() > 1; }
  [[nodiscard]] std::vector<bytes> sizes() const {
    std::vector<bytes> all;
    for (const block& b : blocks) all.push_back(b.size);
    return all;
  }

  void free_blocks() {
    for (const block& b : blocks) ggml_backend_buffer_free(b.buffer);
    blocks.clear();
  }

  // Frees the old blocks that have no holder.
  void free_old() {
    const auto unused = [](const old_block& o) { return o.holders.empty(); };
    for (const old_block& o : old) {
      if (unused(o)) ggml_backend_buffer_free(o.it.buffer);
    }
    old.erase(std::remove_if(old.begin(), old.end(), unused), old.end());
  }

  void remove(const void* user) {
    leave(sharers, user);
    leave(holders, user);
    for (old_block& o : old) leave(o.holders, user);
    free_old();
  }
};

inline void at_least(std::vector<bytes>& sizes, std::span<const bytes> others) {
  sizes.resize(std::max(sizes.size(), others.size()), 0);
  for (std::size_t k = 0; k < others.size(); ++k) sizes[k] = std::max(sizes[k], others[k]);
}

inline bool take_blocks(store& s, std::span<const bytes> sizes) {
  s.layout = next_layout();
  for (const bytes size : sizes) {
    const ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(s.type, size);
    if (buffer == nullptr || ggml_backend_buffer_get_size(buffer) < size) {
      if (buffer != nullptr) ggml_backend_buffer_free(buffer);
      s.free_blocks();
      return false;
    }
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    s.blocks.push_back({buffer, static_cast<char*>(ggml_backend_buffer_get_base(buffer)), size});
  }
  return true;
}

// Gives the store at least these blocks for `user`. Frees blocks without a holder first, as ggml does, so that never
// both are taken, and takes them again if that fails. Held blocks become old ones: `reads` says that a graph of this
// user reads them. False, and nothing has changed: no memory.
inline bool provide(store& s, const void* user, std::span<const bytes> sizes, bool reads = false) {
  const std::vector<bytes> before = s.sizes();
  std::vector<bytes> wanted = before;
  at_least(wanted, sizes);
  if (wanted == before && !reads) return true;
  users holders = s.holders;
  leave(holders, user);
  if (reads) holders.push_back(user);
  const bool keeps = !holders.empty() && !before.empty();
  std::vector<block> kept;
  if (keeps) {
    kept.swap(s.blocks);
  } else {
    s.free_blocks();
    if (!s.is_shared()) wanted.assign(sizes.begin(), sizes.end());  // no more than this graph's, as in ggml
  }
  if (take_blocks(s, wanted)) {
    for (const block& b : kept) s.old.push_back({b, holders});
    s.holders.clear();
    return true;
  }
  GGML_LOG_ERROR("berth: no %s buffer of %llu bytes\n", ggml_backend_buft_name(s.type),
                 static_cast<unsigned long long>(std::accumulate(wanted.begin(), wanted.end(), bytes{0})));
  if (keeps) {
    s.blocks.swap(kept);
  } else {
    (void)take_blocks(s, before);
  }
  return false;
}

}  // namespace berth::ggml

// A chunk source that counts and can be told to fail, for the tests of arenas.
#pragma once

#include <cstddef>
#include <cstdlib>

#include "berth/scratch/scratch_arena.hpp"

namespace scratch_test {

struct counting_source {
  std::size_t allowed = static_cast<std::size_t>(-1);  // chunks that may still be taken
  std::size_t largest = static_cast<std::size_t>(-1);  // bytes of the largest that is given
  std::size_t taken = 0;
  std::size_t freed = 0;
  std::size_t held = 0;  // bytes

  berth::chunk_source source{[](void* context, std::size_t size) noexcept -> void* {
                               auto& self = *static_cast<counting_source*>(context);
                               if (self.allowed == 0 || size > self.largest) return nullptr;
                               --self.allowed;
                               ++self.taken;
                               self.held += size;
                               return std::aligned_alloc(64, size);
                             },
                             [](void* context, void* chunk, std::size_t size) noexcept {
                               auto& self = *static_cast<counting_source*>(context);
                               ++self.freed;
                               self.held -= size;
                               std::free(chunk);
                             },
                             this};

  counting_source() = default;
  counting_source(const counting_source&) = delete;
};

}  // namespace scratch_test

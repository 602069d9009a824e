// A scratch arena against a model: blocks given back in any order, each filled with bytes of its own.
#include <vector>

#include "berth/scratch/scratch_arena.hpp"
#include "fuzz/fuzz.hpp"

using namespace berth;

namespace {

constexpr std::size_t sizes[] = {0,    1,    8,     63,    64,     65,      100,      500,
                                 1000, 4096, 10000, 65536, 100000, 1 << 20, SIZE_MAX, PTRDIFF_MAX};

struct held {
  unsigned char* data;
  std::size_t size;
  std::size_t alignment;
  unsigned char mark;
};

void require_sound(const scratch_arena& arena, const std::vector<held>& live, std::uint64_t taken) {
  arena.check_invariants();
  const scratch_statistics s = arena.statistics();
  std::size_t bytes_of_all = 0;
  for (const held& h : live) bytes_of_all += h.size;
  fuzz::require(s.in_use >= bytes_of_all, "what is in use holds all blocks");
  fuzz::require(s.in_use <= s.peak, "the peak is the most in use");
  fuzz::require(s.in_use <= s.reserved, "what is in use is reserved");
  fuzz::require(s.fallbacks == taken, "every block is counted");
  fuzz::require(!live.empty() || s.in_use == 0, "an arena without blocks is empty");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::choices c{data, size};
  explicit_scratch_arena arena;
  std::vector<held> live;
  std::uint64_t taken = 0;
  unsigned marks = 0;
  const auto release = [&](std::size_t i) {
    const held h = live[i];
    for (std::size_t k = 0; k < h.size; k += k < 64 ? 1 : 997) {
      fuzz::require(h.data[k] == h.mark, "a block keeps its bytes");
    }
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
    arena.release(h.data, h.alignment == 64 || c.byte() % 4 != 0 ? h.alignment : scratch_arena::any_alignment);
  };
  for (int turns = 0; !c.empty() && turns < 500; ++turns) {
    switch (c.byte() % 8) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const std::size_t wanted = c.of(sizes);
        const std::size_t alignment = std::size_t{64} << (c.byte() % 4 == 0 ? c.byte() % 8 : 0);
        auto* p = static_cast<unsigned char*>(arena.allocate(wanted, alignment));
        fuzz::require((p == nullptr) == (wanted > std::size_t{1} << 30), "there is memory for what is no nonsense");
        if (p == nullptr) break;
        ++taken;
        fuzz::require(reinterpret_cast<std::uintptr_t>(p) % alignment == 0, "a block is aligned");
        for (const held& other : live) {
          fuzz::require(p + wanted <= other.data || other.data + other.size <= p, "blocks are apart");
        }
        live.push_back({p, wanted, alignment, static_cast<unsigned char>(++marks)});
        for (std::size_t k = 0; k < wanted; k += k < 64 ? 1 : 997) p[k] = live.back().mark;
        break;
      }
      case 4:
      case 5:
        if (!live.empty()) release(live.size() - 1);
        break;
      case 6:
        if (!live.empty()) release(c.below(live.size()));
        break;
      default: arena.trim();
    }
    require_sound(arena, live, taken);
  }
  while (!live.empty()) release(c.below(live.size()));
  require_sound(arena, live, taken);
  arena.trim();
  fuzz::require(arena.statistics().reserved == 0, "a trimmed arena without blocks holds nothing");
  return 0;
}

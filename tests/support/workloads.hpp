// Allocation logs of the kinds that tensor programs make, drawn from a seed. For tests and benches of what a pool
// holds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "berth/core/bytes.hpp"

namespace berth::workloads {

struct step {
  bytes size;
  std::uint32_t slot;  // of the block; used again once it is free
  std::uint32_t stream;
  bool allocate;
};

struct workload {
  std::string name;
  bool repeats;  // whether most sizes come again
  std::vector<step> steps;
  std::uint32_t slots = 0;
  std::uint32_t streams = 1;
  bytes peak_live = 0;
};

// Writes a workload. Frees carry the size and the stream of the request.
class writer {
 public:
  writer(std::string name, bool repeats) : made_{std::move(name), repeats, {}} {}

  std::uint32_t allocate(bytes size, std::uint32_t stream = 0) {
    std::uint32_t slot = made_.slots;
    if (spare_.empty()) {
      ++made_.slots;
      blocks_.emplace_back();
    } else {
      slot = spare_.back();
      spare_.pop_back();
    }
    blocks_[slot] = {size, slot, stream, false};
    made_.steps.push_back({size, slot, stream, true});
    made_.streams = std::max(made_.streams, stream + 1);
    live_ += size;
    made_.peak_live = std::max(made_.peak_live, live_);
    return slot;
  }
  void free(std::uint32_t slot) {
    made_.steps.push_back(blocks_[slot]);
    live_ -= blocks_[slot].size;
    spare_.push_back(slot);
  }
  [[nodiscard]] workload take() { return std::move(made_); }

 private:
  workload made_;
  std::vector<step> blocks_;
  std::vector<std::uint32_t> spare_;
  bytes live_ = 0;
};

class dice {
 public:
  explicit dice(unsigned seed) : random_{seed} {}
  bytes between(bytes least, bytes most) { return std::uniform_int_distribution<bytes>{least, most}(random_); }
  bool chance(unsigned percent) { return between(1, 100) <= percent; }

 private:
  std::mt19937 random_;
};

// A transformer over texts of other lengths each time. Lengths are rounded up to a multiple of `multiple`.
inline workload texts(unsigned seed, int steps, bytes multiple) {
  dice draw{seed};
  writer w{multiple == 1 ? "texts" : "texts, padded to " + std::to_string(multiple), multiple >= 64};
  for (int i = 0; i < steps; ++i) {
    const bytes length = (draw.between(1, 2048) + multiple - 1) / multiple * multiple;
    std::uint32_t hidden = w.allocate(length * 768 * 4);
    for (int layer = 0; layer < 4; ++layer) {
      const std::uint32_t queries = w.allocate(length * 768 * 12);
      const std::uint32_t scores = w.allocate(length * length * 6);
      const std::uint32_t weights = w.allocate(length * length * 6);
      w.free(scores);
      const std::uint32_t attended = w.allocate(length * 768 * 4);
      w.free(weights);
      w.free(queries);
      const std::uint32_t inner = w.allocate(length * 3072 * 4);
      const std::uint32_t next = w.allocate(length * 768 * 4);
      for (const std::uint32_t dead : {inner, attended, hidden}) w.free(dead);
      hidden = next;
    }
    w.free(hidden);
  }
  return w.take();
}

// Three tensors of another size in each step, all freed at its end.
inline workload clips(unsigned seed, int steps) {
  dice draw{seed};
  writer w{"clips", false};
  for (int i = 0; i < steps; ++i) {
    const bytes samples = draw.between(8000, 480'000);
    const std::uint32_t wave = w.allocate(4 * samples);
    const std::uint32_t spectrum = w.allocate(samples / 160 * 320);
    const std::uint32_t features = w.allocate(samples / 320 * 2048);
    for (const std::uint32_t dead : {spectrum, wave, features}) w.free(dead);
  }
  return w.take();
}

// Texts under generation: caches of keys and values that are made anew, a row larger, for each token.
inline workload generation(unsigned seed, int steps) {
  struct text {
    bytes rows, left;
    std::vector<std::uint32_t> caches;
  };
  dice draw{seed};
  writer w{"generation", false};
  std::vector<text> texts;
  for (int i = 0; i < steps; ++i) {
    if (texts.size() < 12 && (texts.empty() || draw.chance(30))) {
      text fresh{draw.between(16, 1500), draw.between(20, 120), {}};
      for (int layer = 0; layer < 6; ++layer) fresh.caches.push_back(w.allocate(fresh.rows * 4096));
      texts.push_back(std::move(fresh));
    }
    for (text& t : texts) {
      ++t.rows;
      const std::uint32_t scores = w.allocate(32 * t.rows);
      for (std::uint32_t& cache : t.caches) {
        const std::uint32_t larger = w.allocate(t.rows * 4096);
        w.free(std::exchange(cache, larger));
      }
      w.free(scores);
    }
    std::erase_if(texts, [&](text& t) {
      if (--t.left != 0) return false;
      for (const std::uint32_t cache : t.caches) w.free(cache);
      return true;
    });
  }
  return w.take();
}

// Training steps on batches of one length, or of a few. Blocks are freed in the reverse order of their requests.
inline workload training(unsigned seed, int steps, bool lengths) {
  dice draw{seed};
  writer w{lengths ? "training, seven lengths" : "training", true};
  constexpr bytes width = 512;
  for (int layer = 0; layer < 12; ++layer) (void)w.allocate(12 * width * width * 4);
  for (int i = 0; i < steps; ++i) {
    const bytes tokens = 8 * (lengths ? 32 * draw.between(2, 8) : 256);
    std::vector<std::uint32_t> kept;
    for (int layer = 0; layer < 12; ++layer) {
      kept.push_back(w.allocate(3 * tokens * width * 4));
      const std::uint32_t scratch = w.allocate(tokens * tokens);
      kept.push_back(w.allocate(tokens * tokens));
      w.free(scratch);
      kept.push_back(w.allocate(4 * tokens * width * 4));
    }
    std::vector<std::uint32_t> gradients;
    while (!kept.empty()) {
      const std::uint32_t inner = w.allocate(4 * tokens * width * 4);
      if (kept.size() % 3 == 0) gradients.push_back(w.allocate(12 * width * width * 4));
      w.free(kept.back());
      kept.pop_back();
      w.free(inner);
    }
    for (const std::uint32_t gradient : gradients) w.free(gradient);
  }
  return w.take();
}

// Streams that take turns, each with three blocks of its own in each turn.
inline workload turns(unsigned seed, int steps, std::uint32_t streams, bool fixed) {
  dice draw{seed};
  writer w{std::to_string(streams) + (fixed ? " streams, their sizes fixed" : " streams, sizes drawn"), fixed};
  std::vector<bytes> own(streams);
  for (bytes& size : own) size = draw.between(64 << 10, 4 << 20);
  for (int i = 0; i < steps; ++i) {
    const auto s = static_cast<std::uint32_t>(i) % streams;
    const bytes size = fixed ? own[s] : draw.between(64 << 10, 4 << 20);
    const std::uint32_t first = w.allocate(size, s);
    const std::uint32_t second = w.allocate(size / 2, s);
    w.free(first);
    w.free(second);
    const std::uint32_t third = w.allocate(size + size / 4, s);
    w.free(third);
  }
  return w.take();
}

// Requests and frees in any order; small sizes are as frequent as large ones. Some steps free almost all.
inline workload any_order(unsigned seed, int steps, bytes largest, std::size_t most_alive) {
  dice draw{seed};
  writer w{"any order", false};
  std::vector<std::uint32_t> alive;
  const auto free_one = [&] {
    std::swap(alive[draw.between(0, alive.size() - 1)], alive.back());
    w.free(alive.back());
    alive.pop_back();
  };
  for (int i = 0; i < steps; ++i) {
    if (draw.chance(1)) {
      while (alive.size() > 3) free_one();
    } else if (!alive.empty() && (alive.size() >= most_alive || draw.chance(45))) {
      free_one();
    } else {
      bytes most = 256;
      while (most < largest && !draw.chance(8)) most *= 2;
      alive.push_back(w.allocate(draw.between(most / 2, std::min(most, largest))));
    }
  }
  while (!alive.empty()) free_one();
  return w.take();
}

// Sizes that grow or shrink by a little in each step, as those of a text under generation do.
inline workload drift(unsigned seed, int steps, bool down) {
  dice draw{seed};
  writer w{down ? "drift down" : "drift up", false};
  for (int i = 0; i < steps; ++i) {
    const bytes size = (1 << 20) + 4096 * static_cast<bytes>(down ? steps - i : i) + draw.between(0, 2000);
    const std::uint32_t a = w.allocate(size);
    const std::uint32_t b = w.allocate(size / 3);
    w.free(a);
    const std::uint32_t c = w.allocate(size * 2);
    w.free(b);
    w.free(c);
  }
  return w.take();
}

// Calls allocate(size, stream), which gives an address, and free(address, size, stream). The steps are over where an
// address is null. Returns whether all were done.
template <class Allocate, class Free>
bool play(const workload& w, const Allocate& allocate, const Free& free) {
  std::vector<void*> blocks(w.slots);
  for (const step& s : w.steps) {
    if (s.allocate) {
      blocks[s.slot] = allocate(s.size, s.stream);
      if (blocks[s.slot] == nullptr) return false;
    } else {
      free(blocks[s.slot], s.size, s.stream);
    }
  }
  return true;
}

// Returns the most that a pool without a limit should hold for the workload. The measure is the most that was alive at
// once on each stream, summed: streams that do not wait for each other cannot share. A quarter may be added on one
// stream where sizes repeat, and three quarters otherwise. A pool may always hold a few large pages.
inline bytes bound(const workload& w) {
  constexpr bytes quantum = 64;
  constexpr bytes always = bytes{2} << 20;
  std::vector<bytes> live(w.streams), most(w.streams);
  for (const step& s : w.steps) {
    const bytes size = (s.size + quantum - 1) / quantum * quantum;
    live[s.stream] += s.allocate ? size : 0 - size;
    most[s.stream] = std::max(most[s.stream], live[s.stream]);
  }
  const bytes sum = std::accumulate(most.begin(), most.end(), bytes{0});
  return sum + sum / 4 * (w.repeats && w.streams == 1 ? 1 : 3) + always;
}

inline std::vector<workload> all(unsigned seed, int scale) {
  std::vector<workload> made;
  made.push_back(clips(seed, 40 * scale));
  made.push_back(texts(seed, 16 * scale, 1));
  made.push_back(texts(seed, 16 * scale, 8));
  made.push_back(texts(seed, 16 * scale, 256));
  made.push_back(generation(seed, 10 * scale));
  made.push_back(training(seed, scale, false));
  made.push_back(training(seed, scale, true));
  made.push_back(turns(seed, 200 * scale, 4, true));
  made.push_back(turns(seed, 200 * scale, 256, true));
  made.push_back(turns(seed, 200 * scale, 4, false));
  made.push_back(drift(seed, 40 * scale, false));
  made.push_back(drift(seed, 40 * scale, true));
  made.push_back(any_order(seed, 1000 * scale, 16 << 20, 200));
  return made;
}

}  // namespace berth::workloads

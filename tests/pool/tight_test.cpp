// A pool that may hold one per cent more than the most that is alive at once must not fail, whatever the order of
// sizes. The logs imitate a decoder with growing key-value caches. Every step allocates each sequence's caches anew, a
// row longer, beside short-lived activations; prompts bring blocks many times as large.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "berth/pool/pool.hpp"

namespace berth {
namespace {

struct step {
  bool allocate;
  std::size_t block;
  bytes size;
};

class decoder_log {
 public:
  explicit decoder_log(unsigned seed) : random_{seed} {
    for (std::size_t i = 0; i < layers_; ++i) allocate(12 * width_ * row());
    while (steps_.size() < 20'000) {
      if (sequences_.size() < most_sequences_ && (sequences_.empty() || uniform(0, 9) < 6)) {
        begin_sequence();
      } else {
        decode();
      }
    }
  }
  [[nodiscard]] const std::vector<step>& steps() const { return steps_; }
  [[nodiscard]] std::size_t blocks() const { return blocks_; }
  [[nodiscard]] bytes peak() const { return peak_; }

 private:
  struct sequence {
    std::size_t rows;
    std::size_t left;
    std::vector<step> caches;
  };
  std::size_t uniform(std::size_t from, std::size_t to) { return from + random_() % (to - from + 1); }
  [[nodiscard]] bytes row() const { return 4 * width_; }
  step allocate(bytes size) {
    live_ += size;
    peak_ = std::max(peak_, live_);
    steps_.push_back({true, blocks_++, size});
    return steps_.back();
  }
  void free(const step& s) {
    live_ -= s.size;
    steps_.push_back({false, s.block, s.size});
  }
  void attend(std::size_t rows, std::size_t keys, std::vector<step>& caches) {
    const step query = allocate(3 * rows * row());
    const step key = allocate(keys * row());
    const step value = allocate(keys * row());
    const step scores = allocate(4 * heads_ * rows * keys);
    const step weights = allocate(4 * heads_ * rows * keys);
    free(scores);
    const step out = allocate(rows * row());
    free(weights);
    const step hidden = allocate(4 * rows * row());
    free(query);
    free(out);
    free(hidden);
    caches.push_back(key);
    caches.push_back(value);
  }
  void begin_sequence() {
    sequence s{uniform(8, longest_), uniform(10, 60), {}};
    for (std::size_t i = 0; i < layers_; ++i) attend(s.rows, s.rows, s.caches);
    sequences_.push_back(std::move(s));
  }
  void decode() {
    for (sequence& s : sequences_) {
      ++s.rows;
      --s.left;
      std::vector<step> longer;
      for (std::size_t i = 0; i < layers_; ++i) {
        attend(1, s.rows, longer);
        free(s.caches[2 * i]);
        free(s.caches[2 * i + 1]);
      }
      s.caches = std::move(longer);
    }
    std::erase_if(sequences_, [&](const sequence& s) {
      if (s.left == 0) std::ranges::for_each(s.caches, [&](const step& b) { free(b); });
      return s.left == 0;
    });
  }

  std::mt19937 random_;
  std::size_t layers_ = uniform(2, 6);
  bytes width_ = 64 * uniform(2, 8);
  bytes heads_ = 2 * uniform(1, 4);
  std::size_t most_sequences_ = uniform(4, 12);
  std::size_t longest_ = 200 * uniform(1, 6);
  std::vector<sequence> sequences_;
  std::vector<step> steps_;
  std::size_t blocks_ = 0;
  bytes live_ = 0;
  bytes peak_ = 0;
};

// The step for which there was no memory.
std::optional<std::size_t> play(const decoder_log& log, pool& p, stream& s) {
  std::vector<void*> blocks(log.blocks());
  for (std::size_t i = 0; i < log.steps().size(); ++i) {
    const step& now = log.steps()[i];
    if (now.allocate) {
      const auto block = p.allocate_raw(now.size, s);
      if (!block) return i;
      blocks[now.block] = *block;
    } else {
      p.free(blocks[now.block], now.size, s);
    }
  }
  return std::nullopt;
}

TEST(pool_tight, one_per_cent_above_the_peak_is_enough_for_growing_caches) {
  std::uint64_t stitched = 0;
  std::uint64_t allocations = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    const decoder_log log{seed};
    const bytes capacity = log.peak() + log.peak() / 100;
    const device d = device::open("null:" + std::to_string(capacity)).value();
    pool p{d, {.limit = capacity, .report_leaks = false}};
    stream s{d};
    const auto failed = play(log, p, s);
    ASSERT_FALSE(failed) << "seed " << seed << ", step " << *failed << "\n" << p.out_of_memory_report();
    const pool_statistics all = p.statistics();
    EXPECT_LE(all.reserved_peak, capacity);
    stitched += all.stitched;
    allocations += all.allocations;
  }
  EXPECT_LE(stitched, allocations / 50);
}

}  // namespace
}  // namespace berth

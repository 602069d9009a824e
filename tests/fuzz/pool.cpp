// A pool against a model: the blocks that live, each filled with bytes of its own, which must not change.
#include "berth/pool/pool.hpp"

#include <cstring>
#include <vector>

#include "fuzz/blocks.hpp"
#include "fuzz/fuzz.hpp"

using namespace berth;

namespace {

using fuzz::held;

constexpr bytes sizes[] = {
    1,       64,      65,      100, 256,           1000,          1024,    4096,           10000,    65536,
    1 << 20, 3 << 20, 5 << 20, 0,   (2 << 20) - 1, (2 << 20) + 1, 8 << 20, bytes{1} << 40, max_bytes};

class game {
 public:
  explicit game(fuzz::choices c) : c_{c}, host_{device::open("host").value()} {
    pool_options o;
    o.limit = c_.byte() % 2 == 0 ? bytes{32} << 20 : bytes{64} << 20;
    if (c_.byte() % 4 == 0) o.initial = bytes{8} << 20;
    if (c_.byte() % 4 == 0) o.release_threshold = bytes{1} << 20;
    if (c_.byte() % 4 == 0) o.cache_bytes = 0;
    if (c_.byte() % 2 == 0) o.wait_for_streams = true;
    if (c_.byte() % 4 == 0) o.stitch = false;
    o.report_leaks = false;
    pool_.emplace(host_, o);
    for (int i = 0; i < 3; ++i) streams_.emplace_back(host_);
  }

  void play() {
    for (int turns = 0; !c_.empty() && turns < 200; ++turns) turn();
    while (!live_.empty()) release(live_.size() - 1);
    check();
    (void)pool_->trim(0);
    check();
  }

 private:
  void turn() {
    switch (c_.byte() % 8) {
      case 0:
      case 1:
      case 2: take(); break;
      case 3:
      case 4:
      case 5:
        if (!live_.empty()) release(c_.below(live_.size()));
        break;
      case 6: other(); break;
      default: check();
    }
  }

  void take() {
    const bytes size = c_.of(sizes);
    const std::size_t on = c_.byte() % streams_.size();
    const bytes alignment = bytes{64} << (c_.byte() % 16 == 0 ? c_.byte() % 16 : 0);
    const pool_statistics before = pool_->statistics();
    const auto got = pool_->allocate_raw(size, streams_[on], {.alignment = alignment});
    if (!got) {
      const pool_statistics after = pool_->statistics();
      fuzz::require(after.live == before.live && after.live_blocks == before.live_blocks, "an error changes nothing");
      if (size > bytes{16} << 20 || before.live > 0) return;
      // Work that is not done may hold it all, and a pool that may not wait gives up on a loaded machine.
      for (stream& s : streams_) (void)s.synchronize();
      const auto again = pool_->allocate_raw(size, streams_[on], {.alignment = alignment});
      fuzz::require(bool{again}, "an empty pool has room");
      pool_->free(*again);
      return;
    }
    fuzz::require((*got == nullptr) == (size == 0), "a block has an address");
    if (*got == nullptr) return;
    fuzz::require(reinterpret_cast<std::uintptr_t>(*got) % alignment == 0, "a block is aligned");
    const held h{static_cast<std::byte*>(*got), size, on, static_cast<std::byte>(++marks_)};
    fuzz::hold(live_, h);
    live_bytes_ += size;
  }

  void release(std::size_t i) {
    const held h = live_[i];
    fuzz::require_kept(h);
    live_[i] = live_.back();
    live_.pop_back();
    live_bytes_ -= h.size;
    if (c_.byte() % 4 == 0) {
      pool_->free(h.data);
    } else {
      pool_->free(h.data, h.size, streams_[h.on]);
    }
  }

  void other() {
    const std::size_t a = c_.byte() % streams_.size(), b = c_.byte() % streams_.size();
    switch (c_.byte() % 6) {
      case 0: (void)streams_[a].synchronize(); break;
      case 1:
        if (!live_.empty()) pool_->use_on(live_[c_.below(live_.size())].data, streams_[b]).value();
        break;
      case 2: (void)pool_->trim(c_.of(sizes)); break;
      case 3: (void)pool_->defragment(); break;
      case 4: {
        auto e = event::create(host_);
        if (e && streams_[a].record(*e)) (void)streams_[b].wait(*e);
        break;
      }
      default: (void)pool_->report();
    }
  }

  void check() {
    const pool_statistics s = pool_->statistics();
    fuzz::require(s.live == live_bytes_, "live is what was asked for");
    fuzz::require(s.live_blocks == live_.size(), "live blocks are those that live");
    fuzz::require(s.live_rounded + s.cached + s.free == s.reserved, "reserved is the sum of its parts");
    fuzz::require(s.reserved <= pool_->options().limit, "the limit holds");
    fuzz::require(s.live <= s.live_rounded && s.reserved <= s.reserved_peak, "no part exceeds the whole");
    fuzz::require(s.largest_hole <= s.free && s.live <= s.live_peak, "no part exceeds the whole");
    fuzz::require(s.reserved_peak >= seen_.reserved_peak && s.live_peak >= seen_.live_peak, "peaks stay");
    bytes live = 0, free = 0, cached = 0;
    for (const stream_statistics& one : pool_->statistics_by_stream()) {
      live += one.live;
      free += one.free + one.pending;
      cached += one.cached;
    }
    fuzz::require(live == s.live_rounded && free == s.free && cached == s.cached, "streams' parts are the pool's");
    seen_ = s;
    fuzz::require(s.allocations - s.frees == live_.size(), "what was allocated and not freed lives");
  }

  fuzz::choices c_;
  device host_;
  std::vector<stream> streams_;
  std::optional<pool> pool_;
  std::vector<held> live_;
  bytes live_bytes_ = 0;
  unsigned marks_ = 0;
  pool_statistics seen_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  game{{data, size}}.play();
  return 0;
}

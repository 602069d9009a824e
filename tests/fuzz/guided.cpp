// A guided pool against a model. A step of requests and frees is made again with some left out, changed or added, so
// that plans are made, met and missed. Each block is filled with bytes of its own, which must not change.
#include <algorithm>
#include <optional>
#include <vector>

#include "berth/graph/guided_pool.hpp"
#include "fuzz/blocks.hpp"
#include "fuzz/fuzz.hpp"

using namespace berth;

namespace {

using fuzz::held;

constexpr bytes sizes[] = {1,       64,      100,     256,     1000,          4096,    10000,          65536,
                           1 << 18, 1 << 20, 3 << 20, 5 << 20, (2 << 20) - 1, 8 << 20, bytes{1} << 40, max_bytes};

struct action {
  std::uint8_t kind, which, on;
};

class game {
 public:
  explicit game(fuzz::choices c) : c_{c}, host_{device::open("host").value()} {
    pool_options o;
    o.limit = c_.byte() % 2 == 0 ? bytes{32} << 20 : bytes{64} << 20;
    if (c_.byte() % 4 == 0) o.initial = bytes{8} << 20;
    if (c_.byte() % 4 == 0) o.cache_bytes = 0;
    if (c_.byte() % 2 == 0) o.wait_for_streams = true;
    if (c_.byte() % 4 == 0) o.stitch = false;
    o.report_leaks = false;
    pool_.emplace(host_, o);
    guided_.emplace(*pool_, plan::options{.work = plan::effort::fast});
    // More than are planned, in some games.
    const std::size_t streams = c_.byte() % 8 == 0 ? 20 : 1 + c_.byte() % 3;
    for (std::size_t i = 0; i < streams; ++i) streams_.emplace_back(host_);
  }

  void play() {
    for (std::size_t i = c_.byte() % 40; i > 0; --i) step_.push_back(next());
    for (int steps = 0; steps < 12 && (steps < 4 || !c_.empty()); ++steps) {
      guided_->begin_step();
      differ();
      for (const action& a : now_) act(a);
      check();
      if (c_.byte() % 8 == 0) guided_->relearn();
    }
    // Blocks that are alive when it ends are the pool's from then on; of a part that another stream uses all together.
    const bool pool_frees = c_.byte() % 4 == 0 && !shared_;
    while (!pool_frees && !live_.empty()) release(live_.size() - 1);
    guided_.reset();
    while (!live_.empty()) release(live_.size() - 1);
    (void)pool_->trim(0);
    const pool_statistics s = pool_->statistics();
    fuzz::require(s.live == 0 && s.live_blocks == 0, "nothing is left");
  }

 private:
  action next() { return {c_.byte(), c_.byte(), c_.byte()}; }

  // The step of this time: as it was first told, but for a few of its actions.
  void differ() {
    now_ = step_;
    for (int i = c_.byte() % 4; i > 0 && !now_.empty(); --i) {
      const auto at = now_.begin() + static_cast<std::ptrdiff_t>(c_.below(now_.size()));
      switch (c_.byte() % 3) {
        case 0: now_.erase(at); break;
        case 1: *at = next(); break;
        default: now_.insert(at, next());
      }
    }
  }

  void act(const action& a) {
    switch (a.kind % 16) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
      case 6: take(a); break;
      case 7:
      case 8:
      case 9:
      case 10:
      case 11:
      case 12:
        if (!live_.empty()) release(a.which % live_.size());
        break;
      case 13:
        if (live_.empty()) break;
        shared_ = true;
        guided_->use_on(live_[a.which % live_.size()].data, streams_[a.on % streams_.size()]).value();
        break;
      default: other(a);
    }
  }

  void take(const action& a) {
    const bytes size = sizes[a.which % std::size(sizes)];
    const std::size_t on = a.on % streams_.size();
    const block_options own{.alignment = 4096};
    const auto got =
        a.kind == 6 ? guided_->allocate_raw(size, streams_[on], own) : guided_->allocate_raw(size, streams_[on]);
    if (!got) {
      if (size > bytes{8} << 20 || !live_.empty()) return;
      // As for pools: it may be work that is not done.
      for (stream& s : streams_) (void)s.synchronize();
      const auto again = guided_->allocate_raw(size, streams_[on]);
      fuzz::require(bool{again}, "an empty pool has room");
      guided_->free(*again);
      ++taken_;
      return;
    }
    ++taken_;
    const held h{static_cast<std::byte*>(*got), size, on, static_cast<std::byte>(++marks_)};
    fuzz::require(reinterpret_cast<std::uintptr_t>(h.data) % 64 == 0, "a block is aligned");
    fuzz::require(guided_->size_of(h.data) >= size, "a block has its size");
    fuzz::hold(live_, h);
  }

  void release(std::size_t i) {
    const held h = live_[i];
    fuzz::require_kept(h);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
    memory_source& from = guided_ ? static_cast<memory_source&>(*guided_) : *pool_;
    if (!guided_ || h.mark < std::byte{64}) {
      from.free(h.data);
    } else {
      from.free(h.data, h.size, streams_[h.on]);
    }
  }

  void other(const action& a) {
    const std::size_t i = a.on % streams_.size();
    switch (a.which % 8) {
      case 0: (void)streams_[i].synchronize(); break;
      case 1: (void)pool_->trim(0); break;
      case 2: (void)pool_->defragment(); break;
      case 3: guided_->begin_step(); break;
      case 4:
        // Another stream from now on, with an id of its own.
        if (!std::ranges::any_of(live_, [i](const held& h) { return h.on == i; })) streams_[i] = stream{host_};
        break;
      default: break;
    }
  }

  void check() const {
    const guided_statistics g = guided_->statistics();
    fuzz::require(g.planned + g.elsewhere + g.passed <= taken_, "no request was served twice");
    const pool_statistics s = pool_->statistics();
    fuzz::require(s.live_rounded + s.cached + s.free == s.reserved, "reserved is the sum of its parts");
    fuzz::require(s.reserved <= pool_->options().limit, "the limit holds");
  }

  fuzz::choices c_;
  device host_;
  std::vector<stream> streams_;
  std::optional<pool> pool_;
  std::optional<guided_pool> guided_;
  std::vector<action> step_, now_;
  std::vector<held> live_;
  std::uint64_t taken_ = 0;
  bool shared_ = false;
  unsigned marks_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  game{{data, size}}.play();
  return 0;
}

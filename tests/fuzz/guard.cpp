// Guards against a model: programs that make some mistakes, while work is queued or held back. A guard reports each
// mistake once, of the right block, and no other.
#include "berth/pool/guard.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "berth/pool/pool.hpp"
#include "fuzz/fuzz.hpp"

using namespace berth;

namespace {

constexpr bytes sizes[] = {1, 15, 16, 17, 64, 100, 255, 1000, 4096, 10'000, 65'537, 100'000};
constexpr bytes zones[] = {64, 64, 64, 16, 1, 100, 5000, 0};
constexpr bytes quarantines[] = {bytes{64} << 20, bytes{64} << 20, 0, 50'000};

struct block {
  unsigned char* data;
  bytes size;
  std::size_t on;
};

// Work that is late: what was enqueued behind it waits until it is let go.
struct gate {
  std::atomic<bool> open = false;
  static void wait(void* self) { static_cast<gate*>(self)->open.wait(false); }
};

class game {
 public:
  explicit game(fuzz::choices c) : c_{c}, host_{device::open("host").value()} {
    pool_.emplace(host_, pool_options{.limit = bytes{256} << 20, .report_leaks = false});
    options_.red_zone = c_.of(zones);
    options_.quarantine = c_.of(quarantines);
    if (c_.byte() % 4 == 0) options_.check_every = 1 + c_.byte() % 32;
    options_.go_on = true;
    options_.leaks = false;
    options_.on_mistake = {[](void* self, const memory_mistake& m) { static_cast<game*>(self)->told(m); }, this};
    guard_.emplace(*pool_, options_);
    for (int i = 0; i < 3; ++i) streams_.emplace_back(host_);
  }

  void play() {
    for (int turns = 0; !c_.empty() && turns < 200; ++turns) turn();
    while (!live_.empty()) release();
    finish();
    (void)guard_->check();
    require_told();
    guard_.reset();
    fuzz::require(pool_->statistics().live == 0, "a guard gives back what it took");
  }

 private:
  struct damage {
    const void* address;
    mistake_kind kind;
  };

  void turn() {
    switch (c_.byte() % 16) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: take(); break;
      case 5:
      case 6:
      case 7:
        if (!live_.empty()) release();
        break;
      case 8:
      case 9: work(); break;
      case 10: hold(); break;
      case 11: finish(); break;
      case 12: overrun(); break;
      case 13: use_after_free(); break;
      case 14: wrong_call(); break;
      default: look();
    }
  }

  void told(const memory_mistake& m) {
    if (expected_ && *expected_ == m.kind) return expected_.reset();
    const auto due =
        std::ranges::find_if(damages_, [&](const damage& d) { return d.address == m.address && d.kind == m.kind; });
    fuzz::require(due != damages_.end(), m.text);
    damages_.erase(due);
  }
  // Everything is done and was looked at.
  void require_told() const {
    fuzz::require(damages_.empty() || guard_->statistics().unchecked > 0, "what was done wrong is told");
  }

  void take() {
    const bytes size = c_.of(sizes), alignment = bytes{1} << c_.byte() % 13;
    const std::size_t on = c_.byte() % streams_.size();
    const auto got = guard_->allocate_raw(size, streams_[on], {.alignment = alignment});
    if (!got) {  // then the quarantine is empty
      freed_.clear();
      return;
    }
    const block b{static_cast<unsigned char*>(*got), size, on};
    fuzz::require(reinterpret_cast<std::uintptr_t>(b.data) % alignment == 0, "a block is aligned");
    const auto apart = [&b](const block& o) { return b.data + b.size <= o.data || o.data + o.size <= b.data; };
    fuzz::require(std::ranges::all_of(live_, apart), "blocks are apart");
    fuzz::require(std::ranges::all_of(freed_, apart), "nobody gets what is in the quarantine");
    fuzz::require(guard_->size_of(b.data) == size, "a block has its size");
    live_.push_back(b);
  }

  void release(std::optional<mistake_kind> wrongly = {}) {
    const std::size_t i = c_.byte() % live_.size();
    const block b = live_[i];
    live_[i] = live_.back();
    live_.pop_back();
    if (wrongly == mistake_kind::wrong_size) {
      guard_->free(b.data, b.size + 1, streams_[b.on]);
    } else if (wrongly == mistake_kind::wrong_stream) {
      guard_->free(b.data, b.size, streams_[(b.on + 1) % streams_.size()]);
    } else if (c_.byte() % 4 == 0) {
      guard_->free(b.data);
    } else {
      guard_->free(b.data, b.size, streams_[b.on]);
    }
    // All blocks of a game fit the largest one.
    if (options_.quarantine == quarantines[0]) freed_.push_back(b);
  }

  // A stream, which may be held back, writes in the block's bounds: no mistake.
  void work() {
    if (live_.empty()) return;
    const block& b = live_[c_.byte() % live_.size()];
    const std::size_t on = c_.byte() % 4 == 0 ? c_.byte() % streams_.size() : b.on;
    if (on != b.on) guard_->use_on(b.data, streams_[on]).value();
    (void)streams_[on].fill(b.data, std::byte{7}, b.size);
  }
  void hold() {
    auto& g = gates_.emplace_back(std::make_unique<gate>());
    (void)streams_[c_.byte() % streams_.size()].call(&gate::wait, g.get());
  }
  void finish() {
    for (const auto& g : gates_) {
      g->open = true;
      g->open.notify_all();
    }
    for (stream& s : streams_) (void)s.synchronize();
    gates_.clear();
  }

  void overrun() {
    if (live_.empty() || options_.red_zone == 0) return;
    finish();  // or else the zones may not be there yet
    const block& b = live_[c_.byte() % live_.size()];
    const bool behind = c_.byte() % 2 == 0;
    const bytes away = c_.below(options_.red_zone);
    const damage d{b.data, behind ? mistake_kind::overrun_behind : mistake_kind::overrun_before};
    // One that is not told yet hides another.
    const bool known =
        std::ranges::any_of(damages_, [&d](const damage& o) { return o.address == d.address && o.kind == d.kind; });
    if (known) return;
    unsigned char& wrong = behind ? b.data[b.size + away] : *(b.data - 1 - away);
    wrong = static_cast<unsigned char>(wrong ^ (1 + c_.byte() % 255));
    damages_.push_back(d);
  }
  void use_after_free() {
    if (freed_.empty() || options_.red_zone == 0) return;
    finish();
    guard_->tend();
    const block& b = freed_[c_.byte() % freed_.size()];
    const damage d{b.data, mistake_kind::write_after_free};
    const bool known =
        std::ranges::any_of(damages_, [&d](const damage& o) { return o.address == d.address && o.kind == d.kind; });
    if (known) return;
    // A large block is watched in full at its ends only.
    constexpr bytes end = 1024;
    bytes at = c_.below(b.size <= 65'536 ? b.size : 2 * end);
    if (b.size > 65'536 && at >= end) at = b.size - 2 * end + at;
    unsigned char& wrong = b.data[at];
    wrong = static_cast<unsigned char>(wrong ^ (1 + c_.byte() % 255));
    damages_.push_back(d);
  }

  // Each is reported before the call returns, and harms nothing.
  void wrong_call() {
    const auto one = [this](mistake_kind kind, auto call) {
      expected_ = kind;
      call();
      fuzz::require(!expected_, "a wrong call is told at once");
    };
    switch (c_.byte() % 5) {
      case 0: one(mistake_kind::foreign_free, [this] { guard_->free(this); }); break;
      case 1:
        if (!live_.empty()) one(mistake_kind::wrong_size, [this] { release(mistake_kind::wrong_size); });
        break;
      case 2:
        if (!live_.empty()) one(mistake_kind::wrong_stream, [this] { release(mistake_kind::wrong_stream); });
        break;
      case 3:
        if (freed_.empty()) break;
        one(mistake_kind::double_free, [this] { guard_->free(freed_[c_.byte() % freed_.size()].data); });
        break;
      default:
        if (live_.empty() || live_.front().size < 2) break;
        one(mistake_kind::foreign_free, [this] { guard_->free(live_.front().data + 1); });
    }
  }

  void look() {
    if (c_.byte() % 2 == 0) finish();
    if (c_.byte() % 4 == 0) return guard_->tend();
    const bool all_done = gates_.empty();
    if (all_done) finish();
    (void)guard_->check();
    if (all_done) require_told();
    const guard_statistics s = guard_->statistics();
    bytes live = 0;
    for (const block& b : live_) live += b.size;
    fuzz::require(s.live == live && s.live_blocks == live_.size(), "live is what was asked for");
    fuzz::require(s.allocations - s.frees == live_.size(), "what was allocated and not freed lives");
    fuzz::require(guard_->live_blocks().size() == live_.size(), "all that live are told");
    fuzz::require(options_.quarantine != quarantines[0] || s.quarantined_blocks == freed_.size(),
                  "what was freed is in the quarantine");
  }

  fuzz::choices c_;
  device host_;
  guard_options options_;
  std::vector<std::unique_ptr<gate>> gates_;
  std::optional<pool> pool_;
  std::optional<guard_adaptor> guard_;
  std::vector<stream> streams_;
  std::vector<block> live_, freed_;
  std::vector<damage> damages_;  // done and not told
  std::optional<mistake_kind> expected_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  game{{data, size}}.play();
  return 0;
}

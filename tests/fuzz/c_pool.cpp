// Calls of the pool's C interface in any order, with handles and blocks that live, are gone or never were. Each returns
// a status, never a crash, and the blocks that live are those of a model.
#include <algorithm>
#include <cstring>
#include <vector>

#include "berth/recorder.h"
#include "fuzz/fuzz.hpp"

using namespace berth;

namespace {

constexpr std::uint64_t sizes[] = {
    0, 1, 64, 1000, 4096, 65536, 1 << 20, 3 << 20, 9 << 20, std::uint64_t{1} << 40, UINT64_MAX};

struct held {
  unsigned char* data;
  std::uint64_t size;
  std::size_t pool;
};

class game {
 public:
  explicit game(fuzz::choices c) : c_{c} {
    fuzz::require(berth_device_open(nullptr, &device_) == BERTH_OK, berth_error_text());
  }

  void play() {
    for (int turns = 0; !c_.empty() && turns < 200; ++turns) turn();
    berth_recorder_destroy(recorder_);
    for (berth_pool* p : pools_) berth_pool_destroy(p);
    for (berth_stream* s : streams_) berth_stream_destroy(s);
    berth_device_close(device_);
  }

 private:
  void turn() {
    switch (c_.byte() % 14) {
      case 0: make_pool(); break;
      case 1: make_stream(); break;
      case 2:
      case 3:
      case 4:
      case 5: take(); break;
      case 6:
      case 7:
      case 8: release(); break;
      case 9: wrong_free(); break;
      case 10: work(); break;
      case 11: ask(); break;
      case 12: record(); break;
      default: destroy();
    }
  }

  static void said(berth_status s) {
    fuzz::require((s == BERTH_OK) == (berth_error_text()[0] == '\0'), "a failure has a text, a success none");
    fuzz::require(std::strchr(berth_error_text(), '\n') == nullptr, "a text is one line");
    fuzz::require(s != BERTH_INTERNAL, berth_error_text());
  }
  // A handle that lives, mostly; none: one that is gone, or never was.
  template <class T>
  T* pick(const std::vector<T*>& of, std::size_t* which = nullptr) {
    const std::uint8_t how = c_.byte();
    if (of.empty() || how >= 240) return reinterpret_cast<T*>(how % 2 == 0 ? gone_ : reinterpret_cast<void*>(device_));
    if (which != nullptr) *which = how % of.size();
    return of[how % of.size()];
  }

  void make_pool() {
    if (pools_.size() == 3) return;
    // A size that a byte tells may be more than this struct has: what the caller says is there has to be there.
    union {
      unsigned char room[256];
      berth_pool_options o;
    };
    std::memset(room, 0, sizeof room);
    o.struct_size = c_.byte() % 8 == 0 ? c_.byte() : sizeof o;
    o.limit = std::uint64_t{16} << 20;
    o.quiet = 1;
    o.kind = c_.byte() % 8 == 0 ? c_.byte() % 3 : 0;
    o.fraction = c_.byte() % 8 == 0 ? c_.byte() / 100.0 - 1 : 0;
    o.initial = c_.byte() % 4 == 0 ? std::uint64_t{4} << 20 : 0;
    o.release_threshold = c_.byte() % 4 == 0 ? std::uint64_t{1} << 20 : 0;
    o.wait_for_streams = c_.byte() % 2;
    o.no_stitch = c_.byte() % 2;
    if (c_.byte() % 4 == 0)
      o.pressure = [](void*, std::uint64_t, std::uint32_t attempt) { return attempt < 3 ? 1 : 0; };
    berth_pool* made = nullptr;
    const berth_status s = berth_pool_create(device_, &o, &made);
    said(s);
    fuzz::require((s == BERTH_OK) == (made != nullptr), "an output is set where the call succeeds");
    if (s == BERTH_OK) pools_.push_back(made);
  }

  void make_stream() {
    if (streams_.size() == 3) return;
    berth_stream* made = nullptr;
    said(berth_stream_create(device_, &made));
    if (made != nullptr) streams_.push_back(made);
  }

  void take() {
    std::size_t which = SIZE_MAX;
    berth_pool* const from = pick(pools_, &which);
    berth_stream* const on = pick(streams_);
    const std::uint64_t size = c_.of(sizes);
    const std::uint64_t alignment = c_.byte() % 4 == 0 ? c_.of(sizes) : 0;
    void* const before = this;
    void* block = before;
    const berth_status s = berth_pool_allocate_aligned(from, size, alignment, on, &block);
    said(s);
    if (s != BERTH_OK) return fuzz::require(block == before, "a failure leaves its output");
    fuzz::require((block == nullptr) == (size == 0), "a block has an address");
    if (block == nullptr) return;
    auto* const data = static_cast<unsigned char*>(block);
    fuzz::require(alignment == 0 || reinterpret_cast<std::uintptr_t>(block) % alignment == 0, "a block is aligned");
    for (const held& h : live_) {
      fuzz::require(data + size <= h.data || h.data + h.size <= data, "blocks are apart");
    }
    data[0] = data[size - 1] = 1;
    live_.push_back({data, size, which});
  }

  void release() {
    if (live_.empty()) return;
    const std::size_t i = c_.byte() % live_.size();
    const held h = live_[i];
    live_[i] = live_.back();
    live_.pop_back();
    freed_ = h.data;
    const berth_status s = berth_pool_free(pools_[h.pool], h.data);
    fuzz::require(s == BERTH_OK, berth_error_text());
  }

  void wrong_free() {
    bool lives = false;
    void* const wrong = c_.byte() % 2 == 0 ? freed_ : this;
    for (const held& h : live_) lives = lives || h.data == wrong;
    if (lives || wrong == nullptr) return;
    const berth_status s = berth_pool_free(pick(pools_), wrong);
    fuzz::require(s == BERTH_INVALID || s == BERTH_NO_SUCH_HANDLE, "a wrong free is a status");
    std::uint64_t size = 7;
    said(berth_pool_size_of(pick(pools_), wrong, &size));
    fuzz::require(size == 7, "a failure leaves its output");
    said(berth_pool_use_on(pick(pools_), wrong, pick(streams_)));
  }

  void work() {
    berth_stream* const on = pick(streams_);
    int done = 0;
    said(berth_stream_query(on, &done));
    said(berth_stream_wait_for(on, pick(streams_)));
    said(berth_stream_call(
        on, [](void*) {}, nullptr));
    if (!live_.empty()) {
      const held& h = live_[c_.byte() % live_.size()];
      // To its end seldom: most of a run's time would go into pages that are filled.
      said(berth_stream_fill(on, h.data, 1, c_.byte() % 16 == 0 ? h.size : std::min<std::uint64_t>(h.size, 4096)));
      said(berth_pool_use_on(pools_[h.pool], h.data, on));
    }
    said(berth_stream_synchronize(on));
  }

  void ask() {
    std::size_t which = SIZE_MAX;
    berth_pool* const of = pick(pools_, &which);
    berth_pool_statistics s{};
    s.struct_size = sizeof s;
    const berth_status got = berth_pool_statistics_of(of, &s);
    said(got);
    char text[100];
    std::size_t length = 0;
    std::memset(text, 1, sizeof text);
    said(berth_pool_report(of, text, c_.byte() % 100, &length));
    fuzz::require(text[99] == 1, "a text stays within its room");
    std::uint64_t released = 0;
    said(berth_pool_trim(of, c_.of(sizes), &released));
    if (got != BERTH_OK) return;
    std::uint64_t live = 0;
    for (const held& h : live_) live += h.pool == which ? h.size : 0;
    fuzz::require(s.live == live, "live is what was asked for");
  }

  void record() {
    if (recorder_ == nullptr) said(berth_recorder_create(1 << 20, &recorder_));
    switch (c_.byte() % 4) {
      case 0: said(berth_recorder_start(recorder_)); break;
      case 1: said(berth_recorder_stop(recorder_)); break;
      case 2: said(berth_recorder_leaks(recorder_, nullptr, nullptr)); break;
      default:
        berth_recorder_destroy(recorder_);
        said(berth_recorder_start(recorder_));
        recorder_ = nullptr;
    }
  }

  void destroy() {
    if (c_.byte() % 2 == 0 && !streams_.empty()) {
      gone_ = streams_.back();
      berth_stream_destroy(streams_.back());
      streams_.pop_back();
      said(berth_stream_synchronize(static_cast<berth_stream*>(gone_)));
    } else if (!pools_.empty()) {
      gone_ = pools_.back();
      std::erase_if(live_, [&](const held& h) { return h.pool + 1 == pools_.size(); });
      berth_pool_destroy(pools_.back());
      pools_.pop_back();
      berth_pool_destroy(static_cast<berth_pool*>(gone_));
      fuzz::require(berth_error_text()[0] != '\0', "a handle that is gone is named");
    }
  }

  fuzz::choices c_;
  berth_device* device_ = nullptr;
  std::vector<berth_pool*> pools_;
  std::vector<berth_stream*> streams_;
  std::vector<held> live_;
  berth_recorder* recorder_ = nullptr;
  void* gone_ = nullptr;
  void* freed_ = nullptr;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  game{{data, size}}.play();
  return 0;
}

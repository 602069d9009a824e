// The recorder behind berth/recorder.h.
#include "berth/recorder.h"

#include <mutex>
#include <utility>

#include "berth/core/hook.hpp"
#include "berth/pool/debug.hpp"
#include "berth/trace/recorder.hpp"
#include "c/objects.hpp"
#include "core/whole_file.hpp"

namespace {

using namespace berth::c;
using berth::trace::recorder;

struct held_recorder {
  explicit held_recorder(berth::bytes capacity) : keeps{capacity} {}
  recorder keeps;
  bool listens = false;  // under control()
};

handles<held_recorder>& recorders() noexcept {
  static never_destroyed<handles<held_recorder>> all{6, "recorder"};
  return all.value;
}

// Guards start and stop. A second listener is a contract failure in C++, and an error here.
std::mutex& control() noexcept {
  static constinit std::mutex one;
  return one;
}

}  // namespace

extern "C" {

berth_status berth_recorder_create(uint64_t capacity, berth_recorder** out) {
  if (out == nullptr) return fail(BERTH_INVALID, "berth_recorder** out: null");
  if (!berth::fits_size_t(capacity)) return fail(BERTH_NO_MEMORY, "capacity: beyond this machine");
  return guarded([&] {
    auto made = std::make_shared<held_recorder>(capacity == 0 ? berth::bytes{64} << 20 : capacity);
    return give(recorders(), std::move(made), out);
  });
}

void berth_recorder_destroy(berth_recorder* recorder) {
  if (recorder == nullptr || berth_recorder_stop(recorder) == BERTH_OK) (void)destroy(recorders(), recorder);
}

berth_status berth_recorder_start(berth_recorder* recorder) {
  return with(recorders(), recorder, [](held_recorder& r) {
    const std::lock_guard held{control()};
    if (r.listens) return succeed();
    if (berth::hook_is_set()) return fail(BERTH_INVALID, "recorder: another listens already");
    r.keeps.start();
    r.listens = true;
    return succeed();
  });
}

berth_status berth_recorder_stop(berth_recorder* recorder) {
  return with(recorders(), recorder, [](held_recorder& r) {
    const std::lock_guard held{control()};
    r.keeps.stop();
    r.listens = false;
    return succeed();
  });
}

berth_status berth_recorder_leaks(const berth_recorder* recorder, size_t* blocks, uint64_t* bytes) {
  return with(recorders(), recorder, [&](const held_recorder& r) {
    const auto all = r.keeps.leaks();
    if (blocks != nullptr) *blocks = all.size();
    if (bytes != nullptr) {
      *bytes = 0;
      for (const auto& one : all) *bytes += one.size;
    }
    return succeed();
  });
}

berth_status berth_recorder_leak_report(const berth_recorder* recorder, char* text, size_t room, size_t* length) {
  return with(recorders(), recorder,
              [&](const held_recorder& r) { return give_text(r.keeps.leak_report(), text, room, length); });
}

berth_status berth_recorder_dropped(const berth_recorder* recorder, uint64_t* events) {
  if (events == nullptr) return fail(BERTH_INVALID, "uint64_t* events: null");
  return with(recorders(), recorder, [&](const held_recorder& r) {
    *events = r.keeps.dropped();
    return succeed();
  });
}

berth_status berth_recorder_write(const berth_recorder* recorder, const berth_pool* pool, const char* path) {
  if (path == nullptr) return fail(BERTH_INVALID, "path: null");
  const auto beside = pools().look_up(pool);
  if (pool != nullptr && beside == nullptr) return no_such(pool, "pool");
  return with(recorders(), recorder, [&](const held_recorder& r) {
    berth::trace::snapshot s = r.keeps.take();
    if (pool != nullptr) add(s, *beside->own);
    const int failed = berth::write_whole_file(path, to_json(s));
    if (failed == 0) return succeed();
    return report({berth::errc::io, "the file cannot be written", static_cast<std::uint64_t>(failed)});
  });
}

berth_status berth_record_allocation_at(const void* block, uint64_t size, const char* file, unsigned line) {
  berth::record_allocation(block, size, berth::source_location::current(file == nullptr ? "" : file, line));
  return succeed();
}

berth_status berth_record_free_at(const void* block, const char* file, unsigned line) {
  if (berth::record_free(block, berth::source_location::current(file == nullptr ? "" : file, line))) return succeed();
  return fail(BERTH_INVALID, "no recorded live block (foreign, or freed already)");
}

}  // extern "C"

// Shared by the sources of berth/op.h.
#pragma once

#include <string>
#include <utility>

#include "berth/op.h"
#include "berth/op/operator.hpp"
#include "c/objects.hpp"

namespace berth::c {

// Works as guarded(). A refusal's text follows the name.
template <class Do>
berth_status refusable(const char* name, Do do_it) noexcept {
  return guarded([&]() -> berth_status {
    try {
      return do_it();
    } catch (const op::refusal& why) {
      return fail(BERTH_INVALID,
                  ((name == nullptr ? std::string{"op"} : std::string{name}) + ": " + why.what()).c_str());
    }
  });
}

// The run of this thread that is in phase two. A kernel of the caller learns its stream's handle here, and leaves its
// failure.
class enqueuing {
 public:
  explicit enqueuing(berth_stream* on) noexcept : stream_{on}, outer_{std::exchange(innermost, this)} {}
  enqueuing(const enqueuing&) = delete;
  enqueuing& operator=(const enqueuing&) = delete;
  ~enqueuing() { innermost = outer_; }

  // Returns null outside of berth_op_run().
  [[nodiscard]] static enqueuing* now() noexcept { return innermost; }

  [[nodiscard]] berth_stream* on() const noexcept { return stream_; }
  void fail_with(berth_status status, std::string text) noexcept {
    status_ = status;
    text_ = std::move(text);
  }
  [[nodiscard]] bool failed() const noexcept { return status_ != BERTH_OK; }
  [[nodiscard]] berth_status status() const noexcept { return status_; }
  [[nodiscard]] const char* text() const noexcept { return text_.c_str(); }

 private:
  static inline constinit thread_local enqueuing* innermost = nullptr;
  berth_stream* const stream_;
  enqueuing* const outer_;
  berth_status status_ = BERTH_OK;
  std::string text_;
};

}  // namespace berth::c

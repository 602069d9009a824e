// One line on the terminal while a plan is searched for.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "berth/plan/solve.hpp"

namespace berth::tool {

// While it lives, a thread rewrites one line on standard error, ten times a second from the first quarter of a second
// on: the best arena, the bound, and how far apart they are. Erased at the end. Nothing where standard error is no
// terminal.
class progress_line {
 public:
  explicit progress_line(bool wanted);
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  ~progress_line();

  // For options::watch; null where nothing is shown.
  [[nodiscard]] plan::progress* watch() { return writer_.joinable() ? &seen_ : nullptr; }

 private:
  void write();

  plan::progress seen_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread writer_;  // last: it uses the others
};

}  // namespace berth::tool

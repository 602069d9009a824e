// One line on the terminal while something takes long.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "berth/plan/solve.hpp"

namespace berth::tool {

// Has a thread rewrite one line on standard error, ten times a second from the first quarter of a second on. The line
// has the stage and its time or, during a search for a plan, the best arena, the bound and the distance between them.
// It is erased at the end, and absent if standard error is no terminal.
class progress_line {
 public:
  explicit progress_line(bool wanted, std::string stage = "");
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  ~progress_line();

  // Sets the stage from now on: "reading x.csv". Printed as it is: names in it must be printable().
  void stage(std::string what);

  // For options::watch; null if no line is shown.
  [[nodiscard]] plan::progress* watch() { return writer_.joinable() ? &seen_ : nullptr; }

 private:
  void write();

  plan::progress seen_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::string stage_;
  bool done_ = false;
  std::thread writer_;  // last: it uses the others
};

}  // namespace berth::tool

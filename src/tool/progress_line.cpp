#include "tool/progress_line.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "tool/units.hpp"

namespace berth::tool {

progress_line::progress_line(bool wanted, std::string stage) : stage_{std::move(stage)} {
  if (wanted && isatty(STDERR_FILENO) == 1) writer_ = std::thread{[this] { write(); }};
}

progress_line::~progress_line() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock{mutex_};
    done_ = true;
  }
  ended_.notify_one();
  writer_.join();
}

void progress_line::stage(std::string what) {
  const std::lock_guard lock{mutex_};
  stage_ = std::move(what);
  seen_.arena = 0;
}

void progress_line::write() {
  using namespace std::chrono_literals;
  constexpr auto erase = "\r\033[K";  // back to the line's start; delete to its end
  const auto start = std::chrono::steady_clock::now();
  bool shown = false;
  std::unique_lock lock{mutex_};
  for (auto pause = 250ms; !ended_.wait_for(lock, pause, [this] { return done_; }); pause = 100ms) {
    const bytes arena = seen_.arena, bound = seen_.lower_bound;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (arena == 0 && stage_.empty()) continue;
    if (arena == 0) {
      std::fprintf(stderr, "%s%s, %.1f s", erase, stage_.c_str(), spent.count());
    } else {
      const double over =
          bound == 0 || arena < bound ? 0 : 100.0 * static_cast<double>(arena - bound) / static_cast<double>(bound);
      std::fprintf(stderr, "%sbest %s, bound %s (%.3f %% above), %llu nodes, %.1f s", erase, human(arena).c_str(),
                   human(bound).c_str(), over, static_cast<unsigned long long>(seen_.work), spent.count());
    }
    std::fflush(stderr);
    shown = true;
  }
  if (shown) std::fputs(erase, stderr);
}

}  // namespace berth::tool

#include "worker.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace ascend_simulator {
namespace {

std::atomic<std::uint64_t> ticks{0};

// splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
std::uint64_t hash(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

void worker::tick() noexcept {
  ticks.fetch_add(1, std::memory_order_relaxed);
}

worker::worker(const settings& how, std::uint32_t number, std::uint64_t first)
    : how_{how}, number_{number}, enqueued_{first}, done_{first}, asked_{first}, thread_{[this] { run(); }} {}

worker::~worker() {
  {
    const std::lock_guard lock{mutex_};
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool worker::may_go() const {
  if (stop_ || how_.order == schedule::eager || done_ < asked_) return true;
  const operation& next = work_.front();
  if (how_.order == schedule::random && ticks.load(std::memory_order_relaxed) >= next.not_before) return true;
  return std::chrono::steady_clock::now() - next.enqueued >= patience;
}

void worker::run() {
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !work_.empty(); });
    if (work_.empty()) return;
    while (!may_go()) {
      const bool looks_often = how_.order == schedule::random;
      changed_.wait_for(lock, looks_often ? std::chrono::milliseconds{1} : patience / 4);
      if (work_.empty()) break;  // aborted
    }
    if (work_.empty()) continue;
    const std::function<void()> next = std::move(work_.front().run);
    running_ = true;
    lock.unlock();
    next();
    lock.lock();
    running_ = false;
    work_.pop_front();
    ++done_;
    changed_.notify_all();
  }
}

std::uint64_t worker::enqueue(std::function<void()> run) {
  const std::lock_guard lock{mutex_};
  const std::uint64_t position = ++enqueued_;
  const std::uint64_t delay = hash(how_.seed ^ hash((std::uint64_t{number_} << 40) ^ position)) % 32;
  work_.push_back({std::move(run), ticks.load(std::memory_order_relaxed) + delay, std::chrono::steady_clock::now()});
  changed_.notify_all();
  return position;
}

std::uint64_t worker::last() {
  const std::lock_guard lock{mutex_};
  return enqueued_;
}

bool worker::wait_for(std::uint64_t position, std::chrono::milliseconds limit) {
  std::unique_lock lock{mutex_};
  ask(position);
  const auto there = [&] { return done_ >= position; };
  if (limit.count() >= 0) return changed_.wait_for(lock, limit, there);
  changed_.wait(lock, there);
  return true;
}

bool worker::reached(std::uint64_t position) {
  const std::lock_guard lock{mutex_};
  const bool there = done_ >= position;
  if (!there) ask(done_ + 1);
  return there;
}

void worker::abort() {
  std::unique_lock lock{mutex_};
  const std::size_t kept = running_ ? 1 : 0;
  const std::uint64_t dropped = work_.size() - kept;
  work_.erase(work_.begin() + static_cast<std::ptrdiff_t>(kept), work_.end());
  const std::uint64_t running_one = done_ + 1;
  if (kept != 0) changed_.wait(lock, [&] { return done_ >= running_one; });
  done_ += dropped;
  changed_.notify_all();
}

void worker::ask(std::uint64_t position) {
  if (asked_ >= position) return;
  asked_ = position;
  changed_.notify_all();
}

}  // namespace ascend_simulator

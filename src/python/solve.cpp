#include "berth/plan/solve.hpp"

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

#include "python/solved.hpp"

namespace berth::python {

namespace {

constexpr auto hearing = std::chrono::milliseconds{20};

// One solve on a thread of its own, so that this one can hear signals.
class under_way {
 public:
  under_way(const model::problem_file& file, plan::options o) {
    o.stop = &stop_;
    o.watch = &watch_;
    thread_ = std::thread{[this, &file, o] {
      try {
        answer_ = plan::solve(file.problem, o);
      } catch (...) {
        thrown_ = std::current_exception();
      }
      const std::lock_guard lock{mutex_};
      done_ = true;
      ready_.notify_one();
    }};
  }
  under_way(const under_way&) = delete;
  under_way& operator=(const under_way&) = delete;
  ~under_way() {
    stop();
    if (thread_.joinable()) thread_.join();
  }

  void stop() { stop_ = true; }
  [[nodiscard]] const plan::progress& watch() const { return watch_; }

  // Returns whether it has ended within the time between two hearings.
  [[nodiscard]] bool wait() {
    std::unique_lock lock{mutex_};
    return ready_.wait_for(lock, hearing, [this] { return done_; });
  }

  [[nodiscard]] plan::plan answer() {
    thread_.join();
    if (thrown_) std::rethrow_exception(thrown_);
    return std::move(*answer_).value();
  }

 private:
  std::atomic<bool> stop_ = false;
  plan::progress watch_;
  std::mutex mutex_;
  std::condition_variable ready_;
  bool done_ = false;
  std::optional<result<plan::plan>> answer_;
  std::exception_ptr thrown_;
  std::thread thread_;
};

// Returns whether to go on. The caller holds the interpreter's lock.
bool hear(const plan::progress& watch, const py::object& progress, bool best_on_interrupt) {
  if (PyErr_CheckSignals() != 0) {
    if (best_on_interrupt && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
      PyErr_Clear();
      return false;
    }
    throw py::error_already_set();
  }
  if (progress.is_none()) return true;
  const py::object said = progress(watch.arena.load(), watch.lower_bound.load(), watch.work.load());
  if (said.is(py::bool_(false))) return false;
  const std::string_view type{Py_TYPE(said.ptr())->tp_name};  // numpy's False is another: numpy.bool_, or numpy.bool
  return !type.starts_with("numpy.bool") || py::bool_(said);
}

plan::plan watched(const model::problem_file& file, const plan::options& o, const py::object& progress,
                   bool best_on_interrupt) {
  std::optional<under_way> search;
  try {
    search.emplace(file, o);
  } catch (const std::system_error&) {  // there is no further thread: then nobody hears
    return plan::solve(file.problem, o).value();
  }
  const py::gil_scoped_release others_run;
  while (!search->wait()) {
    const py::gil_scoped_acquire held;
    if (!hear(search->watch(), progress, best_on_interrupt)) search->stop();
  }
  return search->answer();
}

}  // namespace

plan::options options_of(const std::string& effort, std::uint64_t work, std::optional<double> deadline,
                         unsigned threads, bool penalty_first) {
  plan::options o;
  if (effort == "fast") {
    o.work = plan::effort::fast;
  } else if (effort == "best") {
    o.work = plan::effort::best;
  } else if (effort != "normal") {
    refuse("effort: '" + effort + "' is none of fast, normal, best");
  }
  if (deadline && (!std::isfinite(*deadline) || *deadline < 0)) refuse("deadline: not a number of seconds");
  if (threads < 1 || threads > 256) refuse("threads: " + std::to_string(threads) + " is not from 1 to 256");
  o.node_limit = work;
  o.deadline_s = deadline;
  o.threads = threads;
  o.penalty_first = penalty_first;
  return o;
}

solved_pointer solve(const file_pointer& file, plan::options o, const py::object& progress, bool best_on_interrupt) {
  {
    const py::gil_scoped_release others_run;
    model::require_valid(*file);
  }
  auto made = std::make_shared<solved>();
  made->file = file;
  made->answer = watched(*file, o, progress, best_on_interrupt);
  return made;
}

}  // namespace berth::python

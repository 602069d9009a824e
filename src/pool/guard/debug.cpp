#include "berth/pool/debug.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "berth/core/contract.hpp"
#include "berth/scratch/scratch.hpp"
#include "core/countable.hpp"
#include "core/environment.hpp"
#include "core/json.hpp"
#include "core/print.hpp"
#include "core/whole_file.hpp"
#include "pool/guard/debug.hpp"
#include "pool/guard/foreign.hpp"

namespace berth {
namespace {

using detail::print;

constexpr std::size_t most_mistakes = 1000;  // kept in full; the rest are counted
constexpr std::size_t most_ended = 100;      // ended pools without live blocks: the same

struct mistake {
  mistake_kind kind;
  std::uint64_t pool;
  std::string file;
  std::uint32_t line;
  std::string text;
};

struct watched_pool {
  std::uint64_t number = 0;
  std::string device;
  std::uint32_t sample = 1;
  std::weak_ptr<guard_adaptor> guard;  // if it is gone, the fields below are its final figures
  bool counted = false;                // the fields below were set at least once
  guard_statistics sums{};
  std::vector<site_holding> alive{};
  bool ended = false;
};

struct debugger {
  std::mutex lock;  // guards the fields up to `telling`; taken outside of guards' locks
  std::vector<watched_pool> pools;
  std::uint64_t last_number = 0;
  std::uint64_t more_pools = 0;  // ended pools without live blocks
  std::mutex telling;            // guards the fields below; taken last, as guards report with their locks held
  std::optional<debug_options> options;
  bool environment_read = false;
  bool of_a_child = false;
  std::vector<mistake> mistakes;
  std::uint64_t more_mistakes = 0;
};

// The pipe that the signal's handler writes to, and its process.
int report_wanted = -1;
pid_t signalled = 0;

std::atomic<debugger*> current{nullptr};

// Puts a word before a path's ending: report.json becomes report.1234.json.
std::string path_with(const std::string& path, const std::string& word) {
  const std::size_t name = path.rfind('/') + 1;
  const std::size_t dot = path.rfind('.');
  const std::size_t at = dot == std::string::npos || dot <= name ? path.size() : dot;
  return path.substr(0, at) + '.' + word + path.substr(at);
}

// Starts anew in a child of fork, with the same options and a report of its own. Threads that the child lacks may hold
// the old locks. Only `telling`, inside which no other lock is taken, is held across the fork.
void begin_anew() noexcept {
  debugger* const before = current.load(std::memory_order_relaxed);
  try {
    auto one = std::make_unique<debugger>();
    one->options = before->options;
    one->environment_read = before->environment_read;
    one->of_a_child = true;
    if (one->options && !one->options->report.empty()) {
      one->options->report = path_with(one->options->report, std::to_string(getpid()));
    }
    current.store(one.release(), std::memory_order_release);
  } catch (const std::bad_alloc&) {
  }
  before->telling.unlock();
}

debugger* first_one() {
  current.store(new debugger, std::memory_order_release);
  (void)pthread_atfork([] { current.load(std::memory_order_relaxed)->telling.lock(); },
                       [] { current.load(std::memory_order_relaxed)->telling.unlock(); }, begin_anew);
  return current.load(std::memory_order_relaxed);
}

// Never destroyed: pools may end after every static object.
debugger& the() {
  static debugger* const first = first_one();
  (void)first;
  return *current.load(std::memory_order_acquire);
}

void write_last_report() noexcept;

// Makes the context that a guard passes with each mistake: its pool's number, and whether it continues.
void* make_context(std::uint64_t number, bool goes_on) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number << 1 | (goes_on ? 1 : 0)));
}

void hear(void* context, const memory_mistake& m) noexcept try {
  const auto said = reinterpret_cast<std::uintptr_t>(context);
  const bool stops = m.kind != mistake_kind::leak && (said & 1) == 0;
  if (!stops) {
    std::fprintf(stderr, "berth: %s:%u: guard: %s\n", m.site.file_name(), m.site.line(), m.text);
  }
  debugger& d = the();
  {
    const std::lock_guard held{d.telling};
    if (d.mistakes.size() < most_mistakes) {
      d.mistakes.push_back({m.kind, said >> 1, m.site.file_name(), m.site.line(), m.text});
    } else {
      ++d.more_mistakes;
    }
  }
  if (stops) write_last_report();
} catch (const std::bad_alloc&) {
}

void look_at(watched_pool& p, const guard_adaptor& g) {
  p.sums = g.statistics();
  p.counted = true;
  p.alive = g.live_by_site();
}

std::string place_of(const source_location& site) {
  return std::string{site.file_name()} + ':' + std::to_string(site.line());
}

void add_json(std::string& out, const watched_pool& p) {
  const guard_statistics& s = p.sums;
  print(out, "{\"pool\":%" PRIu64 ",\"device\":", p.number);
  append_string(out, p.device);
  print(out,
        ",\"sample\":%u,\"counted\":%s,\"ended\":%s,\"allocations\":%" PRIu64 ",\"frees\":%" PRIu64
        ",\"live_blocks\":%zu,\"live_bytes\":%" PRIu64 ",\"live_peak_bytes\":%" PRIu64 ",\"quarantined_bytes\":%" PRIu64
        ",\"unchecked\":%" PRIu64 ",\"alive\":[",
        p.sample, p.counted ? "true" : "false", p.ended ? "true" : "false", s.allocations, s.frees, s.live_blocks,
        s.live, s.live_peak, s.quarantined, s.unchecked);
  for (std::size_t i = 0; i < p.alive.size(); ++i) {
    const site_holding& h = p.alive[i];
    append_string((out += i == 0 ? "" : ",") += "{\"place\":", place_of(h.site));
    print(out, ",\"blocks\":%zu,\"bytes\":%" PRIu64 ",\"oldest_s\":%.3f,\"stream\":%u,\"thread\":%u", h.blocks, h.size,
          h.oldest_s, h.stream, h.thread);
    if (!h.stack.empty()) append_string(out += ",\"stack\":", h.stack);
    out += '}';
  }
  out += "]}";
}

void add_text(std::string& out, const watched_pool& p) {
  const guard_statistics& s = p.sums;
  if (p.number != 0) print(out, "pool %" PRIu64 " on ", p.number);
  out += p.device;
  if (p.ended) out += " (ended)";
  if (p.sample > 1) print(out, " (one block in %u)", p.sample);
  if (!p.counted) {
    out += ": the program stopped before its blocks were counted\n";
    return;
  }
  print(out,
        ": %" PRIu64 " allocations, %" PRIu64 " frees, %" PRIu64 " bytes alive in %zu blocks (peak %" PRIu64
        "), %" PRIu64 " bytes in quarantine, %" PRIu64 " blocks unchecked\n",
        s.allocations, s.frees, s.live, s.live_blocks, s.live_peak, s.quarantined, s.unchecked);
  for (const site_holding& h : p.alive) {
    print(out, "  %12" PRIu64 " bytes in %6zu blocks  ", h.size, h.blocks);
    out += place_of(h.site);
    print(out, "  oldest %.1f s, stream %u, thread %u\n", h.oldest_s, h.stream, h.thread);
    if (!h.stack.empty()) out += "      by " + h.stack + '\n';
  }
}

// The memory of other allocators as if it were a pool.
watched_pool other_allocators() {
  watched_pool p{.device = "other allocators", .counted = true};
  p.sums = detail::foreign_statistics();
  p.alive = detail::foreign_by_site();
  return p;
}

void add_pools(std::string& out, const debugger& d, bool as_json) {
  bool first = true;
  const auto add = [&](const watched_pool& p) {
    if (as_json && !std::exchange(first, false)) out += ',';
    as_json ? add_json(out, p) : add_text(out, p);
  };
  for (const watched_pool& p : d.pools) add(p);
  if (detail::foreign_memory_is_recorded()) add(other_allocators());
}

void add_mistakes(std::string& out, const debugger& d, bool as_json) {
  if (!as_json) print(out, "mistakes: %" PRIu64 "\n", static_cast<std::uint64_t>(d.mistakes.size()) + d.more_mistakes);
  for (std::size_t i = 0; i < d.mistakes.size(); ++i) {
    const mistake& m = d.mistakes[i];
    if (as_json) {
      print(out, "%s{\"kind\":\"%s\",\"pool\":%" PRIu64 ",\"file\":", i == 0 ? "" : ",", name(m.kind), m.pool);
      append_string(out, m.file);
      print(out, ",\"line\":%u,\"text\":", m.line);
      append_string(out, m.text);
      out += '}';
    } else {
      out += "  " + m.file + ':' + std::to_string(m.line) + ": " + m.text + '\n';
    }
  }
  if (!as_json && d.more_mistakes != 0) print(out, "  and %" PRIu64 " more\n", d.more_mistakes);
}

// Contract: with pools, the lock is held.
std::string compose(bool as_json, bool with_pools) {
  debugger& d = the();
  const std::lock_guard held{d.telling};
  std::string out = as_json ? "{\"format\":\"berth-debug/1\",\"pools\":[" : "berth: memory report\n";
  if (with_pools) add_pools(out, d, as_json);
  const std::uint64_t more = with_pools ? d.more_pools : 0;
  if (as_json) {
    print(out, "],\"more_pools\":%" PRIu64 ",\"mistakes\":[", more);
  } else if (more != 0) {
    print(out, "and %" PRIu64 " pools that ended with nothing alive\n", more);
  }
  add_mistakes(out, d, as_json);
  if (as_json) print(out, "],\"more_mistakes\":%" PRIu64 "}\n", d.more_mistakes);
  return out;
}

void cannot_report(const std::string& path, int why) {
  std::fprintf(stderr, "berth: BERTH_DEBUG: the report cannot be written to %s: %s\n", path.c_str(),
               std::strerror(why));
}

void write_out(const std::string& path, const std::string& text) {
  if (const int failed = write_report_file(path, text); failed != 0) cannot_report(path, failed);
}

// Returns an empty path if no report is wanted, or if a child of fork has nothing to report.
std::string report_path(bool anything = true) {
  debugger& d = the();
  const std::lock_guard held{d.telling};
  if (!d.options || (d.of_a_child && !anything && d.mistakes.empty())) return {};
  return d.options->report;
}

void write_report() {
  debugger& d = the();
  const bool pools = [&d] {
    const std::lock_guard held{d.lock};
    return !d.pools.empty() || detail::foreign_memory_is_recorded();
  }();
  const std::string path = report_path(pools);
  if (!path.empty()) write_out(path, debug_report(path.ends_with(".json")));
}

void write_alarm_report(void* = nullptr) noexcept try {
  const std::string path = report_path();
  if (!path.empty()) write_out(path_with(path, "alarm"), debug_report(path.ends_with(".json")));
} catch (const std::bad_alloc&) {
}

// Called when a guard stops the program with its lock held: its own blocks are as last recorded. If another thread is
// making a report, and perhaps waits for that guard, writes the mistakes alone.
void write_last_report() noexcept try {
  const std::unique_lock held{the().lock, std::try_to_lock};
  const std::string path = report_path();
  if (!path.empty()) write_out(path, compose(path.ends_with(".json"), held.owns_lock()));
} catch (const std::bad_alloc&) {
}

void listen_to_signal() {
  int ends[2];
  if (report_wanted >= 0 || pipe2(ends, O_CLOEXEC) != 0) return;
  try {
    std::thread{[from = ends[0]] {
      char one = 0;
      while (read(from, &one, 1) == 1) write_report();
    }}.detach();
  } catch (const std::system_error&) {
    std::fprintf(stderr, "berth: BERTH_DEBUG: no thread for the signal\n");
    return;
  }
  (void)fcntl(ends[1], F_SETFL, O_NONBLOCK);  // many signals ask for one report
  report_wanted = ends[1];
  signalled = getpid();
  std::signal(SIGUSR2, [](int) {
    if (getpid() != signalled) return;  // a child has no listening thread
    const int kept = errno;
    [[maybe_unused]] const auto n = write(report_wanted, "r", 1);
    errno = kept;
  });
}

// Contract: `telling` is held.
void begin(debugger& d, const debug_options& o) {
  d.environment_read = true;
  d.options = o;
  if (!o.report.empty()) {
    if (const int failed = check_report_file(o.report); failed != 0) cannot_report(o.report, failed);
    static const int at_end = std::atexit(write_report);
    (void)at_end;
  }
  if (o.on_signal) listen_to_signal();
}

std::optional<debug_options> options_now() {
  debugger& d = the();
  const std::lock_guard held{d.telling};
  if (std::exchange(d.environment_read, true)) return d.options;
  const char* const words = environment("BERTH_DEBUG");
  if (words == nullptr || *words == '\0') return std::nullopt;
  const debug_words read = read_debug(words);
  for (const std::string& word : read.unknown) {
    std::fprintf(
        stderr,
        "berth: BERTH_DEBUG: '%s' says nothing; there are guards, pages, quarantine=N, every=N, arenas, warn, leaks, "
        "scratch, scratch=N, stack, stack=N, live=N, bytes=N, age=SECONDS, sample=1/N, report=FILE, signal\n",
        word.c_str());
  }
  begin(d, read.options);
  return d.options;
}

// Drops the oldest of the ended pools without live blocks, and only counts them.
void forget_some(debugger& d) {
  const auto is_over = [](const watched_pool& p) { return p.ended && p.alive.empty(); };
  if (std::ranges::count_if(d.pools, is_over) <= static_cast<std::ptrdiff_t>(most_ended)) return;
  d.pools.erase(std::ranges::find_if(d.pools, is_over));
  ++d.more_pools;
}

}  // namespace

void set_debug(const debug_options& o) {
  debugger& d = the();
  const std::lock_guard held{d.telling};
  begin(d, o);
  if (o.scratch_zone != 0) set_scratch_zone(static_cast<std::size_t>(o.scratch_zone));
}

void end_debug() {
  debugger& d = the();
  const std::lock_guard held{d.telling};
  d.environment_read = true;
  d.options.reset();
}

std::optional<debug_options> current_debug() {
  return options_now();
}

void tell_mistake(const memory_mistake& m) {
  const std::optional<debug_options> o = options_now();
  const bool goes_on = o && o->warn;
  hear(make_context(0, goes_on), m);
  if (!goes_on && m.kind != mistake_kind::leak) contract_violation(m.text, m.site);
}

std::string debug_report(bool as_json) {
  debugger& d = the();
  const std::lock_guard held{d.lock};
  for (watched_pool& p : d.pools) {
    if (const auto g = p.guard.lock()) look_at(p, *g);
  }
  return compose(as_json, true);
}

namespace detail {

std::shared_ptr<guard_adaptor> watch(memory_source& m, bool report_leaks) {
  const std::optional<debug_options> o = options_now();
  if (!o) return nullptr;
  debugger& d = the();
  const std::lock_guard held{d.lock};
  const std::uint64_t number = ++d.last_number;
  const bool guards = o->guards || o->pages;
  auto g = std::make_shared<guard_adaptor>(m, guard_options{.red_zone = guards ? bytes{64} : 0,
                                                            .quarantine = guards ? o->quarantine : 0,
                                                            .check_every = o->check_every,
                                                            .pages = o->pages,
                                                            .go_on = o->warn,
                                                            .on_mistake = {hear, make_context(number, o->warn)},
                                                            .leaks = o->leaks || report_leaks,
                                                            .live_alarm = o->live_alarm,
                                                            .bytes_alarm = o->bytes_alarm,
                                                            .age_alarm = countable(o->age_alarm),
                                                            .stack_depth = o->stack_depth,
                                                            .sample = o->sample,
                                                            .on_alarm = {write_alarm_report}});
  d.pools.push_back({.number = number, .device = m.get_device().properties().name, .sample = o->sample, .guard = g});
  return g;
}

void tell_alarm(const source_location& site, const char* text) noexcept {
  std::fprintf(stderr, "berth: %s:%u: alarm: %s\n", site.file_name(), site.line(), text);
  write_alarm_report();
}

void unwatch(std::shared_ptr<guard_adaptor> g) noexcept try {
  debugger& d = the();
  const std::lock_guard held{d.lock};
  const auto p = std::ranges::find_if(d.pools, [&g](const watched_pool& w) { return w.guard.lock() == g; });
  if (p == d.pools.end()) return;
  // From here on only this call has the guard, which ends with it, not later than the pool.
  p->guard.reset();
  p->ended = true;
  look_at(*p, *g);
  forget_some(d);
} catch (const std::bad_alloc&) {
}

}  // namespace detail
}  // namespace berth

#include "berth/pool/debug.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "pool/debug.hpp"

namespace berth {
namespace {

constexpr std::size_t most_mistakes = 1000;  // kept in full; the rest are counted

template <class... Values>
void print(std::string& out, const char* format, Values... values) {
  char line[1600];
  const int n = std::snprintf(line, sizeof line, format, values...);
  if (n > 0) out.append(line, std::min<std::size_t>(static_cast<std::size_t>(n), sizeof line - 1));
}

// A JSON string.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      print(out, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out += '"';
}

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
  std::weak_ptr<guard_adaptor> guard;  // gone: what follows is its last word
  guard_statistics sums{};
  std::vector<site_holding> alive{};
};

struct debugger {
  std::mutex lock;  // guards what follows; taken inside a guard's
  std::optional<debug_options> options;
  bool environment_read = false;
  std::vector<watched_pool> pools;
  std::mutex telling;  // guards what follows: guards tell with their locks held
  std::vector<mistake> mistakes;
  std::uint64_t more_mistakes = 0;
};

int report_wanted = -1;  // the pipe that the signal's handler writes to
std::atomic<bool> warns{false};

// Never destroyed: pools may end after every static object.
debugger& the() {
  static debugger* const one = new debugger;
  return *one;
}

void write_last_report() noexcept;

void hear(void* context, const memory_mistake& m) noexcept try {
  const bool stops = m.kind != mistake_kind::leak && !warns.load(std::memory_order_relaxed);
  if (!stops) {
    std::fprintf(stderr, "berth: %s:%u: guard: %s\n", m.site.file_name(), m.site.line(), m.text);
  }
  debugger& d = the();
  {
    const std::lock_guard held{d.telling};
    if (d.mistakes.size() < most_mistakes) {
      d.mistakes.push_back(
          {m.kind, reinterpret_cast<std::uintptr_t>(context), m.site.file_name(), m.site.line(), m.text});
    } else {
      ++d.more_mistakes;
    }
  }
  if (stops) write_last_report();
} catch (const std::bad_alloc&) {
}

void look_again(watched_pool& p) {
  if (const auto g = p.guard.lock()) {
    p.sums = g->statistics();
    p.alive = g->live_by_site();
  }
}

void add_json(std::string& out, const watched_pool& p) {
  const guard_statistics& s = p.sums;
  print(out,
        "{\"pool\":%" PRIu64 ",\"device\":%s,\"ended\":%s,\"allocations\":%" PRIu64 ",\"frees\":%" PRIu64
        ",\"live_blocks\":%zu,\"live_bytes\":%" PRIu64 ",\"live_peak_bytes\":%" PRIu64 ",\"quarantined_bytes\":%" PRIu64
        ",\"unchecked\":%" PRIu64 ",\"alive\":[",
        p.number, quoted(p.device).c_str(), p.guard.expired() ? "true" : "false", s.allocations, s.frees, s.live_blocks,
        s.live, s.live_peak, s.quarantined, s.unchecked);
  for (std::size_t i = 0; i < p.alive.size(); ++i) {
    const site_holding& h = p.alive[i];
    print(out, "%s{\"place\":%s,\"blocks\":%zu,\"bytes\":%" PRIu64 ",\"oldest_s\":%.3f,\"stream\":%u,\"thread\":%u}",
          i == 0 ? "" : ",", quoted(std::string{h.site.file_name()} + ":" + std::to_string(h.site.line())).c_str(),
          h.blocks, h.size, h.oldest_s, h.stream, h.thread);
  }
  out += "]}";
}

void add_text(std::string& out, const watched_pool& p) {
  const guard_statistics& s = p.sums;
  print(out,
        "pool %" PRIu64 " on %s%s: %" PRIu64 " allocations, %" PRIu64 " frees, %" PRIu64
        " bytes alive in %zu blocks"
        " (peak %" PRIu64 "), %" PRIu64 " bytes in quarantine, %" PRIu64 " blocks unchecked\n",
        p.number, p.device.c_str(), p.guard.expired() ? " (ended)" : "", s.allocations, s.frees, s.live, s.live_blocks,
        s.live_peak, s.quarantined, s.unchecked);
  for (const site_holding& h : p.alive) {
    print(out, "  %12" PRIu64 " bytes in %6zu blocks  %s:%u  oldest %.1f s, stream %u, thread %u\n", h.size, h.blocks,
          h.site.file_name(), h.site.line(), h.oldest_s, h.stream, h.thread);
  }
}

// Contract: the lock is held.
std::string compose(bool as_json) {
  debugger& d = the();
  const std::lock_guard held{d.telling};
  std::string out = as_json ? "{\"format\":\"berth-debug/1\",\"pools\":[" : "berth: memory report\n";
  for (std::size_t i = 0; i < d.pools.size(); ++i) {
    if (as_json && i != 0) out += ',';
    as_json ? add_json(out, d.pools[i]) : add_text(out, d.pools[i]);
  }
  if (as_json) {
    out += "],\"mistakes\":[";
  } else {
    print(out, "mistakes: %zu\n", d.mistakes.size() + static_cast<std::size_t>(d.more_mistakes));
  }
  for (std::size_t i = 0; i < d.mistakes.size(); ++i) {
    const mistake& m = d.mistakes[i];
    if (as_json) {
      print(out, "%s{\"kind\":\"%s\",\"pool\":%" PRIu64 ",\"file\":%s,\"line\":%u,\"text\":", i == 0 ? "" : ",",
            name(m.kind), m.pool, quoted(m.file).c_str(), m.line);
      (out += quoted(m.text)) += '}';
    } else {
      print(out, "  %s:%u: ", m.file.c_str(), m.line);
      (out += m.text) += '\n';
    }
  }
  if (as_json) print(out, "],\"more_mistakes\":%" PRIu64 "}\n", d.more_mistakes);
  return out;
}

void write_out(const std::string& path, const std::string& text) {
  std::FILE* const to = std::fopen(path.c_str(), "we");
  const bool written = to != nullptr && std::fwrite(text.data(), 1, text.size(), to) == text.size();
  const bool closed = to != nullptr && std::fclose(to) == 0;
  if (written && closed) return;
  std::fprintf(stderr, "berth: BERTH_DEBUG: the report could not be written to %s\n", path.c_str());
}

std::string report_path() {
  const std::lock_guard held{the().lock};
  return the().options ? the().options->report : std::string{};
}

void write_report() {
  const std::string path = report_path();
  if (!path.empty()) write_out(path, debug_report(path.ends_with(".json")));
}

// A guard stops the program, and holds its lock: its own blocks are as they were when last looked at.
void write_last_report() noexcept try {
  debugger& d = the();
  const std::unique_lock held{d.lock, std::try_to_lock};
  if (held && d.options && !d.options->report.empty()) {
    write_out(d.options->report, compose(d.options->report.ends_with(".json")));
  }
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
  report_wanted = ends[1];
  std::signal(SIGUSR2, [](int) {
    const int kept = errno;
    [[maybe_unused]] const auto n = write(report_wanted, "r", 1);
    errno = kept;
  });
}

void begin(const debug_options& o) {
  debugger& d = the();
  warns.store(o.warn, std::memory_order_relaxed);
  d.options = o;
  if (!o.report.empty()) {
    if (std::FILE* const to = std::fopen(o.report.c_str(), "ae")) {
      std::fclose(to);
    } else {
      std::fprintf(stderr, "berth: BERTH_DEBUG: the report cannot be written to %s\n", o.report.c_str());
    }
    static const int at_end = std::atexit(write_report);
    (void)at_end;
  }
  if (o.on_signal) listen_to_signal();
}

// Contract: the lock is held.
void read_environment() {
  debugger& d = the();
  if (d.environment_read) return;
  d.environment_read = true;
  const char* const words = std::getenv("BERTH_DEBUG");
  if (words == nullptr || *words == '\0') return;
  const debug_words read = read_debug(words);
  for (const std::string& word : read.unknown) {
    std::fprintf(stderr,
                 "berth: BERTH_DEBUG: '%s' says nothing; there are guards, quarantine=N, every=N, warn, leaks, live=N, "
                 "report=FILE, signal\n",
                 word.c_str());
  }
  begin(read.options);
}

// 64, 64KiB, 64MiB, 64GiB.
std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t n = 0;
  const auto [rest, wrong] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (wrong != std::errc{}) return std::nullopt;
  const std::string_view unit{rest, static_cast<std::size_t>(text.data() + text.size() - rest)};
  const unsigned shift = unit.empty() ? 0 : unit == "KiB" ? 10 : unit == "MiB" ? 20 : unit == "GiB" ? 30 : 64;
  if (shift == 64 || n > (~std::uint64_t{0} >> shift)) return std::nullopt;
  return n << shift;
}

// False where the word says nothing.
bool read_word(std::string_view word, debug_options& o) {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? std::string_view{} : word.substr(equals + 1);
  if (name == "report") {
    o.report = value;
    return !value.empty();
  }
  if (equals == std::string_view::npos) {
    bool* const flag = name == "guards"   ? &o.guards
                       : name == "warn"   ? &o.warn
                       : name == "leaks"  ? &o.leaks
                       : name == "signal" ? &o.on_signal
                                          : nullptr;
    if (flag != nullptr) *flag = true;
    return flag != nullptr;
  }
  std::uint64_t* const to = name == "quarantine" ? &o.quarantine
                            : name == "every"    ? &o.check_every
                            : name == "live"     ? &o.live_alarm
                                                 : nullptr;
  const auto n = number_of(value);
  if (to == nullptr || !n) return false;
  *to = *n;
  return true;
}

}  // namespace

debug_words read_debug(std::string_view words) {
  debug_words out;
  while (!words.empty()) {
    const std::size_t comma = words.find(',');
    const std::string_view word = words.substr(0, comma);
    words = comma == std::string_view::npos ? std::string_view{} : words.substr(comma + 1);
    if (!word.empty() && !read_word(word, out.options)) out.unknown.emplace_back(word);
  }
  return out;
}

void set_debug(const debug_options& o) {
  const std::lock_guard held{the().lock};
  the().environment_read = true;
  begin(o);
}

void end_debug() {
  const std::lock_guard held{the().lock};
  the().environment_read = true;
  the().options.reset();
}

std::string debug_report(bool as_json) {
  debugger& d = the();
  const std::lock_guard held{d.lock};
  for (watched_pool& p : d.pools) look_again(p);
  return compose(as_json);
}

namespace detail {

std::shared_ptr<guard_adaptor> watch(memory_source& m, bool report_leaks) {
  debugger& d = the();
  const std::lock_guard held{d.lock};
  read_environment();
  if (!d.options) return nullptr;
  const debug_options& o = *d.options;
  const std::uint64_t number = d.pools.size() + 1;
  auto g = std::make_shared<guard_adaptor>(
      m, guard_options{.red_zone = o.guards ? bytes{64} : 0,
                       .quarantine = o.guards ? o.quarantine : 0,
                       .check_every = o.check_every,
                       .go_on = o.warn,
                       .on_mistake = {[](void* context, const memory_mistake& what) { hear(context, what); },
                                      reinterpret_cast<void*>(static_cast<std::uintptr_t>(number))},
                       .leaks = o.leaks || report_leaks,
                       .live_alarm = o.live_alarm});
  d.pools.push_back({.number = number, .device = m.get_device().properties().name, .guard = g});
  return g;
}

void unwatch(std::shared_ptr<guard_adaptor> g) noexcept try {
  debugger& d = the();
  {
    const std::lock_guard held{d.lock};
    for (watched_pool& p : d.pools) {
      if (p.guard.lock() == g) look_again(p);
    }
  }
  g.reset();
} catch (const std::bad_alloc&) {
}

}  // namespace detail
}  // namespace berth

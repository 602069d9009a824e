#include "berth/trace/recorder.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>

namespace berth::trace {
namespace {

struct record {
  std::uint64_t address;
  std::uint64_t size;  // of a stamp: nanoseconds since the start
  std::uint32_t stream;
  std::uint32_t site;
  std::uint32_t thread;
  std::uint32_t kind;  // memory_event_kind, or `stamp`
};
static_assert(sizeof(record) == 32);

constexpr std::uint32_t stamp = 0xff;
constexpr std::size_t buffer_size = 4096;
constexpr std::uint32_t events_a_stamp = 64;

struct buffer {
  std::atomic<std::size_t> count{0};  // written by the owner; set back under the recorder's lock
  std::uint32_t thread = 0;
  std::uint32_t until_stamp = 0;
  // The last places of this thread, by a hash of the line.
  struct known_site {
    const char* file = nullptr;
    std::uint32_t line = 0;
    std::uint32_t id = 0;
  };
  known_site sites[64];
  record records[buffer_size];
};

std::atomic<std::uint64_t> last_id{0};
struct mine {
  std::uint64_t recorder = 0;
  buffer* to = nullptr;
};
constinit thread_local mine current;

}  // namespace

struct recorder::state {
  std::uint64_t id = last_id.fetch_add(1, std::memory_order_relaxed) + 1;
  std::size_t capacity = 0;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  mutable std::mutex lock;
  std::vector<std::unique_ptr<buffer>> buffers;
  std::vector<record> kept;  // each thread's in its order
  std::map<std::pair<const char*, std::uint32_t>, std::uint32_t> ids;
  std::vector<source_location> sites{source_location{}};
  std::atomic<std::uint64_t> dropped{0};

  buffer* attach() noexcept {
    try {
      const std::lock_guard held{lock};
      buffers.push_back(std::make_unique<buffer>());
      buffers.back()->thread = static_cast<std::uint32_t>(buffers.size() - 1);
      current = {id, buffers.back().get()};
      return current.to;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  std::uint32_t intern(buffer& b, const source_location& site) noexcept {
    buffer::known_site& known = b.sites[site.line() % 64];
    if (known.file == site.file_name() && known.line == site.line()) return known.id;
    const std::lock_guard held{lock};
    try {
      const auto [at, fresh] =
          ids.try_emplace({site.file_name(), site.line()}, static_cast<std::uint32_t>(sites.size()));
      if (fresh) sites.push_back(site);
      known = {site.file_name(), site.line(), at->second};
      return at->second;
    } catch (const std::bad_alloc&) {
      return 0;
    }
  }

  void write(buffer& b, const record& r) noexcept {
    std::size_t n = b.count.load(std::memory_order_relaxed);
    if (n == buffer_size) {
      const std::lock_guard held{lock};
      try {
        if (kept.size() + buffer_size > capacity) throw std::bad_alloc{};
        kept.insert(kept.end(), b.records, b.records + buffer_size);
      } catch (const std::bad_alloc&) {
        dropped.fetch_add(buffer_size, std::memory_order_relaxed);
      }
      n = 0;
      b.count.store(0, std::memory_order_relaxed);
    }
    b.records[n] = r;
    b.count.store(n + 1, std::memory_order_release);
  }

  // Everything recorded so far, with the time of its stamp, in the order of time.
  std::vector<std::pair<std::uint64_t, record>> sorted() const {
    const std::lock_guard held{lock};
    std::vector<record> all = kept;
    for (const auto& b : buffers) {
      all.insert(all.end(), b->records, b->records + b->count.load(std::memory_order_acquire));
    }
    std::vector<std::uint64_t> now(buffers.size());
    std::vector<std::pair<std::uint64_t, record>> out;
    for (const record& r : all) {
      if (r.kind == stamp) {
        now[r.thread] = r.size;
      } else {
        out.emplace_back(now[r.thread], r);
      }
    }
    std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return out;
  }
};

recorder::recorder(std::size_t capacity) : state_{std::make_unique<state>()}, hook_{&recorder::hear, state_.get()} {
  state_->capacity = capacity;
}

recorder::~recorder() {
  stop();
}

void recorder::start() {
  const hook* const before = set_hook(&hook_);
  expects(before == nullptr || before == &hook_, "recorder: another listens already");
}

void recorder::stop() noexcept {
  if (detail::current_hook.load(std::memory_order_acquire) == &hook_) set_hook(nullptr);
}

void recorder::hear(void* context, const memory_event& event) noexcept {
  state& s = *static_cast<state*>(context);
  buffer* b = current.recorder == s.id ? current.to : s.attach();
  if (b == nullptr) {
    s.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (b->until_stamp == 0) {
    const auto now = std::chrono::steady_clock::now() - s.begin;
    s.write(*b, {.size = static_cast<std::uint64_t>(std::chrono::nanoseconds{now}.count()),
                 .thread = b->thread,
                 .kind = stamp});
    b->until_stamp = events_a_stamp;
  }
  --b->until_stamp;
  s.write(*b, {reinterpret_cast<std::uintptr_t>(event.address), event.size, event.stream, s.intern(*b, event.site),
               b->thread, static_cast<std::uint32_t>(event.kind)});
}

log recorder::to_log() const {
  log out;
  std::unordered_map<std::uint64_t, std::uint64_t> live;  // id by address
  std::unordered_map<std::uint64_t, log_entry> early;     // frees that come before their allocation by the stamps
  std::uint64_t id = 0;
  for (const auto& [t, r] : state_->sorted()) {
    log_entry e{.stream = r.stream, .thread = r.thread, .size = r.size, .t_us = static_cast<double>(t) * 1e-3};
    if (r.kind == static_cast<std::uint32_t>(memory_event_kind::pool_allocate)) {
      e.id = id++;
      out.push_back(e);
      if (const auto f = early.find(r.address); f != early.end()) {
        f->second.id = e.id;
        out.push_back(f->second);
        early.erase(f);
      } else {
        live[r.address] = e.id;
      }
    } else if (r.kind == static_cast<std::uint32_t>(memory_event_kind::pool_free)) {
      e.allocate = false;
      const auto at = live.find(r.address);
      if (at == live.end()) {
        early[r.address] = e;
        continue;
      }
      e.id = at->second;
      live.erase(at);
      out.push_back(e);
    }
  }
  return out;
}

std::vector<leak> recorder::leaks() const {
  // Counted by address, so that the order between threads does not matter.
  struct balance {
    std::int64_t open = 0;
    record last{};
  };
  std::map<std::uint64_t, balance> all;
  for (const auto& [t, r] : state_->sorted()) {
    if (r.kind == static_cast<std::uint32_t>(memory_event_kind::pool_allocate)) {
      balance& b = all[r.address];
      ++b.open;
      b.last = r;
    } else if (r.kind == static_cast<std::uint32_t>(memory_event_kind::pool_free)) {
      --all[r.address].open;
    }
  }
  std::vector<leak> out;
  const std::lock_guard held{state_->lock};
  for (const auto& [address, b] : all) {
    if (b.open > 0) out.push_back({address, b.last.size, b.last.stream, state_->sites[b.last.site]});
  }
  return out;
}

std::string recorder::leak_report() const {
  std::string out;
  bytes sum = 0;
  char line[600];
  const std::vector<leak> all = leaks();
  for (const leak& l : all) {
    std::snprintf(line, sizeof line, "%" PRIu64 " bytes at 0x%" PRIx64 ", asked for at %s:%" PRIu32 "\n", l.size,
                  l.address, l.site.file_name(), l.site.line());
    out += line;
    sum += l.size;
  }
  std::snprintf(line, sizeof line, "%zu leaks, %" PRIu64 " bytes\n", all.size(), sum);
  out += line;
  if (dropped() != 0) {
    std::snprintf(line, sizeof line, "%" PRIu64 " records were dropped: the list may be wrong\n", dropped());
    out += line;
  }
  return out;
}

std::uint64_t recorder::dropped() const noexcept {
  return state_->dropped.load(std::memory_order_relaxed);
}

}  // namespace berth::trace

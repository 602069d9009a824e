#include "berth/trace/recorder.hpp"

#include <algorithm>
#include <cinttypes>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "trace/arrange.hpp"
#include "trace/chunk_store.hpp"
#include "trace/record.hpp"

namespace berth::trace {
namespace {

constexpr std::uint32_t events_a_stamp = 256;
constexpr std::chrono::milliseconds tick_length{4};

// What one thread writes to. Handed on to another when the thread ends.
struct lane {
  std::atomic<record*> at{nullptr};  // what is before it may be read by others, under the recorder's lock
  record* limit = nullptr;           // beyond this a stamp is due, or a chunk
  chunk* open = nullptr;             // others change and read it under the lock
  std::uint64_t recorder = 0;
  std::uint32_t tick = 0;
  std::uint32_t number = 0;
  // The last places of this thread, by a hash of the line.
  struct known_site {
    const char* file = nullptr;
    std::uint32_t line = 0;
    std::uint32_t id = 0;
  };
  known_site sites[64];

  [[nodiscard]] std::ptrdiff_t room() const noexcept { return limit - at.load(std::memory_order_relaxed); }
  void write(const memory_event& e, record_kind kind, std::uint32_t site) noexcept {
    record* const to = at.load(std::memory_order_relaxed);
    *to = {reinterpret_cast<std::uintptr_t>(e.address), e.size << 2 | static_cast<std::uint64_t>(kind), e.stream, site};
    at.store(to + 1, std::memory_order_release);
  }
};

record stamp_at(std::uint64_t ns) noexcept {
  return {ns, static_cast<std::uint64_t>(record_kind::stamp), 0, 0};
}

constinit lane nobody;                           // has no room
constinit thread_local lane* current = &nobody;  // this thread's, of the recorder that it wrote to last
constinit thread_local bool gone = false;        // this thread has given up its lanes

std::atomic<std::uint64_t> last_id{0};

}  // namespace

struct recorder::state : std::enable_shared_from_this<state> {
  // Read by every thread at every event: apart from what changes more often.
  alignas(64) std::atomic<std::uint32_t> tick{0};
  const std::uint64_t id = last_id.fetch_add(1, std::memory_order_relaxed) + 1;
  std::chrono::steady_clock::time_point begin;

  alignas(64) mutable std::mutex lock;
  std::vector<std::shared_ptr<lane>> lanes;
  std::vector<std::shared_ptr<lane>> idle;
  chunk_store store;
  // With room for all chunks.
  std::vector<chunk*> full;     // in the order in which they filled up
  std::vector<chunk*> residue;  // what is left of the oldest, each thread's in its order
  bool over = false;            // live blocks alone fill a quarter of the capacity: nothing more is kept
  std::uint64_t forgotten = 0;
  std::map<std::pair<const char*, std::uint32_t>, std::uint32_t> ids;
  std::vector<source_location> sites{source_location{}};
  std::atomic<std::uint64_t> dropped{0};

  std::mutex control;  // of start and stop
  std::condition_variable stopping;
  bool listening = false;
  std::thread ticker;

  [[gnu::noinline]] void hear_slowly(const memory_event& event) noexcept;
  explicit state(bytes capacity) : store{capacity} {
    full.reserve(store.size());
    residue.reserve(store.size());
  }
  lane* attach() noexcept;
  void leave(const std::shared_ptr<lane>& l) noexcept;
  bool prepare(lane& l) noexcept;
  void fold_oldest() noexcept;
  void merge_residue() noexcept;
  std::uint32_t intern(lane& l, const source_location& site) noexcept;
  [[nodiscard]] arranged everything() const;
  void keep_ticking();
};

namespace {

// The lanes of this thread, given up when it ends.
struct tenancy {
  struct entry {
    std::shared_ptr<lane> to;  // outlives the recorder, since `current` may name it
    std::weak_ptr<void> recorder;
    void (*leave)(void* recorder, const std::shared_ptr<lane>& l) noexcept;
  };
  std::vector<entry> all;
  ~tenancy() {
    gone = true;
    current = &nobody;
    for (const entry& e : all) {
      if (const auto owner = e.recorder.lock()) e.leave(owner.get(), e.to);
    }
  }
};
thread_local tenancy tenancies;

}  // namespace

lane* recorder::state::attach() noexcept try {
  if (gone) return nullptr;
  current = &nobody;
  std::erase_if(tenancies.all, [](const auto& e) { return e.recorder.expired(); });
  for (const auto& e : tenancies.all) {
    if (e.to->recorder == id) return current = e.to.get();
  }
  tenancies.all.reserve(tenancies.all.size() + 1);
  const std::lock_guard held{lock};
  std::shared_ptr<lane> l;
  if (!idle.empty()) {
    l = std::move(idle.back());
    idle.pop_back();
  } else {
    idle.reserve(lanes.size() + 1);  // so that leaving allocates nothing
    l = lanes.emplace_back(std::make_shared<lane>());
    l->recorder = id;
    l->number = static_cast<std::uint32_t>(lanes.size() - 1);
  }
  current = l.get();
  tenancies.all.push_back({std::move(l), weak_from_this(), [](void* of, const std::shared_ptr<lane>& left) noexcept {
                             static_cast<state*>(of)->leave(left);
                           }});
  return current;
} catch (const std::bad_alloc&) {
  return nullptr;
}

void recorder::state::leave(const std::shared_ptr<lane>& l) noexcept {
  const std::lock_guard held{lock};
  idle.push_back(l);
}

// Writes a stamp, into a fresh chunk where the open one is full. False where there is none to be had.
bool recorder::state::prepare(lane& l) noexcept {
  record* at = l.at.load(std::memory_order_relaxed);
  record* end = l.open == nullptr ? nullptr : l.open->records.data() + chunk::capacity;
  if (end - at < 2) {  // a stamp and an event
    const std::lock_guard held{lock};
    while (store.empty() && !full.empty() && !over) fold_oldest();
    chunk* const fresh = store.take();
    if (fresh == nullptr) return false;
    if (l.open != nullptr) {
      l.open->count = static_cast<std::uint32_t>(at - l.open->begin());
      full.push_back(l.open);
    }
    l.open = fresh;
    fresh->thread = l.number;
    at = fresh->records.data();
    end = at + chunk::capacity;
    l.at.store(at, std::memory_order_relaxed);  // no longer into the chunk that is full
  }
  l.tick = tick.load(std::memory_order_relaxed);
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now() - begin;
  *at++ = stamp_at(static_cast<std::uint64_t>(now.count()));
  l.at.store(at, std::memory_order_release);
  l.limit = at + std::min<std::ptrdiff_t>(events_a_stamp, end - at);
  return true;
}

// Makes a chunk empty, or at least smaller. The lock is held.
void recorder::state::fold_oldest() noexcept {
  chunk* const oldest = full.front();
  full.erase(full.begin());
  forgotten += forget_pairs(*oldest);
  const auto last =
      std::find_if(residue.rbegin(), residue.rend(), [oldest](const chunk* c) { return c->thread == oldest->thread; });
  if (last != residue.rend() && (*last)->count + oldest->count <= chunk::capacity) {
    std::copy(oldest->begin(), oldest->end(), (*last)->records.data() + (*last)->count);
    (*last)->count += oldest->count;
    oldest->count = 0;
  }
  if (oldest->count == 0) {
    store.give_back(oldest);
  } else {
    residue.push_back(oldest);
  }
  if (residue.size() > store.size() / 2) merge_residue();
}

// Pairs across chunks and threads: what is left are blocks alive, and frees whose allocation is in a later chunk.
void recorder::state::merge_residue() noexcept try {
  std::vector<timed> all;
  for (const chunk* c : residue) decode_records(c->begin(), c->end(), c->thread, all);
  arranged a = arrange(std::move(all));
  std::unordered_map<std::uint64_t, std::size_t> alive;
  for (std::size_t i = 0; i < a.events.size(); ++i) {
    if (a.events[i].what.kind() == record_kind::allocate) {
      alive[a.events[i].what.address] = i;
    } else {
      alive.erase(a.events[i].what.address);
    }
  }
  std::vector<timed> kept = std::move(a.orphans);
  for (const auto& [address, i] : alive) kept.push_back(a.events[i]);
  std::ranges::stable_sort(kept, [](const timed& x, const timed& y) {
    return x.thread != y.thread ? x.thread < y.thread : x.from < y.from;
  });
  forgotten += a.events.size() - alive.size();
  for (chunk* c : residue) store.give_back(c);
  residue.clear();
  const timed* before = nullptr;
  for (const timed& t : kept) {
    chunk* c = residue.empty() ? nullptr : residue.back();
    const bool fresh = c == nullptr || c->thread != t.thread || c->count + 2 > chunk::capacity;
    if (fresh) {
      c = store.take();
      if (c == nullptr) {
        dropped.fetch_add(1, std::memory_order_relaxed);
        continue;
      }
      residue.push_back(c);
      c->thread = t.thread;
    }
    if (fresh || before->from != t.from) c->records[c->count++] = stamp_at(t.from);
    c->records[c->count++] = t.what;
    before = &t;
  }
  over = residue.size() > store.size() / 4;
} catch (const std::bad_alloc&) {
  over = true;
}

std::uint32_t recorder::state::intern(lane& l, const source_location& site) noexcept {
  lane::known_site& known = l.sites[site.line() % 64];
  if (known.line == site.line() && known.file == site.file_name()) return known.id;
  if (site.line() == 0) {
    known = {site.file_name(), 0, 0};
    return 0;
  }
  const std::lock_guard held{lock};
  try {
    const auto [at, fresh] = ids.try_emplace({site.file_name(), site.line()}, static_cast<std::uint32_t>(sites.size()));
    if (fresh) sites.push_back(site);
    known = {site.file_name(), site.line(), at->second};
    return at->second;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

arranged recorder::state::everything() const {
  std::vector<timed> all;
  const std::lock_guard held{lock};
  for (const auto* part : {&residue, &full}) {
    for (const chunk* c : *part) decode_records(c->begin(), c->end(), c->thread, all);
  }
  for (const auto& l : lanes) {
    if (l->open != nullptr) decode_records(l->open->begin(), l->at.load(std::memory_order_acquire), l->number, all);
  }
  return arrange(std::move(all));
}

void recorder::state::hear_slowly(const memory_event& event) noexcept {
  const bool allocate = event.kind == memory_event_kind::pool_allocate;
  if (!allocate && event.kind != memory_event_kind::pool_free) return;
  lane* const l = current->recorder == id ? current : attach();
  if (l == nullptr || ((l->room() < 1 || l->tick != tick.load(std::memory_order_relaxed)) && !prepare(*l))) {
    dropped.fetch_add(1, std::memory_order_relaxed);
  } else if (allocate) {
    l->write(event, record_kind::allocate, intern(*l, event.site));
  } else {
    l->write(event, record_kind::free, 0);
  }
}

void recorder::state::keep_ticking() {
  std::unique_lock held{control};
  while (!stopping.wait_for(held, tick_length, [this] { return !listening; })) {
    tick.fetch_add(1, std::memory_order_relaxed);
  }
}

recorder::recorder(bytes capacity) : state_{std::make_shared<state>(capacity)}, hook_{&recorder::hear, state_.get()} {}

recorder::~recorder() {
  stop();
}

void recorder::start() {
  state& s = *state_;
  const std::lock_guard held{s.control};
  if (s.listening) return;
  if (s.begin == std::chrono::steady_clock::time_point{}) {
    s.store.touch();
    s.begin = std::chrono::steady_clock::now();
  }
  expects(set_hook(&hook_) == nullptr, "recorder: another listens already");
  s.listening = true;
  try {
    s.ticker = std::thread{[&s] { s.keep_ticking(); }};
  } catch (const std::system_error&) {  // no thread to be had: stamps once in 256 events then
  }
}

void recorder::stop() noexcept {
  state& s = *state_;
  std::thread ticker;
  {
    const std::lock_guard held{s.control};
    if (!s.listening) return;
    set_hook(nullptr);
    s.listening = false;
    ticker = std::move(s.ticker);
  }
  s.stopping.notify_all();
  if (ticker.joinable()) ticker.join();
}

// The usual case, without a call: this thread's lane is the recorder's, has room and is on time, and the place is
// known. The place of a free is not kept.
void recorder::hear(void* context, const memory_event& event) noexcept {
  state& s = *static_cast<state*>(context);
  lane& l = *current;
  if (l.recorder != s.id || l.room() < 1 || l.tick != s.tick.load(std::memory_order_relaxed)) [[unlikely]]
    return s.hear_slowly(event);
  if (event.kind == memory_event_kind::pool_free) return l.write(event, record_kind::free, 0);
  const lane::known_site& known = l.sites[event.site.line() % 64];
  if (event.kind != memory_event_kind::pool_allocate || known.line != event.site.line() ||
      known.file != event.site.file_name()) [[unlikely]]
    return s.hear_slowly(event);
  l.write(event, record_kind::allocate, known.id);
}

snapshot recorder::take() const {
  snapshot out;
  const arranged all = state_->everything();
  out.events.reserve(all.events.size());
  for (const timed& t : all.events) {
    out.events.push_back({.allocate = t.what.kind() == record_kind::allocate,
                          .stream = t.what.stream,
                          .thread = t.thread,
                          .site = t.what.site,
                          .address = t.what.address,
                          .size = t.what.size(),
                          .t_us = static_cast<double>(t.from) * 1e-3});
  }
  out.dropped = dropped();
  {
    const std::lock_guard held{state_->control};
    out.ended = !state_->listening;
  }
  const std::lock_guard held{state_->lock};
  out.forgotten = state_->forgotten;
  for (std::size_t i = 1; i < state_->sites.size(); ++i) {
    out.sites.push_back({state_->sites[i].file_name(), state_->sites[i].line()});
  }
  return out;
}

log recorder::to_log() const {
  return trace::to_log(take());
}

std::vector<leak> recorder::leaks() const {
  std::vector<leak> out;
  const std::vector<event> all = alive(take());
  const std::lock_guard held{state_->lock};
  for (const event& e : all) out.push_back({e.address, e.size, e.stream, state_->sites[e.site]});
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

#include "berth/trace/recorder.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_set>
#include <utility>

#include "core/print.hpp"
#include "trace/arrange.hpp"
#include "trace/chunk_store.hpp"
#include "trace/recorder_view.hpp"

[[gnu::used]] berth_recorder_view berth_recorder_lanes{};

namespace berth::trace {
namespace {

constexpr std::uint32_t events_a_stamp = 256;
constexpr std::chrono::milliseconds tick_length{4};
constexpr std::size_t chunks_a_fold = 8;  // one at a time, each would look at what others did in its time

// The place of one thread's records, in cache lines of its own. Another thread takes it over when the thread ends.
struct alignas(64) lane : event_buffer {
  chunk* open = nullptr;  // changed by the thread, under the recorder's lock
  std::uint32_t number = 0;
  std::uint64_t next_from = 0;  // of the chunk after the one that is looked at
  // Set by the last tick that found new records: those before `seen` had happened at `seen_at`. Without it, an event of
  // an idle thread might be as late as any other.
  const record* seen = nullptr;
  std::uint64_t seen_at = 0;
};

record stamp_at(std::uint64_t ns) noexcept {
  return {ns, record::stamp, "", 0, 0};
}

constinit thread_local bool gone = false;  // this thread has given up its lanes
std::mutex viewed;                         // guards berth_recorder_lanes from other recorders

}  // namespace

struct recorder::state : std::enable_shared_from_this<state> {
  std::chrono::steady_clock::time_point begin;

  mutable std::mutex lock;
  std::vector<std::shared_ptr<lane>> lanes;
  std::vector<std::shared_ptr<lane>> idle;
  detail::thread_directory<event_buffer> buffers;  // the threads' lanes
  chunk_store store;
  // Has room for all chunks.
  std::vector<chunk*> full;     // in the order in which they filled up
  std::vector<chunk*> residue;  // what is left of the oldest, each thread's in its order
  owners among;
  bool over = false;  // live blocks alone filled a quarter of the capacity when that was looked at last
  std::chrono::steady_clock::time_point look_again;
  std::uint64_t forgotten = 0;
  std::atomic<std::uint64_t> dropped{0};

  std::mutex control;  // of start and stop
  std::condition_variable stopping;
  bool listening = false;
  std::uint64_t stops = 0;  // how often: each ends the ticker of its time, whoever starts the next meanwhile
  std::thread ticker;

  explicit state(bytes capacity) : store{capacity} {
    full.reserve(store.size());
    residue.reserve(store.size());
    static const int around_forks =
        pthread_atfork([] { before_fork(); }, [] { after_fork(false); }, [] { after_fork(true); });
    (void)around_forks;
    const std::lock_guard held{listed};
    next = std::exchange(first, this);
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() {
    const std::lock_guard held{listed};
    state** at = &first;
    while (*at != this) at = &(*at)->next;
    *at = next;
  }

  // All recorders, for forks: every lock is held across one. Taken before any other.
  static inline constinit std::mutex listed;
  static inline constinit state* first = nullptr;
  state* next = nullptr;
  static void before_fork();
  static void after_fork(bool in_child);

  [[nodiscard]] lane* attach() noexcept;  // null: no memory for one
  void leave(const std::shared_ptr<lane>& l) noexcept;
  bool prepare(lane& l) noexcept;
  void close(lane& l) noexcept;
  bool close_idle() noexcept;
  void make_room() noexcept;
  void fold_oldest() noexcept;
  void fold(chunk* oldest, const owners* in) noexcept;
  template <class Function>
  void for_each_chunk(Function f) noexcept;
  void note_owners(std::size_t n) noexcept;
  void merge_residue() noexcept;
  [[nodiscard]] std::vector<stretch> all_parts() const;
  [[nodiscard]] std::vector<timed> kept() const;
  [[nodiscard]] arranged everything() const;
  [[nodiscard]] std::uint64_t now() const noexcept {
    return static_cast<std::uint64_t>(std::chrono::nanoseconds{std::chrono::steady_clock::now() - begin}.count());
  }
  void tick() noexcept;
  void keep_ticking(std::uint64_t until_stop);
};

namespace {

// The lanes of this thread, given up when it ends.
struct tenancy {
  struct entry {
    std::shared_ptr<lane> to;
    std::weak_ptr<void> recorder;
    void (*leave)(void* recorder, const std::shared_ptr<lane>& l) noexcept;
  };
  std::vector<entry> all;
  ~tenancy() {
    gone = true;
    for (const entry& e : all) {
      if (const auto owner = e.recorder.lock()) e.leave(owner.get(), e.to);
    }
  }
};
thread_local tenancy tenancies;

}  // namespace

lane* recorder::state::attach() noexcept try {
  if (gone) return nullptr;
  std::erase_if(tenancies.all, [](const auto& e) { return e.recorder.expired(); });
  for (const auto& e : tenancies.all) {  // where the directory had no room for it
    if (e.recorder.lock().get() == this) return e.to.get();
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
    l->number = static_cast<std::uint32_t>(lanes.size() - 1);
  }
  lane* const mine = l.get();
  tenancies.all.push_back({std::move(l), weak_from_this(), [](void* of, const std::shared_ptr<lane>& left) noexcept {
                             static_cast<state*>(of)->leave(left);
                           }});
  (void)buffers.add(mine);
  return mine;
} catch (const std::bad_alloc&) {
  return nullptr;
}

void recorder::state::leave(const std::shared_ptr<lane>& l) noexcept {
  const std::lock_guard held{lock};
  buffers.remove(l.get());
  idle.push_back(l);
}

// Writes a stamp, into a fresh chunk if the open one is full. False if there is none.
bool recorder::state::prepare(lane& l) noexcept {
  record* at = l.at.load(std::memory_order_relaxed);
  record* end = l.open == nullptr ? nullptr : l.open->records.data() + store.chunk_records();
  if (end - at < 2) {  // a stamp and an event
    const std::lock_guard held{lock};
    make_room();
    chunk* const fresh = store.take();
    if (fresh == nullptr) return false;
    if (l.open != nullptr) close(l);
    l.open = fresh;
    fresh->thread = l.number;
    at = fresh->records.data();
    end = at + store.chunk_records();
    l.at.store(at, std::memory_order_relaxed);  // no longer into the chunk that is full
  }
  *at++ = stamp_at(now());
  l.at.store(at, std::memory_order_release);
  l.limit.store(at + std::min<std::ptrdiff_t>(events_a_stamp, end - at), std::memory_order_relaxed);
  return true;
}

// Called by the lane's thread, or if it has none. The lock is held.
void recorder::state::close(lane& l) noexcept {
  l.open->count = static_cast<std::uint32_t>(l.at.load(std::memory_order_relaxed) - l.open->begin());
  full.push_back(l.open);
  l.open = nullptr;
  l.seen = nullptr;
}

// Closes the chunks of ended threads whose lanes are unowned. False if there are none.
bool recorder::state::close_idle() noexcept {
  for (const auto& l : idle) {
    if (l->open == nullptr) continue;
    close(*l);
    l->limit.store(nullptr, std::memory_order_relaxed);
    l->at.store(nullptr, std::memory_order_relaxed);
  }
  return !full.empty();
}

// Makes an empty chunk by folding, as far as that helps. If too many blocks are alive, it tries again after ten times
// as long as it took: they may be gone by then. The lock is held.
void recorder::state::make_room() noexcept {
  if (!store.empty()) return;
  const auto from = std::chrono::steady_clock::now();
  if (over && from < look_again) return;
  over = false;
  while (store.empty() && !over && (!full.empty() || close_idle())) fold_oldest();
  if (!over) return;
  const auto now = std::chrono::steady_clock::now();
  look_again = now + 10 * (now - from);
}

// Makes some chunks empty, or at least smaller. The lock is held.
void recorder::state::fold_oldest() noexcept {
  const bool alone = lanes.size() == 1;
  const std::size_t n = alone ? 1 : std::min(full.size(), chunks_a_fold);
  if (!alone) note_owners(n);
  for (std::size_t i = 0; i < n; ++i) fold(full[i], alone ? nullptr : &among);
  full.erase(full.begin(), full.begin() + static_cast<std::ptrdiff_t>(n));
  if (residue.size() > store.size() / 2) merge_residue();
}

void recorder::state::fold(chunk* oldest, const owners* in) noexcept {
  forgotten += forget_pairs(*oldest, in);
  const auto last =
      std::find_if(residue.rbegin(), residue.rend(), [oldest](const chunk* c) { return c->thread == oldest->thread; });
  if (last != residue.rend() && (*last)->count + oldest->count <= store.chunk_records()) {
    std::copy(oldest->begin(), oldest->end(), (*last)->records.data() + (*last)->count);
    (*last)->count += oldest->count;
    oldest->count = 0;
  }
  if (oldest->count == 0) {
    store.give_back(oldest);
  } else {
    residue.push_back(oldest);
  }
}

// f(chunk, end, index in `full` or none, from, until) for all chunks, each thread's newest first. A chunk begins with a
// stamp, and ends where the thread's next one begins.
template <class Function>
void recorder::state::for_each_chunk(Function f) noexcept {
  constexpr std::uint64_t never = UINT64_MAX;
  const auto tell = [&](chunk* c, const record* end, std::size_t i) {
    const std::uint64_t from = c->records.front().address;
    f(c, end, i, from, std::exchange(lanes[c->thread]->next_from, from));
  };
  for (const auto& l : lanes) {
    l->next_from = never;
    if (l->open == nullptr) continue;
    const record* const end = l->at.load(std::memory_order_acquire);
    if (end != l->open->begin()) tell(l->open, end, SIZE_MAX);  // else its stamp is yet to come
  }
  for (std::size_t i = full.size(); i-- > 0;) tell(full[i], full[i]->end(), i);
  for (std::size_t i = residue.size(); i-- > 0;) tell(residue[i], residue[i]->end(), SIZE_MAX);
}

// Notes which threads use the addresses in the time of the first n full chunks. Earlier events of a block freed in one
// of these are in some chunk by now: the block was handed over.
void recorder::state::note_owners(std::size_t n) noexcept {
  std::uint64_t earliest = UINT64_MAX, latest = 0;
  for_each_chunk([&](chunk*, const record*, std::size_t i, std::uint64_t from, std::uint64_t until) {
    if (i >= n) return;
    earliest = std::min(earliest, from);
    latest = std::max(latest, until);
  });
  among.clear();
  for_each_chunk([&](const chunk* c, const record* end, std::size_t, std::uint64_t from, std::uint64_t until) {
    if (from <= latest && until >= earliest) among.note(c->begin(), end, c->thread);
  });
}

// Removes pairs across chunks and threads. Live blocks remain, and frees whose allocation is in a later chunk.
void recorder::state::merge_residue() noexcept try {
  const std::vector<stretch> parts = all_parts();
  const std::span old{parts.data(), residue.size()}, later = std::span{parts}.subspan(residue.size());
  // The chunks were read one after the other, so their ends are not one moment. Addresses of events since then are
  // busy; at all others the ends count as one moment.
  std::unordered_set<std::uint64_t> busy;
  for (std::size_t i = full.size(); i < later.size(); ++i) {
    const record* const now = lanes[later[i].thread]->at.load(std::memory_order_acquire);
    for (const record* r = later[i].end; r < now; ++r) busy.insert(r->address);
  }
  const std::vector<timed> kept = settle(old, later, busy, forgotten);
  for (chunk* c : residue) store.give_back(c);
  residue.clear();
  const timed* before = nullptr;
  for (const timed& t : kept) {
    chunk* c = residue.empty() ? nullptr : residue.back();
    const bool fresh = c == nullptr || c->thread != t.thread || c->count + 2 > store.chunk_records();
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

// Returns the contents of all chunks: the residue, then the full ones, then the open ones; each thread's in their
// order. Their last events had happened where the thread's next chunk begins, or as a tick saw it. The lock is held.
std::vector<stretch> recorder::state::all_parts() const {
  std::vector<stretch> parts;
  for (const auto* part : {&residue, &full}) {
    for (chunk* c : *part) parts.push_back({c->records.data(), c->records.data() + c->count, c->thread});
  }
  for (const auto& l : lanes) {
    l->next_from = UINT64_MAX;
    if (l->open == nullptr) continue;
    parts.push_back({l->open->records.data(), l->at.load(std::memory_order_acquire), l->number, l->seen, l->seen_at});
  }
  for (std::size_t i = parts.size(); i-- > 0;) {
    stretch& s = parts[i];
    if (s.begin == s.end) continue;  // its stamp is yet to come
    const std::uint64_t until = std::exchange(lanes[s.thread]->next_from, s.begin->address);
    if (until == UINT64_MAX) continue;
    s.seen = s.end;
    s.seen_at = until;
  }
  return parts;
}

// The lock is held.
std::vector<timed> recorder::state::kept() const {
  std::vector<timed> all;
  for (const stretch& s : all_parts()) decode_records(s, all);
  return all;
}

arranged recorder::state::everything() const {
  std::unique_lock held{lock};
  std::vector<timed> all = kept();
  held.unlock();  // the sort would keep threads from their next chunk
  return arrange(std::move(all));
}

// Every thread stamps its next event.
void recorder::state::tick() noexcept {
  const std::lock_guard held{lock};
  for (const auto& l : lanes) {
    l->limit.store(nullptr, std::memory_order_relaxed);
    const record* const at = l->at.load(std::memory_order_acquire);
    if (l->open == nullptr || at == l->seen) continue;
    l->seen = at;
    l->seen_at = now();
  }
}

void recorder::state::keep_ticking(std::uint64_t until_stop) {
  std::unique_lock held{control};
  while (!stopping.wait_for(held, tick_length, [&] { return stops >= until_stop; })) tick();
}

void recorder::state::before_fork() {
  listed.lock();
  for (state* s = first; s != nullptr; s = s->next) {
    s->control.lock();
    s->lock.lock();
  }
  viewed.lock();
}

// Starts the child without a ticking thread: waiting for its end, or for `stopping`, would never return.
void recorder::state::after_fork(bool in_child) {
  viewed.unlock();
  for (state* s = first; s != nullptr; s = s->next) {
    if (in_child) {
      ::new (&s->ticker) std::thread;
      ::new (&s->stopping) std::condition_variable;
    }
    s->lock.unlock();
    s->control.unlock();
    // Threads of the child may get the lanes of missing threads, by the same register. If such a thread had a fresh
    // chunk and not yet its limit, the old chunk's limit would let them write far behind it.
    if (in_child) s->tick();
  }
  listed.unlock();
}

recorder::recorder(bytes capacity)
    : state_{std::make_shared<state>(capacity)}, hook_{&recorder::hear, state_.get(), &state_->buffers} {}

recorder::~recorder() {
  stop();
  const std::lock_guard held{viewed};
  if (berth_recorder_lanes.recorder == state_.get()) berth_recorder_lanes = {};
}

void recorder::start(source_location where) {
  state& s = *state_;
  const std::lock_guard held{s.control};
  if (s.listening) return;
  if (s.begin == std::chrono::steady_clock::time_point{}) {
    s.store.touch();
    s.begin = std::chrono::steady_clock::now();
  }
  s.tick();  // stamps from before a pause are old
  expects(set_hook(&hook_) == nullptr, "recorder: another listens already", where);
  s.listening = true;
  {
    const std::lock_guard held_too{viewed};
    berth_recorder_lanes = {3, sizeof(record), &s, &s.lanes, &s.residue, &s.full, &s.dropped, &s.listening};
  }
  try {
    s.ticker = std::thread{[&s, next = s.stops + 1] { s.keep_ticking(next); }};
  } catch (const std::exception&) {  // no thread, or no memory for one: stamps once in 256 events then
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
    ++s.stops;
    ticker = std::move(s.ticker);
  }
  s.stopping.notify_all();
  if (ticker.joinable()) ticker.join();
}

// Handles events that emit() could not write: the thread is new or not in its directory place, or a stamp or chunk is
// due.
void recorder::hear(void* context, const memory_event& event) noexcept {
  if (event.kind != memory_event_kind::pool_allocate && event.kind != memory_event_kind::pool_free) return;
  state& s = *static_cast<state*>(context);
  auto* l = static_cast<lane*>(s.buffers.find());
  if (l == nullptr) l = s.attach();
  // A tick may come between the two; then the next stamp is written at once.
  while (l != nullptr) {
    if (detail::keep_event(*l, event)) return;
    if (!s.prepare(*l)) break;
  }
  s.dropped.fetch_add(1, std::memory_order_relaxed);
}

snapshot recorder::take() const {
  snapshot out;
  std::vector<timed> kept;
  {
    // Reads one moment: a block freed after the records were read, and before a stop, must not look like a leak.
    const std::lock_guard held{state_->control};
    const std::lock_guard held_too{state_->lock};
    kept = state_->kept();
    out.ended = !state_->listening;
    out.forgotten = state_->forgotten;
    out.dropped = dropped();
  }
  const arranged all = arrange(std::move(kept));
  out.forgotten += all.left_out;
  std::map<std::pair<const char*, std::uint32_t>, std::uint32_t> sites;
  out.events.reserve(all.events.size());
  for (const timed& t : all.events) {
    std::uint32_t site = 0;
    if (t.what.file != nullptr && *t.what.file != '\0') {  // the line may be 0: not everyone who asks has lines
      const auto next = static_cast<std::uint32_t>(sites.size() + 1);
      const auto [at, fresh] = sites.try_emplace({t.what.file, t.what.line}, next);
      if (fresh) out.sites.push_back({t.what.file, t.what.line});
      site = at->second;
    }
    out.events.push_back({.allocate = t.what.kind() == record::allocate,
                          .stream = t.what.stream,
                          .thread = t.thread,
                          .site = site,
                          .address = t.what.address,
                          .size = t.what.size(),
                          .t_us = static_cast<double>(t.from) * 1e-3});
  }
  return out;
}

log recorder::to_log() const {
  return trace::to_log(take());
}

std::vector<leak> recorder::leaks() const {
  const arranged all = state_->everything();
  std::vector<leak> out;
  for (const timed* t : alive(all)) {
    const record& r = t->what;
    out.push_back({r.address, r.size(), r.stream, source_location::current(r.file, r.line)});
  }
  return out;
}

std::string recorder::leak_report() const {
  std::string out;
  bytes sum = 0;
  const std::vector<leak> all = leaks();
  for (const leak& l : all) {
    detail::print(out, "%" PRIu64 " bytes at 0x%" PRIx64 ", asked for at ", l.size, l.address);
    if (const char* const file = l.site.file_name(); file != nullptr && *file != '\0') {
      out += file;  // of any length
      if (l.site.line() != 0) out += ':' + std::to_string(l.site.line());
    } else {
      out += "unknown place";
    }
    out += '\n';
    sum += l.size;
  }
  detail::print(out, "%zu leaks, %" PRIu64 " bytes\n", all.size(), sum);
  if (dropped() != 0) detail::print(out, "%" PRIu64 " records were dropped: the list may be wrong\n", dropped());
  return out;
}

std::uint64_t recorder::dropped() const noexcept {
  return state_->dropped.load(std::memory_order_relaxed);
}

}  // namespace berth::trace

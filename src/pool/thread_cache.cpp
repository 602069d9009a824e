// Which cache is this thread's: the bookkeeping of threads and pools that come and go in any order.
#include "pool/thread_cache.hpp"

#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "pool/state.hpp"

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__SANITIZE_THREAD__)
#define BERTH_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BERTH_THREAD_SANITIZER 1
#endif
#endif

namespace berth {
namespace detail {
namespace {

bool have_membarrier() noexcept {
#if defined(__linux__) && !defined(BERTH_THREAD_SANITIZER)  // which does not know the call
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#else
  return false;
#endif
}

}  // namespace

const bool thread_cache::cheap_fences = have_membarrier();

void thread_cache::fence() noexcept {
#if defined(__linux__) && !defined(BERTH_THREAD_SANITIZER)
  if (cheap_fences) {
    const bool done = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
    expects(done, "pool: membarrier failed after it was registered");
  }
#endif
}

void thread_cache::wait_until_left() const noexcept {
  while (inside_.load(std::memory_order_seq_cst)) std::this_thread::yield();
}

void thread_cache::seize() noexcept {
  seized_.store(true, std::memory_order_seq_cst);
  fence();
  wait_until_left();
}

}  // namespace detail

namespace {

// The last caches that this thread used, by pool; ids are never given twice, so that an old entry never matches.
struct slot {
  std::uint64_t pool = 0;
  detail::thread_cache* cache = nullptr;
};
constexpr std::size_t slot_count = 8;
constinit thread_local slot slots[slot_count];
constinit thread_local bool thread_ended = false;

}  // namespace

namespace detail {

// All caches of this thread. At its end they are emptied into those pools that still exist.
class attachments {
 public:
  struct attachment {
    std::uint64_t pool;
    std::weak_ptr<void> owner;
    thread_cache* cache;
    void (*detach)(void* owner, thread_cache* cache) noexcept;
  };

  ~attachments() {
    thread_ended = true;
    for (slot& s : slots) s = {};
    for (const attachment& a : all_) {
      if (const auto owner = a.owner.lock()) a.detach(owner.get(), a.cache);
    }
  }

  thread_cache* find(std::uint64_t pool) const noexcept {
    for (const attachment& a : all_) {
      if (a.pool == pool) return a.cache;
    }
    return nullptr;
  }
  void make_room() {
    std::erase_if(all_, [](const attachment& a) { return a.owner.expired(); });
    all_.reserve(all_.size() + 1);
  }
  void add(attachment a) noexcept { all_.push_back(std::move(a)); }

 private:
  std::vector<attachment> all_;
};

}  // namespace detail

detail::thread_cache* pool::state::cache() noexcept {
  const slot& s = slots[id % slot_count];
  if (s.pool == id) [[likely]]
    return s.cache;
  return attach();
}

detail::thread_cache* pool::state::attach() noexcept {
  if (thread_ended) return nullptr;
  thread_local detail::attachments mine;
  detail::thread_cache* c = mine.find(id);
  if (c == nullptr) {
    try {
      mine.make_room();
      const std::lock_guard held{lock};
      caches.reserve(caches.size() + 1);
      spare_caches.reserve(caches.size() + 1 + spare_caches.size());
      if (spare_caches.empty()) {
        caches.push_back(std::make_unique<detail::thread_cache>());
      } else {
        caches.push_back(std::move(spare_caches.back()));
        spare_caches.pop_back();
      }
      c = caches.back().get();
      // Alone, a thread counts the exact peak by itself; several publish what they count now and then.
      const auto batch = caches.size() == 1 ? std::numeric_limits<std::int64_t>::max() : publish_batch;
      for (const auto& other : caches) {
        other->seize();
        publish(*other);
        other->publish_at = batch;
        other->give_back();
      }
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    mine.add({id, weak_from_this(), c,
              [](void* owner, detail::thread_cache* gone) noexcept { static_cast<state*>(owner)->detach(gone); }});
  }
  slots[id % slot_count] = {id, c};
  return c;
}

void pool::state::detach(detail::thread_cache* c) noexcept {
  const std::lock_guard held{lock};
  if (closed) return;
  for (auto& one : caches) {
    if (one.get() != c) continue;
    publish(*c);  // nobody else is here: the owner is at its end, and others need the lock
    while (detail::extent* chain = c->evict_one_bin()) push_pending(chain);
    ended.allocations += c->counters.allocations;
    ended.frees += c->counters.frees;
    ended.hits += c->counters.hits;
    c->counters = {};
    spare_caches.push_back(std::move(one));  // there is room since it was attached
    one = std::move(caches.back());
    caches.pop_back();
    return;
  }
}

}  // namespace berth

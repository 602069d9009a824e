#include "pool/siblings.hpp"

#include <pthread.h>

#include <mutex>
#include <utility>

#include "pool/moment.hpp"
#include "pool/state.hpp"

namespace berth {
namespace detail {
namespace {

struct listed_pool {
  pool_source source;
  std::weak_ptr<void> state;
};

struct pool_list {
  std::mutex mutex;
  std::vector<listed_pool> all;
};

pool_list& the_list() {
  static pool_list* const list = [] {
    // A thread that adds a pool while another one forks must not leave the child's list locked.
    pthread_atfork([] { the_list().mutex.lock(); }, [] { the_list().mutex.unlock(); },
                   [] { the_list().mutex.unlock(); });
    return new pool_list;  // never destroyed: pools may outlive static objects
  }();
  return *list;
}

template <class Matches>
std::vector<std::shared_ptr<void>> matching(const void* self, Matches matches) {
  std::vector<std::shared_ptr<void>> found;
  pool_list& list = the_list();
  const std::lock_guard held{list.mutex};
  for (const listed_pool& p : list.all) {
    if (!matches(p.source)) continue;
    auto state = p.state.lock();
    if (state != nullptr && state.get() != self) found.push_back(std::move(state));
  }
  return found;
}

}  // namespace

void list_pool(const pool_source& source, std::weak_ptr<void> state) {
  pool_list& list = the_list();
  const std::lock_guard held{list.mutex};
  std::erase_if(list.all, [](const listed_pool& p) { return p.state.expired(); });
  list.all.push_back({source, std::move(state)});
}

std::vector<std::shared_ptr<void>> pools_under(const shared_limit& limit, const void* self) {
  return matching(self, [&](const pool_source& s) { return s.limit == &limit; });
}

std::vector<std::shared_ptr<void>> pools_of(const pool_source& source, const void* self) {
  return matching(self, [&](const pool_source& s) { return s.device == source.device && s.kind == source.kind; });
}

}  // namespace detail

// Does empty_quarantine() for another pool, while this one may end.
bool pool::state::empty_siblings_quarantine(lock_held& held) noexcept {
  if (watched.sample == 0) return false;
  const unlocked outside{held};
  const std::lock_guard stays{watched.changes};
  return watched.guard != nullptr && watched.guard->give_way();
}

// Releases memory that this pool does not need now, for another pool.
bytes pool::state::give_to_sibling(bytes wanted, detail::sibling& told) noexcept {
  std::unique_lock held{lock};
  told.id = id;
  bytes given = 0;
  bool emptied = false;
  for (detail::moment wait{std::chrono::milliseconds{10}}; !closed;) {
    drain_in_steps(held);
    flush();
    look_round(held);
    given += trim(memory.reserved() - std::min(wanted - given, memory.reserved()));
    if (given >= wanted) break;
    if (!std::exchange(emptied, true) && empty_siblings_quarantine(held)) continue;
    if (!streams.others_hold_back(nullptr) || wait.over()) break;
    const unlocked outside{held};
    wait.pause();
  }
  told.reserved = memory.reserved();
  told.free = space.free_bytes();
  tell_watermark(held);
  return given;
}

bytes pool::state::ask_siblings(detail::request& r, lock_held& held) {
  const auto need = chunk_for(r);
  if (!need || *need > memory.own_headroom()) return 0;  // others' memory does not help against this pool's own limit
  const bool limited = options.shared != nullptr && options.shared->left() < *need;
  const bytes wanted = limited ? *need - options.shared->left() : *need;
  bytes given = 0;
  {
    const unlocked outside{held};
    const auto others = limited ? detail::pools_under(*options.shared, this)
                                : detail::pools_of({&dev.backend(), options.shared.get(), options.kind}, this);
    r.siblings.clear();
    for (const auto& other : others) {
      detail::sibling& told = r.siblings.emplace_back();
      given += static_cast<state*>(other.get())->give_to_sibling(wanted - std::min(given, wanted), told);
      if (given >= wanted) break;
    }
  }
  make_ready();
  return given;
}

}  // namespace berth

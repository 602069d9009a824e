// Finds a thread's cache: the bookkeeping of threads and pools that come and go in any order.
#include "pool/thread_cache.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "core/asymmetric_fence.hpp"
#include "pool/state.hpp"

namespace berth {
namespace detail {
thread_cache::gate thread_cache::idle_gate() noexcept {
  return has_asymmetric_fence() ? gate::open : gate::dear;
}

void thread_cache::fence() noexcept {
  asymmetric_fence();
}

void thread_cache::wait_until_left() const noexcept {
  while (inside_.load(std::memory_order_seq_cst)) std::this_thread::yield();
}

bool thread_cache::enter_with_fence() noexcept {
  inside_.store(true, std::memory_order_seq_cst);
  if (gate_.load(std::memory_order_seq_cst) != gate::seized) return true;
  leave();
  return false;
}

extent* thread_cache::empty(bin& b) noexcept {
  extent* all = b.rest;
  if (b.top != nullptr) {
    b.top->next = b.rest;
    all = b.top;
  }
  b.top = b.rest = nullptr;
  for (const extent* e = all; e != nullptr; e = e->next) {
    expects(belongs(b, *e), "pool: double free, by two threads at once");
    room_ += b.charge;
    ++counters.passed;
  }
  return all;
}

extent* thread_cache::evict_bin(std::size_t at) noexcept {
  bin& b = bins_[at];
  extent* const all = empty(b);
  if (all != nullptr) history_.note_evicted(b.size, b.stream);
  taken_[at / 64] &= ~(std::uint64_t{1} << (at % 64));
  b = {};
  return all;
}

extent* thread_cache::evict_one_bin() noexcept {
  for (std::size_t i = 0; i <= taken_.size();) {
    const std::uint64_t ahead = taken_[hand_ / 64 % taken_.size()] >> (hand_ % 64);
    if (ahead == 0) {
      hand_ = (hand_ / 64 + 1) * 64;
      ++i;
      continue;
    }
    hand_ += static_cast<unsigned>(std::countr_zero(ahead));
    if (extent* const all = evict_bin(hand_ % bin_count)) return all;
  }
  return nullptr;
}

extent* thread_cache::evict(std::uint32_t stream, bytes least) noexcept {
  extent* gone = nullptr;
  for (std::size_t word = 0; word < taken_.size(); ++word) {
    for (std::uint64_t left = taken_[word]; left != 0; left &= left - 1) {
      const std::size_t at = word * 64 + static_cast<std::size_t>(std::countr_zero(left));
      if (bins_[at].stream != stream || bins_[at].size < least) continue;
      for (extent* all = evict_bin(at); all != nullptr;) {
        extent* const rest = all->next;
        all->next = gone;
        gone = all;
        all = rest;
      }
    }
  }
  return gone;
}

// Returns an address that no extent has.
extent* thread_cache::closed_inbox() noexcept {
  alignas(extent) static constinit std::byte closed{};
  return reinterpret_cast<extent*>(&closed);
}

extent* thread_cache::close_inbox() noexcept {
  extent* const chain = inbox_.exchange(closed_inbox(), std::memory_order_acquire);
  return chain != closed_inbox() ? chain : nullptr;
}

extent* thread_cache::send(batch& b) noexcept {
  if (b.count == 0) return nullptr;
  extent* head = b.home->inbox_.load(std::memory_order_relaxed);
  do {
    b.last->next = head != closed_inbox() ? head : nullptr;
  } while (head != closed_inbox() &&
           !b.home->inbox_.compare_exchange_weak(head, b.first, std::memory_order_release, std::memory_order_relaxed));
  extent* const refused = head == closed_inbox() ? b.first : nullptr;
  b = {};
  return refused;
}

extent* thread_cache::send_home(thread_cache& home, extent* e) noexcept {
  batch& b = outgoing_[home.number_ % outgoing_.size()];
  extent* refused = b.home != &home ? send(b) : nullptr;
  e->next = b.first;
  if (b.count == 0) b = {.home = &home, .last = e};
  b.first = e;
  b.size += e->size;
  ++b.count;
  ++counters.passed;
  if (b.count < batch_blocks && b.size < batch_bytes) return refused;
  if (refused != nullptr) return refused;  // the next block sends this batch
  return send(b);
}

extent* thread_cache::take_outgoing() noexcept {
  extent* all = nullptr;
  for (batch& b : outgoing_) {
    if (b.count == 0) continue;
    b.last->next = all;
    all = b.first;
    b = {};
  }
  return all;
}

thread_cache::bin* thread_cache::find(bytes size, std::uint32_t stream) noexcept {
  for (std::size_t i = 0; i < ways; ++i) {
    bin& b = bins_[(home(size, stream) + i) % bin_count];
    if (b.size == size && b.stream == stream) return &b;
  }
  return nullptr;
}

thread_cache::bin* thread_cache::make_bin(bytes size, std::uint32_t stream, extent*& gone) noexcept {
  gone = nullptr;
  if (size > (all_room_ >> block_bits << 6) / 2 || size >= bin_key_limit) return nullptr;
  bin* place = nullptr;
  for (std::size_t i = ways; i-- > 0;) {
    bin& b = bins_[(home(size, stream) + i) % bin_count];
    if (b.top == nullptr && b.rest == nullptr) place = &b;
  }
  if (place == nullptr) place = &bins_[(home(size, stream) + turn_++ % ways) % bin_count];
  gone = empty(*place);
  const auto at = static_cast<std::size_t>(place - bins_.data());
  taken_[at / 64] |= std::uint64_t{1} << (at % 64);
  *place = {.key = make_bin_key(size, stream),
            .size = size,
            .charge = charge_of(size),
            .stream = stream,
            .mark = make_mark(extent_state::cached, static_cast<unsigned>(at), number_)};
  return place;
}

}  // namespace detail

namespace {

constinit thread_local bool thread_ended = false;

constexpr std::uint32_t most_cached = 4096;  // blocks in a thread's cache, so that emptying one is fast

}  // namespace

namespace detail {

// All caches of this thread. When the thread ends they are emptied into those pools that still exist.
class attachments {
 public:
  struct attachment {
    std::weak_ptr<void> owner;
    thread_cache* cache;
    void (*detach)(void* owner, thread_cache* cache) noexcept;
  };

  ~attachments() {
    thread_ended = true;
    for (const attachment& a : all_) {
      if (const auto owner = a.owner.lock()) a.detach(owner.get(), a.cache);
    }
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

detail::thread_cache* pool::state::attach(std::unique_lock<std::mutex> held) noexcept {
  if (thread_ended || !held) return nullptr;
  thread_local detail::attachments mine;
  try {
    mine.make_room();
    threads.caches.reserve(threads.caches.size() + 1);
    threads.spare.reserve(threads.caches.size() + 1 + threads.spare.size());
    if (threads.spare.empty()) {
      if (threads.last_number == std::numeric_limits<std::uint16_t>::max()) return nullptr;
      threads.spare.push_back(
          std::make_unique<detail::thread_cache>(options.cache_bytes, most_cached, ++threads.last_number));
    }
    detail::thread_cache* const c = threads.spare.back().get();
    if (!threads.directory.add(c)) return nullptr;
    threads.caches.push_back(std::move(threads.spare.back()));
    threads.spare.pop_back();
    // A single thread counts the exact peak by itself; several publish their counts now and then.
    c->publish_at = threads.caches.size() == 1 ? std::numeric_limits<std::int64_t>::max() : publish_batch;
    c->grant(until_first_sampled());
    publish(*c);
    c->open_inbox();
    if (c->number() <= threads.homes.size()) threads.homes[c->number() - 1u].store(c, std::memory_order_release);
    if (threads.caches.size() == 2) publish_all();
    mine.add({weak_from_this(), c,
              [](void* owner, detail::thread_cache* gone) noexcept { static_cast<state*>(owner)->detach(gone); }});
    return c;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// Called when a second thread comes: from now on each publishes its counts now and then.
void pool::state::publish_all() noexcept {
  const standstill nobody_moves{*this};
  for (const auto& c : threads.caches) {
    c->publish_at = std::min(c->publish_at, publish_batch);
    publish(*c);
  }
}

void pool::state::detach(detail::thread_cache* c) noexcept {
  const std::lock_guard held{lock};
  threads.directory.remove(c);
  if (closed) return;
  for (auto& one : threads.caches) {
    if (one.get() != c) continue;
    publish(*c);  // no other thread is here: the owner is ending, and others need the lock
    pending.push(c->close_inbox());
    pending.push(c->take_outgoing());
    while (detail::extent* chain = c->evict_one_bin()) pending.push(chain);
    c->add_to(counts.ended);
    c->forget_counts();
    threads.spare.push_back(std::move(one));  // there is room since it was attached
    one = std::move(threads.caches.back());
    threads.caches.pop_back();
    return;
  }
}

}  // namespace berth

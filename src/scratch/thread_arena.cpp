// The threads' arenas: how a thread gets its own, and what happens to it at the thread's end.
#include <pthread.h>

#include <atomic>

#include "berth/scratch/scratch_arena.hpp"
#include "scratch/watch.hpp"

namespace berth {

namespace detail {

thread_local constinit thread_scratch_arena thread_arena;

}  // namespace detail

namespace {

// Frees the thread's chunks when the thread ends. The arena itself stays trivially destructible, because destructors of
// other thread_local objects may use scratches after it.
#if defined(__GLIBC__)
// The function that registers destructors of thread_local objects, without the C++ runtime in between.
extern "C" int __cxa_thread_atexit_impl(void (*function)(void*), void* object, void* library) noexcept;
extern "C" void* __dso_handle;

// A thread whose first use of scratch is a destructor of one of its keys has run the destructors of its thread_local
// objects already. A key of our own gets another round then. glibc keeps 32 bytes of the registration that came too
// late. The chunk stays if the program has used up all keys.
constinit pthread_once_t key_once = PTHREAD_ONCE_INIT;
constinit pthread_key_t key{};
constinit std::atomic<bool> has_key{false};

void make_key() noexcept {
  has_key = pthread_key_create(&key, [](void*) { detail::thread_arena.end(); }) == 0;
}

// Deletes the key when the library is unloaded. An object with a destructor would do it at the program's end too, when
// threads may still run.
[[gnu::destructor]] void give_key_back() noexcept {
  if (has_key.exchange(false)) pthread_key_delete(key);
}

void at_thread_end() noexcept {
  pthread_once(&key_once, make_key);
  if (has_key) pthread_setspecific(key, &detail::thread_arena);
  __cxa_thread_atexit_impl([](void*) { detail::thread_arena.end(); }, nullptr, &__dso_handle);
}
#else
struct thread_end {
  ~thread_end() { detail::thread_arena.end(); }
};

void at_thread_end() noexcept {
  thread_local const thread_end at_exit;
  static_cast<void>(at_exit);
}
#endif

}  // namespace

explicit_scratch_arena::~explicit_scratch_arena() {
  expects(statistics().in_use == 0, "scratch: an arena is destroyed while a block of it lives", made_);
  trim(made_);
}

namespace detail {

void thread_scratch_arena::adopt() noexcept {
  at_thread_end();
  owner_ = thread_token();
}

// Blocks may still live: scratches in thread_local objects that end later, or in frames that exit() leaves behind.
// Their chunks stay; the last release frees them.
void thread_scratch_arena::end() noexcept {
  if (ending_) return;
  ending_ = true;
  report_forgotten(this);
  trim(source_location::current());
}

}  // namespace detail

}  // namespace berth

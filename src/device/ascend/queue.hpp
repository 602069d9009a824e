// Streams and events over AscendCL.
#pragma once

#include <pthread.h>

#include <atomic>
#include <deque>
#include <mutex>

#include "device/ascend/library.hpp"
#include "device/ascend/memory.hpp"
#include "device/backend.hpp"

namespace berth::detail::ascend {

// Runs the host functions of a stream if the library has no aclrtLaunchHostFunc. Such a library passes them to the
// thread that has subscribed to the stream and polls for them. Each stream has a thread, so a slow function delays no
// other stream.
class reporter {
 public:
  reporter(const functions& acl, context c) noexcept : acl_{acl}, context_{c} {}
  reporter(const reporter&) = delete;
  reporter& operator=(const reporter&) = delete;
  ~reporter() { unsubscribe(); }

  // The context is current, here and at the destructor.
  [[nodiscard]] result<void> subscribe(stream_handle s);
  void unsubscribe() noexcept;

 private:
  void run() noexcept;

  const functions& acl_;
  context context_;
  stream_handle stream_ = nullptr;
  pthread_t thread_{};  // not std::thread, which throws if no thread is available
  bool running_ = false;
  enum class phase { starting, subscribed, ending };
  std::atomic<phase> phase_{phase::starting};
};

// The common state of a device's queues and events. Lives as long as the device.
struct shared {
  const functions& acl;
  context current;
  const host_memory& memory;
};

// AscendCL's newer events (ExWithFlag) may be recorded again while a stream still waits for the last record. For the
// older ones this is unknown, so each record takes a new one.
class queue_event final : public backend_event {
 public:
  static result<std::unique_ptr<backend_event>> create(const shared& device);
  ~queue_event() override;
  result<bool> query() override;
  result<void> synchronize() override;
  [[nodiscard]] result<void> record(stream_handle s);
  [[nodiscard]] event_handle handle() const noexcept { return event_; }

 private:
  explicit queue_event(const shared& device) noexcept : device_{device} {}
  const shared& device_;
  event_handle event_ = nullptr;
};

class queue final : public backend_queue {
 public:
  static result<std::unique_ptr<backend_queue>> create(const shared& device);
  // Host functions need aclrtLaunchHostFunc there: a foreign stream may have a subscriber of its own.
  static result<std::unique_ptr<backend_queue>> wrap(const shared& device, stream_handle foreign);
  ~queue() override;

  // Blocks the caller if one end is pageable, or not aligned as the rules require for copies. AscendCL of CANN 8.0
  // takes no such copy behind other work. Work that another thread enqueues before it returns may run beside it. A lock
  // over both would be held while the queue's own work is waited for, which may wait for that thread.
  result<void> copy(void* to, const void* from, bytes size) override;
  result<void> fill(void* to, std::byte value, bytes size) override;
  result<void> call(void (*function)(void*), void* context) override;
  result<void> record(backend_event& e, std::uint64_t epoch) override;
  result<void> wait(backend_event& e) override;
  result<void> synchronize() override;
  result<bool> query() override;
  [[nodiscard]] void* native() const noexcept override { return stream_; }

 private:
  // Work that AscendCL does not do in stream order: copies from host to host, and fills of host memory.
  struct host_work {
    queue* owner;
    void* to;
    const void* from;  // null: a fill
    bytes size;
    int value;
    host_work* next_free;
  };
  explicit queue(const shared& device) noexcept : device_{device}, reporter_{device.acl, device.current} {}
  result<void> launch(void (*function)(void*), void* context) noexcept;
  result<void> on_host(const host_work& work);
  // Waits for the stream. The copy is complete on return.
  [[nodiscard]] result<void> copy_now(const located& to, const located& from, bytes size, copy_kind kind) noexcept;
  static void run(void* work) noexcept;

  enum class state { unopened, ours, foreign };
  const shared& device_;
  stream_handle stream_ = nullptr;
  state state_ = state::unopened;
  reporter reporter_;
  std::mutex mutex_;            // guards the fields below
  std::deque<host_work> made_;  // one for each operation ever in flight at once
  host_work* free_ = nullptr;
};

}  // namespace berth::detail::ascend

// A device of the caller's own functions (berth/backend.h). The only backend whose answers are not trusted: each is
// checked before the common code records it.
#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "berth/backend.h"
#include "device/backend.hpp"
#include "device/host/queue.hpp"

namespace berth::detail {
namespace {

constexpr int threw = INT_MIN;

// Calls a function of the caller's, which may throw.
template <class F>
int call_out(F f) noexcept {
#if defined(__cpp_exceptions)
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return BERTH_NO_MEMORY;
  } catch (...) {
    return threw;
  }
#else
  return f();
#endif
}

error own_failure(int status, const char* what, std::uint64_t size = 0) noexcept {
  switch (status) {
    case BERTH_NO_MEMORY: return {errc::out_of_memory, what, size};
    case BERTH_UNSUPPORTED: return {errc::unsupported, what};
    case threw: return {errc::device_failed, "own device: one of its functions threw an exception"};
    default: return {errc::device_failed, what, static_cast<std::uint64_t>(std::abs(std::int64_t{status}))};
  }
}

template <class F>
result<void> checked_call(const char* what, F f) noexcept {
  const int status = call_out(f);
  if (status != BERTH_OK) return own_failure(status, what);
  return {};
}

template <class F>
void void_call(F f) noexcept {
  (void)call_out([&] {
    f();
    return 0;
  });
}

class own_event final : public backend_event {
 public:
  own_event(const berth_backend& own, void* handle) noexcept : own_{own}, handle_{handle} {}
  ~own_event() override {
    void_call([&] { own_.destroy_event(own_.user, handle_); });
  }
  [[nodiscard]] void* handle() const noexcept { return handle_; }

  result<bool> query() override {
    int done = 0;
    auto ok = checked_call("own device: query_event", [&] { return own_.query_event(own_.user, handle_, &done); });
    if (!ok) return ok.error();
    return done != 0;
  }
  result<void> synchronize() override {
    return checked_call("own device: synchronize_event", [&] { return own_.synchronize_event(own_.user, handle_); });
  }

 private:
  const berth_backend& own_;
  void* handle_;
};

class own_queue final : public backend_queue {
 public:
  own_queue(const berth_backend& own, void* handle, bool foreign) noexcept
      : own_{own}, handle_{handle}, foreign_{foreign} {}
  ~own_queue() override {
    (void)synchronize();
    if (!foreign_) void_call([&] { own_.destroy_queue(own_.user, handle_); });
  }

  result<void> copy(void* to, const void* from, bytes size) override {
    if (own_.copy == nullptr) return error{errc::unsupported, "own device: its queues have no copy"};
    return checked_call("own device: copy", [&] { return own_.copy(own_.user, handle_, to, from, size); });
  }
  result<void> fill(void* to, std::byte value, bytes size) override {
    if (own_.fill == nullptr) return error{errc::unsupported, "own device: its queues have no fill"};
    const auto byte = std::to_integer<unsigned char>(value);
    return checked_call("own device: fill", [&] { return own_.fill(own_.user, handle_, to, byte, size); });
  }
  result<void> call(void (*function)(void*), void* context) override {
    if (own_.call == nullptr) return error{errc::unsupported, "own device: its queues call no host functions"};
    return checked_call("own device: call", [&] { return own_.call(own_.user, handle_, function, context); });
  }
  result<void> record(backend_event& e, std::uint64_t) override {
    void* const event = static_cast<own_event&>(e).handle();
    return checked_call("own device: record", [&] { return own_.record(own_.user, handle_, event); });
  }
  result<void> wait(backend_event& e) override {
    void* const event = static_cast<own_event&>(e).handle();
    return checked_call("own device: wait", [&] { return own_.wait(own_.user, handle_, event); });
  }
  result<void> synchronize() override {
    return checked_call("own device: synchronize_queue", [&] { return own_.synchronize_queue(own_.user, handle_); });
  }
  result<bool> query() override {
    int done = 0;
    auto ok = checked_call("own device: query_queue", [&] { return own_.query_queue(own_.user, handle_, &done); });
    if (!ok) return ok.error();
    return done != 0;
  }
  [[nodiscard]] void* native() const noexcept override { return handle_; }

 private:
  const berth_backend& own_;
  void* handle_;
  const bool foreign_;
};

// A stream of a device without queues: a thread that copies between addresses that the CPU reaches.
class reaching_queue final : public backend_queue {
 public:
  reaching_queue(device_backend& of, std::unique_ptr<backend_queue> worker) noexcept
      : of_{of}, worker_{std::move(worker)} {}

  result<void> copy(void* to, const void* from, bytes size) override {
    void* const target = reach(to);
    const void* const source = reach(const_cast<void*>(from));
    if (target == nullptr || source == nullptr) return out_of_reach;
    return worker_->copy(target, source, size);
  }
  result<void> fill(void* to, std::byte value, bytes size) override {
    void* const target = reach(to);
    if (target == nullptr) return out_of_reach;
    return worker_->fill(target, value, size);
  }
  result<void> call(void (*function)(void*), void* context) override { return worker_->call(function, context); }
  result<void> record(backend_event& e, std::uint64_t epoch) override { return worker_->record(e, epoch); }
  result<void> wait(backend_event& e) override { return worker_->wait(e); }
  result<void> synchronize() override { return worker_->synchronize(); }
  result<bool> query() override { return worker_->query(); }
  [[nodiscard]] bool idle() const noexcept override { return worker_->idle(); }
  [[nodiscard]] void* native() const noexcept override { return worker_->native(); }

 private:
  static constexpr error out_of_reach{errc::unsupported,
                                      "own device: no queues, and the CPU does not reach the memory"};
  [[nodiscard]] void* reach(void* address) const noexcept {
    const auto found = of_.book.find(address);
    return found ? of_.host_address(address, found->what.kind) : address;
  }

  device_backend& of_;
  std::unique_ptr<backend_queue> worker_;
};

class own_device final : public device_backend {
 public:
  explicit own_device(const berth_backend& own) : own_{own} {
    properties_.name = own.name;
    properties_.description = own.description != nullptr ? own.description : own.name;
    properties_.rules = {.name = "own",
                         .start_alignment = own.alignment != 0 ? own.alignment : 64,
                         .source = "berth_backend::alignment"};
    properties_.pinned_rules = properties_.rules;
    properties_.total_memory = own.total_memory;
    properties_.host_accessible = own.host_accessible != 0;
    properties_.virtual_memory = properties_.contiguous_physical = own.granule != 0;
    properties_.granule = own.granule;
    if (own.granule == 0) return;
    constexpr std::uint64_t most = SIZE_MAX;
    properties_.max_mappings =
        static_cast<std::size_t>(own.max_mappings != 0 ? std::min(own.max_mappings, most) : most);
  }
  ~own_device() override {
    if (own_.closed != nullptr && works_here()) void_call([&] { own_.closed(own_.user); });
  }

  result<void*> allocate(bytes size, memory_kind kind) override {
    void* block = nullptr;
    const auto of = static_cast<std::int32_t>(kind);
    const int status = call_out([&] { return own_.allocate(own_.user, size, of, &block); });
    if (status != BERTH_OK) return own_failure(status, "own device: allocate", size);
    if (const char* wrong = fault_of(block, size)) {
      return error{errc::device_failed, wrong, size};
    }
    if (is_aligned(number(block), properties_.rules.start_alignment)) return block;
    free(block, size, kind);
    return error{errc::device_failed, "own device: allocate gave a block that breaks its own alignment", size};
  }
  void free(void* block, bytes size, memory_kind kind) noexcept override {
    void_call([&] { own_.free(own_.user, block, size, static_cast<std::int32_t>(kind)); });
  }
  void* host_address(void* address, memory_kind kind) noexcept override {
    if (own_.host_address == nullptr) return device_backend::host_address(address, kind);
    void* reached = nullptr;
    void_call([&] { reached = own_.host_address(own_.user, address); });
    return reached;
  }
  bool reaches_foreign_memory() const noexcept override { return own_.create_queue == nullptr; }

  result<void*> reserve(bytes size) override {
    void* range = nullptr;
    const int status = call_out([&] { return own_.reserve(own_.user, size, &range); });
    if (status != BERTH_OK) return own_failure(status, "own device: reserve", size);
    if (const char* wrong = fault_of(range, size)) return error{errc::device_failed, wrong, size};
    if (is_aligned(number(range), properties_.granule)) return range;
    release(range, size);
    return error{errc::device_failed, "own device: reserve gave a range that starts at no granule", size};
  }
  void release(void* range, bytes size) noexcept override {
    void_call([&] { own_.release(own_.user, range, size); });
  }
  result<std::uint64_t> create_physical(bytes size, physical_form form) override {
    std::uint64_t handle = 0;
    const int whole = form == physical_form::whole ? 1 : 0;
    const int status = call_out([&] { return own_.create_physical(own_.user, size, whole, &handle); });
    if (status != BERTH_OK) return own_failure(status, "own device: create_physical", size);
    return fresh(handle);
  }
  void destroy_physical(std::uint64_t handle, bytes size) noexcept override {
    void_call([&] { own_.destroy_physical(own_.user, handle, size); });
  }
  result<std::uint64_t> split_physical(std::uint64_t handle, bytes size, bytes at) override {
    if (own_.split == nullptr) return device_backend::split_physical(handle, size, at);
    std::uint64_t rest = 0;
    const int status = call_out([&] { return own_.split(own_.user, handle, size, at, &rest); });
    if (status != BERTH_OK) return own_failure(status, "own device: split", size);
    return fresh(rest);
  }
  result<void> map(void* address, bytes size, std::uint64_t handle, bytes offset) override {
    const int status = call_out([&] { return own_.map(own_.user, address, size, handle, offset); });
    if (status != BERTH_OK) return own_failure(status, "own device: map", size);
    return {};
  }
  result<void> unmap(void* address, bytes size) override {
    return checked_call("own device: unmap", [&] { return own_.unmap(own_.user, address, size); });
  }

  result<std::unique_ptr<backend_queue>> create_queue(std::shared_ptr<stream_clock> clock) override {
    if (own_.create_queue == nullptr) return reaching(host_queue::create(std::move(clock)));
    void* handle = nullptr;
    auto ok = checked_call("own device: create_queue", [&] { return own_.create_queue(own_.user, &handle); });
    if (!ok) return ok.error();
    return make_queue(handle, false);
  }
  result<std::unique_ptr<backend_queue>> wrap_queue(void* native, std::shared_ptr<stream_clock> clock) override {
    if (own_.create_queue == nullptr) return reaching(wrap_host_queue(native, std::move(clock)));
    return make_queue(native, true);
  }
  result<std::unique_ptr<backend_event>> create_event() override {
    if (own_.create_event == nullptr) return std::unique_ptr<backend_event>{new host_event};
    void* handle = nullptr;
    auto ok = checked_call("own device: create_event", [&] { return own_.create_event(own_.user, &handle); });
    if (!ok) return ok.error();
    if (auto* made = new (std::nothrow) own_event{own_, handle}) return std::unique_ptr<backend_event>{made};
    void_call([&] { own_.destroy_event(own_.user, handle); });
    return no_host_memory;
  }

 private:
  static constexpr error no_host_memory{errc::out_of_memory, "device: no host memory for its own records"};
  [[nodiscard]] static std::uintptr_t number(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address);
  }

  // Returns the reason why the addresses cannot be recorded; null if they can. They are not given back: a live block
  // may have them.
  [[nodiscard]] const char* fault_of(const void* start, bytes size) const noexcept {
    if (start == nullptr) return "own device: success, but a null address";
    if (size > UINTPTR_MAX - number(start)) return "own device: addresses beyond the largest one";
    if (book.overlaps(start, size)) return "own device: addresses that overlap memory given out before";
    return nullptr;
  }
  [[nodiscard]] result<std::uint64_t> fresh(std::uint64_t handle) const noexcept {
    if (!book.has_physical(handle)) return handle;
    return error{errc::device_failed, "own device: a handle of physical memory that is in use", handle};
  }
  [[nodiscard]] result<std::unique_ptr<backend_queue>> reaching(result<std::unique_ptr<backend_queue>> worker) {
    if (!worker) return worker;
    return std::unique_ptr<backend_queue>{new reaching_queue{*this, std::move(*worker)}};
  }
  [[nodiscard]] result<std::unique_ptr<backend_queue>> make_queue(void* handle, bool foreign) {
    if (auto* made = new (std::nothrow) own_queue{own_, handle, foreign}) return std::unique_ptr<backend_queue>{made};
    if (!foreign) void_call([&] { own_.destroy_queue(own_.user, handle); });
    return no_host_memory;
  }

  const berth_backend own_;
};

error invalid(const char* what) noexcept {
  return {errc::invalid_input, what};
}

// Reads the struct as this version knows it.
result<berth_backend> read_backend(const berth_backend& given) noexcept {
  if (given.struct_size < sizeof(berth_backend) || given.struct_size > 4096) {
    return error{errc::invalid_input, "backend: struct_size is not that of a berth_backend", given.struct_size};
  }
  const auto* const all = reinterpret_cast<const unsigned char*>(&given);
  if (std::any_of(all + sizeof given, all + given.struct_size, [](unsigned char byte) { return byte != 0; })) {
    return error{errc::unsupported, "backend: sets members that this version does not know", given.struct_size};
  }
  return given;
}

result<void> check(const berth_backend& own) noexcept {
  constexpr bytes most_alignment = bytes{1} << 30;
  if (own.name == nullptr || *own.name == '\0') return invalid("backend: name is null or empty");
  if (own.allocate == nullptr) return invalid("backend: allocate is null");
  if (own.free == nullptr) return invalid("backend: free is null");
  if (own.alignment != 0 && (!is_power_of_two(own.alignment) || own.alignment > most_alignment)) {
    return invalid("backend: alignment is no power of two up to 1 GiB");
  }
  if (own.total_memory > bytes{1} << 62) return invalid("backend: total_memory is beyond any address space");
  const auto complete = [](std::initializer_list<bool> group, bool wanted) {
    return std::ranges::all_of(group, [wanted](bool there) { return there == wanted; });
  };
  if (own.granule != 0 && !is_power_of_two(own.granule)) return invalid("backend: granule is no power of two");
  if (!complete({own.reserve != nullptr, own.release != nullptr, own.create_physical != nullptr,
                 own.destroy_physical != nullptr, own.map != nullptr, own.unmap != nullptr},
                own.granule != 0)) {
    return invalid(
        "backend: virtual memory needs a granule and reserve, release, create_physical, destroy_physical, "
        "map and unmap, or none of them");
  }
  if (!complete({own.destroy_queue != nullptr, own.synchronize_queue != nullptr, own.query_queue != nullptr,
                 own.create_event != nullptr, own.destroy_event != nullptr, own.record != nullptr, own.wait != nullptr,
                 own.query_event != nullptr, own.synchronize_event != nullptr},
                own.create_queue != nullptr)) {
    return invalid(
        "backend: queues need create_queue, destroy_queue, synchronize_queue, query_queue, create_event, "
        "destroy_event, record, wait, query_event and synchronize_event, or none of them");
  }
  if (own.create_queue == nullptr && (own.copy != nullptr || own.fill != nullptr || own.call != nullptr)) {
    return invalid("backend: copy, fill and call need queues");
  }
  return {};
}

}  // namespace

result<std::shared_ptr<device_backend>> make_own(const berth_backend& given) {
  const auto own = read_backend(given);
  if (!own) return own.error();
  if (auto ok = check(*own); !ok) return ok.error();
  return without_bad_alloc([&]() -> result<std::shared_ptr<device_backend>> {
    return std::shared_ptr<device_backend>{std::make_shared<own_device>(*own)};
  });
}

}  // namespace berth::detail

// Handles: numbers that are looked up, which C code holds instead of pointers. A destroyed, made-up or wrong handle is
// thus an error and not a crash. A slot is used again under a new generation. There are 2^12 of these on 32-bit
// machines and 2^32 elsewhere before an old handle would be valid again.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace berth::c {

// Makes a value at its first use, in place, since that call may have no memory for it. Never destroys it: a thread or a
// global object of the caller's may still hold a handle when the program ends.
template <class T>
class never_destroyed {
  alignas(T) std::array<std::byte, sizeof(T)> place_{};

 public:
  template <class... Arguments>
  explicit never_destroyed(Arguments... with) noexcept : value{*::new (place_.data()) T(with...)} {}
  never_destroyed(const never_destroyed&) = delete;
  never_destroyed& operator=(const never_destroyed&) = delete;
  T& value;
};

// The handles of objects of one type; `kind`, below 16, tells them from those of another table. Messages call an object
// by `name`. Thread-safe. Looking up
// is two atomic additions and takes no lock: slots stay in place, and one word of each counts its users.
//
// An object goes with its last user. The end of some objects waits for work, which may need the very thread. Their
// table gets `process`: remove() then waits until no other thread uses the object, and ends it itself. `process`
// numbers the processes of a family of forks. Users at the time of a fork do not exist in the child and never leave. An
// object they used stays for good.
template <class T>
class handles {
  struct slot {
    std::atomic<std::uint64_t> state{first_generation};
    std::atomic<std::uint32_t> process{0};  // in which the object came here
    std::shared_ptr<T> object;
  };

 public:
  using process_number = std::uint32_t (*)() noexcept;
  explicit handles(unsigned kind, const char* name = "object", process_number process = nullptr) noexcept
      : kind_{kind}, name_{name}, process_{process} {}
  handles(const handles&) = delete;
  handles& operator=(const handles&) = delete;
  ~handles() {
    for (const auto& chunk : chunks_) delete[] chunk.load();
  }

  // The object of a handle, which lives at least as long as this; or nothing.
  class use {
   public:
    use() = default;
    use(use&& other) noexcept : of_{other.of_}, slot_{std::exchange(other.slot_, nullptr)}, at_{other.at_} {}
    use& operator=(use&&) = delete;
    ~use() {
      if (slot_ != nullptr) of_->leave(*slot_, at_);
    }
    [[nodiscard]] bool operator==(std::nullptr_t) const noexcept { return slot_ == nullptr; }
    [[nodiscard]] T& operator*() const noexcept { return *slot_->object; }
    [[nodiscard]] T* operator->() const noexcept { return slot_->object.get(); }
    // Shares the object beyond the call.
    [[nodiscard]] std::shared_ptr<T> share() const noexcept { return slot_->object; }

   private:
    friend class handles;
    use(handles* of, slot* s, std::size_t at) noexcept : of_{of}, slot_{s}, at_{at} {}
    handles* of_ = nullptr;
    slot* slot_ = nullptr;
    std::size_t at_ = 0;
  };

  [[nodiscard]] const char* name() const noexcept { return name_; }
  // Returns whether remove() waits until no other thread uses the object.
  [[nodiscard]] bool waits_for_users() const noexcept { return process_ != nullptr; }

  // Returns null if there are no more numbers. May throw std::bad_alloc.
  [[nodiscard]] void* add(std::shared_ptr<T> object) {
    const std::lock_guard held{lock_};
    if (free_.empty()) {
      if (count_ == most) return nullptr;
      free_.reserve(count_ + 1);  // so that finish() allocates nothing
      const unsigned c = chunk_of(count_);
      if (chunks_[c].load(std::memory_order_relaxed) == nullptr) {
        chunks_[c].store(new slot[least_chunk << c], std::memory_order_release);
      }
      free_.push_back(count_++);
    }
    const std::size_t at = free_.back();
    free_.pop_back();
    slot& s = *slot_at(at);
    s.object = std::move(object);
    if (process_ != nullptr) s.process = process_();
    const std::uint64_t before = s.state.fetch_or(live, std::memory_order_release);
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(before >> 32) << (slot_bits + 4) | (at + 1) << 4 |
                                   kind_);
  }

  [[nodiscard]] use look_up(const void* handle) noexcept {
    const std::size_t at = number_of(handle);
    slot* const s = slot_at(at);
    if (s == nullptr) return {};
    const std::uint64_t before = s->state.fetch_add(1, std::memory_order_acquire);
    use found{this, s, at};
    return names(handle, before) ? std::move(found) : use{};
  }

  // Shares the object beyond the call: null if the handle is invalid.
  [[nodiscard]] std::shared_ptr<T> find(const void* handle) noexcept {
    const use found = look_up(handle);
    return found == nullptr ? nullptr : found.share();
  }

  // Returns false if the handle is invalid. Contract with `process`: the calling thread does not use the object, and no
  // other user may wait for it.
  bool remove(const void* handle) noexcept {
    const std::size_t at = number_of(handle);
    slot* const s = slot_at(at);
    if (s == nullptr) return false;
    std::uint64_t now = s->state.load(std::memory_order_acquire);
    for (;;) {
      if (!names(handle, now)) return false;
      const std::uint64_t waits = process_ != nullptr && s->process == process_() ? awaited : 0;
      const std::uint64_t next = (((now >> 32) + 1) & generations) << 32 | leaving | waits | ((now & users) + 1);
      if (!s->state.compare_exchange_weak(now, next, std::memory_order_acq_rel)) continue;
      if (waits == 0) {
        leave(*s, at);
      } else {
        wait_for_others(*s, next);
        end(*s, at);
      }
      return true;
    }
  }

 private:
  // From the top of a handle: generation, slot + 1, kind.
  static constexpr unsigned slot_bits = sizeof(std::uintptr_t) == 4 ? 16 : 28;
  static constexpr unsigned generation_bits = sizeof(std::uintptr_t) * 8 - slot_bits - 4;
  static constexpr std::uint64_t generations = (std::uint64_t{1} << generation_bits) - 1;
  static constexpr std::size_t most = (std::size_t{1} << slot_bits) - 2;
  // From the top of a state: the generation; the flags `live`, `leaving` and `awaited`; the number of threads that look
  // at the slot, through a valid handle or an old one. A leaving object is still there, but its handle is invalid. An
  // awaited one has a remover that waits to have it alone.
  static constexpr std::uint64_t first_generation = std::uint64_t{1} << 32;
  static constexpr std::uint64_t live = std::uint64_t{1} << 31;
  static constexpr std::uint64_t leaving = std::uint64_t{1} << 30;
  static constexpr std::uint64_t awaited = std::uint64_t{1} << 29;
  static constexpr std::uint64_t users = awaited - 1;
  // Chunk c holds the 64 * 2^c slots from 64 * (2^c - 1) on.
  static constexpr std::size_t least_chunk = 64;
  static constexpr unsigned chunk_of(std::size_t at) noexcept {
    return static_cast<unsigned>(std::bit_width(at / least_chunk + 1)) - 1;
  }

  // Returns a number past the end if the kind is another.
  [[nodiscard]] std::size_t number_of(const void* handle) const noexcept {
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    if ((number & 15) != kind_) return most;
    return (number >> 4 & ((std::uintptr_t{1} << slot_bits) - 1)) - 1;
  }
  [[nodiscard]] slot* slot_at(std::size_t at) const noexcept {
    if (at >= most) return nullptr;
    const unsigned c = chunk_of(at);
    slot* const chunk = chunks_[c].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : chunk + (at - least_chunk * ((std::size_t{1} << c) - 1));
  }
  static bool names(const void* handle, std::uint64_t state) noexcept {
    return (state & live) != 0 && state >> 32 == reinterpret_cast<std::uintptr_t>(handle) >> (slot_bits + 4);
  }

  void leave(slot& s, std::size_t at) noexcept {
    const std::uint64_t now = s.state.fetch_sub(1, std::memory_order_acq_rel) - 1;
    if ((now & leaving) == 0) [[likely]]
      return;
    if ((now & awaited) != 0) return s.state.notify_all();
    if ((now & users) != 0) return;
    // The thread that clears `leaving` has the object alone; other threads that look at the slot meanwhile find
    // nothing.
    std::uint64_t expected = now;
    if (s.state.compare_exchange_strong(expected, now & ~leaving, std::memory_order_acq_rel)) end(s, at);
  }

  // Waits, as the last user of an object that is leaving, until the others have left.
  static void wait_for_others(slot& s, std::uint64_t now) noexcept {
    for (;;) {
      if ((now & users) != 1) {
        s.state.wait(now, std::memory_order_acquire);
        now = s.state.load(std::memory_order_acquire);
      } else if (s.state.compare_exchange_weak(now, (now & ~(leaving | awaited)) - 1, std::memory_order_acq_rel)) {
        return;
      }
    }
  }

  void end(slot& s, std::size_t at) noexcept {
    const std::shared_ptr<T> gone = std::move(s.object);
    const std::lock_guard held{lock_};
    free_.push_back(at);
  }

  const std::uintptr_t kind_;
  const char* const name_;
  const process_number process_;
  std::array<std::atomic<slot*>, slot_bits> chunks_{};  // stay: an old handle may be looked up at any time
  std::mutex lock_;                                     // guards what follows
  std::size_t count_ = 0;
  std::vector<std::size_t> free_;
};

}  // namespace berth::c

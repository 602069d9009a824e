// What C code holds instead of pointers: numbers that are looked up, so that a handle that was destroyed, made up or is
// of another kind is an answer and not a crash. A slot is used again under a new generation, of which there are 2^12 on
// 32-bit machines and 2^32 elsewhere before an old handle would mean something again.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace berth::c {

// Of objects of one type; `kind`, below 16, tells its handles from those of another table. Thread-safe.
template <class T>
class handles {
 public:
  explicit handles(unsigned kind) noexcept : kind_{kind} {}

  // Null where there are no more numbers. May throw std::bad_alloc.
  [[nodiscard]] void* add(std::shared_ptr<T> object) {
    const std::lock_guard held{lock_};
    if (free_.empty()) {
      if (slots_.size() == most) return nullptr;
      free_.reserve(slots_.size() + 1);  // so that remove() allocates nothing
      slots_.push_back({});
      free_.push_back(slots_.size() - 1);
    }
    const std::size_t at = free_.back();
    free_.pop_back();
    slots_[at].object = std::move(object);
    return reinterpret_cast<void*>(handle_of(at));
  }

  // Null where the handle names nothing. The object stays alive as long as the caller holds it.
  [[nodiscard]] std::shared_ptr<T> find(const void* handle) const noexcept {
    const std::lock_guard held{lock_};
    const std::size_t at = slot_of(handle);
    return at < slots_.size() ? slots_[at].object : nullptr;
  }

  // False where the handle names nothing. The object goes outside the lock, with its last user.
  bool remove(const void* handle) noexcept {
    std::shared_ptr<T> gone;
    const std::lock_guard held{lock_};
    const std::size_t at = slot_of(handle);
    if (at >= slots_.size()) return false;
    gone.swap(slots_[at].object);
    slots_[at].generation = (slots_[at].generation + 1) & generations;
    free_.push_back(at);
    return true;
  }

 private:
  struct slot {
    std::shared_ptr<T> object;
    std::uintptr_t generation = 1;
  };
  // From the top: generation, slot + 1, kind.
  static constexpr unsigned slot_bits = sizeof(std::uintptr_t) == 4 ? 16 : 28;
  static constexpr unsigned generation_bits = sizeof(std::uintptr_t) * 8 - slot_bits - 4;
  static constexpr std::uintptr_t generations = (std::uintptr_t{1} << generation_bits) - 1;
  static constexpr std::size_t most = (std::size_t{1} << slot_bits) - 2;

  [[nodiscard]] std::uintptr_t handle_of(std::size_t at) const noexcept {
    return slots_[at].generation << (slot_bits + 4) | (at + 1) << 4 | kind_;
  }
  // Past the end where there is none.
  [[nodiscard]] std::size_t slot_of(const void* handle) const noexcept {
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    const std::size_t at = (number >> 4 & ((std::uintptr_t{1} << slot_bits) - 1)) - 1;
    if (at >= slots_.size() || !slots_[at].object || handle_of(at) != number) return slots_.size();
    return at;
  }

  const std::uintptr_t kind_;
  mutable std::mutex lock_;
  std::vector<slot> slots_;
  std::vector<std::size_t> free_;
};

}  // namespace berth::c

// A table by address: open addressing, linear probing, no heap node for an entry.
#pragma once

#include <cstdint>
#include <vector>

namespace berth::detail {

// A map from address to T*. Null is no key.
template <class T>
class address_table {
 public:
  // Ensures that one insert cannot fail. May throw bad_alloc.
  void make_room() {
    if ((count_ + 1) * 2 <= slots_.size()) [[likely]]
      return;
    std::vector<slot> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    shift_ = 64 - static_cast<unsigned>(__builtin_ctzll(slots_.size()));
    for (const slot& s : old) {
      if (s.key != nullptr) slots_[free_slot(s.key)] = s;
    }
  }
  void insert(const void* key, T* value) noexcept {
    slots_[free_slot(key)] = {key, value};
    ++count_;
  }
  [[nodiscard]] T* find(const void* key) const noexcept {
    if (slots_.empty()) return nullptr;
    for (std::size_t i = home(key);; i = next(i)) {
      if (slots_[i].key == key) return slots_[i].value;
      if (slots_[i].key == nullptr) return nullptr;
    }
  }
  // Contract: the key is in the table.
  void erase(const void* key) noexcept {
    std::size_t i = home(key);
    while (slots_[i].key != key) i = next(i);
    // Moves the following entries up, so that no search ends too early.
    for (std::size_t j = next(i); slots_[j].key != nullptr; j = next(j)) {
      const std::size_t h = home(slots_[j].key);
      const bool between = i <= j ? (i < h && h <= j) : (i < h || h <= j);
      if (between) continue;
      slots_[i] = slots_[j];
      i = j;
    }
    slots_[i] = {};
    --count_;
  }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  template <class Function>
  void for_each(Function&& f) const {
    for (const slot& s : slots_) {
      if (s.key != nullptr) f(*s.value);
    }
  }

 private:
  struct slot {
    const void* key = nullptr;
    T* value = nullptr;
  };
  // Takes the high bits of a product (Knuth, vol. 3, 6.4), as addresses differ in the middle ones.
  [[nodiscard]] std::size_t home(const void* key) const noexcept {
    const auto number = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(key));
    return static_cast<std::size_t>(number * 0x9e3779b97f4a7c15U >> shift_);
  }
  [[nodiscard]] std::size_t next(std::size_t i) const noexcept { return (i + 1) & (slots_.size() - 1); }
  [[nodiscard]] std::size_t free_slot(const void* key) const noexcept {
    std::size_t i = home(key);
    while (slots_[i].key != nullptr) i = next(i);
    return i;
  }

  std::vector<slot> slots_;
  std::size_t count_ = 0;
  unsigned shift_ = 64;
};

}  // namespace berth::detail

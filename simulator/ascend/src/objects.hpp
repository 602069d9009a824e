// The objects that a program creates by handle: tensors, descriptions of pictures, data sets, ...
#pragma once

#include <memory>
#include <set>

#include "world.hpp"

namespace ascend_simulator {

// The live objects of one kind; the world counts them.
template <class T>
class living {
 public:
  explicit living(const char* what) : what_{what} {}
  void insert(const T* one) {
    all_.insert(one);
    ++the().objects[what_];
  }
  std::size_t erase(const T* one) {
    const std::size_t known = all_.erase(one);
    the().objects[what_] -= known;
    return known;
  }
  [[nodiscard]] bool has(const T* one) const { return all_.count(one) != 0; }
  [[nodiscard]] const std::set<const T*>& all() const { return all_; }

 private:
  const char* what_;
  std::set<const T*> all_;
};

// The name of a type's objects in reports; specialised beside each type.
template <class T>
constexpr const char* called = " objects";
// Returns the live objects of this type; the caller holds the mutex.
template <class T>
living<T>& all_of() {
  static auto* const all = new living<T>{called<T>};
  return *all;
}

// Creates an object for the program. Takes the mutex, as destroy() does.
template <class T, class... With>
T* create(With&&... with) {
  auto made = std::make_unique<T>(T{std::forward<With>(with)...});
  const std::lock_guard lock{the().mutex};
  all_of<T>().insert(made.get());
  return made.release();
}
// Returns ACL_ERROR_INVALID_PARAM for null, and reports an object that is not alive.
template <class T>
aclError destroy(const T* gone) {
  if (gone == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  const std::lock_guard lock{the().mutex};
  if (all_of<T>().erase(gone) == 0) {
    return violate(ACL_ERROR_INVALID_PARAM, "double_free",
                   "one of the" + std::string{called<T>} + " that is not alive");
  }
  delete gone;
  return ACL_SUCCESS;
}

}  // namespace ascend_simulator

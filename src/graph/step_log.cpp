#include "graph/step_log.hpp"

#include <new>

namespace berth::detail {

void step_log::took(const void* data, bytes size) noexcept {
  if (spoilt_) return;
  if (in_next_) {
    count_ += count_ < most ? 1 : 0;
    return;
  }
  try {
    if (count_ == most) throw std::bad_alloc{};
    requests_.push_back({.size = size});
    out_.emplace(data, count_);
    ++count_;
  } catch (const std::bad_alloc&) {
    spoilt_ = true;
    requests_.clear();
    out_.clear();
  }
}

void step_log::used_elsewhere(const void* data) noexcept {
  if (const auto at = out_.find(data); at != out_.end()) requests_[at->second].shared = true;
}

bool step_log::gave_back(const void* data) noexcept {
  const auto at = out_.find(data);
  if (at == out_.end()) return false;
  step_request& r = requests_[at->second];
  r.until = count_;
  r.in_next = in_next_;
  r.back = back_++;
  out_.erase(at);
  return true;
}

}  // namespace berth::detail

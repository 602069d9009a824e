#include "berth/op/operation.hpp"

#include <algorithm>

#include "berth/core/contract.hpp"

namespace berth::op {

bytes operation::packed_size(std::size_t) const noexcept {
  return 0;
}

result<void> operation::pack(std::size_t, const void*, void*) const {
  return error{errc::unsupported, "op: this operand has no layout of its own", 0};
}

void operation::take(std::span<void* const> addresses, void* workspace, source_location where) noexcept {
  expects(addresses.size() == addresses_.size(), "op: as many addresses as operands", where);
  expects(workspace != nullptr || workspace_bytes_ == 0, "op: the workspace asked for is missing", where);
  if (bound_ && workspace == workspace_ && std::equal(addresses.begin(), addresses.end(), addresses_.begin())) return;
  expects(in_flight_.load(std::memory_order_acquire) == 0, "op: other addresses while a run is in flight", where);
  std::copy(addresses.begin(), addresses.end(), addresses_.begin());
  workspace_ = workspace;
  bind(addresses_, workspace_);
  bound_ = true;
}

void operation::run_enqueued(void* self) noexcept {
  auto& o = *static_cast<operation*>(self);
  detail::running.fetch_add(1, std::memory_order_relaxed);
  o.compute();
  detail::running.fetch_sub(1, std::memory_order_relaxed);
  o.in_flight_.fetch_sub(1, std::memory_order_release);
}

result<void> operation::run(std::span<void* const> addresses, void* workspace, stream& s, source_location where) {
  take(addresses, workspace, where);
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  result<void> enqueued = s.call([](void* self) { run_enqueued(self); }, this);
  if (!enqueued) in_flight_.fetch_sub(1, std::memory_order_relaxed);
  return enqueued;
}

void operation::execute(std::span<void* const> addresses, void* workspace, source_location where) noexcept {
  take(addresses, workspace, where);
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  run_enqueued(this);
}

}  // namespace berth::op

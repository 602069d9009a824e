#include "berth/op/operation.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "berth/core/contract.hpp"
#include "berth/device/device.hpp"

namespace berth::op {

namespace {

struct byte_range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

bool overlap(const byte_range& a, const byte_range& b) {
  return a.begin < b.end && b.begin < a.end;
}

byte_range touched(const memory_range& m, const operand_rule& r) {
  const auto at = reinterpret_cast<std::uintptr_t>(m.address);
  return {at - static_cast<std::uintptr_t>(r.before), at + static_cast<std::uintptr_t>(r.size - r.before)};
}

}  // namespace

std::optional<bytes> lay_out(std::span<workspace_part> parts) noexcept {
  bytes end = 0;
  for (workspace_part& part : parts) {
    part.offset = end;
    const auto rounded = checked_align_up(part.size, workspace_alignment);
    const auto next = rounded ? checked_add(end, *rounded) : std::nullopt;
    if (!next) return std::nullopt;
    end = *next;
  }
  return end;
}

operation::operation(std::size_t operands, bytes workspace, const char* what)
    : addresses_(operands), rules_(operands), workspace_bytes_{workspace} {
  if (workspace != 0) parts_.push_back({what, workspace});
}

operation::operation(std::size_t operands, std::vector<workspace_part> parts)
    : addresses_(operands), rules_(operands), parts_{std::move(parts)} {
  const auto sum = lay_out(parts_);
  expects(sum.has_value(), "op: the parts of a workspace exceed 64 bits");
  workspace_bytes_ = *sum;
}

result<void> operation::check_operand(std::size_t i, const memory_range& m) const noexcept {
  const operand_rule& r = rules_[i];
  const auto refused = [i](const char* what) { return error{errc::invalid_input, what, i}; };
  if (m.address == nullptr) return refused("op: an operand is null");
  if (m.size < r.size - r.before) return refused("op: an operand is smaller than its type says");
  if (reinterpret_cast<std::uintptr_t>(m.address) % r.alignment != 0) {
    return refused("op: an operand is not aligned for its elements");
  }
  return {};
}

result<void> operation::run_checked(std::span<const memory_range> operands, memory_range workspace, stream& s,
                                    source_location where) {
  const auto refused = [](const char* what, std::size_t i) { return error{errc::invalid_input, what, i}; };
  const std::size_t count = addresses_.size();
  if (operands.size() != count) return refused("op: not as many operands as the operator has", operands.size());
  if (!runs_on(s.get_device())) {
    return error{errc::unsupported, "op: the kernel does not run on this stream's device", 0};
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (auto ok = check_operand(i, operands[i]); !ok) return ok;
  }
  if (workspace_bytes_ != 0) {
    const auto at = reinterpret_cast<std::uintptr_t>(workspace.address);
    if (workspace.address == nullptr) return refused("op: the workspace is null", count);
    if (workspace.size < workspace_bytes_) return refused("op: the workspace is smaller than workspace()", count);
    if (at % workspace_alignment != 0) return refused("op: the workspace is not aligned to 64 bytes", count);
    for (std::size_t i = 0; i < count; ++i) {
      if (overlap({at, at + static_cast<std::uintptr_t>(workspace_bytes_)}, touched(operands[i], rules_[i]))) {
        return refused("op: the workspace overlaps this operand", i);
      }
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < count; ++k) {
      if (!rules_[k].written || i == k || (rules_[i].written && i > k)) continue;
      if (!overlap(touched(operands[i], rules_[i]), touched(operands[k], rules_[k]))) continue;
      const bool exact = operands[i].address == operands[k].address && !rules_[i].written && rules_[i].may_overwrite;
      if (!exact) return refused("op: a result overlaps this operand", i);
    }
  }
  std::array<void*, 64> addresses;
  if (count > addresses.size()) return refused("op: more operands than can be checked", count);
  for (std::size_t i = 0; i < count; ++i) addresses[i] = operands[i].address;
  const std::span<void* const> at{addresses.data(), count};
  if (!holds(at, workspace.address) && in_flight_.load(std::memory_order_acquire) != 0) {
    return refused("op: a run at other addresses has not ended", std::numeric_limits<std::size_t>::max());
  }
  return run(at, workspace.address, s, where);
}

bool operation::runs_on(const device& d) const noexcept {
  return d.properties().host_accessible;
}

bytes operation::packed_size(std::size_t) const noexcept {
  return 0;
}

result<void> operation::pack(std::size_t, const void*, void*) const {
  return error{errc::unsupported, "op: this operand has no layout of its own", 0};
}

bool operation::holds(std::span<void* const> addresses, const void* workspace) const noexcept {
  return has_addresses_ && workspace == workspace_ &&
         std::equal(addresses.begin(), addresses.end(), addresses_.begin());
}

void operation::take(std::span<void* const> addresses, void* workspace, source_location where) noexcept {
  expects(addresses.size() == addresses_.size(), "op: as many addresses as operands", where);
  expects(workspace != nullptr || workspace_bytes_ == 0, "op: the workspace asked for is missing", where);
  if (holds(addresses, workspace)) return;
  expects(in_flight_.load(std::memory_order_acquire) == 0, "op: other addresses while a run is in flight", where);
  std::copy(addresses.begin(), addresses.end(), addresses_.begin());
  workspace_ = workspace;
  bind(addresses_, workspace_);
  has_addresses_ = true;
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
  return enqueue(s);
}

result<void> operation::enqueue(stream& s) {
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

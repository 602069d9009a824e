// The first phase is called once for the size of the workspace, with tensors without addresses, and once for each set
// of addresses. Its executor is kept if aclnn lets it run again, which operators that copy on their way may not.
// Otherwise the first phase comes before every run, as in every program that uses aclnn.
#include "op/ascend/operation.hpp"

#include <algorithm>
#include <utility>

#include "berth/core/contract.hpp"

namespace berth::op::ascend {
namespace {

// Tensors, list and executor of one first phase.
class asked {
 public:
  asked(const functions& acl, const call& how, std::span<void* const> addresses) : acl_{acl}, how_{how} {
    for (std::size_t k = 0; k < how_.types.size(); ++k) {
      tensors_.push_back(create(how_.types[k], addresses.empty() ? nullptr : addresses[k]));
    }
    if (how_.listed != 0) list_ = acl_.aclCreateTensorList(tensors_.data(), how_.listed);
  }
  asked(const asked&) = delete;
  asked& operator=(const asked&) = delete;
  ~asked() {
    forget_executor();
    // The list takes its tensors with it.
    if (list_ != nullptr) acl_.aclDestroyTensorList(list_);
    for (std::size_t k = list_ != nullptr ? how_.listed : 0; k < tensors_.size(); ++k) {
      if (tensors_[k] != nullptr) acl_.aclDestroyTensor(tensors_[k]);
    }
  }

  [[nodiscard]] status ask() {
    const status s = how_.ask(tensors_.data(), list_, &workspace_, &executor_);
    if (s != success) executor_ = nullptr;
    return s;
  }
  // Returns whether it may run more than once.
  [[nodiscard]] bool repeat() {
    repeatable_ = acl_.aclSetAclOpExecutorRepeatable(executor_) == success;
    if (!repeatable_) driver::forget_text(*acl_.runtime);
    return repeatable_;
  }
  [[nodiscard]] status run(void* workspace, void* stream) {
    executor_handle* const executor = repeatable_ ? executor_ : std::exchange(executor_, nullptr);
    return how_.run(workspace, workspace_, executor, stream);
  }
  void forget_executor() noexcept {
    if (executor_ != nullptr) acl_.aclDestroyAclOpExecutor(std::exchange(executor_, nullptr));
  }
  [[nodiscard]] std::uint64_t workspace() const noexcept { return workspace_; }

 private:
  // Data starts at a multiple of 32; a view's distance from it is the tensor's offset.
  [[nodiscard]] tensor_handle* create(const tensor_type& t, void* address) const {
    const auto size = static_cast<std::int64_t>(element_size(t.type));
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t beyond = at % data_alignment;
    std::vector<std::int64_t> strides = t.strides;
    std::int64_t storage = static_cast<std::int64_t>(beyond) / size + 1;
    for (std::size_t d = 0; d < strides.size(); ++d) {
      strides[d] /= size;
      storage += (t.shape[d] - 1) * strides[d];
    }
    return acl_.aclCreateTensor(t.shape.data(), t.shape.size(), data_type(t.type), strides.data(),
                                static_cast<std::int64_t>(beyond) / size, format_of(t.shape.size()), &storage, 1,
                                static_cast<std::byte*>(address) - beyond);
  }

  const functions& acl_;
  const call& how_;
  std::vector<tensor_handle*> tensors_;
  list_handle* list_ = nullptr;
  std::uint64_t workspace_ = 0;
  executor_handle* executor_ = nullptr;
  bool repeatable_ = false;
};

// The layout of the operation's workspace: aclnn's own comes first.
struct layout {
  bytes own = 0;
  std::vector<bytes> unasked{};  // where the results lie that the caller does not want
  std::vector<workspace_part> parts{};
};
layout laid_out(bytes own, std::span<const tensor_type> unasked, const rules::placement& by) {
  layout made{align_up(own, workspace_alignment)};
  if (own != 0) made.parts.push_back({"aclnn's workspace", made.own});
  for (const tensor_type& t : unasked) {
    bytes size = element_size(t.type);
    for (const std::int64_t d : t.shape) size *= static_cast<bytes>(d);
    made.parts.push_back({"results that the caller does not want", by.footprint(size).value()});
  }
  if (!lay_out(made.parts)) throw refusal("the workspace exceeds 64 bits");
  for (std::size_t i = made.parts.size() - unasked.size(); i < made.parts.size(); ++i) {
    made.unasked.push_back(made.parts[i].offset);
  }
  return made;
}

class ascend_operation final : public operation {
 public:
  ascend_operation(const functions& acl, const device& on, call how, const std::vector<operand_rule>& rules,
                   const layout& room)
      : operation{rules.size(), room.parts}, acl_{acl}, device_{on}, how_{std::move(how)}, room_{room} {
    for (std::size_t k = 0; k < rules.size(); ++k) set_rule(k, rules[k]);
  }
  ~ascend_operation() override {
    const driver::current_context current = in_context_of(acl_, device_);
    now_.reset();
  }

  [[nodiscard]] const char* kernel() const noexcept override { return how_.name; }
  [[nodiscard]] bool runs_on(const device& d) const noexcept override { return d == device_; }

 private:
  void bind(std::span<void* const> addresses, void* workspace) noexcept override {
    addresses_ = addresses;
    workspace_ = workspace;
    stale_ = true;
  }
  void compute() noexcept override { expects(false, "op: an operator of the device runs on its streams only"); }

  result<void> enqueue(stream& s) override {
    const driver::current_context current = in_context_of(acl_, device_);
    if (stale_) {
      now_.reset();
      std::vector<void*> addresses{addresses_.begin(), addresses_.end()};
      for (const bytes at : room_.unasked) addresses.push_back(static_cast<std::byte*>(workspace_) + at);
      now_ = std::make_unique<asked>(acl_, how_, addresses);
      if (auto ok = ask(); !ok) return ok;
      repeats_ = now_->repeat();
      stale_ = false;
    } else if (!repeats_) {
      if (auto ok = ask(); !ok) return ok;
    }
    if (const status done = now_->run(workspace_, s.native()); done != success) {
      stale_ = true;
      return driver::failure(*acl_.runtime, done, "op: an operator of aclnn failed in its second phase");
    }
    return {};
  }

  result<void> ask() {
    if (const status refused = now_->ask(); refused != success) {
      return driver::failure(*acl_.runtime, refused, "op: an operator of aclnn failed in its first phase");
    }
    if (now_->workspace() <= room_.own) return {};
    now_->forget_executor();
    return error{errc::device_failed, "op: an operator of aclnn wants more workspace at these addresses than before",
                 now_->workspace()};
  }

  const functions& acl_;
  const device device_;
  const call how_;
  const layout room_;
  std::span<void* const> addresses_;  // the base's
  void* workspace_ = nullptr;
  std::unique_ptr<asked> now_;
  bool stale_ = true;
  bool repeats_ = false;
};

}  // namespace

std::unique_ptr<operation> make_operation(const functions& acl, const device& on, call how,
                                          const std::vector<operand_rule>& rules) {
  layout room;
  {
    const driver::current_context current = in_context_of(acl, on);
    asked first{acl, how, {}};
    if (const status refused = first.ask(); refused != success) {
      const char* said = acl.runtime->aclGetRecentErrMsg != nullptr ? acl.runtime->aclGetRecentErrMsg() : nullptr;
      std::string why = std::string{how.name} + " of aclnn refuses it (" + std::to_string(refused) + ")";
      if (said != nullptr) why.append(": ").append(said);
      while (!why.empty() && why.back() == '\n') why.pop_back();
      throw refusal(std::move(why));
    }
    room = laid_out(first.workspace(), std::span{how.types}.subspan(rules.size()), on.properties().rules);
  }
  return std::make_unique<ascend_operation>(acl, on, std::move(how), rules, room);
}

}  // namespace berth::op::ascend

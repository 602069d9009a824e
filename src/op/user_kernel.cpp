#include "op/user_kernel.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "op/plain/plain.hpp"
#include "op/request.hpp"

namespace berth::op {
namespace {

constexpr std::size_t most_checked = 64;  // that run_checked() can check

struct kernel_table {
  std::mutex lock;
  std::map<std::string, std::shared_ptr<const kernel>, std::less<>> by_name;
};

// Never destroyed: static objects may unregister their kernels when the program ends.
kernel_table& registered() {
  static auto* const all = new kernel_table;
  return *all;
}

bool host_computes_on(const device& d) noexcept {
  return d.properties().host_accessible;
}

class user_operation final : public operation {
 public:
  user_operation(std::shared_ptr<const op::kernel> k, device on, std::size_t operands,
                 std::vector<workspace_part> parts, std::shared_ptr<void> state)
      : operation{operands, std::move(parts)},
        kernel_{std::move(k)},
        on_{std::move(on)},
        enqueues_{!kernel_->compute || !host_computes_on(on_)},
        state_{std::move(state)},
        parts_(workspace_parts().size()) {}

  void set_rules(const kernel_request& r) {
    for (std::size_t i = 0; i < r.operands.size(); ++i) {
      const tensor_type& t = r.operands[i];
      const bool alike = std::any_of(
          r.operands.begin() + static_cast<std::ptrdiff_t>(r.inputs), r.operands.end(), [&](const tensor_type& result) {
            return result.shape == t.shape && result.type == t.type && result.strides == t.strides;
          });
      set_rule(i, rule_of(t, i >= r.inputs, kernel_->in_place && alike));
    }
  }

  [[nodiscard]] const char* kernel() const noexcept override { return kernel_->name.c_str(); }
  [[nodiscard]] bool runs_on(const device& d) const noexcept override {
    return enqueues_ ? d == on_ : operation::runs_on(d);
  }

 private:
  void bind(std::span<void* const> addresses, void* workspace) noexcept override {
    addresses_ = addresses;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i] = static_cast<std::byte*>(workspace) + workspace_parts()[i].offset;
    }
  }
  [[nodiscard]] kernel_call call() const noexcept { return {addresses_, parts_, state_.get()}; }
  void compute() noexcept override { kernel_->compute(call()); }
  result<void> enqueue(stream& s) override { return enqueues_ ? kernel_->enqueue(call(), s) : operation::enqueue(s); }

  const std::shared_ptr<const op::kernel> kernel_;
  const device on_;
  const bool enqueues_;
  const std::shared_ptr<void> state_;
  std::span<void* const> addresses_;
  std::vector<void*> parts_;
};

}  // namespace

void register_kernel(kernel k) {
  if (k.name.empty()) refuse("it has no name");
  const std::string what = "'" + k.name + "'";
  if (find(k.name) != nullptr) refuse(what + ": an operator of the table has that name");
  if (!k.workspace) refuse(what + " has no workspace function");
  if (!k.compute && !k.enqueue) refuse(what + " has no run function");
  auto made = std::make_shared<const kernel>(std::move(k));
  const std::lock_guard held{registered().lock};
  if (!registered().by_name.emplace(made->name, made).second) refuse(what + " is registered already");
}

bool unregister_kernel(std::string_view name) {
  std::shared_ptr<const kernel> gone;  // ends outside the lock
  const std::lock_guard held{registered().lock};
  const auto at = registered().by_name.find(name);
  if (at == registered().by_name.end()) return false;
  gone = std::move(at->second);
  registered().by_name.erase(at);
  return true;
}

std::shared_ptr<const kernel> find_kernel(std::string_view name) {
  const std::lock_guard held{registered().lock};
  const auto at = registered().by_name.find(name);
  return at == registered().by_name.end() ? nullptr : at->second;
}

served serve_by(const std::shared_ptr<const kernel>& k, const request& q, std::vector<tensor_type> outputs,
                const device& on) {
  if (outputs.empty()) refuse("the types of the results are not given");
  if (!k->enqueue && !host_computes_on(on)) {
    refuse("the kernel has no enqueue function, and the host does not reach the memory of " + on.properties().name);
  }
  validate_inputs(q);
  std::vector<tensor_type> operands;
  for (const std::size_t i : operands_of(q)) operands.push_back(*q.inputs[i]);
  const std::size_t inputs = operands.size();
  for (std::size_t i = 0; i < outputs.size(); ++i) validate_result(outputs[i], i);
  operands.insert(operands.end(), outputs.begin(), outputs.end());
  if (operands.size() > most_checked) refuse("has more than 64 operands");
  for (tensor_type& t : operands) t.strides = strides_of(t);
  served s{{operands.begin() + static_cast<std::ptrdiff_t>(inputs), operands.end()}, nullptr};
  if (std::all_of(outputs.begin(), outputs.end(), is_empty)) return s;

  const kernel_request shown{q, operands, inputs, on};
  std::vector<workspace_part> parts;
  std::shared_ptr<void> state = k->workspace(shown, parts);
  if (!lay_out(parts)) refuse("the sizes of the workspace's parts exceed 64 bits");
  auto made = std::make_unique<user_operation>(k, on, operands.size(), std::move(parts), std::move(state));
  made->set_rules(shown);
  s.run = std::move(made);
  return s;
}

}  // namespace berth::op

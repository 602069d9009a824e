// Tensors, scalars and executors, and the two phases that every operator has.
//
// A first phase checks and plans. A second one enqueues a kernel that first overwrites the whole announced workspace,
// so that no other data can live there. Then it reads and writes its tensors. An executor is deleted by its second
// phase, also on failure, unless it was made repeatable.
#include "aclnn.hpp"

#include <algorithm>
#include <cstring>

#include "objects.hpp"

namespace ascend_simulator {

template <>
constexpr const char* called<aclTensor> = " tensors";
template <>
constexpr const char* called<aclScalar> = " scalars";
template <>
constexpr const char* called<aclIntArray> = " arrays of integers";
template <>
constexpr const char* called<aclTensorList> = " lists of tensors";
template <>
constexpr const char* called<aclOpExecutor> = " executors";  // that may still run

namespace {

constexpr std::size_t tensor_alignment = 32;
constexpr int scribble = 0xA5;
constexpr std::size_t most_dimensions = 8;

bool overlap(const use& a, const use& b) {
  const auto x = reinterpret_cast<number>(a.start);
  const auto y = reinterpret_cast<number>(b.start);
  return x < y + b.size && y < x + a.size;
}

// Deletes the executor if it serves once, even if the call fails.
struct consumed {
  aclOpExecutor* executor;
  ~consumed() {
    if (executor->repeatable) return;
    all_of<aclOpExecutor>().erase(executor);
    delete executor;
  }
};

// Returns true if an input lies under an output. An input exactly at the output is exempt if the operator processes
// both alike.
bool is_overwritten(const aclOpExecutor& e, const std::vector<use>& uses) {
  for (std::size_t i = 0; i < e.inputs.size(); ++i) {
    for (std::size_t o = 0; o < e.outputs.size(); ++o) {
      const use& in = uses[i];
      const use& out = uses[e.inputs.size() + o];
      const bool exact = in.start == out.start && e.may_lie_under[i] && e.inputs[i].strides == e.outputs[o].strides &&
                         e.inputs[i].shape == e.outputs[o].shape;
      if (in.size != 0 && overlap(in, out) && !exact) return true;
    }
  }
  return false;
}

// For workers, under the bytes' mutex. The workspace's previous content is lost.
void run(const aclOpExecutor& e, std::byte* workspace) {
  if (e.workspace > 0) std::memset(workspace, scribble, e.workspace);
  const auto bytes_of = [](const aclTensor& t) { return reachable(const_cast<void*>(use_of(t, false, "").start)); };
  std::vector<void*> addresses;
  for (const step& s : e.steps) {
    addresses.clear();
    for (const place& p : s.operands) {
      switch (p.of) {
        case place::input: addresses.push_back(bytes_of(e.inputs[p.at])); break;
        case place::output: addresses.push_back(bytes_of(e.outputs[p.at])); break;
        case place::constant: addresses.push_back(const_cast<std::byte*>(e.constants[p.at].data())); break;
        case place::room: addresses.push_back(workspace + p.at); break;
      }
    }
    void* scratch = nullptr;
    if (s.run->workspace() != 0) {
      constexpr number alignment = berth::op::workspace_alignment;
      const auto at = reinterpret_cast<number>(workspace + s.scratch);
      scratch = workspace + s.scratch + (alignment - at % alignment) % alignment;
    }
    s.run->execute(addresses, scratch);
  }
}

aclnnStatus check_uses(const std::vector<use>& uses) {
  for (const use& one : uses) {
    if (!in_window(one.start))
      return refuse(ACLNN_ERR_PARAM_INVALID, "a tensor or a workspace that is no device memory");
    if (const finding fault = find_fault(one.start, one.size); fault.kind != nullptr) {
      return violate(ACLNN_ERR_PARAM_INVALID, fault.kind, std::string{one.what} + ": " + fault.text);
    }
  }
  return ACLNN_SUCCESS;
}

}  // namespace

std::int64_t elements(const aclTensor& t) {
  std::int64_t n = 1;
  for (const std::int64_t d : t.shape) n *= d;
  return n;
}

bool is_dense(const aclTensor& t) {
  std::int64_t expected = 1;
  for (std::size_t d = t.shape.size(); d-- > 0;) {
    if (t.shape[d] != 1 && t.strides[d] != expected) return false;
    expected *= t.shape[d];
  }
  return true;
}

use use_of(const aclTensor& t, bool writes, const char* what) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < t.shape.size(); ++d) last += (t.shape[d] - 1) * t.strides[d];
  const std::size_t each = size_of(t.type);
  const std::size_t size = elements(t) == 0 ? 0 : static_cast<std::size_t>(last + 1) * each;
  return {static_cast<std::byte*>(t.data) + t.offset * static_cast<std::int64_t>(each), size, writes, what};
}

bool is_live(const aclTensor* t) {
  return all_of<aclTensor>().has(t);
}

aclnnStatus check_given(const aclTensor* t) {
  if (t == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, "null tensor");
  if (!is_live(t)) return violate(ACLNN_ERR_PARAM_INVALID, "tensor_destroyed", "a tensor that was destroyed");
  if (size_of(t->type) == 0) return refuse(ACLNN_ERR_PARAM_INVALID, "a type that the simulator does not know");
  if (reinterpret_cast<number>(t->data) % tensor_alignment != 0) {
    violate("tensor_alignment", "a tensor's data starts at no multiple of 32");
  }
  return ACLNN_SUCCESS;
}

aclOpExecutor* keep(std::unique_ptr<aclOpExecutor> made) {
  all_of<aclOpExecutor>().insert(made.get());
  return made.release();
}

aclnnStatus second_phase(const char* name, void* workspace, std::uint64_t size, aclOpExecutor* executor,
                         const std::shared_ptr<stream_state>& on) {
  if (executor == nullptr) return refuse(ACLNN_ERR_INNER_NULLPTR, "null executor");
  if (!all_of<aclOpExecutor>().has(executor)) {
    return violate(ACLNN_ERR_INNER_NULLPTR, "executor", "an executor that was used up or destroyed");
  }
  const consumed end{executor};
  if (std::strcmp(executor->name, name) != 0) {
    return violate(ACLNN_ERR_PARAM_INVALID, "executor", std::string{"the executor is one of "} + executor->name);
  }
  if (executor->workspace > 0 && workspace == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, "null workspace");
  if (size < executor->workspace) {
    return violate(ACLNN_ERR_PARAM_INVALID, "workspace",
                   std::to_string(size) + " bytes where " + std::to_string(executor->workspace) + " were asked for");
  }
  for (const aclTensor* t : executor->given) {
    if (!executor->repeatable && !is_live(t)) {
      return violate(ACLNN_ERR_PARAM_INVALID, "tensor_destroyed", "a tensor was destroyed between the phases");
    }
  }
  std::vector<use> uses;
  for (const aclTensor& t : executor->inputs) uses.push_back(use_of(t, false, "an input"));
  for (const aclTensor& t : executor->outputs) uses.push_back(use_of(t, true, "an output"));
  if (is_overwritten(*executor, uses)) violate("overlap", "an output lies over what the operator still reads");
  for (const use& one : uses) {
    if (one.start == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, "a tensor without an address");
  }
  if (executor->workspace > 0) {
    const use room{workspace, executor->workspace, true, "workspace"};
    for (const use& one : uses) {
      if (overlap(room, one))
        return violate(ACLNN_ERR_PARAM_INVALID, "workspace", std::string{"it overlaps "} + one.what);
    }
    if (reinterpret_cast<number>(workspace) % tensor_alignment != 0) {
      violate("workspace", "it starts at no multiple of 32");
    }
    uses.push_back(room);
  }
  if (const aclnnStatus wrong = check_uses(uses); wrong != ACLNN_SUCCESS) return wrong;
  enqueue(on, uses, [copy = *executor, workspace] {
    const std::lock_guard bytes{the().bytes_mutex};
    run(copy, static_cast<std::byte*>(copy.workspace > 0 ? reachable(workspace) : nullptr));
    return ACL_SUCCESS;
  });
  return ACLNN_SUCCESS;
}

}  // namespace ascend_simulator

using namespace ascend_simulator;

namespace {

aclnnStatus set_address(aclOpExecutor* executor, std::vector<aclTensor>* of, std::size_t index, void* address) {
  if (executor == nullptr) return refuse(ACLNN_ERR_INNER_NULLPTR, "null executor");
  if (!all_of<aclOpExecutor>().has(executor))
    return violate(ACLNN_ERR_INNER_NULLPTR, "executor", "it was used up or destroyed");
  if (!executor->repeatable) return refuse(ACLNN_ERR_PARAM_INVALID, "the executor is not repeatable");
  if (of == nullptr) {  // all tensors, the inputs first
    of = index < executor->inputs.size() ? &executor->inputs : &executor->outputs;
    if (of == &executor->outputs) index -= executor->inputs.size();
  }
  if (index >= of->size()) return refuse(ACLNN_ERR_PARAM_INVALID, "no such tensor");
  if (reinterpret_cast<number>(address) % tensor_alignment != 0) {
    violate("tensor_alignment", "a tensor's data starts at no multiple of 32");
  }
  (*of)[index].data = address;
  return ACLNN_SUCCESS;
}

}  // namespace

extern "C" {

aclTensor* aclCreateTensor(const std::int64_t* dims, std::uint64_t count, aclDataType type, const std::int64_t* strides,
                           std::int64_t offset, aclFormat format, const std::int64_t*, std::uint64_t, void* data) {
  if (enter(__func__, __builtin_return_address(0)) != ACL_SUCCESS) return nullptr;
  if ((dims == nullptr && count != 0) || count > most_dimensions || offset < 0) return nullptr;
  auto made = std::make_unique<aclTensor>();
  made->shape.assign(dims, dims + count);
  if (std::ranges::any_of(made->shape, [](std::int64_t d) { return d < 0; })) return nullptr;
  made->strides.resize(count);
  std::int64_t dense = 1;
  for (std::size_t d = count; d-- > 0;) {
    made->strides[d] = strides != nullptr ? strides[d] : dense;
    dense *= made->shape[d];
  }
  made->offset = offset;
  made->type = type;
  made->format = format;
  made->data = data;
  const std::lock_guard lock{the().mutex};
  all_of<aclTensor>().insert(made.get());
  return made.release();
}
aclnnStatus aclDestroyTensor(const aclTensor* t) {
  ENTER;
  if (t == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, "null");
  const std::lock_guard lock{the().mutex};
  if (all_of<aclTensor>().erase(t) == 0)
    return violate(ACLNN_ERR_PARAM_INVALID, "double_free", "no tensor, or none any more");
  delete t;
  return ACLNN_SUCCESS;
}
aclScalar* aclCreateScalar(void* value, aclDataType type) {
  if (enter(__func__, __builtin_return_address(0)) != ACL_SUCCESS || value == nullptr) return nullptr;
  if (size_of(type) == 0) return nullptr;
  auto made = std::make_unique<aclScalar>();
  made->value.resize(size_of(type));
  std::memcpy(made->value.data(), value, made->value.size());
  made->type = type;
  const std::lock_guard lock{the().mutex};
  all_of<aclScalar>().insert(made.get());
  return made.release();
}
aclnnStatus aclDestroyScalar(const aclScalar* s) {
  ENTER;
  if (s == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, "null");
  const std::lock_guard lock{the().mutex};
  if (all_of<aclScalar>().erase(s) == 0)
    return violate(ACLNN_ERR_PARAM_INVALID, "double_free", "no scalar, or none any more");
  delete s;
  return ACLNN_SUCCESS;
}
aclIntArray* aclCreateIntArray(const std::int64_t* value, std::uint64_t size) {
  if (enter(__func__, __builtin_return_address(0)) != ACL_SUCCESS || (value == nullptr && size != 0)) return nullptr;
  auto made = std::make_unique<aclIntArray>();
  made->values.assign(value, value + size);
  const std::lock_guard lock{the().mutex};
  all_of<aclIntArray>().insert(made.get());
  return made.release();
}
aclnnStatus aclDestroyIntArray(const aclIntArray* a) {
  ENTER;
  if (a == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, "null");
  const std::lock_guard lock{the().mutex};
  if (all_of<aclIntArray>().erase(a) == 0)
    return violate(ACLNN_ERR_PARAM_INVALID, "double_free", "no array, or none any more");
  delete a;
  return ACLNN_SUCCESS;
}
aclTensorList* aclCreateTensorList(const aclTensor* const* value, std::uint64_t size) {
  if (enter(__func__, __builtin_return_address(0)) != ACL_SUCCESS || (value == nullptr && size != 0)) return nullptr;
  auto made = std::make_unique<aclTensorList>();
  made->tensors.assign(value, value + size);
  const std::lock_guard lock{the().mutex};
  all_of<aclTensorList>().insert(made.get());
  return made.release();
}
aclnnStatus aclDestroyTensorList(const aclTensorList* l) {
  ENTER;
  if (l == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, "null");
  const std::lock_guard lock{the().mutex};
  if (all_of<aclTensorList>().erase(l) == 0)
    return violate(ACLNN_ERR_PARAM_INVALID, "double_free", "no list, or none any more");
  for (const aclTensor* t : l->tensors) {
    if (t == nullptr) continue;
    if (all_of<aclTensor>().erase(t) == 0) {
      violate("double_free", "the list's tensor was destroyed before it");
    } else {
      delete t;
    }
  }
  delete l;
  return ACLNN_SUCCESS;
}
aclnnStatus aclGetRawTensorAddr(const aclTensor* t, void** out) {
  ENTER;
  if (t == nullptr || out == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, "null");
  const std::lock_guard lock{the().mutex};
  if (!is_live(t)) return violate(ACLNN_ERR_PARAM_INVALID, "tensor_destroyed", "a tensor that was destroyed");
  *out = t->data;
  return ACLNN_SUCCESS;
}
aclnnStatus aclSetRawTensorAddr(aclTensor* t, void* address) {
  ENTER;
  if (t == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, "null");
  const std::lock_guard lock{the().mutex};
  if (!is_live(t)) return violate(ACLNN_ERR_PARAM_INVALID, "tensor_destroyed", "a tensor that was destroyed");
  for (const aclOpExecutor* one : all_of<aclOpExecutor>().all()) {
    if (!one->repeatable && std::ranges::find(one->given, t) != one->given.end()) {
      violate("executor", "an address is set between the two phases");
    }
  }
  t->data = address;
  return ACLNN_SUCCESS;
}
aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  ENTER;
  const std::lock_guard lock{the().mutex};
  if (executor == nullptr) return refuse(ACLNN_ERR_INNER_NULLPTR, "null executor");
  if (!all_of<aclOpExecutor>().has(executor))
    return violate(ACLNN_ERR_INNER_NULLPTR, "executor", "it was used up or destroyed");
  executor->repeatable = true;
  return ACLNN_SUCCESS;
}
aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  ENTER;
  const std::lock_guard lock{the().mutex};
  if (executor == nullptr) return refuse(ACLNN_ERR_INNER_NULLPTR, "null executor");
  if (all_of<aclOpExecutor>().erase(executor) == 0) {
    return violate(ACLNN_ERR_INNER_NULLPTR, "double_free", "an executor that was used up or destroyed");
  }
  delete executor;
  return ACLNN_SUCCESS;
}
aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const std::size_t index, aclTensor*, void* address) {
  ENTER;
  const std::lock_guard lock{the().mutex};
  return set_address(executor, nullptr, index, address);
}
aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const std::size_t index, aclTensor*, void* address) {
  ENTER;
  const std::lock_guard lock{the().mutex};
  return set_address(executor, executor != nullptr ? &executor->inputs : nullptr, index, address);
}
aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const std::size_t index, aclTensor*, void* address) {
  ENTER;
  const std::lock_guard lock{the().mutex};
  return set_address(executor, executor != nullptr ? &executor->outputs : nullptr, index, address);
}

}  // extern "C"

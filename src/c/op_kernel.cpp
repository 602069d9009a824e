// Kernels of C callers, over berth/op/kernel.hpp.
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "berth/op/kernel.hpp"
#include "c/op_run.hpp"

// The answer of a workspace function, for the time of the call. The operation takes over the parts and the state.
struct berth_workspace {
  std::vector<berth::op::workspace_part>* parts = nullptr;
  std::shared_ptr<void> state{};
  std::string refused{};
};

namespace berth::c {
namespace {

// Attributes as berth_attribute. The lists of floats are copied; the rest points into the request.
class attributes_in_c {
 public:
  explicit attributes_in_c(const op::attributes& from) {
    for (const auto& [name, value] : from) {
      berth_attribute a{};
      a.struct_size = sizeof a;
      a.name = name.c_str();
      std::visit([&](const auto& v) { describe(a, v); }, value);
      if (a.kind >= 0) all_.push_back(a);
    }
  }
  attributes_in_c(const attributes_in_c&) = delete;
  attributes_in_c& operator=(const attributes_in_c&) = delete;
  [[nodiscard]] const std::vector<berth_attribute>& all() const noexcept { return all_; }

 private:
  static void describe(berth_attribute& a, std::int64_t v) {
    a.kind = BERTH_ATTRIBUTE_INTEGER;
    a.integer = v;
  }
  static void describe(berth_attribute& a, float v) {
    a.kind = BERTH_ATTRIBUTE_FLOAT;
    a.number = static_cast<double>(v);
  }
  static void describe(berth_attribute& a, const std::string& v) {
    a.kind = BERTH_ATTRIBUTE_TEXT;
    a.text = v.c_str();
  }
  static void describe(berth_attribute& a, const std::vector<std::int64_t>& v) {
    a.kind = BERTH_ATTRIBUTE_INTEGERS;
    a.integers = v.data();
    a.count = v.size();
  }
  void describe(berth_attribute& a, const std::vector<float>& v) {
    lists_.push_back(std::make_unique<std::vector<double>>(v.begin(), v.end()));
    a.kind = BERTH_ATTRIBUTE_FLOATS;
    a.numbers = lists_.back()->data();
    a.count = v.size();
  }
  // Tensors and lists of texts have no kind in C.
  static void describe(berth_attribute& a, const op::tensor&) { a.kind = -1; }
  static void describe(berth_attribute& a, const std::vector<std::string>&) { a.kind = -1; }

  std::vector<std::unique_ptr<std::vector<double>>> lists_;
  std::vector<berth_attribute> all_;
};

std::shared_ptr<void> ask(const berth_kernel& mine, const op::kernel_request& r,
                          std::vector<op::workspace_part>& parts) {
  std::vector<berth_kernel_operand> operands;
  for (const tensor_type& t : r.operands) {
    operands.push_back({static_cast<std::int32_t>(t.type), t.shape.size(), t.shape.data(), t.strides.data()});
  }
  const attributes_in_c attributes{r.asked.attributes};
  berth_kernel_request shown{};
  shown.struct_size = sizeof shown;
  shown.operands = operands.data();
  shown.operand_count = operands.size();
  shown.input_count = r.inputs;
  shown.attributes = attributes.all().data();
  shown.attribute_count = attributes.all().size();
  shown.device = r.on.properties().name.c_str();
  berth_workspace answer{&parts};
  (void)succeed();
  const berth_status status = mine.workspace(mine.context, &shown, &answer);
  if (!answer.refused.empty()) throw op::refusal{answer.refused};
  if (status != BERTH_OK) {
    const std::string text = last_text();
    throw op::refusal{
        text.empty() ? "the kernel's workspace function refuses it (status " + std::to_string(status) + ")" : text};
  }
  return std::move(answer.state);
}

berth_kernel_call in_c(const op::kernel_call& c) noexcept {
  berth_kernel_call call{};
  call.struct_size = sizeof call;
  call.operands = c.operands.data();
  call.operand_count = c.operands.size();
  call.parts = c.parts.data();
  call.part_count = c.parts.size();
  call.state = c.state;
  return call;
}

result<void> enqueue(const berth_kernel& mine, const op::kernel_call& c) {
  enqueuing* const here = enqueuing::now();
  if (here == nullptr) {
    return error{errc::unsupported, "op: a kernel registered in C is enqueued by berth_op_run() alone", 0};
  }
  const berth_kernel_call call = in_c(c);
  (void)succeed();
  const berth_status status = mine.enqueue(mine.context, &call, here->on());
  if (status == BERTH_OK) return {};
  const std::string text = last_text();
  here->fail_with(status,
                  std::string{mine.name} + ": " + (text.empty() ? "the kernel's enqueue function failed" : text));
  return error{errc::device_failed, "op: a kernel's enqueue function failed", static_cast<std::size_t>(status)};
}

op::kernel kernel_of(const berth_kernel& given) {
  op::kernel k;
  k.name = given.name;
  k.in_place = given.in_place != 0;
  // The name may go after the registration.
  const auto mine = std::make_shared<std::pair<std::string, berth_kernel>>(given.name, given);
  mine->second.name = mine->first.c_str();
  if (given.workspace != nullptr) {
    k.workspace = [mine](const op::kernel_request& r, std::vector<op::workspace_part>& parts) {
      return ask(mine->second, r, parts);
    };
  }
  if (given.compute != nullptr) {
    k.compute = [mine](const op::kernel_call& c) {
      const berth_kernel_call call = in_c(c);
      mine->second.compute(mine->second.context, &call);
    };
  }
  if (given.enqueue != nullptr) {
    k.enqueue = [mine](const op::kernel_call& c, stream&) { return enqueue(mine->second, c); };
  }
  return k;
}

}  // namespace
}  // namespace berth::c

using namespace berth::c;

extern "C" {

berth_status berth_workspace_add(berth_workspace* workspace, const char* what, uint64_t size) {
  if (workspace == nullptr || what == nullptr) return fail(BERTH_INVALID, "workspace or the part's name: null");
  return guarded([&]() -> berth_status {
    workspace->parts->push_back({what, size});
    if (berth::op::lay_out(*workspace->parts)) return succeed();
    workspace->refused = "the sizes of the workspace's parts exceed 64 bits";
    return fail(BERTH_INVALID, workspace->refused.c_str());
  });
}

berth_status berth_workspace_keep(berth_workspace* workspace, void* state, void (*release)(void* state)) {
  if (workspace == nullptr) return fail(BERTH_INVALID, "workspace: null");
  if (workspace->state != nullptr) return fail(BERTH_INVALID, "workspace: a state is kept already");
  if (state == nullptr) return succeed();
  return guarded([&] {
    workspace->state = std::shared_ptr<void>{state, [release](void* s) {
                                               if (release != nullptr) release(s);
                                             }};
    return succeed();
  });
}

berth_status berth_workspace_refuse(berth_workspace* workspace, const char* why) {
  if (workspace == nullptr || why == nullptr || *why == '\0') return fail(BERTH_INVALID, "workspace or why: null");
  return guarded([&] {
    workspace->refused = why;
    return fail(BERTH_INVALID, why);
  });
}

berth_status berth_kernel_register(const berth_kernel* kernel) {
  berth_kernel k;
  if (const auto no = read(kernel, sizeof(berth_kernel), k, "kernel: null, or wrong struct_size")) return no;
  if (k.name == nullptr) return fail(BERTH_INVALID, "kernel: its name is null");
  return refusable("kernel", [&] {
    berth::op::register_kernel(kernel_of(k));
    return succeed();
  });
}

berth_status berth_kernel_unregister(const char* name) {
  if (name == nullptr) return fail(BERTH_INVALID, "kernel: its name is null");
  return guarded([&] {
    if (berth::op::unregister_kernel(name)) return succeed();
    return fail(BERTH_INVALID, ("kernel: none is called '" + std::string{name} + "'").c_str());
  });
}

}  // extern "C"

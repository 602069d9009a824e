#include "op/ascend/rows.hpp"

namespace berth::op::ascend {

scalar scalar_of(const setting& s, element type, const void* value) {
  return {s.acl.aclCreateScalar(const_cast<void*>(value), data_type(type)),  // copied there
          [&acl = s.acl](const scalar_handle* h) { acl.aclDestroyScalar(h); }};
}
scalar scalar_of(const setting& s, float value) {
  return scalar_of(s, element::f32, &value);
}
scalar constant_of(const setting& s, std::size_t input) {
  require(input < s.q.constants.size() && s.q.constants[input] != nullptr,
          "the device takes a number that is a constant only");
  const op::tensor& exact = *s.q.constants[input];  // a double has not every i64
  require(exact.data.size() == element_size(exact.type), "an input is not one number");
  return scalar_of(s, exact.type, exact.data.data());
}

array array_of(const setting& s, const std::vector<std::int64_t>& values) {
  return {s.acl.aclCreateIntArray(values.data(), values.size()),
          [&acl = s.acl](const array_handle* h) { acl.aclDestroyIntArray(h); }};
}
element type_of(const setting& s) {
  return s.q.inputs[0]->type;
}
void require(bool holds, const char* why) {
  if (!holds) refuse(why);
}

void take_functions(setting& s, const char* name) {
  s.how.name = name;
  s.first = s.acl.find((std::string{name} + "GetWorkspaceSize").c_str());
  s.how.run = reinterpret_cast<second_phase*>(s.acl.find(name));
  if (s.first == nullptr || s.how.run == nullptr) refuse(std::string{"this CANN lacks "} + name);
}

// --- calls of an operator, by the form of its parameters ---

asking one(setting& s) {
  return [f = s.first](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, tensor_handle*, sizes, made>(f, t[0], t[1], w, e);
  };
}

asking two(setting& s) {
  require(s.given == 2, "the device's operator takes two inputs");
  return [f = s.first](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, const tensor_handle*, tensor_handle*, sizes, made>(f, t[0], t[1], t[2], w, e);
  };
}

asking numbered(setting& s, std::int64_t number) {
  return [f = s.first, number](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, std::int64_t, tensor_handle*, sizes, made>(f, t[0], number, t[1], w, e);
  };
}

asking with_array(setting& s, const std::vector<std::int64_t>& values) {
  return [f = s.first, values = array_of(s, values)](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, const array_handle*, tensor_handle*, sizes, made>(f, t[0], values.get(), t[1],
                                                                                            w, e);
  };
}

asking reducing(setting& s, const std::vector<std::int64_t>& axes, bool keep) {
  return [f = s.first, axes = array_of(s, axes), keep](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, const array_handle*, bool, tensor_handle*, sizes, made>(f, t[0], axes.get(),
                                                                                                  keep, t[1], w, e);
  };
}
asking reducing_to_type(setting& s, const std::vector<std::int64_t>& axes, bool keep) {
  return [f = s.first, axes = array_of(s, axes), keep, type = data_type(s.outputs[0].type)](
             tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, const array_handle*, bool, int, tensor_handle*, sizes, made>(
        f, t[0], axes.get(), keep, type, t[1], w, e);
  };
}

}  // namespace berth::op::ascend

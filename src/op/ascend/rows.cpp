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
  return asks(s, in{0}, out{1});
}

asking two(setting& s) {
  require(s.given == 2, "the device's operator takes two inputs");
  return asks(s, in{0}, in{1}, out{2});
}

asking numbered(setting& s, std::int64_t number) {
  return asks(s, in{0}, number, out{1});
}

asking with_array(setting& s, const std::vector<std::int64_t>& values) {
  return asks(s, in{0}, array_of(s, values), out{1});
}

asking reducing(setting& s, const std::vector<std::int64_t>& axes, bool keep) {
  return asks(s, in{0}, array_of(s, axes), keep, out{1});
}
asking reducing_to_type(setting& s, const std::vector<std::int64_t>& axes, bool keep) {
  return asks(s, in{0}, array_of(s, axes), keep, data_type(s.outputs[0].type), out{1});
}

}  // namespace berth::op::ascend

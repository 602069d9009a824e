// Single operators by name. A compiled operator of CANN is a file in the folder of aclopSetModelDir(). Here it is an
// ONNX file there, NAME.onnx, whose inputs and outputs are the operator's.
#include <sys/stat.h>

#include "acl/acl_op_compiler.h"
#include "model.hpp"

struct aclopAttr {};  // the file has its attributes

namespace ascend_simulator {

template <>
constexpr const char* called<aclopAttr> = " attributes of operators";

namespace {

// The operators read so far, by name, under the mutex.
struct operators_read {
  std::string folder = ".";
  std::map<std::string, loaded> all;
};
operators_read& operators() {
  static auto* const all = new operators_read;
  return *all;
}

reading find_operator(const char* name) {
  if (name == nullptr) return {nullptr, refuse(ACL_ERROR_INVALID_PARAM, "null")};
  std::string path;
  {
    const std::lock_guard lock{the().mutex};
    const auto found = operators().all.find(name);
    if (found != operators().all.end()) return {found->second};
    path = operators().folder + "/" + name + ".onnx";
  }
  reading read = read_model(path.c_str());
  if (read.code == ACL_ERROR_INVALID_FILE) {
    return {nullptr, refuse(ACL_ERROR_OP_TYPE_NOT_MATCH, ("there is no file " + path).c_str())};
  }
  if (read.made == nullptr) return read;
  const std::lock_guard lock{the().mutex};
  return {operators().all[name] = std::move(read.made)};
}

// Checks that the descriptions are the file's. The caller holds the mutex.
bool fit(const std::vector<model_port>& ports, const aclTensorDesc* const* given, int count) {
  if (count < 0 || ports.size() != static_cast<std::size_t>(count)) return false;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (!all_of<aclTensorDesc>().has(given[i]) || given[i]->type != ports[i].type ||
        given[i]->shape != ports[i].shape) {
      return false;
    }
  }
  return true;
}

struct side {
  int count;
  const aclTensorDesc* const* types;
  aclDataBuffer* const* data;
};
// Checks that the file fits; the caller holds the mutex.
aclError check_operator(const loaded_model& m, const side& inputs, const side& outputs) {
  if (!fit(m.text->inputs, inputs.types, inputs.count)) {
    return refuse(ACL_ERROR_OP_INPUT_NOT_MATCH, "the inputs are not those of the file");
  }
  if (!fit(m.text->outputs, outputs.types, outputs.count)) {
    return refuse(ACL_ERROR_OP_OUTPUT_NOT_MATCH, "the outputs are not those of the file");
  }
  return ACL_SUCCESS;
}
aclError execute(const char* name, const side& inputs, const side& outputs, const std::shared_ptr<stream_state>& on) {
  const reading read = find_operator(name);
  if (read.made == nullptr) return read.code;
  const std::lock_guard lock{the().mutex};
  if (const aclError code = check_operator(*read.made, inputs, outputs); code != ACL_SUCCESS) return code;
  execution made{read.made};
  std::vector<use> uses;
  const aclError code =
      prepare(made, {inputs.data, inputs.data + inputs.count}, {outputs.data, outputs.data + outputs.count}, uses);
  if (code != ACL_SUCCESS) return code;
  enqueue(on, uses, [made = std::move(made)] { return made.run(); });
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace ascend_simulator

using namespace ascend_simulator;

extern "C" {

aclError aclopSetModelDir(const char* folder) {
  ENTER;
  struct stat found {};
  if (folder == nullptr || stat(folder, &found) != 0 || !S_ISDIR(found.st_mode)) {
    return refuse(ACL_ERROR_INVALID_FILE, "no such folder");
  }
  const std::lock_guard lock{the().mutex};
  operators() = {folder, {}};
  return ACL_SUCCESS;
}
aclopAttr* aclopCreateAttr() {
  return create<aclopAttr>();
}
void aclopDestroyAttr(const aclopAttr* attributes) {
  here = {__func__, __builtin_return_address(0)};
  destroy(attributes);
}

#define SET_ATTRIBUTE(type, ...)                                                      \
  aclError aclopSetAttr##type(aclopAttr* attributes, const char* name, __VA_ARGS__) { \
    if (attributes != nullptr && name != nullptr) return ACL_SUCCESS;                 \
    return refuse(ACL_ERROR_INVALID_PARAM, "null");                                   \
  }
SET_ATTRIBUTE(Bool, std::uint8_t)
SET_ATTRIBUTE(Int, std::int64_t)
SET_ATTRIBUTE(Float, float)
SET_ATTRIBUTE(String, const char*)
SET_ATTRIBUTE(ListInt, int, const std::int64_t*)
SET_ATTRIBUTE(ListFloat, int, const float*)
#undef SET_ATTRIBUTE

aclError aclopExecuteV2(const char* name, int input_count, aclTensorDesc* input_types[], aclDataBuffer* inputs[],
                        int output_count, aclTensorDesc* output_types[], aclDataBuffer* outputs[], aclopAttr*,
                        aclrtStream s) {
  NEEDS_STREAM(s);
  return execute(name, {input_count, input_types, inputs}, {output_count, output_types, outputs}, stream_);
}
// The file takes the place of the compiler's result.
aclError aclopCompile(const char* name, int input_count, const aclTensorDesc* const input_types[], int output_count,
                      const aclTensorDesc* const output_types[], const aclopAttr*, aclopEngineType, aclopCompileType,
                      const char*) {
  ENTER;
  const reading read = find_operator(name);
  if (read.made == nullptr) return read.code;
  const std::lock_guard lock{the().mutex};
  return check_operator(*read.made, {input_count, input_types, nullptr}, {output_count, output_types, nullptr});
}
aclError aclopCompileAndExecute(const char* name, int input_count, const aclTensorDesc* const input_types[],
                                const aclDataBuffer* const inputs[], int output_count,
                                const aclTensorDesc* const output_types[], aclDataBuffer* const outputs[],
                                const aclopAttr*, aclopEngineType, aclopCompileType, const char*, aclrtStream s) {
  NEEDS_STREAM(s);
  auto* const* const readable = const_cast<aclDataBuffer* const*>(inputs);
  return execute(name, {input_count, input_types, readable}, {output_count, output_types, outputs}, stream_);
}

}  // extern "C"

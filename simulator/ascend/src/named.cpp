// Single operators by name. A compiled operator of CANN is a file in the folder of aclopSetModelDir(). Here it is an
// ONNX file there, NAME.onnx, whose inputs and outputs are the operator's.
#include <sys/stat.h>

#include "acl/acl_op.h"
#include "model.hpp"

struct aclopAttr {};  // the file has its attributes

namespace ascend_simulator {

template <>
constexpr const char* called<aclopAttr> = " attributes of operators";

namespace {

// The operators read so far, by name, under the mutex.
struct operators_read {
  std::string folder;
  std::map<std::string, loaded> all;
};
operators_read& operators() {
  static auto* const all = new operators_read;
  return *all;
}

loaded find_operator(const char* name, aclError& code) {
  std::string path;
  {
    const std::lock_guard lock{the().mutex};
    const auto found = operators().all.find(name);
    if (found != operators().all.end()) return found->second;
    path = operators().folder + "/" + name + ".onnx";
  }
  loaded made = read_model(path.c_str(), code);
  if (code == ACL_ERROR_INVALID_FILE) code = refuse(ACL_ERROR_OP_TYPE_NOT_MATCH, ("there is no file " + path).c_str());
  if (made == nullptr) return nullptr;
  const std::lock_guard lock{the().mutex};
  return operators().all[name] = std::move(made);
}

// Checks that the descriptions are the file's. The caller holds the mutex.
bool fit(const std::vector<model_port>& ports, aclTensorDesc* const* given, int count) {
  if (count < 0 || ports.size() != static_cast<std::size_t>(count)) return false;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (!all_of<aclTensorDesc>().has(given[i]) || given[i]->type != ports[i].type ||
        given[i]->shape != ports[i].shape) {
      return false;
    }
  }
  return true;
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
  if (name == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  aclError code = ACL_SUCCESS;
  execution made{find_operator(name, code)};
  if (made.model == nullptr) return code;
  const std::lock_guard lock{the().mutex};
  if (!fit(made.model->text->inputs, input_types, input_count)) {
    return refuse(ACL_ERROR_OP_INPUT_NOT_MATCH, "the inputs are not those of the file");
  }
  if (!fit(made.model->text->outputs, output_types, output_count)) {
    return refuse(ACL_ERROR_OP_OUTPUT_NOT_MATCH, "the outputs are not those of the file");
  }
  std::vector<use> uses;
  code = prepare(made, {inputs, inputs + input_count}, {outputs, outputs + output_count}, uses);
  if (code != ACL_SUCCESS) return code;
  enqueue(stream_, uses, [made = std::move(made)] { return made.run(); });
  return ACL_SUCCESS;
}

}  // extern "C"

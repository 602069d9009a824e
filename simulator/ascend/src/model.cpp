// Models: an ONNX file in place of an .om file, run on the host by Berth's runner.
//
// A run copies the inputs from device memory into the runner's arena, runs there, and copies the outputs back. The
// simulator checks the buffers and the order of the work as for a copy.
#include "model.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "acl/acl_mdl.h"
#include "berth/model/input_error.hpp"
#include "berth/model/onnx.hpp"

struct aclmdlDesc {
  std::shared_ptr<const ascend_simulator::model_text> text{};
};
struct aclmdlDataset {
  std::vector<aclDataBuffer*> buffers{};
};
struct aclmdlConfigHandle {
  std::size_t kind = 0;
  std::string path{};
  std::string_view bytes{};
  void *work = nullptr, *weights = nullptr;
  std::size_t work_size = 0, weights_size = 0;
};

namespace ascend_simulator {

template <>
constexpr const char* called<aclmdlDesc> = " descriptions of models";
template <>
constexpr const char* called<aclmdlDataset> = " data sets";
template <>
constexpr const char* called<aclmdlConfigHandle> = " configurations of models";

namespace {

// The caller holds the mutex.
std::map<std::uint32_t, loaded>& models() {
  static auto* const all = new std::map<std::uint32_t, loaded>;
  return *all;
}

aclDataType type_of_port(berth::element e) {
  constexpr std::pair<berth::element, aclDataType> types[] = {
      {berth::element::f32, ACL_FLOAT},   {berth::element::f16, ACL_FLOAT16}, {berth::element::bf16, ACL_BF16},
      {berth::element::f64, ACL_DOUBLE},  {berth::element::i8, ACL_INT8},     {berth::element::u8, ACL_UINT8},
      {berth::element::i16, ACL_INT16},   {berth::element::u16, ACL_UINT16},  {berth::element::i32, ACL_INT32},
      {berth::element::u32, ACL_UINT32},  {berth::element::i64, ACL_INT64},   {berth::element::u64, ACL_UINT64},
      {berth::element::boolean, ACL_BOOL}};
  for (const auto& [ours, theirs] : types) {
    if (ours == e) return theirs;
  }
  return ACL_DT_UNDEFINED;
}

std::vector<model_port> describe(const std::vector<berth::model::program::port>& ports) {
  std::vector<model_port> all;
  for (const auto& port : ports) {
    std::size_t size = berth::element_size(port.type);
    for (const std::int64_t d : port.shape) size *= static_cast<std::size_t>(d);
    all.push_back({port.name, port.shape, type_of_port(port.type), size});
  }
  return all;
}

reading read_bytes(const void* model, std::size_t size) {
  return read_model("a model in memory", {static_cast<const char*>(model), model != nullptr ? size : 0});
}

// Checks memory that the caller gives to the model: enough of it, on the device.
aclError check_given(const use& one, std::size_t needed) {
  if (one.start == nullptr && one.size == 0) return ACL_SUCCESS;
  if (one.size < needed) return refuse(ACL_ERROR_INVALID_PARAM, "less memory than aclmdlQuerySize says");
  const finding fault = find_fault(one.start, one.size);
  if (fault.kind != nullptr)
    return violate(ACL_ERROR_INVALID_PARAM, fault.kind, std::string{one.what} + ": " + fault.text);
  return ACL_SUCCESS;
}

aclError keep_model(const reading& read, std::uint32_t* out, use work = {}, use weights = {}) {
  const auto& [made, code] = read;
  if (made == nullptr) return code;
  if (out == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  const std::lock_guard lock{the().mutex};
  for (const auto& [one, needed] : {std::pair{work, made->text->arena}, std::pair{weights, made->text->weights}}) {
    if (const aclError wrong = check_given(one, needed); wrong != ACL_SUCCESS) return wrong;
  }
  made->work = work;
  made->weights = weights;
  static std::uint32_t newest = 0;
  models()[++newest] = made;
  ++the().objects[" models"];
  *out = newest;
  return ACL_SUCCESS;
}

use work_memory(void* p, std::size_t size) {
  return {p, size, true, "the model's working memory"};
}
use weight_memory(void* p, std::size_t size) {
  return {p, size, false, "the memory of the model's weights"};
}

aclError query(const reading& read, std::size_t* work, std::size_t* weights) {
  const auto& [made, code] = read;
  if (made == nullptr) return code;
  if (work == nullptr || weights == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  *work = made->text->arena;
  *weights = made->text->weights;
  return ACL_SUCCESS;
}

// Adds the uses of one side's buffers. The caller holds the mutex.
aclError check_buffers(const std::vector<model_port>& ports, const buffers& given, bool writes,
                       std::vector<use>& uses) {
  const aclError mismatch = writes ? ACL_ERROR_MODEL_OUTPUT_NOT_MATCH : ACL_ERROR_MODEL_INPUT_NOT_MATCH;
  if (given.size() != ports.size()) return refuse(mismatch, "not as many buffers as the model has");
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (!all_of<aclDataBuffer>().has(given[i])) {
      return violate(ACL_ERROR_INVALID_PARAM, "use_after_free", "a data buffer that was destroyed");
    }
    if (given[i]->size < ports[i].size) return refuse(mismatch, "a buffer smaller than the model's");
    if (!in_window(given[i]->data)) return refuse(ACL_ERROR_INVALID_PARAM, "a buffer that is no device memory");
    uses.push_back(
        {given[i]->data, ports[i].size, writes, writes ? "an output of the model" : "an input of the model"});
    const finding fault = find_fault(given[i]->data, ports[i].size);
    if (fault.kind != nullptr) {
      return violate(ACL_ERROR_INVALID_PARAM, fault.kind, std::string{uses.back().what} + ": " + fault.text);
    }
  }
  return ACL_SUCCESS;
}

// Returns the model and its buffers for one execution of aclmdl, checked.
aclError prepare_model(std::uint32_t id, const aclmdlDataset* input, const aclmdlDataset* output, execution& made,
                       std::vector<use>& uses) {
  const auto found = models().find(id);
  if (found == models().end()) return refuse(ACL_ERROR_INVALID_MODEL_ID, "no such model");
  if (!all_of<aclmdlDataset>().has(input) || !all_of<aclmdlDataset>().has(output)) {
    return refuse(ACL_ERROR_INVALID_PARAM, "null, or a data set that was destroyed");
  }
  made.model = found->second;
  return prepare(made, input->buffers, output->buffers, uses);
}

// Writes the chosen gear into the input that models with gears have for it.
aclError choose_gear(std::uint32_t id, const aclmdlDataset* set, std::size_t index,
                     std::initializer_list<std::uint64_t> gear) {
  const std::lock_guard lock{the().mutex};
  const auto found = models().find(id);
  if (found == models().end()) return refuse(ACL_ERROR_INVALID_MODEL_ID, "no such model");
  const auto& inputs = found->second->text->inputs;
  if (!all_of<aclmdlDataset>().has(set) || index >= inputs.size() || index >= set->buffers.size()) {
    return refuse(ACL_ERROR_INVALID_PARAM, "no such input");
  }
  if (inputs[index].name != ACL_DYNAMIC_TENSOR_NAME) return refuse(ACL_ERROR_MODEL_NOT_DYNAMIC, "not the gears' input");
  if (!all_of<aclDataBuffer>().has(set->buffers[index])) {
    return violate(ACL_ERROR_INVALID_PARAM, "use_after_free", "a data buffer that was destroyed");
  }
  const aclDataBuffer& buffer = *set->buffers[index];
  std::vector<std::int32_t> words;
  for (const std::uint64_t each : gear) words.push_back(static_cast<std::int32_t>(each));
  const std::size_t size = std::min(words.size() * sizeof words[0], inputs[index].size);
  if (buffer.size < size) return refuse(ACL_ERROR_MODEL_INPUT_NOT_MATCH, "a buffer smaller than the model's");
  if (const finding fault = find_fault(buffer.data, size); fault.kind != nullptr) {
    return violate(ACL_ERROR_INVALID_PARAM, fault.kind, "the gears' input: " + fault.text);
  }
  host_uses({{buffer.data, size, true, "the gears' input"}});
  const std::lock_guard bytes{the().bytes_mutex};
  std::memcpy(reachable(buffer.data), words.data(), size);
  return ACL_SUCCESS;
}

const model_port* port_at(const aclmdlDesc* d, bool output, std::size_t index) {
  if (d == nullptr || d->text == nullptr) return nullptr;
  const auto& ports = output ? d->text->outputs : d->text->inputs;
  return index < ports.size() ? &ports[index] : nullptr;
}
aclError dims_of(const aclmdlDesc* d, bool output, std::size_t index, aclmdlIODims* out) {
  const model_port* const port = port_at(d, output, index);
  if (port == nullptr || out == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null, or no such port");
  *out = {};
  port->name.copy(out->name, sizeof out->name - 1);
  out->dimCount = std::min<std::size_t>(port->shape.size(), ACL_MAX_DIM_CNT);
  std::copy_n(port->shape.begin(), out->dimCount, out->dims);
  return ACL_SUCCESS;
}
aclError index_of(const aclmdlDesc* d, bool output, const char* name, std::size_t* out) {
  if (d == nullptr || name == nullptr || out == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  for (std::size_t i = 0; const model_port* const port = port_at(d, output, i); ++i) {
    if (port->name != name) continue;
    *out = i;
    return ACL_SUCCESS;
  }
  return refuse(ACL_ERROR_INVALID_PARAM, "no port of this name");
}

}  // namespace

reading read_model(const std::string& path, std::string_view bytes) {
  try {
    auto made = std::make_shared<loaded_model>();
    berth::model::program program = berth::model::lower(berth::model::read_onnx(path, bytes, {}));
    auto text = std::make_shared<model_text>();
    text->inputs = describe(program.inputs);
    text->outputs = describe(program.outputs);
    auto run = berth::model::runner::create(std::move(program), made->memory, made->queue);
    if (!run) return {nullptr, refuse(ACL_ERROR_GE_FAILURE, run.error().what)};
    made->run.emplace(*std::move(run));
    text->arena = made->run->get_arena().size();
    text->weights = made->run->weights_bytes();
    made->text = std::move(text);
    return {std::move(made), ACL_SUCCESS};
  } catch (const berth::model::input_error& why) {
    return {nullptr, refuse(ACL_ERROR_PARSE_MODEL, why.what())};
  } catch (const std::bad_alloc&) {
    return {nullptr, refuse(ACL_ERROR_BAD_ALLOC, "no memory for the model")};
  }
}
reading read_model(const char* path) {
  if (path == nullptr) return {nullptr, refuse(ACL_ERROR_INVALID_PARAM, "null path")};
  std::ifstream file{path, std::ios::binary};
  if (!file) return {nullptr, refuse(ACL_ERROR_INVALID_FILE, "the model's file cannot be opened")};
  const std::string bytes{std::istreambuf_iterator<char>{file}, {}};
  return read_model(path, bytes);
}

aclError prepare(execution& made, const buffers& inputs, const buffers& outputs, std::vector<use>& uses) {
  const loaded_model& m = *made.model;
  if (const aclError code = check_buffers(m.text->inputs, inputs, false, uses); code != ACL_SUCCESS) return code;
  if (const aclError code = check_buffers(m.text->outputs, outputs, true, uses); code != ACL_SUCCESS) return code;
  for (const aclDataBuffer* b : inputs) made.inputs.push_back(reachable(b->data));
  for (const aclDataBuffer* b : outputs) made.outputs.push_back(reachable(b->data));
  for (const auto& [given, needed] : {std::pair{m.work, m.text->arena}, std::pair{m.weights, m.text->weights}}) {
    if (const aclError code = check_given(given, needed); code != ACL_SUCCESS) return code;
    if (given.size != 0) uses.push_back(given);
  }
  return ACL_SUCCESS;
}

aclError execution::run() const {
  const std::lock_guard one_at_a_time{model->running};
  {
    const std::lock_guard lock{the().bytes_mutex};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::memcpy(model->run->input_bytes(i), inputs[i], model->text->inputs[i].size);
    }
  }
  if (!model->run->run() || !model->queue.synchronize()) return ACL_ERROR_GE_FAILURE;
  const std::lock_guard lock{the().bytes_mutex};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    std::memcpy(outputs[i], model->run->output_bytes(i), model->text->outputs[i].size);
  }
  return ACL_SUCCESS;
}

}  // namespace ascend_simulator

using namespace ascend_simulator;

extern "C" {

aclError aclmdlLoadFromFile(const char* path, std::uint32_t* out) {
  NEEDS_CONTEXT;
  return keep_model(read_model(path), out);
}
aclError aclmdlLoadFromMem(const void* model, std::size_t size, std::uint32_t* out) {
  NEEDS_CONTEXT;
  return keep_model(read_bytes(model, size), out);
}
aclError aclmdlLoadFromFileWithMem(const char* path, std::uint32_t* out, void* work, std::size_t work_size,
                                   void* weights, std::size_t weights_size) {
  NEEDS_CONTEXT;
  return keep_model(read_model(path), out, work_memory(work, work_size), weight_memory(weights, weights_size));
}
aclError aclmdlLoadFromMemWithMem(const void* model, std::size_t size, std::uint32_t* out, void* work,
                                  std::size_t work_size, void* weights, std::size_t weights_size) {
  NEEDS_CONTEXT;
  return keep_model(read_bytes(model, size), out, work_memory(work, work_size), weight_memory(weights, weights_size));
}
aclmdlConfigHandle* aclmdlCreateConfigHandle() {
  return create<aclmdlConfigHandle>();
}
aclError aclmdlDestroyConfigHandle(aclmdlConfigHandle* handle) {
  here = {__func__, __builtin_return_address(0)};
  return destroy(handle);
}
aclError aclmdlSetConfigOpt(aclmdlConfigHandle* handle, aclmdlConfigAttr attribute, const void* value,
                            std::size_t size) {
  if (handle == nullptr || value == nullptr || (size != 4 && size != 8)) {
    return refuse(ACL_ERROR_INVALID_PARAM, "null, or a size that no attribute has");
  }
  std::uint64_t bits = 0;
  std::memcpy(&bits, value, size);
  void* const pointer = reinterpret_cast<void*>(bits);
  switch (attribute) {
    case ACL_MDL_LOAD_TYPE_SIZET: handle->kind = bits; break;
    case ACL_MDL_PATH_PTR: handle->path = static_cast<const char*>(pointer); break;
    case ACL_MDL_MEM_ADDR_PTR: handle->bytes = {static_cast<const char*>(pointer), handle->bytes.size()}; break;
    case ACL_MDL_MEM_SIZET: handle->bytes = {handle->bytes.data(), bits}; break;
    case ACL_MDL_WEIGHT_ADDR_PTR: handle->weights = pointer; break;
    case ACL_MDL_WEIGHT_SIZET: handle->weights_size = bits; break;
    case ACL_MDL_WORKSPACE_ADDR_PTR: handle->work = pointer; break;
    case ACL_MDL_WORKSPACE_SIZET: handle->work_size = bits; break;
    case ACL_MDL_PRIORITY_INT32: break;
    default: return refuse(ACL_ERROR_INVALID_PARAM, "no such attribute");
  }
  return ACL_SUCCESS;
}
aclError aclmdlLoadWithConfig(const aclmdlConfigHandle* h, std::uint32_t* out) {
  NEEDS_CONTEXT;
  if (h == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  const bool with_memory = h->kind == ACL_MDL_LOAD_FROM_FILE_WITH_MEM || h->kind == ACL_MDL_LOAD_FROM_MEM_WITH_MEM;
  const bool from_file = h->kind == ACL_MDL_LOAD_FROM_FILE || h->kind == ACL_MDL_LOAD_FROM_FILE_WITH_MEM;
  if (h->kind < ACL_MDL_LOAD_FROM_FILE || h->kind > ACL_MDL_LOAD_FROM_MEM_WITH_MEM) {
    return refuse(ACL_ERROR_INVALID_PARAM, "no such way to load");
  }
  const reading read = from_file ? read_model(h->path.c_str()) : read_bytes(h->bytes.data(), h->bytes.size());
  if (!with_memory) return keep_model(read, out);
  return keep_model(read, out, work_memory(h->work, h->work_size), weight_memory(h->weights, h->weights_size));
}
aclError aclmdlUnload(std::uint32_t id) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto found = models().find(id);
  if (found == models().end()) return refuse(ACL_ERROR_INVALID_MODEL_ID, "no such model");
  for (const auto& [stream, position] : found->second->last) {
    if (knows(the().host, {stream, position})) continue;
    violate("early_free", "a model goes while its execution need not be done");
    break;
  }
  models().erase(found);
  --the().objects[" models"];
  return ACL_SUCCESS;
}
aclError aclmdlQuerySize(const char* path, std::size_t* work, std::size_t* weights) {
  ENTER;
  return query(read_model(path), work, weights);
}
aclError aclmdlQuerySizeFromMem(const void* model, std::size_t size, std::size_t* work, std::size_t* weights) {
  ENTER;
  return query(read_bytes(model, size), work, weights);
}

aclmdlDesc* aclmdlCreateDesc() {
  return create<aclmdlDesc>();
}
aclError aclmdlDestroyDesc(aclmdlDesc* desc) {
  here = {__func__, __builtin_return_address(0)};
  return destroy(desc);
}
aclError aclmdlGetDesc(aclmdlDesc* desc, std::uint32_t id) {
  ENTER;
  if (desc == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  const std::lock_guard lock{the().mutex};
  const auto found = models().find(id);
  if (found == models().end()) return refuse(ACL_ERROR_INVALID_MODEL_ID, "no such model");
  desc->text = found->second->text;
  return ACL_SUCCESS;
}
aclError aclmdlGetDescFromFile(aclmdlDesc* desc, const char* path) {
  ENTER;
  if (desc == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  const reading read = read_model(path);
  if (read.made != nullptr) desc->text = read.made->text;
  return read.code;
}
std::size_t aclmdlGetNumInputs(aclmdlDesc* d) {
  return d != nullptr && d->text != nullptr ? d->text->inputs.size() : 0;
}
std::size_t aclmdlGetNumOutputs(aclmdlDesc* d) {
  return d != nullptr && d->text != nullptr ? d->text->outputs.size() : 0;
}
aclError aclmdlGetInputDimsV2(const aclmdlDesc* d, std::size_t index, aclmdlIODims* out) {
  return dims_of(d, false, index, out);
}
aclError aclmdlGetCurOutputDims(const aclmdlDesc* d, std::size_t index, aclmdlIODims* out) {
  return dims_of(d, true, index, out);
}

// The functions that inputs and outputs both have.
#define PORTS(side, output)                                                                        \
  std::size_t aclmdlGet##side##SizeByIndex(aclmdlDesc* d, std::size_t index) {                     \
    const model_port* const port = port_at(d, output, index);                                      \
    return port != nullptr ? port->size : 0;                                                       \
  }                                                                                                \
  aclError aclmdlGet##side##Dims(const aclmdlDesc* d, std::size_t index, aclmdlIODims* out) {      \
    return dims_of(d, output, index, out);                                                         \
  }                                                                                                \
  const char* aclmdlGet##side##NameByIndex(const aclmdlDesc* d, std::size_t index) {               \
    const model_port* const port = port_at(d, output, index);                                      \
    return port != nullptr ? port->name.c_str() : "";                                              \
  }                                                                                                \
  aclFormat aclmdlGet##side##Format(const aclmdlDesc* d, std::size_t index) {                      \
    const model_port* const port = port_at(d, output, index);                                      \
    if (port == nullptr) return ACL_FORMAT_UNDEFINED;                                              \
    return port->shape.size() == 4 ? ACL_FORMAT_NCHW : ACL_FORMAT_ND;                              \
  }                                                                                                \
  aclDataType aclmdlGet##side##DataType(const aclmdlDesc* d, std::size_t index) {                  \
    const model_port* const port = port_at(d, output, index);                                      \
    return port != nullptr ? port->type : ACL_DT_UNDEFINED;                                        \
  }                                                                                                \
  aclError aclmdlGet##side##IndexByName(const aclmdlDesc* d, const char* name, std::size_t* out) { \
    return index_of(d, output, name, out);                                                         \
  }
PORTS(Input, false)
PORTS(Output, true)
#undef PORTS

aclError aclmdlSetDynamicBatchSize(std::uint32_t id, aclmdlDataset* set, std::size_t index, std::uint64_t batch) {
  ENTER;
  return choose_gear(id, set, index, {batch});
}
aclError aclmdlSetDynamicHWSize(std::uint32_t id, aclmdlDataset* set, std::size_t index, std::uint64_t height,
                                std::uint64_t width) {
  ENTER;
  return choose_gear(id, set, index, {height, width});
}
aclError aclmdlSetInputDynamicDims(std::uint32_t id, aclmdlDataset* set, std::size_t index, const aclmdlIODims* dims) {
  ENTER;
  if (dims == nullptr || dims->dimCount == 0) return refuse(ACL_ERROR_INVALID_PARAM, "null, or no dimensions");
  return choose_gear(id, set, index, {static_cast<std::uint64_t>(dims->dims[0])});
}

aclmdlDataset* aclmdlCreateDataset() {
  return create<aclmdlDataset>();
}
aclError aclmdlDestroyDataset(const aclmdlDataset* set) {
  here = {__func__, __builtin_return_address(0)};
  return destroy(set);
}
aclError aclmdlAddDatasetBuffer(aclmdlDataset* set, aclDataBuffer* buffer) {
  if (set == nullptr || buffer == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  set->buffers.push_back(buffer);
  return ACL_SUCCESS;
}
std::size_t aclmdlGetDatasetNumBuffers(const aclmdlDataset* set) {
  return set != nullptr ? set->buffers.size() : 0;
}
aclDataBuffer* aclmdlGetDatasetBuffer(const aclmdlDataset* set, std::size_t index) {
  return index < aclmdlGetDatasetNumBuffers(set) ? set->buffers[index] : nullptr;
}
aclError aclmdlExecute(std::uint32_t id, const aclmdlDataset* input, aclmdlDataset* output) {
  NEEDS_CONTEXT;
  execution made;
  {
    const std::lock_guard lock{the().mutex};
    std::vector<use> uses;
    if (const aclError code = prepare_model(id, input, output, made, uses); code != ACL_SUCCESS) return code;
    host_uses(uses);
  }
  const aclError code = made.run();
  return code == ACL_SUCCESS ? code : refuse(code, "the model's run failed");
}
aclError aclmdlExecuteAsync(std::uint32_t id, const aclmdlDataset* input, aclmdlDataset* output, aclrtStream s) {
  NEEDS_STREAM(s);
  const std::lock_guard lock{the().mutex};
  execution made;
  std::vector<use> uses;
  if (const aclError code = prepare_model(id, input, output, made, uses); code != ACL_SUCCESS) return code;
  const loaded model = made.model;
  enqueue(stream_, uses, [made = std::move(made)] { return made.run(); });
  model->last[stream_->number] = stream_->position;
  return ACL_SUCCESS;
}

}  // extern "C"

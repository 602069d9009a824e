// A loaded model and one execution of it; for aclmdl and for single operators.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/model/runner.hpp"
#include "describe.hpp"

namespace ascend_simulator {

struct model_port {
  std::string name;
  std::vector<std::int64_t> shape;
  aclDataType type;
  std::size_t size;
};
// The file's description, and the memory that the runner takes.
struct model_text {
  std::vector<model_port> inputs, outputs;
  std::size_t arena = 0, weights = 0;
};
struct loaded_model {
  berth::pool memory{berth::device::host()};
  berth::stream queue{berth::device::host()};
  std::optional<berth::model::runner> run;
  std::mutex running;
  std::shared_ptr<const model_text> text;
  // The caller's memory for the model, which must live as long as it does.
  use work{}, weights{};
  std::map<std::uint32_t, std::uint64_t> last;  // by stream, the position of the last execution
};
using loaded = std::shared_ptr<loaded_model>;

// A model that was read, or null after a refusal with this code.
struct reading {
  loaded made;
  aclError code = ACL_SUCCESS;
};
// Reads, lowers and plans an ONNX file.
[[nodiscard]] reading read_model(const std::string& path, std::string_view bytes);
[[nodiscard]] reading read_model(const char* path);

using buffers = std::vector<aclDataBuffer*>;
// The addresses where workers find the buffers.
struct execution {
  loaded model;
  std::vector<const void*> inputs{};
  std::vector<void*> outputs{};

  // Copies the inputs, runs, copies the outputs.
  [[nodiscard]] aclError run() const;
};
// Checks the buffers, and adds all uses of memory. The caller holds the mutex.
aclError prepare(execution& made, const buffers& inputs, const buffers& outputs, std::vector<use>& uses);

}  // namespace ascend_simulator

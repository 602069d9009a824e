#include "tool/running.hpp"

#include <cinttypes>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "berth/model/builtin.hpp"
#include "berth/op/operator.hpp"
#include "tool/units.hpp"
#include "tool/value_of.hpp"

namespace berth::tool {

static std::string checksum(const std::vector<std::byte>& data) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte b : data) hash = (hash ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3u;
  return formatted("%016" PRIx64, hash);
}

static std::size_t elements_of(const model::program::port& port) {
  std::size_t count = 1;
  for (const std::int64_t each : port.shape) count *= static_cast<std::size_t>(each);
  return count;
}

std::vector<std::byte> made_up(const model::program::port& input, std::size_t i) {
  return model::pseudo_random(input.type, elements_of(input), i + 1);
}

void run_once(model::runner& planned, const contents& inputs, stream& s) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    value_of(s.copy(planned.input_bytes(i), inputs[i].data(), inputs[i].size()));
  }
  value_of(planned.run());
  value_of(s.synchronize());
}

std::vector<std::byte> read_output(const model::runner& planned, std::size_t i, stream& s) {
  const auto& port = planned.get_program().outputs[i];
  std::vector<std::byte> read(element_size(port.type) * elements_of(port));
  value_of(s.copy(read.data(), planned.output_bytes(i), read.size()));
  value_of(s.synchronize());
  return read;
}

std::vector<output_report> outputs_of(const model::runner& ran, stream& s) {
  std::vector<output_report> outputs;
  const auto& ports = ran.get_program().outputs;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    outputs.push_back({ports[i].name, ports[i].shape, ports[i].type, checksum(read_output(ran, i, s))});
  }
  return outputs;
}

nlohmann::ordered_json to_json(const std::vector<output_report>& outputs) {
  auto all = nlohmann::ordered_json::array();
  for (const output_report& o : outputs) {
    all.push_back({{"name", o.name}, {"shape", o.shape}, {"dtype", op::name(o.type)}, {"checksum", o.checksum}});
    if (!o.file.empty()) all.back()["file"] = o.file;
  }
  return all;
}

}  // namespace berth::tool

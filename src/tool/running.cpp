#include "tool/running.hpp"

#include <cstdint>
#include <cstdio>

#include "tool/value_of.hpp"

namespace berth::tool {

std::string checksum(const void* data, std::size_t size) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto* bytes_of = reinterpret_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ bytes_of[i]) * 0x100000001b3u;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
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
  std::size_t size = element_size(port.type);
  for (const std::int64_t each : port.shape) size *= static_cast<std::size_t>(each);
  std::vector<std::byte> read(size);
  value_of(s.copy(read.data(), planned.output_bytes(i), size));
  value_of(s.synchronize());
  return read;
}

}  // namespace berth::tool

// One run of a planned model, and its results.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "berth/device/stream.hpp"
#include "berth/model/runner.hpp"

namespace berth::tool {

using contents = std::vector<std::vector<std::byte>>;  // by input

// Copies the inputs in, runs, and waits. Throws as value_of() does.
void run_once(model::runner& planned, const contents& inputs, stream& s);

// Returns values for an input that has no file: the same in every run. `i`: its number.
[[nodiscard]] std::vector<std::byte> made_up(const model::program::port& input, std::size_t i);

// Returns an output's bytes, wherever they are.
[[nodiscard]] std::vector<std::byte> read_output(const model::runner& planned, std::size_t i, stream& s);

struct output_report {
  std::string name;
  model::shape shape;
  element type = element::f32;
  std::string checksum;  // FNV-1a over the bytes: equal for equal outputs on one kind of machine
  std::string file{};    // of --out
};
[[nodiscard]] std::vector<output_report> outputs_of(const model::runner& ran, stream& s);
[[nodiscard]] nlohmann::ordered_json to_json(const std::vector<output_report>& outputs);

}  // namespace berth::tool

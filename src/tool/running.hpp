// One run of a planned model, and its results.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "berth/device/stream.hpp"
#include "berth/model/runner.hpp"

namespace berth::tool {

using contents = std::vector<std::vector<std::byte>>;  // by input

// Copies the inputs in, runs, and waits. Throws as value_of() does.
void run_once(model::runner& planned, const contents& inputs, stream& s);

// Returns an output's bytes, wherever they are.
[[nodiscard]] std::vector<std::byte> read_output(const model::runner& planned, std::size_t i, stream& s);

// Returns FNV-1a over the bytes: equal for equal outputs on one kind of machine.
[[nodiscard]] std::string checksum(const void* data, std::size_t size);

}  // namespace berth::tool

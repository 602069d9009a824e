// Settings of other engines' allocators, tried in replays of a log: which of them would have helped, and how much.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tool/playback.hpp"

namespace berth::tool {

// Returns a line for each setting that helps, in the engine's own words and with the figures of its replay. A setting
// helps if the log then fits into `available`, or, if that is not known or the defaults fit too, if it lowers the peak
// of reserved bytes by 2 %. A last line says so if none helps. `engine` is "PyTorch", "RMM" or "ONNX Runtime"; no lines
// for another.
[[nodiscard]] std::vector<std::string> tried_settings(std::string_view engine, const playback& p,
                                                      std::optional<bytes> available, bytes peak_live);

}  // namespace berth::tool

// Built-in models: real topologies with seeded pseudo-random weights, for runs without any download.
//
//   builtin:mobilenet    MobileNetV2 1.0, 224x224x3 channels-last image    (Sandler et al. 2018, table 2)
//   builtin:resnet50     ResNet-50, 3x224x224 image                        (He et al. 2016, table 1)
//   builtin:transformer  four pre-norm encoder blocks, 128 tokens x 256    (Vaswani et al. 2017; Xiong et al. 2020)
//
// The weights are the same on every machine, so that outputs can be compared.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/model/description.hpp"

namespace berth::model {

[[nodiscard]] std::vector<std::string> builtin_names();
// Returns the model of that full name; nothing if there is none.
[[nodiscard]] std::optional<description> builtin(std::string_view name);

// Returns pseudo-random values in [-scale, scale): the same for the same seed everywhere. Runs take them as input by
// default.
[[nodiscard]] std::vector<float> pseudo_random(std::size_t count, std::uint64_t seed, float scale = 1);
// Returns the same as elements of any type. Floats are rounded from those above, and booleans are their signs. Integers
// of eight bits spread over all of their type; wider ones over 0 to 9, which most indices may be. The type is not
// other.
[[nodiscard]] std::vector<std::byte> pseudo_random(element type, std::size_t count, std::uint64_t seed);

}  // namespace berth::model
#pragma GCC visibility pop

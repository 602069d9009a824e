// The parts of an ONNX file's messages, for both readers.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "berth/model/description.hpp"
#include "model/onnx/messages.hpp"

namespace berth::model {

// Adds the names that the node's sub-graphs read of the graph around them, and so the node itself.
void add_captured(const wire::node& n, std::set<std::string>& names);

// Returns by node of the graph the earlier nodes whose results it reads.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> makers_of(const wire::graph& g);

// Returns the version of ONNX's own operators; `otherwise` if none is named.
[[nodiscard]] std::int64_t opset_of(const std::vector<wire::opset>& all, std::int64_t otherwise);

// Returns the file's declaration of a tensor.
[[nodiscard]] declared_type declared(const wire::type& t);

// Returns whether the node is of ONNX's own domain.
[[nodiscard]] bool is_known_domain(const wire::node& n);

// Returns the name. Throws input_error if it is not one line, since names stand in every message and report.
const std::string& name_of(const std::string& path, const std::string& name);

// Returns the elements as they lie in memory, however many. Returns nothing if the type is not one of `element` or the
// data lies in another file.
[[nodiscard]] std::optional<std::vector<std::byte>> data_of(const wire::tensor& t);

// Takes over a number, a text or a list; false for an attribute of another kind.
bool add_plain(op::attributes& to, const wire::attribute& a);

}  // namespace berth::model

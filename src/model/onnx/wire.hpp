// What parsing a file of protobuf would take, told before it is parsed: two bytes of it can stand for an object of some
// hundred.
#pragma once

#include <google/protobuf/message.h>

#include <string_view>

namespace berth::model {

// What speaks against parsing `text` as a message of this type; null: nothing. Its objects may take no more than 512
// MiB and 16 times the text together, as parsed and as read from there. What is no such message is mostly left to the
// parser, but not groups, which no file of ONNX has.
[[nodiscard]] const char* objection_to_parsing(std::string_view text, const google::protobuf::Descriptor& type);

}  // namespace berth::model

// What parsing a file of protobuf would take, told before it is parsed: two bytes of it can stand for an object of some
// hundred.
#pragma once

#include <google/protobuf/message.h>

#include <string_view>

namespace berth::model {

// Whether the objects that `text` holds as a message of this type take no more than 512 MiB and 16 times the text,
// twice over (once as they are parsed, once as they are read from there). What is no such message is left to the
// parser, but for groups, which no ONNX file has.
[[nodiscard]] bool fits_when_parsed(std::string_view text, const google::protobuf::Descriptor& type);

}  // namespace berth::model

// Stands in for onnx.cpp in a build without libonnx.
#include "berth/model/input_error.hpp"
#include "berth/model/onnx.hpp"

namespace berth::model {

namespace {

[[noreturn]] void refuse(const std::string& path) {
  throw input_error(path, "this build has no ONNX reader (BERTH_ONNX is off)");
}

}  // namespace

description read_onnx(const std::string& path, const dimensions&) {
  refuse(path);
}
description read_onnx(const std::string& path, std::string_view, const dimensions&) {
  refuse(path);
}

shapes_graph read_onnx_shapes(const std::string& path, const dimensions&) {
  refuse(path);
}
shapes_graph read_onnx_shapes(const std::string& path, std::string_view, const dimensions&) {
  refuse(path);
}

std::string onnx_in_order(const std::string& path, std::string_view, const shapes_graph&,
                          std::span<const std::uint32_t>, source_location) {
  refuse(path);
}

}  // namespace berth::model

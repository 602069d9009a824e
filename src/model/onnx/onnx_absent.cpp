// Stands in for onnx.cpp in a build without libonnx.
#include "berth/model/input_error.hpp"
#include "berth/model/onnx.hpp"

namespace berth::model {

description read_onnx(const std::string& path, const dimensions&) {
  throw input_error(path, "this build has no ONNX reader (BERTH_ONNX is off)");
}

shapes_graph read_onnx_shapes(const std::string& path, const dimensions&) {
  throw input_error(path, "this build has no ONNX reader (BERTH_ONNX is off)");
}

}  // namespace berth::model

// External data: tensors whose elements lie in files beside the model's.
#pragma once

#include <string>

#include "model/onnx/messages.hpp"

namespace berth::model {

// Brings them into the model: afterwards no tensor of it names a file. A location is a path below the model's folder
// that passes no link; what is read is what the tensor's shape takes, and of all tensors together no more than four
// times the files. Throws input_error: a location elsewhere, no plain file, bytes that are not there, a number that is
// none.
void read_external_data(wire::model& model, const std::string& path);
// Throws input_error where a tensor names a file; the model stays as it is, and no file is looked at.
void refuse_external_data(wire::model& model, const std::string& path);

}  // namespace berth::model

// External data: tensors whose elements lie in files beside the model's.
#pragma once

#include <string>

#include "model/onnx/messages.hpp"

namespace berth::model {

// Brings external data into the model: afterwards no tensor of it names a file. A location is a path below the model's
// folder that passes no link. Reads the bytes of each tensor's shape, in all at most four times the files. Throws
// input_error: a location elsewhere, no plain file, missing bytes, an invalid number.
void read_external_data(wire::model& model, const std::string& path);
// Throws input_error if a tensor names a file; the model stays as it is, and no file is looked at.
void refuse_external_data(wire::model& model, const std::string& path);

}  // namespace berth::model

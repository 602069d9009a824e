// Changes to a file's messages that both readers want before they read its graph.
#pragma once

#include <string>

#include "model/onnx/messages.hpp"

namespace berth::model {

// Sorts the nodes of each graph behind those whose results they read, and otherwise keeps the file's order. Throws
// input_error that names a cycle. O(file) per level of sub-graphs.
void sort_nodes(wire::model& m, const std::string& path);

// Puts the body of a local function in the place of each node that calls it. Attributes that a body refers to are the
// node's, or the function's defaults. Values of a body are called "FUNCTION#3/NAME"; those of a graph that the node
// hands over keep their names. Throws input_error: functions call each other, or another opset would read a body
// otherwise. Limits: 65,536 nodes of all bodies; copies of 64 MiB and 16 times the file and the files that it reads.
void put_functions_in_place(wire::model& m, const std::string& path, std::size_t file_size);

}  // namespace berth::model

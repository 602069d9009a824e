// The readers of planning problems, one a format, and of ggml's graphs. `text` is the whole file; each throws
// input_error.
#pragma once

#include <string>
#include <string_view>

#include "berth/model/ggml_trace.hpp"
#include "berth/model/problem_file.hpp"

namespace berth::model {

// Reads any format.
[[nodiscard]] problem_file problem_of_text(const std::string& path, std::string_view text, const dimensions& said = {},
                                           reads what = reads::buffers);

[[nodiscard]] problem_file read_problem_csv(const std::string& path, std::string_view text);
[[nodiscard]] problem_file read_problem_json(const std::string& path, std::string_view text);
[[nodiscard]] problem_file read_allocation_list(const std::string& path, std::string_view text);
[[nodiscard]] problem_file read_tflite(const std::string& path, std::string_view text, const dimensions& said = {},
                                       reads what = reads::buffers);
[[nodiscard]] problem_file read_xla(const std::string& path, std::string_view text);
// Returns whether it is the text of a BufferAssignment, which read_xla() reads too.
[[nodiscard]] inline bool is_xla_assignment(std::string_view text) {
  return text.starts_with("BufferAssignment:");
}
[[nodiscard]] ggml_trace parse_ggml_trace(const std::string& path, std::string_view text);

}  // namespace berth::model

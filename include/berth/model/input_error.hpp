// The exception of the readers: one line that names the file, the place in it, the fault and its reason.
//
// Readers are the one part of Berth that throws: their callers are tools, and a bad file ends the job. A reader that
// throws has written nothing.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace berth::model {

class input_error : public std::runtime_error {
 public:
  // "FILE: WHAT"; WHAT names the node, operator, buffer or dimension at fault. "-" is called standard input.
  input_error(std::string_view file, std::string_view what)
      : std::runtime_error{called(file) + ": " + std::string{what}}, file_length_{called(file).size()} {}
  // "FILE:LINE: WHAT", with lines counted from 1.
  input_error(std::string_view file, std::size_t line, std::string_view what)
      : std::runtime_error{called(file) + ":" + std::to_string(line) + ": " + std::string{what}},
        file_length_{called(file).size()},
        line_{line} {}

  // Returns the file as the text names it.
  [[nodiscard]] std::string_view file() const noexcept { return std::string_view{what()}.substr(0, file_length_); }
  [[nodiscard]] std::size_t line() const noexcept { return line_; }

 private:
  static std::string called(std::string_view file) { return std::string{file == "-" ? "standard input" : file}; }

  std::size_t file_length_;
  std::size_t line_ = 0;
};

}  // namespace berth::model
#pragma GCC visibility pop

// What a reader throws: one line that names the file, the place in it, what is wrong and why.
//
// Readers are the one part of Berth that throws: their callers are tools, and a bad file ends the job. Nothing has
// been written when one is thrown.
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
      : std::runtime_error{called(file) + ": " + std::string{what}} {}
  // "FILE:LINE: WHAT", with lines counted from 1.
  input_error(std::string_view file, std::size_t line, std::string_view what)
      : std::runtime_error{called(file) + ":" + std::to_string(line) + ": " + std::string{what}} {}

 private:
  static std::string called(std::string_view file) { return std::string{file == "-" ? "standard input" : file}; }
};

}  // namespace berth::model
#pragma GCC visibility pop

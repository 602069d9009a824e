// The command's output: the answer on standard output, and files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tool/verb.hpp"

namespace berth::tool {

// Checks an option, and returns the fault: an empty text would be taken for a missing option.
std::string not_empty(const std::string& text);

// Declares -o, --out (and `also`, for a name it once had). "-" is standard output.
CLI::Option* add_out_option(CLI::App& app, std::string& out, const std::string& what, const std::string& also = "");

// Declares --prefix, which the names of a C header begin with.
CLI::Option* add_prefix_option(CLI::App& app, std::string& prefix);

// Throws usage_error if `out` is one of the files that were read, under any name.
void refuse_input_as_output(const std::string& out, const std::vector<std::string>& inputs,
                            const char* option = "--out");

// Writes both files, or neither: restores the first if the second cannot be written. Throws input_error.
void write_both(const std::string& first, std::string_view first_text, const std::string& second,
                std::string_view second_text);

// Prints one line of JSON on standard output, in ASCII; bytes that are not UTF-8 become U+FFFD.
void print_json(const nlohmann::json& answer);
void print_json(const nlohmann::ordered_json& answer);

// Returns the number, or null.
template <class T, class Json = nlohmann::json>
[[nodiscard]] Json or_null(const std::optional<T>& n) {
  return n ? Json(*n) : Json(nullptr);
}

// Answers that a problem to be shown has no plan.
int say_no(const std::string& why, bool as_json);

// Returns different names of files for different names of any kind. Characters that a file's name may not have become
// '_'. A name taken then, also in other letters' size, gets a number. No name is longer than 200 bytes.
[[nodiscard]] std::vector<std::string> file_names(const std::vector<std::string>& names);

}  // namespace berth::tool

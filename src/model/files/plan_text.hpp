// What the writers of plans share.
#pragma once

#include <charconv>
#include <concepts>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "berth/model/problem_file.hpp"
#include "berth/plan/plan.hpp"

namespace berth::model {

inline void append(std::string& out, std::integral auto n) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, n).ptr);
}

void append(std::string& out, double n);

// As a string of JSON.
void append_string(std::string& out, std::string_view text);

// As the file has it: a number or a string.
void append_id(std::string& out, const problem_file& file, std::string_view id);

// A C identifier in capitals: letters and digits of the id, an underscore for all else; unique in `taken`.
[[nodiscard]] std::string macro_name(std::string_view id, std::set<std::string>& taken);

// plan_json() with further keys, ",\"key\":value...": of the plan, and what `more_of` appends of each buffer.
[[nodiscard]] std::string plan_json(const problem_file& file, const plan::plan& answer, double elapsed_ms,
                                    std::string_view more,
                                    const std::function<void(std::string&, plan::index)>& more_of);

}  // namespace berth::model

// Sizes that depend on dimensions, as text: a sum of products of whole numbers and names, "4*batch*seq + 256".
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "berth/plan/problem.hpp"

namespace berth::model {

// Returns whether it is a letter, then letters, digits and underscores.
[[nodiscard]] bool is_dimension_name(std::string_view name);

// The number of a dimension in a term, by its name.
using dimension_numbers = std::map<std::string, plan::index, std::less<>>;
[[nodiscard]] dimension_numbers numbers_of(std::span<const plan::dimension> dimensions);

// Returns the terms, or why `text` is none: one line that names the place in it.
[[nodiscard]] std::variant<std::vector<plan::size_term>, std::string> parse_size(std::string_view text,
                                                                                 const dimension_numbers& dimensions);

// Returns the text that parse_size() reads as these terms.
[[nodiscard]] std::string size_text(const std::vector<plan::size_term>& terms,
                                    std::span<const plan::dimension> dimensions);

// Returns the terms whose sum the buffer's size is.
[[nodiscard]] std::vector<plan::size_term> terms_of(const plan::buffer& b);

}  // namespace berth::model

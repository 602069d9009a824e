// Strict reading of JSON objects: every key is known, every value has its type, and errors name the place.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/plan/problem.hpp"

namespace berth::model {

using json = nlohmann::json;

// A value and its place in the file, for messages. Refers to both.
class json_value {
 public:
  // `line` 0: unknown.
  json_value(const json& value, std::string where, const std::string& path, std::uint32_t line)
      : value_{&value}, where_{std::move(where)}, path_{&path}, line_{line} {}

  [[noreturn]] void fail(const std::string& what) const;

  // Members of an object. A key whose value is null counts as absent.
  [[nodiscard]] std::optional<json_value> find(const char* key) const;
  [[nodiscard]] json_value at(const char* key) const;
  void only_keys(std::initializer_list<const char*> keys) const;

  // Elements of an array.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] json_value at(std::size_t i) const;
  [[nodiscard]] json_value at(std::size_t i, std::uint32_t line) const;

  [[nodiscard]] bytes as_bytes() const;
  [[nodiscard]] plan::tick as_tick() const;
  [[nodiscard]] double as_number() const;
  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] std::string as_id() const;  // a string, or a whole number as text
  [[nodiscard]] bool is_number() const { return value_->is_number(); }
  [[nodiscard]] bool is_null() const { return value_->is_null(); }
  [[nodiscard]] bool is_list() const { return value_->is_array(); }
  [[nodiscard]] bool is_object() const { return value_->is_object(); }

 private:
  const json* value_;
  std::string where_;
  const std::string* path_;
  std::uint32_t line_;
};

// Parses; a syntax error is an input_error with its line, the first line of `text` being `first_line`. Also throws for
// more than 64 levels, a key given twice, or more than 2^26 values. The values may take 512 MiB and 16 times the text.
[[nodiscard]] json parse_json(const std::string& path, std::string_view text, std::size_t first_line = 1);

// Returns the line of every element of the first array called `key` that lies `depth` objects deep.
[[nodiscard]] std::vector<std::uint32_t> lines_of_elements(std::string_view text, std::string_view key, int depth);

}  // namespace berth::model

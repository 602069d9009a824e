#include "model/json_fields.hpp"

#include <algorithm>
#include <cmath>

#include "berth/model/input_error.hpp"
#include "model/readers.hpp"

namespace berth::model {

void json_value::fail(const std::string& what) const {
  const std::string text = where_.empty() ? what : where_ + ": " + what;
  if (line_ == 0) throw input_error(*path_, text);
  throw input_error(*path_, line_, text);
}

std::optional<json_value> json_value::find(const char* key) const {
  if (!value_->is_object()) fail("is not an object");
  const auto it = value_->find(key);
  if (it == value_->end() || it->is_null()) return std::nullopt;
  return json_value{*it, where_.empty() ? key : where_ + "." + key, *path_, line_};
}

json_value json_value::at(const char* key) const {
  auto found = find(key);
  if (!found) fail(std::string{"no key '"} + key + "'");
  return *found;
}

void json_value::only_keys(std::initializer_list<const char*> keys) const {
  if (!value_->is_object()) fail("is not an object");
  for (const auto& [key, value] : value_->items()) {
    const bool known = std::any_of(keys.begin(), keys.end(), [&k = key](const char* name) { return k == name; });
    if (!known) fail("unknown key " + quote(key));
  }
}

std::size_t json_value::size() const {
  if (!value_->is_array()) fail("is not a list");
  return value_->size();
}

json_value json_value::at(std::size_t i) const {
  return at(i, line_);
}

json_value json_value::at(std::size_t i, std::uint32_t line) const {
  if (i >= size()) fail("has only " + std::to_string(size()) + " elements");
  return {(*value_)[i], where_ + "[" + std::to_string(i) + "]", *path_, line};
}

bytes json_value::as_bytes() const {
  if (value_->is_number_unsigned()) return value_->get<bytes>();
  if (value_->is_number() && value_->get<double>() < 0) fail("is negative: " + value_->dump());
  fail("is not a whole number of 64 bits: " + quote(value_->dump()));
}

plan::tick json_value::as_tick() const {
  if (value_->is_number_integer() && (!value_->is_number_unsigned() || value_->get<std::uint64_t>() <= INT64_MAX)) {
    return value_->get<plan::tick>();
  }
  fail("is not a whole number of 64 bits: " + quote(value_->dump()));
}

double json_value::as_number() const {
  if (!value_->is_number()) fail("is not a number: " + quote(value_->dump()));
  return value_->get<double>();
}

bool json_value::as_bool() const {
  if (!value_->is_boolean()) fail("is neither true nor false: " + quote(value_->dump()));
  return value_->get<bool>();
}

std::string json_value::as_id() const {
  if (value_->is_string()) return value_->get<std::string>();
  if (value_->is_number_integer()) return value_->dump();
  fail("is neither a string nor a whole number: " + quote(value_->dump()));
}

json parse_json(const std::string& path, std::string_view text) {
  try {
    return json::parse(text);
  } catch (const json::exception& e) {
    const auto* syntax = dynamic_cast<const json::parse_error*>(&e);
    if (syntax == nullptr) throw input_error(path, "not JSON: a number is out of range");
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(syntax->byte, text.size()));
    const auto line = static_cast<std::size_t>(std::count(text.begin(), end, '\n')) + 1;
    // The library's text begins with its own name and the place: what follows the last colon pair is what is wrong.
    std::string what = e.what();
    const std::size_t colon = what.find(": ");
    what = colon == std::string::npos ? what : what.substr(colon + 2);
    for (char& c : what) {
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    }
    throw input_error(path, line, "not JSON: " + what.substr(0, 200));
  }
}

std::vector<std::uint32_t> lines_of_elements(std::string_view text, std::string_view key, int depth) {
  std::vector<std::uint32_t> lines;
  std::string_view word;
  int level = 0, list = 0;  // list: the level inside the array, once found
  std::uint32_t line = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '\n': ++line; break;
      case '"': {
        const std::size_t first = ++i;
        while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
        word = text.substr(first, std::min(i, text.size()) - first);
        break;
      }
      case '[':
      case '{':
        if (list == 0 && text[i] == '[' && level == depth && word == key) list = level + 1;
        if (list != 0 && level == list) lines.push_back(line);
        ++level;
        break;
      case ']':
      case '}':
        if (list != 0 && level == list) return lines;
        --level;
        break;
      default: break;
    }
  }
  return lines;
}

}  // namespace berth::model

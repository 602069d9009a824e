#include "model/files/json_fields.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "berth/model/input_error.hpp"
#include "model/files/text.hpp"

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

namespace {
// Shows the value for a message. Lists and objects may be of any size, so only their kind is shown.
std::string shown(const json& v) {
  if (v.is_array()) return "a list";
  if (v.is_object()) return "an object";
  return quote(v.dump());
}
}  // namespace

bytes json_value::as_bytes() const {
  if (value_->is_number_unsigned()) return value_->get<bytes>();
  if (value_->is_number() && value_->get<double>() < 0) fail("is negative: " + value_->dump());
  fail("is not a whole number of 64 bits: " + shown(*value_));
}

plan::tick json_value::as_tick() const {
  if (value_->is_number_integer() && (!value_->is_number_unsigned() || value_->get<std::uint64_t>() <= INT64_MAX)) {
    return value_->get<plan::tick>();
  }
  fail("is not a whole number of 64 bits: " + shown(*value_));
}

double json_value::as_number() const {
  if (!value_->is_number()) fail("is not a number: " + shown(*value_));
  return value_->get<double>();
}

bool json_value::as_bool() const {
  if (!value_->is_boolean()) fail("is neither true nor false: " + shown(*value_));
  return value_->get<bool>();
}

std::string json_value::as_id() const {
  if (value_->is_string()) return value_->get<std::string>();
  if (value_->is_number_integer()) return value_->dump();
  fail("is neither a string nor a whole number: " + shown(*value_));
}

namespace {

// Refuses texts that the parser would accept silently or without bound. The parser keeps one of several equal keys, and
// takes deeper nesting than any format has and more values than memory holds. One pass. Looks only for the ends of
// strings, and leaves invalid JSON to the parser.
class shape_check {
 public:
  shape_check(const std::string& path, std::string_view text, std::size_t first_line)
      : path_{path}, text_{text}, first_line_{first_line} {}

  void run() {
    std::string_view word;  // the last string, until a colon has made it a key
    for (std::size_t i = 0; i < text_.size(); ++i) {
      switch (text_[i]) {
        case '"': {
          const std::size_t first = ++i;
          while (i < text_.size() && text_[i] != '"') i += text_[i] == '\\' ? 2 : 1;
          word = text_.substr(first, std::min(i, text_.size()) - first);
          break;
        }
        case ':':
          if (!open_.empty() && word.data() != nullptr) keys_.push_back(word);
          word = {};
          spend(i, bytes_of_key);
          break;
        case '[':
        case '{':
          if (open_.size() == most_levels) fail(i, "nested more than 64 deep");
          open_.push_back(keys_.size());
          count(i);
          spend(i, bytes_of_container);
          break;
        case ',': count(i); break;
        case ']':
        case '}':
          if (!open_.empty()) close();
          break;
        default: break;
      }
    }
  }

 private:
  static constexpr std::size_t most_levels = 64, most_values = std::size_t{1} << 26;
  // The most bytes of the parsed values: the text of a usual file some eight times, "{}," thirty times.
  static constexpr std::size_t bytes_of_value = 32, bytes_of_container = 64, bytes_of_key = 112;
  static constexpr bytes most_bytes = bytes{1} << 29, most_ratio = 16;

  [[noreturn]] void fail(std::size_t at, const std::string& what) const {
    const auto before = text_.substr(0, at);
    throw input_error(path_, static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + first_line_,
                      what);
  }

  void count(std::size_t at) {
    if (++values_ > most_values) fail(at, "more than 2^26 values");
    spend(at, bytes_of_value);
  }

  void spend(std::size_t at, bytes n) {
    spent_ += n;
    if (spent_ > most_bytes && (spent_ - most_bytes) / most_ratio > text_.size()) {
      fail(at, "its values take more than 512 MiB and 16 times its text");
    }
  }

  // Compares keys that are written with escapes. Leaves invalid strings to the parser.
  void refuse_escaped_again(std::vector<std::string_view>::const_iterator first) const {
    const auto is_escaped = [](std::string_view key) { return key.find('\\') != std::string_view::npos; };
    if (std::none_of(first, keys_.end(), is_escaped)) return;
    std::vector<std::pair<std::string, const char*>> meant;
    for (auto key = first; key != keys_.end(); ++key) {
      const json text = json::parse('"' + std::string{*key} + '"', nullptr, false);
      if (text.is_string()) meant.emplace_back(text.get<std::string>(), key->data());
    }
    std::ranges::sort(meant);
    const auto twice = std::ranges::adjacent_find(meant, {}, &std::pair<std::string, const char*>::first);
    if (twice == meant.end()) return;
    fail(static_cast<std::size_t>(std::next(twice)->second - text_.data()), "a second key " + quote(twice->first));
  }

  void close() {
    const auto first = keys_.begin() + static_cast<std::ptrdiff_t>(open_.back());
    refuse_escaped_again(first);
    std::sort(first, keys_.end());
    const auto twice = std::adjacent_find(first, keys_.end());
    if (twice != keys_.end()) {
      // Equal keys are in no order: the one later in the text is the second.
      const char* second = std::max(twice->data(), std::next(twice)->data());
      fail(static_cast<std::size_t>(second - text_.data()), "a second key " + quote(*twice));
    }
    keys_.erase(first, keys_.end());
    open_.pop_back();
  }

  const std::string& path_;
  std::string_view text_;
  std::size_t first_line_;
  std::vector<std::string_view> keys_;  // of all objects that are open
  std::vector<std::size_t> open_;       // by level: how many keys there were before it
  std::size_t values_ = 0;
  bytes spent_ = 0;
};

}  // namespace

json parse_json(const std::string& path, std::string_view text, std::size_t first_line) {
  shape_check{path, text, first_line}.run();
  try {
    return json::parse(text);
  } catch (const json::exception& e) {
    const auto* syntax = dynamic_cast<const json::parse_error*>(&e);
    const auto line_at = [&](std::size_t at) {
      const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size()));
      return static_cast<std::size_t>(std::count(text.begin(), end, '\n')) + first_line;
    };
    if (syntax == nullptr) {  // the library's text ends with the number in quotes
      std::string_view number = e.what();
      number.remove_suffix(number.ends_with('\'') ? 1 : 0);
      number.remove_prefix(number.rfind('\'') + 1);
      throw input_error(path, line_at(text.find(number)), "not JSON: a number is out of range: " + quote(number));
    }
    const std::size_t line = line_at(syntax->byte);
    // The library's text begins with its own name and the place; the fault follows the first ": ".
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

#include "trace/proto_fields.hpp"

#include <algorithm>

#include "trace/text.hpp"

namespace berth::trace {

// --- binary

bool proto_fields::number(std::uint64_t& out) {
  out = 0;
  for (unsigned shift = 0; shift < 70 && !rest_.empty(); shift += 7) {
    const auto b = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    if (shift < 64) out |= std::uint64_t{b & 127u} << shift;
    if (b < 128) return true;
  }
  return fail("a number is cut off, or longer than ten bytes");
}

bool proto_fields::next_binary(proto_field& out) {
  if (rest_.empty()) return false;
  std::uint64_t tag = 0, n = 0;
  if (!number(tag)) return false;
  if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) return fail("no field has this number");
  out = {static_cast<unsigned>(tag >> 3), false, 0, {}};
  switch (tag & 7) {
    case 0:
      if (!number(n)) return false;
      out.value = static_cast<std::int64_t>(n);
      return true;
    case 1:
    case 5: n = (tag & 7) == 1 ? 8 : 4; break;
    case 2:
      if (!number(n)) return false;
      out.nested = true;
      break;
    default: return fail("a group, or no protobuf at all");
  }
  if (n > rest_.size()) return fail("a field reaches beyond its message");
  out.inside = rest_.substr(0, static_cast<std::size_t>(n));
  rest_.remove_prefix(static_cast<std::size_t>(n));
  if (!out.nested) out.number = 0;  // a fixed-width number: none of those asked for
  return true;
}

// --- text

void proto_fields::skip_space() noexcept {
  while (!rest_.empty()) {
    if (rest_.front() == '#') {
      rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
    } else if (std::string_view{" \t\r\n,;"}.find(rest_.front()) != std::string_view::npos) {
      rest_.remove_prefix(1);
    } else {
      return;
    }
  }
}

std::string_view proto_fields::word() noexcept {
  const auto ends = [](char c) {
    return !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '_' && c != '-' &&
           c != '.' && c != '+';
  };
  const auto end = std::find_if(rest_.begin(), rest_.end(), ends);
  const std::string_view found = rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
  rest_.remove_prefix(found.size());
  return found;
}

// As it stands between its quotes: escapes are left as they are.
bool proto_fields::text_string(std::string_view& out) {
  const char quote = rest_.front();
  std::size_t end = 1;
  while (end < rest_.size() && rest_[end] != quote && rest_[end] != '\n') end += rest_[end] == '\\' ? 2 : 1;
  if (end >= rest_.size() || rest_[end] != quote) return fail("a string without an end");
  out = rest_.substr(1, end - 1);
  rest_.remove_prefix(end + 1);
  return true;
}

bool proto_fields::text_message(std::string_view& out) {
  const std::string_view from = rest_.substr(1);
  std::size_t open = 0;
  while (!rest_.empty()) {
    const char c = rest_.front();
    if (c == '"' || c == '\'') {
      std::string_view passed;
      if (!text_string(passed)) return false;
      continue;
    }
    if (c == '#') {
      rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      continue;
    }
    rest_.remove_prefix(1);
    if (c == '{' || c == '<') ++open;
    if ((c == '}' || c == '>') && --open == 0) {
      out = from.substr(0, static_cast<std::size_t>(rest_.data() - from.data()) - 1);
      return true;
    }
  }
  return fail("a message without an end");
}

bool proto_fields::next_text(proto_field& out) {
  for (;;) {
    skip_space();
    if (in_list_ && rest_.starts_with(']')) {
      in_list_ = false;
      rest_.remove_prefix(1);
      continue;
    }
    if (rest_.empty()) return in_list_ ? fail("a list without an end") : false;
    if (in_list_) break;
    const std::string_view name = word();
    if (name.empty()) return fail("a field's name is missing");
    const auto known = std::ranges::find(names_, name, &field_name::name);
    number_ = known == names_.end() ? 0 : known->number;
    skip_space();
    if (rest_.starts_with(':')) {
      rest_.remove_prefix(1);
      skip_space();
    }
    if (!rest_.starts_with('[')) break;
    rest_.remove_prefix(1);
    in_list_ = true;
  }
  return text_value(out);
}

bool proto_fields::text_value(proto_field& out) {
  out = {number_, false, 0, {}};
  if (rest_.empty()) return fail("a field without a value");
  const char c = rest_.front();
  out.nested = c == '{' || c == '<' || c == '"' || c == '\'';
  if (c == '{' || c == '<') return text_message(out.inside);
  if (out.nested) return text_string(out.inside);
  const std::string_view value = word();
  if (value.empty()) return fail("a field without a value");
  const auto meant = std::ranges::find(words_, value, &field_name::name);
  if (meant != words_.end()) {
    out.value = meant->number;
  } else if (out.number != 0 && value != "true" && value != "false" && !read(value, out.value)) {
    return fail("not a number");
  }
  return true;
}

}  // namespace berth::trace

// The fields of an untrusted protobuf message, one after the other, from its binary form
// (https://protobuf.dev/programming-guides/encoding) or its text form (.../reference/protobuf/textformat-spec). Returns
// messages inside as their content, to be read in turn. Skips fields that are not asked for.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace berth::trace {

struct field_name {
  std::string_view name;
  unsigned number;
};

struct proto_field {
  unsigned number = 0;      // 0: none of those named
  bool nested = false;      // a message or a string; else a number
  std::int64_t value = 0;   // of a number, or of one of `words`
  std::string_view inside;  // of a message, or a string without its quotes
};

class proto_fields {
 public:
  proto_fields(std::string_view text, bool binary, std::span<const field_name> names,
               std::span<const field_name> words = {})
      : rest_{text}, binary_{binary}, names_{names}, words_{words} {}

  // Returns false at the end, or if the message is wrong.
  [[nodiscard]] bool next(proto_field& out) { return binary_ ? next_binary(out) : next_text(out); }
  // Return the fault (static text; null: none), and its place in the text given.
  [[nodiscard]] const char* wrong() const noexcept { return wrong_; }
  [[nodiscard]] const char* at() const noexcept { return rest_.data(); }

 private:
  bool fail(const char* what) noexcept {
    wrong_ = what;
    return false;
  }
  bool number(std::uint64_t& out);
  bool next_binary(proto_field& out);
  bool next_text(proto_field& out);
  bool text_value(proto_field& out);
  void skip_space() noexcept;
  [[nodiscard]] std::string_view word() noexcept;
  bool text_string(std::string_view& out);
  bool text_message(std::string_view& out);

  std::string_view rest_;
  bool binary_;
  std::span<const field_name> names_;
  std::span<const field_name> words_;
  bool in_list_ = false;  // [1, 2]
  unsigned number_ = 0;   // of the field of the text form that is being read
  const char* wrong_ = nullptr;
};

}  // namespace berth::trace

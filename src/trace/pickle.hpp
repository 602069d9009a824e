// Python pickles of plain data (protocols 2 to 5): none, booleans, numbers, texts, lists and dictionaries. The reader
// never executes anything: an opcode that would look up, call or build an object ends the reading.
//
// Opcodes are those of Python's documentation of `pickletools`. Memory is in proportion to the file: texts stay in it,
// and a value that the pickle mentions again is the same container. A value may be shared a thousand times, and may
// hold itself. A walk of unbounded depth, or over all reachable values, may never end.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "berth/core/result.hpp"

namespace berth::trace {

struct pickle {
  enum class kind : std::uint8_t { none, boolean, integer, real, text, list, dict, other };
  struct value {
    kind is = kind::none;
    bool negative = false;  // of an integer: `n` is what is below zero
    std::uint64_t n = 0;    // the number; the bits of a double; an index in texts or containers
  };
  std::vector<std::string_view> texts;         // UTF-8 or bytes, in what was read
  std::vector<std::vector<value>> containers;  // lists, tuples and sets; a dictionary's keys and values by turns
  value root;

  // Returns the items of a list, or of a dictionary; null for anything else.
  [[nodiscard]] const std::vector<value>* list(const value& v) const noexcept;
  [[nodiscard]] std::optional<std::string_view> text(const value& v) const noexcept;
  [[nodiscard]] static std::optional<std::uint64_t> number(const value& v) noexcept;  // not of a negative one
  // Returns the value of a key of a dictionary: the last, as in Python. Null if it has none or is none. Linear.
  [[nodiscard]] const value* find(const value& dict, std::string_view key) const noexcept;
};

// Errors: invalid_input; the number is the offset of the opcode that is wrong. Throws bad_alloc.
[[nodiscard]] result<pickle> read_pickle(std::string_view bytes);

}  // namespace berth::trace

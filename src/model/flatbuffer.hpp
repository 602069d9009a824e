// Reads an untrusted FlatBuffer (https://flatbuffers.dev/internals): every access is checked.
//
// All numbers are little-endian. A table begins with the distance back to its vtable. The vtable holds its own size,
// the table's, and the place of each field in the table (0: absent). References to strings, vectors and tables hold the
// distance from the reference.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "berth/model/input_error.hpp"

namespace berth::model {

class flatbuffer {
 public:
  using place = std::size_t;  // of a table or a vector; 0: absent

  flatbuffer(const std::string& path, std::string_view bytes) : path_{path}, bytes_{bytes}, budget_{4 * bytes.size()} {}

  [[noreturn]] void fail(const std::string& what) const { throw input_error(path_, what); }

  [[nodiscard]] place root() const { return follow(0); }

  // Returns the field's value, or the default if the table leaves it out.
  template <class Number>
  [[nodiscard]] Number number(place table, unsigned field, Number otherwise) const {
    const place at = find(table, field);
    return at == 0 ? otherwise : read<Number>(at);
  }
  [[nodiscard]] place reference(place table, unsigned field) const {
    const place at = find(table, field);
    return at == 0 ? 0 : follow(at);
  }
  [[nodiscard]] std::string_view text(place table, unsigned field) {
    const place at = reference(table, field);
    if (at == 0) return {};
    return bytes_.substr(at + 4, spend(length(at, 1)));
  }
  [[nodiscard]] std::vector<std::int32_t> numbers(place table, unsigned field) {
    const place at = reference(table, field);
    return numbers_at(at, at == 0 ? 0 : spend(length(at, 4)));
  }
  // Numbers of 32 bits in a vector of bytes; what is left at its end is no number.
  [[nodiscard]] std::vector<std::int32_t> words(place table, unsigned field) {
    const place at = reference(table, field);
    return numbers_at(at, at == 0 ? 0 : spend(length(at, 1)) / 4);
  }
  [[nodiscard]] std::vector<place> tables(place table, unsigned field) {
    const place at = reference(table, field);
    std::vector<place> out(at == 0 ? 0 : spend(length(at, 4)));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = follow(at + 4 + 4 * i);
    return out;
  }
  // Returns the length of the vector there, whose elements have `size` bytes.
  [[nodiscard]] std::size_t length(place vector, std::size_t size) const {
    const std::size_t n = read<std::uint32_t>(vector);
    if (n > (bytes_.size() - vector - 4) / size) broken();
    return n;
  }
  // Returns the place of the field itself; 0 if the table leaves it out.
  [[nodiscard]] place find(place table, unsigned field) const {
    const auto back = read<std::int32_t>(table);
    const std::int64_t vtable = static_cast<std::int64_t>(table) - back;
    if (vtable < 0 || static_cast<std::size_t>(vtable) > bytes_.size()) broken();
    const auto at = static_cast<place>(vtable);
    if (4 + 2 * field + 2 > read<std::uint16_t>(at)) return 0;
    const auto offset = read<std::uint16_t>(at + 4 + 2 * field);
    return offset == 0 ? 0 : table + offset;
  }
  // Returns how many fields the table's kind had when it was written.
  [[nodiscard]] unsigned fields(place table) const {
    const auto vtable = static_cast<place>(static_cast<std::int64_t>(table) - read<std::int32_t>(table));
    return (read<std::uint16_t>(vtable) - 4u) / 2;
  }

 private:
  [[nodiscard]] std::vector<std::int32_t> numbers_at(place vector, std::size_t count) const {
    std::vector<std::int32_t> out(count);
    for (std::size_t i = 0; i < count; ++i) out[i] = read<std::int32_t>(vector + 4 + 4 * i);
    return out;
  }
  [[noreturn]] void broken() const { fail("a broken or truncated TFLite model"); }

  template <class Number>
  [[nodiscard]] Number read(place at) const {
    if (at > bytes_.size() || bytes_.size() - at < sizeof(Number)) broken();
    std::uint64_t n = 0;
    for (std::size_t i = 0; i < sizeof(Number); ++i) {
      n |= std::uint64_t{static_cast<unsigned char>(bytes_[at + i])} << (8 * i);
    }
    return static_cast<Number>(n);
  }
  [[nodiscard]] place follow(place at) const {
    const std::size_t distance = read<std::uint32_t>(at);
    if (distance == 0 || distance > bytes_.size() - at) broken();
    return at + distance;
  }
  // Limits the bytes read: parts may share bytes, so that a small file could stand for a large one.
  std::size_t spend(std::size_t n) {
    if (n > budget_) fail("not a TFLite model: its parts overlap");
    budget_ -= n;
    return n;
  }

  const std::string& path_;
  std::string_view bytes_;
  std::size_t budget_;
};

}  // namespace berth::model

#include "berth/model/npy.hpp"

#include <algorithm>
#include <bit>

#include "berth/model/input_error.hpp"
#include "model/file.hpp"
#include "model/files/text.hpp"

// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
namespace berth::model {

namespace {
constexpr std::string_view magic = "\x93NUMPY";

static_assert(std::endian::native == std::endian::little, "npy: '<f4' is this machine's float");

// By element.
constexpr std::string_view descriptions[] = {"<f4", "<f2", "<V2", "<f8", "|i1", "|u1", "<i2",
                                             "<u2", "<i4", "<u4", "<i8", "<u8", "|b1"};
static_assert(std::size(descriptions) == static_cast<std::size_t>(element::other));

// Returns the text behind 'key': in the header, which is a Python dictionary in a fixed style.
std::string_view field(const std::string& path, std::string_view header, std::string_view key) {
  const auto at = header.find(key);
  if (at == std::string_view::npos) throw input_error(path, "the .npy header has no field " + std::string{key});
  auto rest = header.substr(at + key.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" :"), rest.size()));
  return rest;
}
}  // namespace

tensor read_npy(const std::string& path) {
  const std::string text = read_file(path);
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(text[i])); };
  if (text.size() < 12 || !text.starts_with(magic)) throw input_error(path, "not a .npy file");
  const bool wide = byte(6) > 1;  // versions 2 and 3 have a header length of four bytes
  const std::size_t begin = wide ? 12 : 10;
  const std::size_t length = byte(8) | byte(9) << 8 | (wide ? byte(10) << 16 | byte(11) << 24 : 0);
  if (text.size() < begin + length) throw input_error(path, "truncated in its header");
  const std::string_view header{text.data() + begin, length};

  tensor made{element::other, {}, {}};
  std::string_view said = field(path, header, "'descr'");
  said = said.substr(0, said.find(','));
  said.remove_prefix(said.starts_with('\'') ? 1 : 0);
  said.remove_suffix(said.ends_with('\'') ? 1 : 0);
  const auto* const found = std::find(std::begin(descriptions), std::end(descriptions), said);
  if (found == std::end(descriptions)) throw input_error(path, "elements of type " + quote(said) + " are not read");
  made.type = static_cast<element>(found - std::begin(descriptions));
  if (!field(path, header, "'fortran_order'").starts_with("False")) throw input_error(path, "column-major order");
  auto dims = field(path, header, "'shape'");
  const auto close = dims.find(')');
  if (!dims.starts_with('(') || close == std::string_view::npos) throw input_error(path, "its shape is not a tuple");
  bytes count = 1;
  bool in_number = false;
  for (const char c : dims.substr(1, close)) {
    if (c >= '0' && c <= '9') {
      if (!in_number) made.shape.push_back(0);
      std::int64_t& d = made.shape.back();
      if (__builtin_mul_overflow(d, 10, &d) || __builtin_add_overflow(d, c - '0', &d)) {
        throw input_error(path, "a dimension exceeds 64 bits");
      }
      in_number = true;
    } else {
      if (c != ',' && c != ' ' && c != ')') throw input_error(path, "its shape is not a tuple of numbers");
      in_number = false;
    }
  }
  for (const std::int64_t d : made.shape) {
    const auto next = checked_mul(count, static_cast<bytes>(d));
    if (!next) throw input_error(path, "the product of its dimensions exceeds 64 bits");
    count = *next;
  }
  const std::size_t data = text.size() - begin - length, each = element_size(made.type);
  if (data % each != 0 || data / each != count) {
    throw input_error(path, "has " + std::to_string(data) + " bytes of data where its shape takes " +
                                std::to_string(count) + " elements of " + std::to_string(each));
  }
  const auto* first = reinterpret_cast<const std::byte*>(text.data() + begin + length);
  made.data.assign(first, first + data);
  return made;
}

void write_npy(const std::string& path, element type, const shape& s, const void* data) {
  std::string dims;
  std::size_t count = 1;
  for (const std::int64_t d : s) {
    dims += std::to_string(d) + ", ";
    count *= static_cast<std::size_t>(d);
  }
  if (s.size() > 1) dims.resize(dims.size() - 2);
  if (s.size() == 1) dims.resize(dims.size() - 1);
  std::string header = "{'descr': '" + std::string{descriptions[static_cast<std::size_t>(type)]};
  header += "', 'fortran_order': False, 'shape': (" + dims + "), }";
  // The data starts at a multiple of 64 bytes; the header ends in a newline.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10, ' ');
  header.back() = '\n';
  std::string text{magic};
  text += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  text += header;
  text.append(static_cast<const char*>(data), count * element_size(type));
  write_file(path, text);
}

}  // namespace berth::model

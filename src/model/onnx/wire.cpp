#include "model/onnx/wire.hpp"

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "berth/core/bytes.hpp"

namespace berth::model {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

class wire_walk {
 public:
  explicit wire_walk(bytes most) : most_{most} {}

  // False: over the limit, or no message that was looked through to its end.
  bool walk(std::string_view text, const Descriptor& type, int levels) {
    if (levels == 0) return false;  // so does the parser
    if (!spend(size_of(type))) return false;
    while (!text.empty()) {
      const auto tag = number(text);
      if (!tag) return false;
      const FieldDescriptor* field = type.FindFieldByNumber(static_cast<int>(*tag >> 3));
      if (!spend(bytes_of_field)) return false;
      switch (*tag & 7) {
        case 0:
          if (!number(text)) return false;
          break;
        case 1:
          if (!skip(text, 8)) return false;
          break;
        case 5:
          if (!skip(text, 4)) return false;
          break;
        case 2: {
          const auto length = number(text);
          if (!length || *length > text.size() || !enter(text.substr(0, *length), field, levels)) return false;
          text.remove_prefix(static_cast<std::size_t>(*length));
          break;
        }
        default: grouped_ = true; return false;
      }
    }
    return true;
  }
  [[nodiscard]] bool over() const { return over_; }
  [[nodiscard]] bool grouped() const { return grouped_; }

 private:
  static constexpr std::size_t bytes_of_field = 16, bytes_of_string = 48;

  bool enter(std::string_view text, const FieldDescriptor* field, int levels) {
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE) {
      return walk(text, *field->message_type(), levels - 1);
    }
    const bool varints = field != nullptr && field->is_packable() && field->type() != FieldDescriptor::TYPE_FLOAT &&
                         field->type() != FieldDescriptor::TYPE_DOUBLE;
    if (varints) return spend(bytes{8} * text.size());  // a byte may stand for a number
    return spend(bytes_of_string + text.size());
  }

  bool spend(bytes n) {
    over_ = over_ || n > most_ - spent_;
    if (!over_) spent_ += n;
    return !over_;
  }

  static bool skip(std::string_view& text, std::size_t n) {
    if (text.size() < n) return false;
    text.remove_prefix(n);
    return true;
  }

  static std::optional<std::uint64_t> number(std::string_view& text) {
    std::uint64_t n = 0;
    for (unsigned shift = 0; shift < 70 && !text.empty(); shift += 7) {
      const auto b = static_cast<unsigned char>(text.front());
      text.remove_prefix(1);
      n |= std::uint64_t{b & 127u} << (shift < 64 ? shift : 63);
      if (b < 128) return n;
    }
    return std::nullopt;
  }

  // The object and the pointer to it.
  std::size_t size_of(const Descriptor& type) {
    const auto [at, fresh] = sizes_.try_emplace(&type, 0);
    if (fresh) {
      const auto* empty = google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type);
      at->second = 24 + (empty == nullptr ? 256 : empty->SpaceUsedLong());
    }
    return at->second;
  }

  bytes most_;
  bytes spent_ = 0;
  bool over_ = false;
  bool grouped_ = false;
  std::unordered_map<const Descriptor*, std::size_t> sizes_;
};

}  // namespace

const char* objection_to_parsing(std::string_view text, const Descriptor& type) {
  constexpr bytes least = bytes{1} << 29, ratio = 16;
  wire_walk walk{(least + ratio * text.size()) / 2};
  (void)walk.walk(text, type, 100);
  if (walk.over()) return "its parts take more than 512 MiB and 16 times the file";
  return walk.grouped() ? "not an ONNX model, or a truncated one" : nullptr;
}

}  // namespace berth::model

#include "berth/rules/media.hpp"

#include <algorithm>
#include <array>

namespace berth::rules {
namespace {

// Sources: CANN application development guide, DVPP chapter by product.
// * JPEGD: width stride 128 on 310 and 910, 64 on 310P, 200I/500 A2, A2 and A3. Height stride 16.
// * VDEC: strides 16 and 2; A2 and 200I/500 A2: none.
// * VPC: strides 16 and 2, general; not looked up for each product.
// * The 950, by the media pages of CANN 9.1: JPEGD is listed beside A2 and A3. The video calls of V1 are missing, and
//   those of V2 have channels for JPEGD only.
constexpr std::array<media_chip, 7> chips{{
    {.name = "310", .jpegd_width_stride = 128},
    {.name = "310P", .jpegd_width_stride = 64},
    {.name = "910", .jpegd_width_stride = 128},
    {.name = "200I", .jpegd_width_stride = 64, .vdec_aligns = false},
    {.name = "A2", .jpegd_width_stride = 64, .vdec_aligns = false},
    {.name = "A3", .jpegd_width_stride = 64},
    {.name = "950", .jpegd_width_stride = 64, .vdec = false},
}};

constexpr std::array<std::string_view, 5> formats{"yuv400", "yuv420sp", "yuv422sp", "yuv440sp", "yuv444sp"};

// Returns the bytes of the picture, in halves of a byte a pixel. A gray picture of DVPP also has room for the colours.
constexpr bytes halves(pixels format) noexcept {
  switch (format) {
    case pixels::yuv422sp:
    case pixels::yuv440sp: return 4;
    case pixels::yuv444sp: return 6;
    default: return 3;
  }
}

result<picture> with_strides(pixels format, bytes width_stride, bytes height_stride) noexcept {
  return picture{width_stride, height_stride, width_stride * height_stride * halves(format) / 2};
}

result<void> validate(bytes width, bytes height, bytes least, bytes most, const char* what) noexcept {
  for (const bytes side : {width, height}) {
    if (side < least || side > most) return error{errc::invalid_input, what, side};
  }
  return {};
}

}  // namespace

std::span<const media_chip> media_chips() noexcept {
  return chips;
}

std::optional<media_chip> find_media_chip(std::string_view name) noexcept {
  const auto it = std::ranges::find(chips, name, &media_chip::name);
  return it != chips.end() ? std::optional{*it} : std::nullopt;
}

std::optional<pixels> find_pixels(std::string_view name) noexcept {
  const auto it = std::ranges::find(formats, name);
  return it != formats.end() ? std::optional{static_cast<pixels>(it - formats.begin())} : std::nullopt;
}

result<picture> jpegd_picture(const media_chip& chip, pixels format, bytes width, bytes height) noexcept {
  if (auto ok = validate(width, height, 32, 8192, "JPEGD takes pictures of 32 to 8192 pixels a side"); !ok) {
    return ok.error();
  }
  return with_strides(format, align_up(width, chip.jpegd_width_stride), align_up(height, 16));
}

result<picture> vdec_picture(const media_chip& chip, bytes width, bytes height) noexcept {
  if (!chip.vdec) return error{errc::unsupported, "this chip decodes pictures only, no video"};
  if (auto ok = validate(width, height, 128, 4096, "VDEC takes frames of 128 to 4096 pixels a side"); !ok) {
    return ok.error();
  }
  if (!chip.vdec_aligns) return with_strides(pixels::yuv420sp, width, height);
  return with_strides(pixels::yuv420sp, align_up(width, 16), align_up(height, 2));
}

result<picture> vpc_picture(pixels format, bytes width, bytes height) noexcept {
  if (auto ok = validate(width, height, 10, 4096, "VPC takes pictures of 10 to 4096 pixels a side"); !ok) {
    return ok.error();
  }
  return with_strides(format, align_up(width, 16), align_up(height, 2));
}

}  // namespace berth::rules

// Pictures of Ascend's media hardware (DVPP): strides, sizes and counts of buffers, by chip and format.
//
// Tables, as placement.hpp: what JPEGD, VDEC and VPC write and read, with the document each line comes from. How the
// memory itself is cut (start 128, ALIGN_UP(size, 32) + 32) is ascend_310p_dvpp() of placement.hpp, on every chip. Pure
// and thread-safe; nothing allocates.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"

namespace berth::rules {

struct media_chip {
  std::string_view name;         // as `--chip NAME` takes it
  bytes jpegd_width_stride = 0;  // JPEGD writes rows at multiples of it
  bool vdec_aligns = true;       // VDEC's strides are multiples of 16 and 2; else width and height themselves
  bool vdec = true;              // decodes video
};
[[nodiscard]] std::span<const media_chip> media_chips() noexcept;
[[nodiscard]] std::optional<media_chip> find_media_chip(std::string_view name) noexcept;

enum class pixels : std::uint8_t { yuv400, yuv420sp, yuv422sp, yuv440sp, yuv444sp };  // sp: NV12, NV21 and their like
[[nodiscard]] std::optional<pixels> find_pixels(std::string_view name) noexcept;      // "yuv420sp"

struct picture {
  bytes width_stride = 0;
  bytes height_stride = 0;
  bytes size = 0;
  friend bool operator==(const picture&, const picture&) = default;
};

// Returns the picture that the unit writes. Errors: invalid_input with the side that the unit does not take (JPEGD: 32
// to 8192; VDEC: 128 to 4096; VPC: 10 to 4096); unsupported (VDEC on a chip that decodes no video).
// A gray JPEG is written as yuv420sp by JPEGD, with the colours at 0x80.
[[nodiscard]] result<picture> jpegd_picture(const media_chip& chip, pixels format, bytes width, bytes height) noexcept;
[[nodiscard]] result<picture> vdec_picture(const media_chip& chip, bytes width, bytes height) noexcept;  // yuv420sp
[[nodiscard]] result<picture> vpc_picture(pixels format, bytes width, bytes height) noexcept;

// acldvppJpegPredictDecSize for yuv420sp output: wide strides on purpose, so that one size serves every chip.
[[nodiscard]] constexpr bytes predicted_jpegd_size(bytes width, bytes height) noexcept {
  return align_up(width, 128) * align_up(height, 16) * 3 / 2;
}
// Returns the most bytes that a packet of VDEC's input may take, as the samples' stream_buf_size has it.
[[nodiscard]] constexpr bytes vdec_packet_size(bytes width, bytes height) noexcept {
  return width * height * 3 / 2;
}
// frame_buf_cnt: frames that a stream keeps as references, those that wait to be shown, and the one being decoded.
[[nodiscard]] constexpr std::uint32_t vdec_frames(std::uint32_t references, std::uint32_t shown) noexcept {
  return references + shown + 1;
}

}  // namespace berth::rules
#pragma GCC visibility pop

// Media, first version: descriptions of pictures, VPC, JPEGD and JPEGE.
//
// VPC takes the nearest pixel. JPEGD reads the size from the file and makes a pattern, which depends on the file's
// bytes. JPEGE writes a file with a header alone. So sizes, formats and memory are those of a chip, and colours are
// not.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "acl/ops/acl_dvpp.h"
#include "objects.hpp"

struct acldvppPicDesc {
  void* Data = nullptr;
  std::uint32_t Size = 0;
  acldvppPixelFormat Format = PIXEL_FORMAT_YUV_400;
  std::uint32_t Width = 0, Height = 0, WidthStride = 0, HeightStride = 0, RetCode = 0;
};
struct acldvppBatchPicDesc {
  std::vector<acldvppPicDesc> pictures{};
};
struct acldvppRoiConfig {
  std::uint32_t Left = 0, Right = 0, Top = 0, Bottom = 0;  // all inside
};
struct acldvppResizeConfig {
  std::uint32_t Interpolation = 0;
};
struct acldvppChannelDesc {
  std::uint32_t Mode = 7;
  std::uint64_t id = 0;  // 0: no channel
};
struct acldvppJpegeConfig {
  std::uint32_t Level = 100;
};
struct acldvppStreamDesc {
  void* Data = nullptr;
  std::uint32_t Size = 0;
  acldvppStreamFormat Format = H265_MAIN_LEVEL;
  std::uint64_t Timestamp = 0;
  std::uint32_t RetCode = 0;
  std::uint8_t Eos = 0;
};

namespace ascend_simulator {

#define CALLED(object, name) \
  template <>                \
  constexpr const char* called<acldvpp##object> = name;
CALLED(PicDesc, " descriptions of pictures")
CALLED(BatchPicDesc, " descriptions of batches of pictures")
CALLED(RoiConfig, " areas of pictures")
CALLED(ResizeConfig, " configurations of resizing")
CALLED(ChannelDesc, " descriptions of media channels")
CALLED(JpegeConfig, " configurations of JPEGE")
CALLED(StreamDesc, " descriptions of media streams")
#undef CALLED

namespace {

constexpr std::uint32_t least_side = 10, most_side = 8192;  // pixels that VPC takes in each direction

// The pixels of a format: packed ones have all their bytes together. Semi-planar ones have a plane of Y and one of
// pairs, one pair for `across` x `down` pixels.
struct layout {
  acldvppPixelFormat format;
  std::uint8_t packed = 0;  // bytes of a pixel; 0: planes
  std::uint8_t across = 0, down = 0;
  std::array<std::uint8_t, 3> at{0, 0, 1};  // of R, G, B or Y, U, V in a packed pixel; of U and V in a pair
  bool rgb = false;
};
constexpr layout layouts[] = {{PIXEL_FORMAT_YUV_400},
                              {PIXEL_FORMAT_YUV_SEMIPLANAR_420, 0, 2, 2, {0, 0, 1}},
                              {PIXEL_FORMAT_YVU_SEMIPLANAR_420, 0, 2, 2, {0, 1, 0}},
                              {PIXEL_FORMAT_YUV_SEMIPLANAR_422, 0, 2, 1, {0, 0, 1}},
                              {PIXEL_FORMAT_YVU_SEMIPLANAR_422, 0, 2, 1, {0, 1, 0}},
                              {PIXEL_FORMAT_YUV_SEMIPLANAR_440, 0, 1, 2, {0, 0, 1}},
                              {PIXEL_FORMAT_YVU_SEMIPLANAR_440, 0, 1, 2, {0, 1, 0}},
                              {PIXEL_FORMAT_YUV_SEMIPLANAR_444, 0, 1, 1, {0, 0, 1}},
                              {PIXEL_FORMAT_YVU_SEMIPLANAR_444, 0, 1, 1, {0, 1, 0}},
                              {PIXEL_FORMAT_YUV_PACKED_444, 3, 0, 0, {0, 1, 2}},
                              {PIXEL_FORMAT_RGB_888, 3, 0, 0, {0, 1, 2}, true},
                              {PIXEL_FORMAT_BGR_888, 3, 0, 0, {2, 1, 0}, true},
                              {PIXEL_FORMAT_ARGB_8888, 4, 0, 0, {1, 2, 3}, true},
                              {PIXEL_FORMAT_ABGR_8888, 4, 0, 0, {3, 2, 1}, true},
                              {PIXEL_FORMAT_RGBA_8888, 4, 0, 0, {0, 1, 2}, true},
                              {PIXEL_FORMAT_BGRA_8888, 4, 0, 0, {2, 1, 0}, true}};

const layout* layout_of(acldvppPixelFormat format) {
  const auto* const found = std::ranges::find(layouts, format, &layout::format);
  return found != std::end(layouts) ? found : nullptr;
}

using pixel = std::array<int, 3>;

std::uint8_t clamped(int value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0, 255));
}
// ITU-R BT.601, full range, in 1/256.
pixel to_yuv(pixel c) {
  return {(77 * c[0] + 150 * c[1] + 29 * c[2]) >> 8, ((-43 * c[0] - 85 * c[1] + 128 * c[2]) >> 8) + 128,
          ((128 * c[0] - 107 * c[1] - 21 * c[2]) >> 8) + 128};
}
pixel to_rgb(pixel c) {
  const int u = c[1] - 128, v = c[2] - 128;
  return {c[0] + ((359 * v) >> 8), c[0] - ((88 * u + 183 * v) >> 8), c[0] + ((454 * u) >> 8)};
}

// A picture in memory, as the worker finds it.
struct picture {
  std::uint8_t* bytes = nullptr;
  const layout* of = nullptr;
  std::size_t width = 0, height = 0, row = 0, rows = 0;

  [[nodiscard]] std::size_t size() const {
    const std::size_t luma = row * rows;
    return of->across == 0 ? luma : luma + luma * 2 / of->across / of->down;
  }
  [[nodiscard]] std::uint8_t* pair(std::size_t x, std::size_t y) const {
    return bytes + row * rows + y / of->down * (row * 2 / of->across) + x / of->across * 2;
  }
  [[nodiscard]] pixel get(std::size_t x, std::size_t y) const {
    if (of->packed != 0) {
      const std::uint8_t* const p = bytes + y * row + x * of->packed;
      return {p[of->at[0]], p[of->at[1]], p[of->at[2]]};
    }
    const int luma = bytes[y * row + x];
    if (of->across == 0) return {luma, 128, 128};
    return {luma, pair(x, y)[of->at[1]], pair(x, y)[of->at[2]]};
  }
  void put(std::size_t x, std::size_t y, pixel c) const {
    if (of->packed != 0) {
      std::uint8_t* const p = bytes + y * row + x * of->packed;
      for (std::size_t i = 0; i < c.size(); ++i) p[of->at[i]] = clamped(c[i]);
      return;
    }
    bytes[y * row + x] = clamped(c[0]);
    if (of->across == 0) return;
    pair(x, y)[of->at[1]] = clamped(c[1]);
    pair(x, y)[of->at[2]] = clamped(c[2]);
  }
};

// Checks memory of a media unit: whole, and of acldvppMalloc or its second version. The caller holds the mutex.
aclError check_media(const void* p, std::size_t size, const char* what) {
  if (const finding fault = find_fault(p, size); fault.kind != nullptr) {
    return violate(ACL_ERROR_RT_PARAM_INVALID, fault.kind, std::string{what} + ": " + fault.text);
  }
  const auto after = the().blocks.upper_bound(reinterpret_cast<number>(p));
  if (after == the().blocks.begin() || std::prev(after)->second.of != family::media) {
    return violate(ACL_ERROR_RT_PARAM_INVALID, "media_memory", std::string{what} + " is no memory of acldvppMalloc");
  }
  return ACL_SUCCESS;
}

// Checks a description and fills `out`. The caller holds the mutex.
aclError read_picture(const acldvppPicDesc* d, const char* what, picture& out) {
  if (d == nullptr || d->Data == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null picture");
  const layout* const of = layout_of(d->Format);
  if (of == nullptr) return refuse(ACL_ERROR_FORMAT_NOT_MATCH, "a format that the simulator does not have");
  const std::size_t pixel_size = of->packed != 0 ? of->packed : 1;
  out = {static_cast<std::uint8_t*>(reachable(d->Data)), of, d->Width, d->Height, d->WidthStride, d->HeightStride};
  if (out.width < least_side || out.height < least_side || out.width > most_side || out.height > most_side ||
      out.row < out.width * pixel_size || out.rows < out.height || out.row % 2 != 0 || out.rows % 2 != 0) {
    return refuse(ACL_ERROR_INVALID_PARAM, "width, height or a stride of the picture");
  }
  if (d->Size < out.size()) return refuse(ACL_ERROR_INVALID_PARAM, "a picture smaller than its strides");
  return check_media(d->Data, out.size(), what);
}

struct area {
  std::size_t left = 0, top = 0, width = 0, height = 0;
};
std::optional<area> area_in(const acldvppRoiConfig* roi, const picture& p) {
  if (roi == nullptr) return area{0, 0, p.width, p.height};
  if (roi->Left > roi->Right || roi->Top > roi->Bottom || roi->Right >= p.width || roi->Bottom >= p.height) {
    return std::nullopt;
  }
  return area{roi->Left, roi->Top, roi->Right - roi->Left + 1, roi->Bottom - roi->Top + 1};
}

void scale(const picture& from, area source, const picture& to, area target) {
  for (std::size_t y = 0; y < target.height; ++y) {
    for (std::size_t x = 0; x < target.width; ++x) {
      pixel c = from.get(source.left + x * source.width / target.width, source.top + y * source.height / target.height);
      if (from.of->rgb != to.of->rgb) c = to.of->rgb ? to_rgb(c) : to_yuv(c);
      to.put(target.left + x, target.top + y, c);
    }
  }
}

bool is_open(const acldvppChannelDesc* channel) {
  const std::lock_guard lock{the().mutex};
  return all_of<acldvppChannelDesc>().has(channel) && channel->id != 0;
}

aclError resize(const acldvppPicDesc* input, acldvppPicDesc* output, const acldvppRoiConfig* crop,
                const acldvppRoiConfig* paste, const std::shared_ptr<stream_state>& on) {
  const std::lock_guard lock{the().mutex};
  picture from, to;
  if (const aclError code = read_picture(input, "the input picture", from); code != ACL_SUCCESS) return code;
  if (const aclError code = read_picture(output, "the output picture", to); code != ACL_SUCCESS) return code;
  const auto source = area_in(crop, from), target = area_in(paste, to);
  if (!source || !target) return refuse(ACL_ERROR_INVALID_PARAM, "an area beyond its picture");
  output->RetCode = 0;
  enqueue(
      on,
      {{input->Data, from.size(), false, "the input picture"}, {output->Data, to.size(), true, "the output picture"}},
      [=, area_from = *source, area_to = *target] {
        const std::lock_guard bytes{the().bytes_mutex};
        scale(from, area_from, to, area_to);
        return ACL_SUCCESS;
      });
  return ACL_SUCCESS;
}

aclError resize_batch(acldvppBatchPicDesc* from, const std::uint32_t* counts, std::uint32_t size,
                      acldvppBatchPicDesc* to, acldvppRoiConfig* const crops[],
                      const std::shared_ptr<stream_state>& on) {
  if (from == nullptr || to == nullptr || counts == nullptr || crops == nullptr || size > from->pictures.size()) {
    return refuse(ACL_ERROR_INVALID_PARAM, "null, or more pictures than the batch has");
  }
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    for (std::uint32_t k = 0; k < counts[i]; ++k, ++next) {
      if (next >= to->pictures.size()) return refuse(ACL_ERROR_INVALID_PARAM, "more areas than output pictures");
      const aclError code = resize(&from->pictures[i], &to->pictures[next], crops[next], nullptr, on);
      if (code != ACL_SUCCESS) return code;
    }
  }
  return ACL_SUCCESS;
}

// The fields of a JPEG file's frame header (ITU-T T.81, B.2.2).
struct jpeg_header {
  std::uint32_t width = 0, height = 0;
  std::int32_t components = 0;
  acldvppJpegFormat sampling = ACL_JPEG_CSS_UNKNOWN;
  bool baseline = false;
};
std::optional<jpeg_header> read_jpeg(const std::uint8_t* p, std::size_t size) {
  const auto word = [&](std::size_t at) { return static_cast<std::uint32_t>(p[at] << 8 | p[at + 1]); };
  if (p == nullptr || size < 4 || word(0) != 0xFFD8) return std::nullopt;
  for (std::size_t at = 2; at + 4 <= size && p[at] == 0xFF; at += 2 + word(at + 2)) {
    const int marker = p[at + 1];
    const bool frame = marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (!frame) continue;
    if (at + 10 > size || at + 10 + 3U * p[at + 9] > size) return std::nullopt;
    jpeg_header h{word(at + 7), word(at + 5), p[at + 9], ACL_JPEG_CSS_UNKNOWN, marker <= 0xC1};
    constexpr std::pair<int, acldvppJpegFormat> samplings[] = {{0x11, ACL_JPEG_CSS_444},
                                                               {0x21, ACL_JPEG_CSS_422},
                                                               {0x22, ACL_JPEG_CSS_420},
                                                               {0x12, ACL_JPEG_CSS_440},
                                                               {0x41, ACL_JPEG_CSS_411}};
    if (h.components == 1) h.sampling = ACL_JPEG_CSS_GRAY;
    for (const auto& [factors, sampling] : samplings) {
      if (h.components == 3 && p[at + 11] == factors) h.sampling = sampling;
    }
    return h;
  }
  return std::nullopt;
}
// The program's own copy of a file lies in host memory, or on the device if the program runs there.
std::optional<jpeg_header> read_jpeg_of(const void* data, std::size_t size) {
  const std::lock_guard lock{the().mutex};
  if (in_window(data) && find_fault(data, size).kind != nullptr) return std::nullopt;
  return read_jpeg(static_cast<const std::uint8_t*>(worker_address(data)), size);
}

std::size_t up(std::size_t size, std::size_t to) {
  return (size + to - 1) / to * to;
}

void draw(const picture& to, const std::uint8_t* file, std::size_t size) {
  int sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum = (sum * 31 + file[i]) & 255;
  for (std::size_t y = 0; y < to.height; ++y) {
    for (std::size_t x = 0; x < to.width; ++x) {
      const int value = static_cast<int>(x + y + static_cast<std::size_t>(sum)) & 255;
      to.put(x, y, to.of->rgb ? pixel{value, value, value} : pixel{value, 128, 128});
    }
  }
}

}  // namespace
}  // namespace ascend_simulator

using namespace ascend_simulator;

// These lack a stream or a channel only in the caller's own code, so all say the same.
#define NEEDS_CHANNEL(channel, stream) \
  NEEDS_STREAM(stream);                \
  if (!is_open(channel)) return refuse(ACL_ERROR_INVALID_PARAM, "no channel of acldvppCreateChannel")

extern "C" {

#define OBJECT(object)                                  \
  acldvpp##object* acldvppCreate##object() {            \
    return create<acldvpp##object>();                   \
  }                                                     \
  aclError acldvppDestroy##object(acldvpp##object* o) { \
    here = {__func__, __builtin_return_address(0)};     \
    return destroy(o);                                  \
  }
#define SET(object, property, type)                                       \
  aclError acldvppSet##object##property(acldvpp##object* o, type value) { \
    if (o == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");     \
    o->property = value;                                                  \
    return ACL_SUCCESS;                                                   \
  }
#define BOTH(object, property, type)                             \
  SET(object, property, type)                                    \
  type acldvppGet##object##property(const acldvpp##object* o) {  \
    return o != nullptr ? o->property : decltype(o->property){}; \
  }
ACL_DVPP_OBJECTS(OBJECT)
ACL_DVPP_PROPERTIES(BOTH)
ACL_DVPP_SETTINGS(SET)
#undef OBJECT
#undef BOTH
#undef SET

acldvppRoiConfig* acldvppCreateRoiConfig(std::uint32_t left, std::uint32_t right, std::uint32_t top,
                                         std::uint32_t bottom) {
  return create<acldvppRoiConfig>(left, right, top, bottom);
}
aclError acldvppDestroyRoiConfig(acldvppRoiConfig* o) {
  here = {__func__, __builtin_return_address(0)};
  return destroy(o);
}
aclError acldvppSetRoiConfig(acldvppRoiConfig* o, std::uint32_t left, std::uint32_t right, std::uint32_t top,
                             std::uint32_t bottom) {
  if (o == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  *o = {left, right, top, bottom};
  return ACL_SUCCESS;
}
acldvppBatchPicDesc* acldvppCreateBatchPicDesc(std::uint32_t size) {
  return size == 0 ? nullptr : create<acldvppBatchPicDesc>(std::vector<acldvppPicDesc>(size));
}
acldvppPicDesc* acldvppGetPicDesc(acldvppBatchPicDesc* batch, std::uint32_t index) {
  return batch != nullptr && index < batch->pictures.size() ? &batch->pictures[index] : nullptr;
}
aclError acldvppDestroyBatchPicDesc(acldvppBatchPicDesc* o) {
  here = {__func__, __builtin_return_address(0)};
  return destroy(o);
}

aclError acldvppCreateChannel(acldvppChannelDesc* channel) {
  NEEDS_CONTEXT;
  if (!the().how.on.media_v1) return refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "no media of the first version");
  if (channel == nullptr || channel->id != 0) return refuse(ACL_ERROR_INVALID_PARAM, "null, or created already");
  const std::lock_guard lock{the().mutex};
  static std::uint64_t newest = 0;
  channel->id = ++newest;
  ++the().objects[" media channels"];
  return ACL_SUCCESS;
}
aclError acldvppDestroyChannel(acldvppChannelDesc* channel) {
  NEEDS_CONTEXT;
  if (!is_open(channel)) return refuse(ACL_ERROR_INVALID_PARAM, "no channel of acldvppCreateChannel");
  const std::lock_guard lock{the().mutex};
  channel->id = 0;
  --the().objects[" media channels"];
  return ACL_SUCCESS;
}
std::uint64_t acldvppGetChannelDescChannelId(const acldvppChannelDesc* channel) {
  return channel != nullptr ? channel->id : 0;
}

aclError acldvppVpcResizeAsync(acldvppChannelDesc* channel, acldvppPicDesc* input, acldvppPicDesc* output,
                               acldvppResizeConfig* how, aclrtStream stream) {
  NEEDS_CHANNEL(channel, stream);
  if (how == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null configuration");
  return resize(input, output, nullptr, nullptr, stream_);
}
aclError acldvppVpcCropAsync(acldvppChannelDesc* channel, acldvppPicDesc* input, acldvppPicDesc* output,
                             acldvppRoiConfig* crop, aclrtStream stream) {
  NEEDS_CHANNEL(channel, stream);
  if (crop == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null area");
  return resize(input, output, crop, nullptr, stream_);
}
aclError acldvppVpcCropResizeAsync(acldvppChannelDesc* channel, acldvppPicDesc* input, acldvppPicDesc* output,
                                   acldvppRoiConfig* crop, acldvppResizeConfig* how, aclrtStream stream) {
  NEEDS_CHANNEL(channel, stream);
  if (crop == nullptr || how == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null area or configuration");
  return resize(input, output, crop, nullptr, stream_);
}
aclError acldvppVpcCropAndPasteAsync(acldvppChannelDesc* channel, acldvppPicDesc* input, acldvppPicDesc* output,
                                     acldvppRoiConfig* crop, acldvppRoiConfig* paste, aclrtStream stream) {
  NEEDS_CHANNEL(channel, stream);
  if (crop == nullptr || paste == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null area");
  return resize(input, output, crop, paste, stream_);
}
aclError acldvppVpcCropResizePasteAsync(acldvppChannelDesc* channel, acldvppPicDesc* input, acldvppPicDesc* output,
                                        acldvppRoiConfig* crop, acldvppRoiConfig* paste, acldvppResizeConfig* how,
                                        aclrtStream stream) {
  NEEDS_CHANNEL(channel, stream);
  if (crop == nullptr || paste == nullptr || how == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null area");
  return resize(input, output, crop, paste, stream_);
}
aclError acldvppVpcBatchCropAsync(acldvppChannelDesc* channel, acldvppBatchPicDesc* from, std::uint32_t* counts,
                                  std::uint32_t size, acldvppBatchPicDesc* to, acldvppRoiConfig* crops[],
                                  aclrtStream stream) {
  NEEDS_CHANNEL(channel, stream);
  return resize_batch(from, counts, size, to, crops, stream_);
}
aclError acldvppVpcBatchCropResizeAsync(acldvppChannelDesc* channel, acldvppBatchPicDesc* from, std::uint32_t* counts,
                                        std::uint32_t size, acldvppBatchPicDesc* to, acldvppRoiConfig* crops[],
                                        acldvppResizeConfig* how, aclrtStream stream) {
  NEEDS_CHANNEL(channel, stream);
  if (how == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null configuration");
  return resize_batch(from, counts, size, to, crops, stream_);
}

aclError acldvppJpegGetImageInfoV2(const void* data, std::uint32_t size, std::uint32_t* width, std::uint32_t* height,
                                   std::int32_t* components, acldvppJpegFormat* format) {
  const auto header = read_jpeg_of(data, size);
  if (!header) return refuse(ACL_ERROR_UNSUPPORTED_JPEG, "no JPEG file");
  if (width != nullptr) *width = header->width;
  if (height != nullptr) *height = header->height;
  if (components != nullptr) *components = header->components;
  if (format != nullptr) *format = header->sampling;
  return ACL_SUCCESS;
}
aclError acldvppJpegGetImageInfo(const void* data, std::uint32_t size, std::uint32_t* width, std::uint32_t* height,
                                 std::int32_t* components) {
  return acldvppJpegGetImageInfoV2(data, size, width, height, components, nullptr);
}
aclError acldvppJpegPredictDecSize(const void* data, std::uint32_t size, acldvppPixelFormat format,
                                   std::uint32_t* out) {
  const layout* const of = layout_of(format);
  if (out == nullptr || of == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null, or no such format");
  const auto header = read_jpeg_of(data, size);
  if (!header) return refuse(ACL_ERROR_UNSUPPORTED_JPEG, "no JPEG file");
  const std::size_t each = of->packed != 0 ? of->packed : 1;
  const picture whole{nullptr, of, 0, 0, up(header->width, 128) * each, up(header->height, 16)};
  *out = static_cast<std::uint32_t>(whole.size());
  return ACL_SUCCESS;
}
aclError acldvppJpegDecodeAsync(acldvppChannelDesc* channel, const void* data, std::uint32_t size,
                                acldvppPicDesc* output, aclrtStream stream) {
  NEEDS_CHANNEL(channel, stream);
  const std::lock_guard lock{the().mutex};
  if (data == nullptr || output == nullptr || output->Data == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  if (const aclError code = check_media(data, size, "the file"); code != ACL_SUCCESS) return code;
  const layout* const of = layout_of(output->Format);
  if (of == nullptr) return refuse(ACL_ERROR_FORMAT_NOT_MATCH, "a format that the simulator does not have");
  if (const aclError code = check_media(output->Data, output->Size, "the decoded picture"); code != ACL_SUCCESS) {
    return code;
  }
  const auto* const file = static_cast<const std::uint8_t*>(reachable(const_cast<void*>(data)));
  output->RetCode = 0;
  enqueue(stream_, {{data, size, false, "the file"}, {output->Data, output->Size, true, "the decoded picture"}},
          [=,
           to = picture{static_cast<std::uint8_t*>(reachable(output->Data)), of, 0, 0, output->WidthStride,
                        output->HeightStride},
           room = std::size_t{output->Size}]() mutable -> aclError {
            const std::lock_guard bytes{the().bytes_mutex};
            const auto header = read_jpeg(file, size);
            if (!header || !header->baseline) return ACL_ERROR_UNSUPPORTED_JPEG;
            // Strides that the program leaves out are the unit's own.
            if (to.row == 0) to.row = up(header->width, 128) * std::max<std::size_t>(1, of->packed);
            if (to.rows == 0) to.rows = up(header->height, 16);
            to.width = header->width;
            to.height = header->height;
            const bool whole_rows = to.row % 2 == 0 && to.rows % 2 == 0;
            if (!whole_rows || to.row < to.width * std::max<std::size_t>(1, of->packed) || to.rows < to.height ||
                to.size() > room) {
              return ACL_ERROR_INVALID_PARAM;
            }
            draw(to, file, size);
            return ACL_SUCCESS;
          });
  return ACL_SUCCESS;
}
aclError acldvppJpegPredictEncSize(const acldvppPicDesc* input, const acldvppJpegeConfig* how, std::uint32_t* out) {
  if (input == nullptr || how == nullptr || out == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  *out = input->WidthStride * input->HeightStride * 3 / 2 + 640 + 128;
  return ACL_SUCCESS;
}
aclError acldvppJpegEncodeAsync(acldvppChannelDesc* channel, acldvppPicDesc* input, const void* data,
                                std::uint32_t* size, acldvppJpegeConfig* how, aclrtStream stream) {
  NEEDS_CHANNEL(channel, stream);
  if (data == nullptr || size == nullptr || how == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  const std::lock_guard lock{the().mutex};
  picture from;
  if (const aclError code = read_picture(input, "the picture", from); code != ACL_SUCCESS) return code;
  const auto high = [](std::size_t n) { return static_cast<std::uint8_t>(n >> 8); };
  const auto low = [](std::size_t n) { return static_cast<std::uint8_t>(n); };
  // Start, frame header (8 bits, height, width, three components as 4:2:0), end.
  const std::array<std::uint8_t, 23> file{0xFF,
                                          0xD8,
                                          0xFF,
                                          0xC0,
                                          0,
                                          17,
                                          8,
                                          high(from.height),
                                          low(from.height),
                                          high(from.width),
                                          low(from.width),
                                          3,
                                          1,
                                          0x22,
                                          0,
                                          2,
                                          0x11,
                                          0,
                                          3,
                                          0x11,
                                          0,
                                          0xFF,
                                          0xD9};
  if (*size < file.size()) return refuse(ACL_ERROR_INVALID_PARAM, "no room for the file");
  if (const aclError code = check_media(data, *size, "the encoded file"); code != ACL_SUCCESS) return code;
  void* const to = reachable(const_cast<void*>(data));
  const std::uint32_t room = *size;
  *size = static_cast<std::uint32_t>(file.size());
  enqueue(stream_, {{input->Data, from.size(), false, "the picture"}, {data, room, true, "the encoded file"}}, [=] {
    const std::lock_guard bytes{the().bytes_mutex};
    std::memcpy(to, file.data(), file.size());
    return ACL_SUCCESS;
  });
  return ACL_SUCCESS;
}

}  // extern "C"

// Media scenarios as planning problems: decoding, resizing and inference in one block of media memory.
//
// Every buffer follows the rule of media memory: start at 128, ALIGN_UP(size, 32) + 32. Model and operator inputs may
// lie in a media block. Media outputs may not lie in a block of aclrtMalloc, so the block is media memory. Source: CANN
// application development guide, memory sub-allocation and DVPP. rules/media.hpp has sizes and strides.
#pragma once
#pragma GCC visibility push(default)

#include "berth/plan/problem.hpp"
#include "berth/rules/media.hpp"

namespace berth::plan {

// The consumer of decoded pictures: VPC scales each to the model's picture and converts it to the model's input.
struct media_model {
  bytes width = 224, height = 224;
  bytes element_bytes = 4;     // of the model's input, three planes
  bytes output_bytes = 4'000;  // 1000 classes
  bytes workspace_bytes = 0;   // of the model, while it runs
};

struct jpeg_scenario {
  rules::media_chip chip{};
  rules::pixels format = rules::pixels::yuv420sp;
  bytes width = 0, height = 0;
  bytes file_bytes = 0;
  media_model model{};
};
// Makes the problem of one picture. Ticks: 0 decode, 1 resize, 2 convert, 3 infer. Buffers file, decoded, resized,
// input, output, workspace (if any). Errors: invalid_input (a size that the hardware does not take, no bytes in the
// file), overflow.
[[nodiscard]] result<problem> jpeg_problem(const jpeg_scenario& s);

struct vdec_scenario {
  rules::media_chip chip{};
  bytes width = 0, height = 0;
  std::uint32_t references = 4;  // frames that later ones refer to
  std::uint32_t shown = 2;       // frames that wait for their turn to be shown, which is when the model takes them
  std::uint32_t packets = 2;     // of input in flight
  bytes packet_bytes = 0;        // the largest packet; 0: rules::vdec_packet_size(), as large as a frame
  std::uint32_t frames = 0;      // as many are planned; 0: three rounds of the ring
  media_model model{};
};
// Makes the problem of a stream's frames, one after the other. Frame i is decoded at tick i from packet i. It is held
// for references + shown + 1 ticks (frame_buf_cnt), until it was shown and no frame refers to it. Packet i is held for
// `packets` ticks, so that the next ones can be filled meanwhile. The model's buffers live while a frame is shown. The
// plan's frames are thus a ring of frame_buf_cnt places, and a longer stream needs no larger arena. Errors: as above;
// invalid_input if packets is 0, frames exceeds 10,000, or packet_bytes exceeds a frame; unsupported (the chip decodes
// no video).
[[nodiscard]] result<problem> vdec_problem(const vdec_scenario& s);

// The bytes of the device with one allocation for each buffer. They are rounded as the driver does, and to pages (4 KiB
// up to 1 MiB, 2 MiB above). Frames and packets of a stream are allocated once: those alive at a time.
struct separate_allocations {
  bytes rounded = 0;
  bytes in_pages = 0;
};
[[nodiscard]] separate_allocations one_allocation_each(const problem& p);

}  // namespace berth::plan
#pragma GCC visibility pop

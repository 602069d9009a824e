#include "berth/plan/media.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace berth::plan {
namespace {

using rules::placement;

constexpr bytes most_bytes = bytes{1} << 40;  // of a file, a workspace: far above what any chip has, far below overflow

class builder {
 public:
  // Adds a part of the media block. The block's rule holds for every part, whichever unit uses it.
  void add(std::string name, bytes size, interval live) {
    if (size == 0) return;
    const placement& rule = rules::ascend_310p_dvpp();
    made_.add({.name = std::move(name),
               .size = size,
               .live = live,
               .alignment = rule.start_alignment,
               .granularity = rule.size_granularity,
               .tail_pad = rule.tail_pad});
  }
  [[nodiscard]] problem take() { return std::move(made_); }

 private:
  problem made_;
};

result<void> validate(const media_model& m) {
  if (m.element_bytes == 0 || m.element_bytes > 8) {
    return error{errc::invalid_input, "elements of a model's input have 1 to 8 bytes", m.element_bytes};
  }
  for (const bytes size : {m.output_bytes, m.workspace_bytes}) {
    if (size > most_bytes) return error{errc::overflow, "a size beyond the memory of any device", size};
  }
  return {};
}

bytes input_bytes(const media_model& m) {
  return m.width * m.height * 3 * m.element_bytes;
}

std::string numbered(const char* what, std::uint32_t i) {
  return std::string{what} + "_" + std::to_string(i);
}

bytes pages_of(bytes size) {
  constexpr bytes small = 4096;
  constexpr bytes huge = bytes{2} << 20;
  return align_up(size, size > huge / 2 ? huge : small);
}

}  // namespace

result<problem> jpeg_problem(const jpeg_scenario& s) {
  if (s.file_bytes == 0) return error{errc::invalid_input, "a file of no bytes is no JPEG"};
  if (s.file_bytes > most_bytes) return error{errc::overflow, "a size beyond the memory of any device", s.file_bytes};
  if (auto ok = validate(s.model); !ok) return ok.error();
  const auto decoded = rules::jpegd_picture(s.chip, s.format, s.width, s.height);
  if (!decoded) return decoded.error();
  const auto resized = rules::vpc_picture(rules::pixels::yuv420sp, s.model.width, s.model.height);
  if (!resized) return resized.error();
  builder b;
  b.add("file", s.file_bytes, {0, 1});
  b.add("decoded", decoded->size, {0, 2});
  b.add("resized", resized->size, {1, 3});
  b.add("input", input_bytes(s.model), {2, 4});
  b.add("output", s.model.output_bytes, {3, 5});  // read when the model is done
  b.add("workspace", s.model.workspace_bytes, {3, 4});
  return b.take();
}

result<problem> vdec_problem(const vdec_scenario& s) {
  if (s.packets == 0) return error{errc::invalid_input, "a decoder without packets decodes nothing"};
  constexpr std::uint32_t most = 10'000;
  if (s.frames > most || s.packets > most || s.references > most || s.shown > most) {
    return error{errc::invalid_input, "more than 10,000 frames or packets",
                 std::max({s.frames, s.packets, s.references, s.shown})};
  }
  if (auto ok = validate(s.model); !ok) return ok.error();
  const auto frame = rules::vdec_picture(s.chip, s.width, s.height);
  if (!frame) return frame.error();
  const bytes most_packet = rules::vdec_packet_size(s.width, s.height);
  if (s.packet_bytes > most_packet) {
    return error{errc::invalid_input, "a packet is larger than the frame it decodes to", s.packet_bytes};
  }
  const bytes packet = s.packet_bytes != 0 ? s.packet_bytes : most_packet;
  const auto resized = rules::vpc_picture(rules::pixels::yuv420sp, s.model.width, s.model.height);
  if (!resized) return resized.error();
  const std::uint32_t ring = rules::vdec_frames(s.references, s.shown);
  const std::uint32_t frames = s.frames != 0 ? s.frames : 3 * std::max(ring, s.packets);
  builder b;
  for (std::uint32_t i = 0; i < frames; ++i) {
    const tick t = i;
    b.add(numbered("packet", i), packet, {t, t + s.packets});
    b.add(numbered("frame", i), frame->size, {t, t + ring});
  }
  // This range of time covers every frame that is shown.
  const interval always{0, static_cast<tick>(frames) + ring};
  b.add("resized", resized->size, always);
  b.add("input", input_bytes(s.model), always);
  b.add("output", s.model.output_bytes, always);
  b.add("workspace", s.model.workspace_bytes, always);
  return b.take();
}

separate_allocations one_allocation_each(const problem& p) {
  // Buffers of one kind (the name before "_") and size take as many allocations as are alive at a time.
  struct group {
    std::vector<std::pair<tick, int>> edges;
    bytes footprint = 0;
  };
  std::map<std::pair<std::string, bytes>, group> groups;
  for (index i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    group& g = groups[{b.name.substr(0, b.name.find('_')), b.size}];
    g.footprint = p.footprint(i);
    g.edges.emplace_back(b.live.lower, 1);
    g.edges.emplace_back(b.live.upper, -1);
  }
  separate_allocations all;
  for (auto& [key, g] : groups) {
    std::ranges::sort(g.edges);  // at one tick the ends come first
    int alive = 0;
    int most = 0;
    for (const auto& [at, change] : g.edges) most = std::max(most, alive += change);
    all.rounded += static_cast<bytes>(most) * g.footprint;
    all.in_pages += static_cast<bytes>(most) * pages_of(g.footprint);
  }
  return all;
}

}  // namespace berth::plan

// The media scenarios on the simulator, with a synthetic decoder: fills and copies in the place of the units. The
// simulator knows every live buffer, so the rules of media memory check starts, tails and overlaps.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "berth/device/stream.hpp"
#include "berth/plan/media.hpp"
#include "berth/plan/solve.hpp"
#include "device/ascend_library.hpp"

namespace berth {
namespace {

class in_one_block {
 public:
  in_one_block(const plan::problem& p, const device& d) : problem_{p}, device_{d} {
    plan_ = plan::solve(p).value();
    block_ = device_.allocate(plan_.arena()).value();
    live_.resize(p.buffers.size());
  }
  in_one_block(const in_one_block&) = delete;
  in_one_block& operator=(const in_one_block&) = delete;
  ~in_one_block() { device_.free(block_, plan_.arena()); }

  // Buffers that are not needed any more go, then those needed from here on come.
  void to(plan::tick now) {
    for (const bool coming : {false, true}) {
      for (plan::index i = 0; i < problem_.buffers.size(); ++i) {
        const plan::interval live = problem_.buffers[i].live;
        const bool wanted = live.lower <= now && now < live.upper;
        if (wanted == live_[i] || wanted != coming) continue;
        live_[i] = wanted;
        if (wanted) BERTH_ASCEND_SIMULATOR(part_taken)(at(i), problem_.buffers[i].size);
        if (!wanted) BERTH_ASCEND_SIMULATOR(part_given_back)(at(i));
      }
    }
  }
  void* at(plan::index i) const { return static_cast<std::byte*>(block_) + plan_.offsets[i]; }
  plan::index find(const std::string& name) const {
    for (plan::index i = 0; i < problem_.buffers.size(); ++i) {
      if (problem_.buffers[i].name == name) return i;
    }
    ADD_FAILURE() << name;
    return 0;
  }
  void* operator[](const std::string& name) const { return at(find(name)); }
  bytes size(const std::string& name) const { return problem_.buffers[find(name)].size; }

 private:
  const plan::problem& problem_;
  const device& device_;
  plan::plan plan_;
  void* block_ = nullptr;
  std::vector<bool> live_;
};

class ascend_media : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = device::open("ascend:0,media");
    ASSERT_TRUE(opened) << opened.error().what << ": run this program through ctest, which names the simulator";
    device_.emplace(std::move(*opened));
  }
  void TearDown() override {
    device_.reset();
    EXPECT_EQ(BERTH_ASCEND_SIMULATOR(violations)(), 0u);
    EXPECT_EQ(BERTH_ASCEND_SIMULATOR(live)(), 0u);
  }
  std::optional<device> device_;
};

// Copies bytes of a larger picture into a smaller one, and so on to the model's answer. Each step reads what the one
// before wrote, so that the answer is the file's byte.
TEST_F(ascend_media, a_picture_goes_through_one_block) {
  const auto chip = rules::find_media_chip("310P").value();
  const auto p = plan::jpeg_problem({.chip = chip, .width = 1920, .height = 1080, .file_bytes = 400'000}).value();
  const bytes answer_size = 4'000;
  void* pinned = device_->allocate(400'000, memory_kind::pinned).value();
  auto* host = static_cast<std::byte*>(device_->host_address(pinned));
  std::memset(host, 0x2a, 400'000);
  {
    stream s{*device_};
    in_one_block memory{p, *device_};
    memory.to(0);
    ASSERT_TRUE(s.copy(memory["file"], pinned, memory.size("file")));
    for (bytes done = 0; done < memory.size("decoded");
         done += 399'360) {  // a multiple of 64, so that no copy is staged
      const bytes piece = std::min<bytes>(399'360, memory.size("decoded") - done);
      ASSERT_TRUE(s.copy(static_cast<std::byte*>(memory["decoded"]) + done, memory["file"], piece));
    }
    memory.to(1);
    ASSERT_TRUE(s.copy(memory["resized"], memory["decoded"], memory.size("resized")));
    memory.to(2);
    for (bytes done = 0; done < memory.size("input"); done += memory.size("resized")) {
      ASSERT_TRUE(s.copy(static_cast<std::byte*>(memory["input"]) + done, memory["resized"],
                         std::min(memory.size("resized"), memory.size("input") - done)));
    }
    memory.to(3);
    ASSERT_TRUE(s.copy(memory["output"], memory["input"], answer_size));
    memory.to(4);
    ASSERT_TRUE(s.synchronize());  // the file's copy reads what is overwritten here
    std::memset(host, 0, answer_size);
    ASSERT_TRUE(s.copy(pinned, memory["output"], answer_size));
    ASSERT_TRUE(s.synchronize());
    memory.to(5);
  }
  EXPECT_TRUE(std::all_of(host, host + answer_size, [](std::byte b) { return b == std::byte{0x2a}; }));
  device_->free(pinned, 400'000, memory_kind::pinned);
}

// A ring of frames: each stays what it was while others refer to it.
TEST_F(ascend_media, a_stream_goes_through_a_ring) {
  const plan::vdec_scenario scenario{.chip = rules::find_media_chip("A2").value(),
                                     .width = 320,
                                     .height = 240,
                                     .references = 3,
                                     .shown = 1,
                                     .frames = 30};
  const auto p = plan::vdec_problem(scenario).value();
  constexpr std::uint32_t oldest = 4;  // references + shown
  void* pinned = device_->allocate(64, memory_kind::pinned).value();
  const auto* host = static_cast<const std::byte*>(device_->host_address(pinned));
  {
    stream s{*device_};
    in_one_block memory{p, *device_};
    for (std::uint32_t i = 0; i < scenario.frames; ++i) {
      memory.to(i);
      const std::string number = "_" + std::to_string(i);
      ASSERT_TRUE(s.fill(memory["packet" + number], static_cast<std::byte>(i), memory.size("packet" + number)));
      ASSERT_TRUE(s.copy(memory["frame" + number], memory["packet" + number], memory.size("frame" + number)));
      if (i < oldest) continue;
      ASSERT_TRUE(s.copy(memory["resized"], memory["frame_" + std::to_string(i - oldest)], memory.size("resized")));
      ASSERT_TRUE(s.copy(pinned, memory["resized"], 64));
      ASSERT_TRUE(s.synchronize());
      ASSERT_EQ(host[63], static_cast<std::byte>(i - oldest));
    }
    ASSERT_TRUE(s.synchronize());
    memory.to(1'000);
  }
  device_->free(pinned, 64, memory_kind::pinned);
}

}  // namespace
}  // namespace berth

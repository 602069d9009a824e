// The rules, table cells and figures of a text on sub-allocation of AscendCL's memory, one case each. The comment
// before a case is the sentence's meaning. ctest runs the program on each of the simulator's chips. The simulator
// judges by a table of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "acl/dvpp/hi_dvpp.h"
#include "acl/ops/acl_dvpp.h"
#include "ascend_simulator.h"
#include "berth/device/stream.hpp"
#include "berth/plan/media.hpp"
#include "berth/plan/solve.hpp"
#include "berth/pool/pool.hpp"

namespace berth {
namespace {

struct memory {
  const char* device;
  memory_kind kind;
  const char* function;  // of AscendCL, which gives the block
};
constexpr memory memories[] = {
    {"ascend:0", memory_kind::device, "aclrtMalloc"},
    {"ascend:0,small", memory_kind::device, "aclrtMalloc"},
    {"ascend:0,align32", memory_kind::device, "aclrtMallocAlign32"},
    {"ascend:0,cached", memory_kind::device, "aclrtMallocCached"},
    {"ascend:0,media", memory_kind::device, "acldvppMalloc"},
    {"ascend:0,media", memory_kind::device, "hi_mpi_dvpp_malloc"},
    {"ascend:0", memory_kind::pinned, "aclrtMallocHost"},
};
constexpr const char* chips[] = {"310", "310P", "910", "A2", "A3", "950"};

std::ostream& operator<<(std::ostream& out, const memory& m) {
  return out << m.device << " by " << m.function;
}

// ALIGN_UP[len,k] as the text defines it.
constexpr bytes align_up_of_the_text(bytes len, bytes k) {
  return ((len - 1) / k + 1) * k;
}

std::string_view profile() {
  const char* const named = std::getenv("ASCEND_SIMULATOR_PROFILE");
  return named != nullptr ? named : "A2:8.5";
}
std::string_view chip() {
  return profile().substr(0, profile().find(':'));
}
bool is_media(std::string_view function) {
  return function == "acldvppMalloc" || function == "hi_mpi_dvpp_malloc";
}
// Returns the bytes behind a part: 32 by the text. Later documents exempt compute memory of the 950, which the text
// does not know.
bytes behind_part(std::string_view on, std::string_view function) {
  return on == "950" && !is_media(function) && function != "aclrtMallocHost" ? 0 : 32;
}

class ascendcl_memory : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(device_) << device_.error().what;
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);  // for the direct calls
  }
  void TearDown() override {
    EXPECT_EQ(take_violations(), std::vector<std::string>{});
    EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
  }
  static std::vector<std::string> take_violations() {
    std::vector<std::string> kinds;
    ascend_simulator_violation one{};
    while (ascend_simulator_get_violation(kinds.size(), &one) != 0) kinds.emplace_back(one.kind);
    ascend_simulator_clear();
    return kinds;
  }
  static device open(const memory& m) { return device::open(m.device).value(); }
  static const rules::placement& rules_of(const device& d, const memory& m) {
    return m.kind == memory_kind::pinned ? d.properties().pinned_rules : d.properties().rules;
  }

  result<device> device_ = device::open("ascend:0");
};

void* at(void* base, bytes offset) {
  return static_cast<std::byte*>(base) + offset;
}
bytes number(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p);
}

// A block of one of AscendCL's functions, called directly.
class raw_block {
 public:
  raw_block(std::string_view function, bytes size) : function_{function} {
    constexpr auto policy = ACL_MEM_MALLOC_HUGE_FIRST;
    const int code = function == "aclrtMalloc"          ? aclrtMalloc(&start_, size, policy)
                     : function == "aclrtMallocAlign32" ? aclrtMallocAlign32(&start_, size, policy)
                     : function == "aclrtMallocCached"  ? aclrtMallocCached(&start_, size, policy)
                     : function == "acldvppMalloc"      ? acldvppMalloc(&start_, size)
                     : function == "hi_mpi_dvpp_malloc" ? hi_mpi_dvpp_malloc(0, &start_, size)
                                                        : aclrtMallocHost(&start_, size);
    if (code != ACL_SUCCESS) start_ = nullptr;
  }
  raw_block(const raw_block&) = delete;
  raw_block& operator=(const raw_block&) = delete;
  ~raw_block() {
    if (start_ == nullptr) return;
    if (function_ == "aclrtMallocHost") {
      aclrtFreeHost(start_);
    } else if (function_ == "hi_mpi_dvpp_malloc") {
      hi_mpi_dvpp_free(start_);
    } else if (function_ == "acldvppMalloc") {
      acldvppFree(start_);
    } else {
      aclrtFree(start_);
    }
  }
  // Null where the chip lacks the function.
  [[nodiscard]] void* start() const { return start_; }

 private:
  std::string function_;
  void* start_ = nullptr;
};

// "ALIGN_UP[len,k] rounds up to k bytes: ((len-1)/k+1)*k."
TEST_F(ascendcl_memory, align_up_is_the_formula_of_the_text) {
  for (const bytes k : {32, 64, 128}) {
    for (bytes len = 1; len < 600; ++len) ASSERT_EQ(align_up(len, k), align_up_of_the_text(len, k)) << len << " " << k;
  }
}

// The library's table and the simulator's agree on every function: start, rounding, bytes behind a part.
TEST_F(ascendcl_memory, library_and_simulator_have_the_same_rule_for_each_function) {
  for (const memory& m : memories) {
    ascend_simulator_part_rule judged{};
    ASSERT_EQ(ascend_simulator_get_part_rule(nullptr, m.function, &judged), 1) << m;
    const device d = open(m);
    const rules::placement& ours = rules_of(d, m);
    EXPECT_EQ(ours.start_alignment, judged.start) << m;
    EXPECT_EQ(ours.size_granularity, judged.unit) << m;
    EXPECT_EQ(ours.tail_pad, judged.behind_part) << m;
  }
}

// The table's cells on all six chips: parts of acldvppMalloc and hi_mpi_dvpp_malloc start at 128, all others at 64.
// Each keeps 32 bytes behind its size rounded to 32.
TEST_F(ascendcl_memory, simulator_has_the_cells_of_the_text_on_six_chips) {
  for (const char* on : chips) {
    for (const memory& m : memories) {
      ascend_simulator_part_rule judged{};
      ASSERT_EQ(ascend_simulator_get_part_rule(on, m.function, &judged), 1) << on << " " << m;
      EXPECT_EQ(judged.start, is_media(m.function) ? 128u : 64u) << on << " " << m;
      EXPECT_EQ(judged.unit, 32u) << on << " " << m;
      EXPECT_EQ(judged.behind_part, behind_part(on, m.function)) << on << " " << m;
    }
  }
  ascend_simulator_part_rule untouched{1, 2, 3, 4};
  EXPECT_EQ(ascend_simulator_get_part_rule("320", "aclrtMalloc", &untouched), 0);
  EXPECT_EQ(ascend_simulator_get_part_rule("310", "malloc", &untouched), 0);
  EXPECT_EQ(untouched.start + untouched.unit + untouched.behind_block + untouched.behind_part, 10u);
}

// "The size of each part is rounded up to a multiple of 32, plus 32: m = ALIGN_UP[len,32]+32."
TEST_F(ascendcl_memory, a_part_takes_m_bytes) {
  for (const memory& m : memories) {
    const device d = open(m);
    for (bytes len = 1; len < 200; ++len) {
      const bytes wanted = align_up_of_the_text(len, 32) + behind_part(chip(), m.function);
      ASSERT_EQ(rules_of(d, m).footprint(len), wanted) << m << " " << len;
    }
  }
}

// "Take care in sub-allocation, or memory is overrun". A second part is too close at each distance below m, and starts
// wrong at each that is no multiple of 64 (media: 128).
TEST_F(ascendcl_memory, simulator_sees_each_part_that_lies_wrong) {
  for (const memory& m : memories) {
    const raw_block block{m.function, 4096};
    if (block.start() == nullptr) continue;  // acldvppMalloc on the 950
    const bytes start = is_media(m.function) ? 128 : 64;
    const bytes first = align_up(number(block.start()), start) - number(block.start());
    for (const bytes len : {1, 32, 33, 64, 96, 100, 128, 160}) {
      const bytes takes = align_up_of_the_text(len, 32) + behind_part(chip(), m.function);
      for (bytes distance = align_up(len, 32); distance <= 512; distance += 32) {
        ascend_simulator_part_taken(at(block.start(), first), len);
        ascend_simulator_part_taken(at(block.start(), first + distance), 8);
        std::vector<std::string> wanted;
        if (distance % start != 0) wanted.emplace_back("part_start");
        if (distance < takes) wanted.emplace_back("part_tail");
        EXPECT_EQ(take_violations(), wanted) << m << ": " << len << " bytes, the next at " << distance;
        ascend_simulator_part_given_back(at(block.start(), first));
        ascend_simulator_part_given_back(at(block.start(), first + distance));
      }
    }
  }
}

// Tells the simulator of parts by their address in memory order, and counts neighbours that are closer than the text's
// m.
int too_close(std::vector<std::pair<void*, bytes>> parts, const memory& m) {
  std::ranges::sort(parts);
  int close = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ascend_simulator_part_taken(parts[i].first, parts[i].second);
    if (i + 1 == parts.size()) break;
    const bytes takes = align_up_of_the_text(parts[i].second, 32) + behind_part(chip(), m.function);
    if (number(parts[i].first) + takes > number(parts[i + 1].first)) ++close;
  }
  return close;
}

// "Pool: the user requests one larger block, and cuts what is needed from it". No neighbour of 199 is too close, for no
// kind of memory.
TEST_F(ascendcl_memory, pool_keeps_199_neighbours_apart) {
  for (const memory& m : memories) {
    const device d = open(m);
    stream s{d};
    pool p{d, {.kind = m.kind}};
    std::vector<std::pair<void*, bytes>> parts, blocks;
    for (bytes i = 0; i < 200; ++i) {
      const bytes size = i < 100 ? 1 + i * 2 : 1 + i * 37 % 3000;
      void* const block = p.allocate_raw(size, s).value();
      blocks.emplace_back(block, size);
      parts.emplace_back(m.kind == memory_kind::pinned ? d.host_address(block) : block, size);
    }
    EXPECT_EQ(too_close(parts, m), 0) << m;
    EXPECT_EQ(take_violations(), std::vector<std::string>{}) << m;
    for (const auto& [start, size] : parts) {
      EXPECT_EQ(number(start) % (is_media(m.function) ? 128 : 64), 0u) << m;
      ascend_simulator_part_given_back(start);
    }
    for (const auto& [block, size] : blocks) p.free(block, size, s);
    ASSERT_TRUE(s.synchronize());
  }
}

// The same by a plan that all 199 sizes share one block with. The block holds the last part's bytes behind the end too:
// aclrtMallocAlign32 adds none.
TEST_F(ascendcl_memory, plan_keeps_199_neighbours_apart) {
  for (const memory& m : memories) {
    const device d = open(m);
    plan::problem together{rules_of(d, m)};
    for (bytes size = 1; size < 200; ++size) together.add({.size = size, .live = {0, 1}});
    const plan::plan placed = plan::solve(together).value();
    void* const block = d.allocate(placed.arena(), m.kind).value();
    std::vector<std::pair<void*, bytes>> parts;
    for (plan::index i = 0; i < together.buffers.size(); ++i) {
      void* const start = at(block, placed.offsets[i]);
      parts.emplace_back(m.kind == memory_kind::pinned ? d.host_address(start) : start, together.buffers[i].size);
    }
    EXPECT_EQ(too_close(parts, m), 0) << m;
    EXPECT_EQ(take_violations(), std::vector<std::string>{}) << m;
    d.free(block, placed.arena(), m.kind);
  }
}

// "Alone: memory is requested as needed and not cut." A block is used up to its last byte, and none needs a neighbour's
// distance.
TEST_F(ascendcl_memory, a_block_that_is_not_cut_has_all_its_bytes) {
  for (const memory& m : memories) {
    if (m.kind == memory_kind::pinned) continue;
    const device d = open(m);
    stream s{d};
    for (const bytes size : {1, 32, 100, 4096}) {
      void* const block = d.allocate(size).value();
      EXPECT_TRUE(s.fill(block, std::byte{1}, size)) << m;
      ASSERT_TRUE(s.synchronize());
      d.free(block, size);
    }
  }
}

// "aclrtMalloc rounds the size up to a multiple of 32 and adds 32. Its variant aclrtMallocAlign32 rounds, and adds
// nothing". A part as large as the size asked for fits into the first alone.
TEST_F(ascendcl_memory, only_align32_lacks_the_32_bytes_behind_its_block) {
  const auto whole_block = [](const char* function) {
    const raw_block block{function, 96};
    ascend_simulator_part_taken(block.start(), 96);
    return take_violations();
  };
  EXPECT_EQ(whole_block("aclrtMalloc"), std::vector<std::string>{});
  EXPECT_EQ(whole_block("aclrtMallocCached"), std::vector<std::string>{});
  EXPECT_EQ(whole_block("hi_mpi_dvpp_malloc"), std::vector<std::string>{});
  const bool exempt = behind_part(chip(), "aclrtMallocAlign32") == 0;
  EXPECT_EQ(whole_block("aclrtMallocAlign32"),
            exempt ? std::vector<std::string>{} : std::vector<std::string>{"part_tail"});
  const raw_block larger{"aclrtMallocAlign32", 128};
  ascend_simulator_part_taken(larger.start(), 96);
}

// "aclrtMallocCached: every other constraint is that of aclrtMalloc."
TEST_F(ascendcl_memory, cached_memory_has_the_rules_of_aclrtMalloc) {
  EXPECT_EQ(device::open("ascend:0,cached").value().properties().rules, device_->properties().rules);
}

// "aclrtMemcpyAsync: source and destination start at multiples of 64." The call fails elsewhere. Berth's copy takes
// another way there, and its bytes arrive.
TEST_F(ascendcl_memory, an_asynchronous_copy_starts_at_multiples_of_64) {
  for (const memory& m : memories) EXPECT_EQ(rules_of(open(m), m).copy_alignment, 64u) << m;
  stream s{*device_};
  void* const from = device_->allocate(512).value();
  void* const to = device_->allocate(512).value();
  for (const bytes offset : {1, 32, 63}) {
    ASSERT_TRUE(s.fill(from, std::byte{static_cast<unsigned char>(offset)}, 512));
    ASSERT_TRUE(s.copy(to, at(from, offset), 100));
    ASSERT_TRUE(s.copy(at(to, 128 + offset), from, 100));
    std::byte back[512] = {};
    ASSERT_TRUE(s.copy(back, to, 512));
    ASSERT_TRUE(s.synchronize());
    EXPECT_EQ(back[99], std::byte{static_cast<unsigned char>(offset)});
    EXPECT_EQ(back[128 + offset + 99], std::byte{static_cast<unsigned char>(offset)});
  }
  EXPECT_EQ(take_violations(), std::vector<std::string>{});
  if (profile().ends_with(":8.0")) {  // later documents ask for nothing
    aclrtStream raw = nullptr;
    ASSERT_EQ(aclrtCreateStream(&raw), ACL_SUCCESS);
    const auto copy = [&](bytes d, bytes f) {
      return aclrtMemcpyAsync(at(to, d), 64, at(from, f), 64, ACL_MEMCPY_DEVICE_TO_DEVICE, raw);
    };
    EXPECT_EQ(copy(64, 128), ACL_SUCCESS);
    EXPECT_EQ(copy(32, 128), ACL_ERROR_RT_ADDR_UNALIGNED);
    EXPECT_EQ(copy(64, 96), ACL_ERROR_RT_ADDR_UNALIGNED);
    EXPECT_EQ(aclrtSynchronizeStream(raw), ACL_SUCCESS);
    aclrtDestroyStream(raw);
    take_violations();
  }
  device_->free(from, 512);
  device_->free(to, 512);
}

// "acldvppMalloc and hi_mpi_dvpp_malloc: huge pages that suit media, for example a start at a multiple of 128."
TEST_F(ascendcl_memory, media_blocks_start_at_128_and_take_huge_pages) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  for (const char* function : {"acldvppMalloc", "hi_mpi_dvpp_malloc"}) {
    std::size_t before = 0, after = 0, total = 0;
    ASSERT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total), ACL_SUCCESS);
    const raw_block block{function, 3 * mib};
    if (block.start() == nullptr) {
      EXPECT_EQ(chip(), "950") << function;
      continue;
    }
    EXPECT_EQ(number(block.start()) % 128, 0u);
    ASSERT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total), ACL_SUCCESS);
    EXPECT_EQ(before - after, 4 * mib) << function;  // normal pages would take 3 MiB and one of 4 KiB
  }
}

// "aclrtMallocHost: page-locked memory of the host, which the system starts at a multiple of 64."
TEST_F(ascendcl_memory, pinned_memory_on_the_host_starts_at_64) {
  for (const bytes size : {1, 100, 5000}) {
    const raw_block block{"aclrtMallocHost", size};
    ASSERT_NE(block.start(), nullptr);
    EXPECT_EQ(number(block.start()) % 64, 0u);
    std::memset(block.start(), 1, size);
  }
}

// "A program on the device gets device memory from it, in normal pages. It aligns the start itself." Berth does.
TEST_F(ascendcl_memory, pinned_memory_on_the_device_is_aligned_by_berth) {
  ascend_simulator_run_mode(ACL_DEVICE);
  {
    const raw_block block{"aclrtMallocHost", 100};
    ASSERT_NE(block.start(), nullptr);
    EXPECT_NE(number(block.start()) % 64, 0u);
  }
  for (const bytes size : {1, 100, 5000}) {
    void* const block = device_->allocate(size, memory_kind::pinned).value();
    EXPECT_EQ(number(device_->host_address(block)) % 64, 0u);
    std::memset(device_->host_address(block), 1, size);
    device_->free(block, size, memory_kind::pinned);
  }
  ascend_simulator_run_mode(ACL_HOST);
}

// "Vision mixes several of these functions: choose the larger alignment for all, for example 128."
TEST_F(ascendcl_memory, one_rule_for_mixed_use_starts_at_128) {
  const rules::placement media = device::open("ascend:0,media").value().properties().rules;
  for (const memory& m : memories) {
    const device d = open(m);
    const auto mixed = rules::strictest(rules_of(d, m), media);
    ASSERT_TRUE(mixed);
    EXPECT_EQ(mixed->start_alignment, 128u) << m;
    EXPECT_EQ(mixed->size_granularity, 32u) << m;
    EXPECT_EQ(mixed->tail_pad, 32u) << m;
  }
}

// Places a scenario's buffers in one block of media memory, and tells the simulator of each while it lives.
void run_in_one_block(const plan::problem& p) {
  const device media = device::open("ascend:0,media").value();
  const plan::plan placed = plan::solve(p).value();
  void* const block = media.allocate(placed.arena()).value();
  plan::tick end = 0;
  for (const plan::buffer& b : p.buffers) end = std::max(end, b.live.upper);
  for (plan::tick now = 0; now <= end; ++now) {
    for (plan::index i = 0; i < p.buffers.size(); ++i) {
      if (p.buffers[i].live.upper == now) ascend_simulator_part_given_back(at(block, placed.offsets[i]));
    }
    for (plan::index i = 0; i < p.buffers.size(); ++i) {
      EXPECT_EQ(placed.offsets[i] % 128, 0u) << p.buffers[i].name;
      if (p.buffers[i].live.lower == now) {
        ascend_simulator_part_taken(at(block, placed.offsets[i]), p.buffers[i].size);
      }
    }
  }
  media.free(block, placed.arena());
}

// Figure 2, JPEGD: the file, the decoded picture and the model's buffers share one block of media memory. The text
// says: "The output of media is the model's input: m = ALIGN_UP[len,32]+32, start at 128."
TEST_F(ascendcl_memory, figure_2_jpegd_in_one_block) {
  const auto on = rules::find_media_chip(chip());
  ASSERT_TRUE(on) << chip();
  for (const bytes width : {1920, 1000, 33}) {
    const auto p = plan::jpeg_problem({.chip = *on, .width = width, .height = 607, .file_bytes = 40'001});
    ASSERT_TRUE(p);
    run_in_one_block(*p);
    EXPECT_EQ(take_violations(), std::vector<std::string>{}) << width;
  }
}

// Figure 1, VDEC: packets, decoded frames and the model's buffers share one block of media memory.
TEST_F(ascendcl_memory, figure_1_vdec_in_one_block) {
  const auto on = rules::find_media_chip(chip());
  ASSERT_TRUE(on) << chip();
  const auto p = plan::vdec_problem({.chip = *on, .width = 1280, .height = 720});
  if (chip() == "950") {  // decodes no video
    EXPECT_FALSE(p);
    return;
  }
  ASSERT_TRUE(p);
  run_in_one_block(*p);
}

}  // namespace
}  // namespace berth

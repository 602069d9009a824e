// Functions that real programs use besides memory: models, media, operators by name, and the host's own use of pinned
// memory. Each function is used rightly and wrongly.
#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "acl/ops/acl_dvpp.h"
#include "model/onnx_maker.hpp"
#include "simulator/ascend/bench_device.hpp"
#include "support/temporary_folder.hpp"

namespace ascend_simulator_test {
namespace {

constexpr aclError ok = ACL_SUCCESS;

volatile char seen;  // the program's read of a result

class programs : public testing::Test {
 protected:
  void SetUp() override { taken_violations(); }
  void TearDown() override { EXPECT_EQ(taken_violations(), ""); }
  static std::string violation() { return taken_violations(); }
};

testing::Matcher<std::string> race_of(const char* call) {
  return testing::HasSubstr(std::string{"host_race "} + call + ": ");
}

// --- the host's own accesses to pinned memory ---

using host_races = programs;

TEST_F(host_races, result_read_before_a_wait_is_reported) {
  bench t;
  t.to_host(t.a, t.one);
  seen = *static_cast<char*>(t.host);
  EXPECT_THAT(violation(), race_of("aclrtMemcpyAsync"));
  aclrtSynchronizeStream(t.one);
}

TEST_F(host_races, result_read_by_the_c_library_names_the_caller) {
  bench t;
  t.to_host(t.a, t.one);
  std::array<char, size> copy{};
  void* (*volatile copy_bytes)(void*, const void*, std::size_t) = std::memcpy;
  copy_bytes(copy.data(), t.host, size);
  ascend_simulator_violation told{};
  ASSERT_EQ(ascend_simulator_get_violation(0, &told), 1);
  EXPECT_THAT(told.place, testing::Not(testing::HasSubstr("libc.so")));
  EXPECT_THAT(violation(), race_of("aclrtMemcpyAsync"));
  aclrtSynchronizeStream(t.one);
}

TEST_F(host_races, result_read_after_another_streams_wait_is_reported) {
  bench t;
  t.to_host(t.a, t.one);
  aclrtSynchronizeStream(t.two);
  seen = *static_cast<char*>(t.host);
  EXPECT_THAT(violation(), race_of("aclrtMemcpyAsync"));
  aclrtSynchronizeStream(t.one);
}

TEST_F(host_races, staging_buffer_written_while_its_copy_is_queued_is_reported) {
  bench t;
  t.from_host(t.a, t.one);
  static_cast<char*>(t.host)[size / 2] = 1;
  EXPECT_THAT(violation(), race_of("aclrtMemcpyAsync"));
  aclrtSynchronizeStream(t.one);
}

TEST_F(host_races, part_of_a_page_written_while_its_copy_is_queued_is_reported_at_the_wait) {
  bench t;
  aclrtMemcpyAsync(t.a, 512, t.at(t.host, 64), 512, ACL_MEMCPY_HOST_TO_DEVICE, t.one);
  static_cast<char*>(t.host)[64] ^= 1;
  EXPECT_EQ(violation(), "");
  aclrtSynchronizeStream(t.one);
  EXPECT_THAT(violation(), race_of("aclrtMemcpyAsync"));
}

TEST_F(host_races, each_copy_is_reported_once) {
  bench t;
  t.to_host(t.a, t.one);
  for (int i = 0; i < 3; ++i) seen = static_cast<char*>(t.host)[i];
  EXPECT_EQ(ascend_simulator_violations(), 1U);
  violation();
  aclrtSynchronizeStream(t.one);
  EXPECT_EQ(violation(), "");
}

// Every way to wait makes both kinds of access right.
TEST_F(host_races, waits_permit_every_access) {
  using wait = std::function<void(bench&)>;
  const std::pair<const char*, wait> waits[] = {
      {"stream", [](bench& t) { aclrtSynchronizeStream(t.one); }},
      {"device", [](bench&) { aclrtSynchronizeDevice(); }},
      {"event", [](bench& t) { aclrtSynchronizeEvent(t.record(t.one)); }},
      {"query",
       [](bench& t) {
         for (aclrtStreamStatus s = ACL_STREAM_STATUS_NOT_READY; s != ACL_STREAM_STATUS_COMPLETE;) {
           aclrtStreamQuery(t.one, &s);
         }
       }},
      {"another stream behind an event",
       [](bench& t) {
         aclrtStreamWaitEvent(t.two, t.record(t.one));
         aclrtSynchronizeStream(t.two);
       }},
  };
  for (const auto& [name, wait_for] : waits) {
    bench t;
    for (int round = 0; round < 2; ++round) {
      static_cast<char*>(t.host)[7] = 1;
      t.from_host(t.a, t.one);
      seen = static_cast<char*>(t.host)[7];  // the source may be read
      t.to_host(t.a, t.one);
      wait_for(t);
      static_cast<char*>(t.host)[7] = 2;
    }
    EXPECT_EQ(violation(), "") << name;
  }
}

TEST_F(host_races, bytes_beside_a_queued_copy_stay_the_programs) {
  bench t;
  aclrtMemcpyAsync(t.host, 512, t.a, 512, ACL_MEMCPY_DEVICE_TO_HOST, t.one);
  static_cast<char*>(t.host)[512] = 1;
  seen = static_cast<char*>(t.host)[size - 1];
  aclrtSynchronizeStream(t.one);
  EXPECT_EQ(static_cast<char*>(t.host)[512], 1);
}

// The second copy, which an event orders behind the first one, changes what the first one read.
TEST_F(host_races, queued_work_may_write_what_earlier_queued_work_read) {
  bench t;
  aclrtMemcpyAsync(t.a, 512, t.host, 512, ACL_MEMCPY_HOST_TO_DEVICE, t.one);
  aclrtStreamWaitEvent(t.two, t.record(t.one));
  aclrtMemsetAsync(t.b, size, 9, size, t.two);
  aclrtMemcpyAsync(t.host, 512, t.b, 512, ACL_MEMCPY_DEVICE_TO_HOST, t.two);
  aclrtSynchronizeStream(t.two);
  EXPECT_EQ(static_cast<char*>(t.host)[0], 9);
}

TEST_F(host_races, host_function_behind_the_copy_may_read_the_result) {
  bench t;
  aclrtMemsetAsync(t.a, size, 5, size, t.one);
  t.to_host(t.a, t.one);
  struct hand {
    const char* from;
    char got;
  } h{static_cast<char*>(t.host), 0};
  const aclError code = aclrtLaunchHostFunc(
      t.one, [](void* p) { static_cast<hand*>(p)->got = *static_cast<hand*>(p)->from; }, &h);
  ASSERT_EQ(code, ok);
  aclrtSynchronizeStream(t.one);
  EXPECT_EQ(h.got, 5);
}

// The function of another stream exempts the second copy from the check, and the first one's source is not compared.
TEST_F(host_races, queued_work_may_write_what_earlier_work_read_beside_a_host_function) {
  bench t;
  std::atomic<bool> go = false;
  aclrtMemcpyAsync(t.a, 512, t.host, 512, ACL_MEMCPY_HOST_TO_DEVICE, t.one);
  aclrtMemsetAsync(t.b, size, 9, size, t.one);
  const auto wait = [](void* p) {
    while (!*static_cast<std::atomic<bool>*>(p)) std::this_thread::yield();
  };
  ASSERT_EQ(aclrtLaunchHostFunc(t.two, wait, &go), ok);
  aclrtMemcpyAsync(t.host, 512, t.b, 512, ACL_MEMCPY_DEVICE_TO_HOST, t.one);
  go = true;
  aclrtSynchronizeStream(t.one);
  aclrtSynchronizeStream(t.two);
  EXPECT_EQ(static_cast<char*>(t.host)[0], 9);
  EXPECT_EQ(violation(), "");
}

TEST_F(host_races, host_function_ahead_of_the_copy_may_fill_its_source) {
  bench t;
  const aclError code = aclrtLaunchHostFunc(
      t.one, [](void* p) { std::memset(p, 6, size); }, t.host);
  ASSERT_EQ(code, ok);
  t.from_host(t.a, t.one);
  aclrtSynchronizeStream(t.one);
  char got = 0;
  aclrtMemcpy(&got, 1, t.a, 1, ACL_MEMCPY_DEVICE_TO_HOST);
  EXPECT_EQ(got, 6);
  EXPECT_EQ(violation(), "");
  t.to_host(t.a, t.one);  // the function has ended, so the check goes on
  seen = *static_cast<char*>(t.host);
  EXPECT_THAT(violation(), race_of("aclrtMemcpyAsync"));
  aclrtSynchronizeStream(t.one);
}

// --- the runtime's smaller functions ---

using runtime_calls = programs;

TEST_F(runtime_calls, fills_of_words_write_the_word) {
  bench t;
  EXPECT_EQ(aclrtMemsetD32(t.a, size, 0x01020304U, 3), ok);
  std::array<std::uint32_t, 3> got{};
  EXPECT_EQ(aclrtMemcpy(got.data(), sizeof got, t.a, sizeof got, ACL_MEMCPY_DEVICE_TO_HOST), ok);
  EXPECT_THAT(got, testing::Each(0x01020304U));
  EXPECT_EQ(aclrtMemsetD32(t.a, 8, 0, 3), ACL_ERROR_RT_PARAM_INVALID);
}

TEST_F(runtime_calls, pinned_memory_is_filled_as_device_memory_is) {
  bench t;
  EXPECT_EQ(aclrtMemset(t.host, size, 7, size), ok);
  EXPECT_EQ(static_cast<char*>(t.host)[size - 1], 7);
  EXPECT_EQ(aclrtMemset(t.host, size + 8, 7, size + 8), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_THAT(violation(), testing::HasSubstr("out_of_bounds aclrtMemset: "));
  EXPECT_EQ(aclrtMemsetAsync(t.host, size, 9, size, t.one), ok);
  seen = *static_cast<char*>(t.host);
  EXPECT_THAT(violation(), race_of("aclrtMemsetAsync"));
  EXPECT_EQ(aclrtSynchronizeStream(t.one), ok);
  EXPECT_EQ(static_cast<char*>(t.host)[0], 9);
}

TEST_F(runtime_calls, last_error_is_read_once) {
  bench t;
  aclrtGetLastError(ACL_RT_THREAD_LEVEL);
  EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ok);
  EXPECT_EQ(aclrtSetDevice(99), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ok);
}

TEST_F(runtime_calls, peers_are_other_devices) {
  bench t;
  std::int32_t can = 0;
  EXPECT_EQ(aclrtDeviceCanAccessPeer(&can, 0, 1), ok);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(aclrtDeviceEnablePeerAccess(1, 0), ok);
  EXPECT_EQ(aclrtDeviceDisablePeerAccess(1), ok);
  EXPECT_EQ(aclrtDeviceCanAccessPeer(&can, 0, 0), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtDeviceEnablePeerAccess(0, 0), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtDeviceEnablePeerAccess(9, 0), ACL_ERROR_RT_INVALID_DEVICEID);
}

TEST_F(runtime_calls, device_streams_and_settings_are_known) {
  bench t;
  std::int64_t memory = 0;
  std::size_t rest = 0, total = 0;
  EXPECT_EQ(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &memory), ok);
  EXPECT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &rest, &total), ok);
  EXPECT_EQ(static_cast<std::size_t>(memory), total);
  EXPECT_EQ(aclrtGetDeviceInfo(9, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &memory), ACL_ERROR_RT_INVALID_DEVICEID);
  std::int32_t one = -1, two = -1;
  EXPECT_EQ(aclrtStreamGetId(t.one, &one), ok);
  EXPECT_EQ(aclrtStreamGetId(t.two, &two), ok);
  EXPECT_NE(one, two);
  aclrtStream own = &own;
  EXPECT_EQ(aclrtCtxGetCurrentDefaultStream(&own), ok);
  EXPECT_EQ(aclrtSynchronizeStream(own), ok);
  EXPECT_EQ(aclrtSetTsDevice(ACL_TS_ID_AIVECTOR), ok);
  EXPECT_EQ(aclrtSetTsDevice(ACL_TS_ID_RESERVED), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtSetOpWaitTimeout(1), ok);
  EXPECT_EQ(aclrtSetOpExecuteTimeOut(1), ok);
  std::int32_t major = 0, minor = 0, patch = 0;
  EXPECT_EQ(aclrtGetVersion(&major, &minor, &patch), ok);
  EXPECT_EQ(aclrtGetVersion(nullptr, &minor, &patch), ACL_ERROR_INVALID_PARAM);
}

TEST_F(runtime_calls, waits_of_events_have_a_status) {
  bench t;
  aclrtEvent e = t.record(t.one);
  EXPECT_EQ(aclrtStreamWaitEventWithTimeout(t.two, e, 1000), ok);
  EXPECT_EQ(aclrtStreamWaitEventWithTimeout(t.two, e, -5), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtSynchronizeStream(t.two), ok);
  aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_RESERVED;
  EXPECT_EQ(aclrtQueryEventWaitStatus(e, &status), ok);
  EXPECT_EQ(status, ACL_EVENT_WAIT_STATUS_COMPLETE);
  EXPECT_EQ(aclrtQueryEventWaitStatus(nullptr, &status), ACL_ERROR_RT_PARAM_INVALID);
  float ms = -1;
  EXPECT_EQ(aclrtEventElapsedTime(&ms, e, e), ok);
  EXPECT_GE(ms, 0);
  EXPECT_EQ(aclrtEventElapsedTime(&ms, e, nullptr), ACL_ERROR_RT_PARAM_INVALID);
}

TEST_F(runtime_calls, registered_memory_has_an_address_of_the_device) {
  bench t;
  void* at = nullptr;
  EXPECT_EQ(aclrtHostGetDevicePointer(t.host, &at, 0), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED);
  const aclError code = aclrtHostRegisterV2(t.host, size, 2);
  if (code == ACL_ERROR_RT_FEATURE_NOT_SUPPORT) GTEST_SKIP() << "this chip registers no memory";
  ASSERT_EQ(code, ok);
  void* inside = nullptr;
  EXPECT_EQ(aclrtHostGetDevicePointer(t.host, &at, 0), ok);
  EXPECT_EQ(aclrtHostGetDevicePointer(t.at(t.host, 100), &inside, 0), ok);
  EXPECT_EQ(static_cast<char*>(inside) - static_cast<char*>(at), 100);
  EXPECT_EQ(aclrtHostUnregister(t.host), ok);
  EXPECT_EQ(aclrtHostRegisterV2(t.host, size, 4), ACL_ERROR_RT_PARAM_INVALID);
}

TEST(runtime_death, run_mode_needs_no_init) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own, in which nobody called aclInit
  EXPECT_EXIT(
      {
        aclrtRunMode mode = ACL_DEVICE;
        const bool right = aclrtGetRunMode(&mode) == ok && mode == ACL_HOST;
        std::int32_t device = 0;
        std::_Exit(right && aclrtGetDevice(&device) == ACL_ERROR_UNINITIALIZE ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

// --- descriptions ---

using descriptions = programs;

TEST_F(descriptions, halves_convert_as_ieee_says) {
  constexpr std::pair<std::uint16_t, float> values[] = {{0x0000, 0.F},      {0x3c00, 1.F},
                                                        {0xc000, -2.F},     {0x7bff, 65504.F},
                                                        {0x0001, 0x1p-24F}, {0x03ff, 1023 * 0x1p-24F},
                                                        {0x0400, 0x1p-14F}, {0x3555, 1365 * 0x1p-12F}};
  for (const auto& [half, value] : values) {
    EXPECT_EQ(aclFloat16ToFloat(half), value);
    EXPECT_EQ(aclFloatToFloat16(value), half);
  }
  for (std::uint32_t h = 0; h < 0x10000; ++h) {  // every half but NaNs comes back
    const auto half = static_cast<aclFloat16>(h);
    if ((h & 0x7fffU) <= 0x7c00U) {
      ASSERT_EQ(aclFloatToFloat16(aclFloat16ToFloat(half)), half);
    }
  }
  EXPECT_EQ(aclFloatToFloat16(1.F + 0x1p-11F), 0x3c00);  // half-way goes to even
  EXPECT_EQ(aclFloatToFloat16(1.F + 0x3p-11F), 0x3c02);
  EXPECT_EQ(aclFloatToFloat16(65520.F), 0x7c00);
  EXPECT_TRUE(std::isnan(aclFloat16ToFloat(aclFloatToFloat16(NAN))));
}

TEST_F(descriptions, tensors_and_buffers_say_what_they_were_given) {
  const std::int64_t dims[] = {2, 3};
  aclTensorDesc* const d = aclCreateTensorDesc(ACL_FLOAT16, 2, dims, ACL_FORMAT_ND);
  EXPECT_EQ(aclGetTensorDescSize(d), 12U);
  EXPECT_EQ(aclGetTensorDescElementCount(d), 6U);
  std::int64_t extent = 0;
  EXPECT_EQ(aclGetTensorDescDimV2(d, 1, &extent), ok);
  EXPECT_EQ(extent, 3);
  EXPECT_EQ(aclGetTensorDescDimV2(d, 2, &extent), ACL_ERROR_INVALID_PARAM);
  aclDestroyTensorDesc(d);
  aclDestroyTensorDesc(d);
  EXPECT_THAT(violation(), testing::HasSubstr("double_free aclDestroyTensorDesc: "));
  aclDataBuffer* const b = aclCreateDataBuffer(&extent, sizeof extent);
  EXPECT_EQ(aclGetDataBufferAddr(b), &extent);
  EXPECT_EQ(aclUpdateDataBuffer(b, nullptr, 3), ok);
  EXPECT_EQ(aclGetDataBufferSizeV2(b), 3U);
  EXPECT_EQ(aclDestroyDataBuffer(b), ok);
  EXPECT_EQ(aclDestroyDataBuffer(b), ACL_ERROR_INVALID_PARAM);
  EXPECT_THAT(violation(), testing::HasSubstr("double_free aclDestroyDataBuffer: "));
}

// --- models and operators ---

// y = x + (1, 2, 3, 4).
std::string adds() {
  return berth::test::onnx_maker{}
      .input("x", {1, 4})
      .floats("c", {4}, {1, 2, 3, 4})
      .node("Add", {"x", "c"}, {"y"})
      .output("y")
      .text();
}

class models : public programs {
 protected:
  void SetUp() override {
    programs::SetUp();
    const std::string bytes = adds();
    ASSERT_EQ(aclmdlLoadFromMem(bytes.data(), bytes.size(), &id_), ok);
    for (void* const block : {t_.a, t_.b}) {
      buffers_.push_back(aclCreateDataBuffer(block, size));
      sets_.push_back(aclmdlCreateDataset());
      aclmdlAddDatasetBuffer(sets_.back(), buffers_.back());
    }
    const std::array<float, 4> x{10, 20, 30, 40};
    aclrtMemcpy(t_.a, size, x.data(), sizeof x, ACL_MEMCPY_HOST_TO_DEVICE);
  }
  void TearDown() override {
    aclrtSynchronizeStream(t_.one);
    for (const aclmdlDataset* set : sets_) aclmdlDestroyDataset(set);
    for (const aclDataBuffer* b : buffers_) aclDestroyDataBuffer(b);
    if (id_ != 0) {
      EXPECT_EQ(aclmdlUnload(id_), ok);
    }
    programs::TearDown();
  }
  std::vector<float> result() const {
    std::vector<float> y(4);
    aclrtMemcpy(y.data(), 16, t_.b, 16, ACL_MEMCPY_DEVICE_TO_HOST);
    return y;
  }

  bench t_;
  std::uint32_t id_ = 0;
  std::vector<aclDataBuffer*> buffers_;
  std::vector<aclmdlDataset*> sets_;
};

TEST_F(models, compute_at_once_or_on_a_stream) {
  EXPECT_EQ(aclmdlExecute(id_, sets_[0], sets_[1]), ok);
  EXPECT_THAT(result(), testing::ElementsAre(11, 22, 33, 44));
  aclrtMemset(t_.b, size, 0, size);
  EXPECT_EQ(aclmdlExecuteAsync(id_, sets_[0], sets_[1], t_.one), ok);
  EXPECT_EQ(aclrtSynchronizeStream(t_.one), ok);
  EXPECT_THAT(result(), testing::ElementsAre(11, 22, 33, 44));
}

TEST_F(models, describe_themselves) {
  aclmdlDesc* const d = aclmdlCreateDesc();
  EXPECT_EQ(aclmdlGetDesc(d, 99), ACL_ERROR_INVALID_MODEL_ID);
  EXPECT_EQ(aclmdlGetNumInputs(d), 0U);
  EXPECT_EQ(aclmdlGetDesc(d, id_), ok);
  EXPECT_EQ(aclmdlGetNumInputs(d), 1U);
  EXPECT_EQ(aclmdlGetInputSizeByIndex(d, 0), 16U);
  EXPECT_EQ(aclmdlGetOutputSizeByIndex(d, 1), 0U);
  EXPECT_STREQ(aclmdlGetOutputNameByIndex(d, 0), "y");
  EXPECT_EQ(aclmdlGetInputDataType(d, 0), ACL_FLOAT);
  aclmdlIODims dims{};
  EXPECT_EQ(aclmdlGetInputDims(d, 0, &dims), ok);
  EXPECT_STREQ(dims.name, "x");
  EXPECT_EQ(dims.dimCount, 2U);
  EXPECT_EQ(dims.dims[1], 4);
  EXPECT_EQ(aclmdlGetOutputDims(d, 1, &dims), ACL_ERROR_INVALID_PARAM);
  std::size_t index = 9;
  EXPECT_EQ(aclmdlGetInputIndexByName(d, "x", &index), ok);
  EXPECT_EQ(index, 0U);
  EXPECT_EQ(aclmdlGetInputIndexByName(d, "y", &index), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclmdlDestroyDesc(d), ok);
}

TEST_F(models, wrong_files_have_codes) {
  std::uint32_t other = 0;
  EXPECT_EQ(aclmdlLoadFromFile("/nowhere/model.om", &other), ACL_ERROR_INVALID_FILE);
  EXPECT_EQ(aclmdlLoadFromMem("no model", 8, &other), ACL_ERROR_PARSE_MODEL);
  EXPECT_EQ(aclmdlLoadFromMem(nullptr, 0, &other), ACL_ERROR_PARSE_MODEL);
  EXPECT_EQ(aclmdlUnload(99), ACL_ERROR_INVALID_MODEL_ID);
}

TEST_F(models, wrong_buffers_are_refused) {
  aclmdlDataset* const none = aclmdlCreateDataset();
  EXPECT_EQ(aclmdlExecute(id_, none, sets_[1]), ACL_ERROR_MODEL_INPUT_NOT_MATCH);
  EXPECT_EQ(aclmdlExecute(id_, sets_[0], none), ACL_ERROR_MODEL_OUTPUT_NOT_MATCH);
  EXPECT_EQ(aclmdlDestroyDataset(none), ok);
  EXPECT_EQ(aclmdlExecute(id_, none, sets_[1]), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclUpdateDataBuffer(buffers_[0], t_.a, 8), ok);
  EXPECT_EQ(aclmdlExecute(id_, sets_[0], sets_[1]), ACL_ERROR_MODEL_INPUT_NOT_MATCH);
  EXPECT_EQ(aclUpdateDataBuffer(buffers_[0], t_.host, size), ok);
  EXPECT_EQ(aclmdlExecute(id_, sets_[0], sets_[1]), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclUpdateDataBuffer(buffers_[0], t_.at(t_.a, size - 8), size), ok);
  EXPECT_EQ(aclmdlExecute(id_, sets_[0], sets_[1]), ACL_ERROR_INVALID_PARAM);
  EXPECT_THAT(violation(), testing::HasSubstr("out_of_bounds aclmdlExecute: "));
}

TEST_F(models, results_read_too_early_and_inputs_freed_too_early_are_reported) {
  EXPECT_EQ(aclmdlExecuteAsync(id_, sets_[0], sets_[1], t_.one), ok);
  (void)result();
  EXPECT_THAT(violation(), testing::HasSubstr("race aclrtMemcpy: "));
  EXPECT_EQ(aclrtFree(std::exchange(t_.a, nullptr)), ok);
  EXPECT_THAT(violation(), testing::HasSubstr("early_free aclrtFree: "));
  EXPECT_EQ(aclmdlUnload(std::exchange(id_, 0)), ok);
  EXPECT_THAT(violation(), testing::HasSubstr("early_free aclmdlUnload: "));
}

TEST_F(models, memory_given_to_a_model_must_live_as_long) {
  std::size_t work = 0, weights = 0;
  const std::string bytes = adds();
  EXPECT_EQ(aclmdlQuerySizeFromMem(bytes.data(), bytes.size(), &work, &weights), ok);
  void* room = nullptr;
  ASSERT_EQ(aclrtMalloc(&room, work + 64, ACL_MEM_MALLOC_HUGE_FIRST), ok);
  std::uint32_t other = 0;
  EXPECT_EQ(aclmdlLoadFromMemWithMem(bytes.data(), bytes.size(), &other, room, work - 1, nullptr, 0),
            ACL_ERROR_INVALID_PARAM);
  ASSERT_EQ(aclmdlLoadFromMemWithMem(bytes.data(), bytes.size(), &other, room, work, nullptr, 0), ok);
  EXPECT_EQ(aclmdlExecute(other, sets_[0], sets_[1]), ok);
  EXPECT_EQ(aclrtFree(room), ok);
  EXPECT_EQ(aclmdlExecute(other, sets_[0], sets_[1]), ACL_ERROR_INVALID_PARAM);
  EXPECT_THAT(violation(), testing::HasSubstr("use_after_free aclmdlExecute: "));
  EXPECT_EQ(aclmdlUnload(other), ok);
}

TEST_F(models, load_by_configuration) {
  const std::string bytes = adds();
  const void* const at = bytes.data();
  const std::size_t kind = ACL_MDL_LOAD_FROM_MEM, length = bytes.size();
  aclmdlConfigHandle* const h = aclmdlCreateConfigHandle();
  std::uint32_t other = 0;
  EXPECT_EQ(aclmdlLoadWithConfig(h, &other), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclmdlSetConfigOpt(h, ACL_MDL_LOAD_TYPE_SIZET, &kind, sizeof kind), ok);
  EXPECT_EQ(aclmdlSetConfigOpt(h, ACL_MDL_MEM_ADDR_PTR, &at, sizeof at), ok);
  EXPECT_EQ(aclmdlSetConfigOpt(h, ACL_MDL_MEM_SIZET, &length, sizeof length), ok);
  EXPECT_EQ(aclmdlSetConfigOpt(h, ACL_MDL_MEM_SIZET, &length, 3), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclmdlLoadWithConfig(h, &other), ok);
  EXPECT_EQ(aclmdlUnload(other), ok);
  EXPECT_EQ(aclmdlDestroyConfigHandle(h), ok);
}

TEST_F(models, operators_are_files_of_their_folder) {
  const berth::support::temporary_folder folder;
  {
    std::ofstream file{folder.path("AddMine.onnx"), std::ios::binary};
    file << adds();
  }
  EXPECT_EQ(aclopSetModelDir("/nowhere"), ACL_ERROR_INVALID_FILE);
  ASSERT_EQ(aclopSetModelDir(folder.path("").c_str()), ok);
  const std::int64_t dims[] = {1, 4};
  aclTensorDesc* types[] = {aclCreateTensorDesc(ACL_FLOAT, 2, dims, ACL_FORMAT_ND)};
  aclTensorDesc* others[] = {aclCreateTensorDesc(ACL_INT32, 2, dims, ACL_FORMAT_ND)};
  aclopAttr* const attributes = aclopCreateAttr();
  EXPECT_EQ(aclopSetAttrInt(attributes, "axis", 1), ok);
  EXPECT_EQ(aclopSetAttrInt(nullptr, "axis", 1), ACL_ERROR_INVALID_PARAM);
  const auto execute = [&](const char* name, aclTensorDesc** in, aclTensorDesc** out) {
    return aclopExecuteV2(name, 1, in, &buffers_[0], 1, out, &buffers_[1], attributes, t_.one);
  };
  EXPECT_EQ(execute("AddMine", types, types), ok);
  EXPECT_EQ(aclrtSynchronizeStream(t_.one), ok);
  EXPECT_THAT(result(), testing::ElementsAre(11, 22, 33, 44));
  EXPECT_EQ(execute("AddYours", types, types), ACL_ERROR_OP_TYPE_NOT_MATCH);
  EXPECT_EQ(execute("AddMine", others, types), ACL_ERROR_OP_INPUT_NOT_MATCH);
  EXPECT_EQ(execute("AddMine", types, others), ACL_ERROR_OP_OUTPUT_NOT_MATCH);
  aclopDestroyAttr(attributes);
  aclDestroyTensorDesc(types[0]);
  aclDestroyTensorDesc(others[0]);
}

// --- media ---

class media : public programs {
 protected:
  static constexpr std::uint32_t width = 64, height = 32, bytes = width * height * 3 / 2;

  void SetUp() override {
    programs::SetUp();
    channel_ = acldvppCreateChannelDesc();
    if (acldvppCreateChannel(channel_) == ACL_ERROR_RT_FEATURE_NOT_SUPPORT) GTEST_SKIP() << "a chip without";
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(acldvppMalloc(&blocks_[i], bytes), ok);
      pictures_[i] = acldvppCreatePicDesc();
      describe(pictures_[i], blocks_[i], PIXEL_FORMAT_YUV_SEMIPLANAR_420, width, height, bytes);
    }
    std::vector<std::uint8_t> from(bytes, 128);
    for (std::uint32_t y = 0; y < height; ++y) {
      for (std::uint32_t x = 0; x < width; ++x) from[y * width + x] = static_cast<std::uint8_t>(x + 2 * y);
    }
    aclrtMemcpy(blocks_[0], bytes, from.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE);
  }
  void TearDown() override {
    aclrtSynchronizeStream(t_.one);
    for (acldvppPicDesc* p : pictures_) {
      if (p != nullptr) acldvppDestroyPicDesc(p);
    }
    acldvppDestroyChannel(channel_);
    acldvppDestroyChannelDesc(channel_);
    for (void* block : blocks_) {
      if (block != nullptr) acldvppFree(block);
    }
    programs::TearDown();
  }
  static void describe(acldvppPicDesc* p, void* data, acldvppPixelFormat format, std::uint32_t w, std::uint32_t h,
                       std::uint32_t room, std::uint32_t row = 0) {
    acldvppSetPicDescData(p, data);
    acldvppSetPicDescFormat(p, format);
    acldvppSetPicDescWidth(p, w);
    acldvppSetPicDescHeight(p, h);
    acldvppSetPicDescWidthStride(p, row != 0 ? row : w);
    acldvppSetPicDescHeightStride(p, h);
    acldvppSetPicDescSize(p, room);
  }
  std::vector<std::uint8_t> output() {
    EXPECT_EQ(aclrtSynchronizeStream(t_.one), ok);
    std::vector<std::uint8_t> got(bytes);
    EXPECT_EQ(aclrtMemcpy(got.data(), bytes, blocks_[1], bytes, ACL_MEMCPY_DEVICE_TO_HOST), ok);
    return got;
  }

  bench t_;
  acldvppChannelDesc* channel_ = nullptr;
  std::array<acldvppPicDesc*, 2> pictures_{};
  std::array<void*, 2> blocks_{};
};

TEST_F(media, resize_takes_the_nearest_pixel) {
  describe(pictures_[1], blocks_[1], PIXEL_FORMAT_YUV_SEMIPLANAR_420, 32, 16, bytes);
  acldvppResizeConfig* const how = acldvppCreateResizeConfig();
  EXPECT_EQ(acldvppSetResizeConfigInterpolation(how, 2), ok);
  EXPECT_EQ(acldvppGetResizeConfigInterpolation(how), 2U);
  EXPECT_EQ(acldvppVpcResizeAsync(channel_, pictures_[0], pictures_[1], how, t_.one), ok);
  const auto got = output();
  for (std::uint32_t y = 0; y < 16; ++y) {
    for (std::uint32_t x = 0; x < 32; ++x) ASSERT_EQ(got[y * 32 + x], 2 * x + 4 * y);
  }
  EXPECT_EQ(acldvppDestroyResizeConfig(how), ok);
}

TEST_F(media, crop_and_paste_move_an_area) {
  acldvppRoiConfig* const from = acldvppCreateRoiConfig(16, 31, 8, 15);
  acldvppRoiConfig* const to = acldvppCreateRoiConfig(32, 47, 0, 7);
  EXPECT_EQ(acldvppVpcCropAndPasteAsync(channel_, pictures_[0], pictures_[1], from, to, t_.one), ok);
  const auto got = output();
  for (std::uint32_t y = 0; y < 8; ++y) {
    for (std::uint32_t x = 0; x < 16; ++x) ASSERT_EQ(got[y * width + 32 + x], 16 + x + 2 * (8 + y));
  }
  EXPECT_EQ(acldvppSetRoiConfigRight(from, width), ok);
  EXPECT_EQ(acldvppVpcCropAsync(channel_, pictures_[0], pictures_[1], from, t_.one), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(acldvppDestroyRoiConfig(from), ok);
  EXPECT_EQ(acldvppDestroyRoiConfig(to), ok);
}

TEST_F(media, formats_are_converted) {
  describe(pictures_[1], blocks_[1], PIXEL_FORMAT_BGR_888, 32, 16, bytes, 96);
  acldvppResizeConfig* const how = acldvppCreateResizeConfig();
  EXPECT_EQ(acldvppVpcResizeAsync(channel_, pictures_[0], pictures_[1], how, t_.one), ok);
  const auto got = output();
  for (std::uint32_t x = 0; x < 32 * 3; ++x) ASSERT_EQ(got[x], 2 * (x / 3));  // grey, since U and V are 128
  EXPECT_EQ(acldvppSetPicDescFormat(pictures_[1], PIXEL_FORMAT_YUYV_PACKED_422), ok);
  EXPECT_EQ(acldvppVpcResizeAsync(channel_, pictures_[0], pictures_[1], how, t_.one), ACL_ERROR_FORMAT_NOT_MATCH);
  acldvppDestroyResizeConfig(how);
}

TEST_F(media, batches_crop_each_picture) {
  acldvppBatchPicDesc* const from = acldvppCreateBatchPicDesc(1);
  acldvppBatchPicDesc* const to = acldvppCreateBatchPicDesc(1);
  describe(acldvppGetPicDesc(from, 0), blocks_[0], PIXEL_FORMAT_YUV_SEMIPLANAR_420, width, height, bytes);
  describe(acldvppGetPicDesc(to, 0), blocks_[1], PIXEL_FORMAT_YUV_SEMIPLANAR_420, 16, 16, bytes);
  EXPECT_EQ(acldvppGetPicDesc(to, 1), nullptr);
  acldvppRoiConfig* crops[] = {acldvppCreateRoiConfig(2, 17, 4, 19), acldvppCreateRoiConfig(0, 15, 0, 15)};
  std::uint32_t count = 1;
  EXPECT_EQ(acldvppVpcBatchCropAsync(channel_, from, &count, 1, to, crops, t_.one), ok);
  EXPECT_EQ(output()[0], 2 + 2 * 4);
  count = 2;
  EXPECT_EQ(acldvppVpcBatchCropAsync(channel_, from, &count, 1, to, crops, t_.one), ACL_ERROR_INVALID_PARAM);
  for (acldvppRoiConfig* crop : crops) acldvppDestroyRoiConfig(crop);
  EXPECT_EQ(acldvppDestroyBatchPicDesc(from), ok);
  EXPECT_EQ(acldvppDestroyBatchPicDesc(to), ok);
}

TEST_F(media, encoded_pictures_decode_to_their_size) {
  acldvppJpegeConfig* const how = acldvppCreateJpegeConfig();
  std::uint32_t room = 0;
  EXPECT_EQ(acldvppJpegPredictEncSize(pictures_[0], how, &room), ok);
  void* file = nullptr;
  ASSERT_EQ(acldvppMalloc(&file, room), ok);
  EXPECT_EQ(acldvppJpegEncodeAsync(channel_, pictures_[0], file, &room, how, t_.one), ok);
  EXPECT_EQ(aclrtSynchronizeStream(t_.one), ok);
  std::vector<std::uint8_t> text(room);
  aclrtMemcpy(text.data(), room, file, room, ACL_MEMCPY_DEVICE_TO_HOST);
  std::uint32_t w = 0, h = 0, decoded = 0;
  std::int32_t components = 0;
  acldvppJpegFormat format = ACL_JPEG_CSS_UNKNOWN;
  EXPECT_EQ(acldvppJpegGetImageInfoV2(text.data(), room, &w, &h, &components, &format), ok);
  EXPECT_EQ((std::array{w, h, static_cast<std::uint32_t>(components)}), (std::array{width, height, 3U}));
  EXPECT_EQ(format, ACL_JPEG_CSS_420);
  EXPECT_EQ(acldvppJpegPredictDecSize(text.data(), room, PIXEL_FORMAT_YUV_SEMIPLANAR_420, &decoded), ok);
  EXPECT_EQ(decoded, 128U * 32 * 3 / 2);
  EXPECT_EQ(acldvppJpegGetImageInfo(text.data(), 9, &w, &h, &components), ACL_ERROR_UNSUPPORTED_JPEG);
  EXPECT_EQ(acldvppJpegDecodeAsync(channel_, file, room, pictures_[1], t_.one), ok);
  const auto got = output();
  EXPECT_EQ(static_cast<std::uint8_t>(got[width + 1] - got[0]), 2);  // the pattern
  EXPECT_EQ(got[width * height], 128);
  // Rows of a byte for each pixel are too short for three.
  acldvppSetPicDescFormat(pictures_[1], PIXEL_FORMAT_RGB_888);
  EXPECT_EQ(acldvppJpegDecodeAsync(channel_, file, room, pictures_[1], t_.one), ok);
  EXPECT_EQ(aclrtSynchronizeStream(t_.one), ACL_ERROR_INVALID_PARAM);
  acldvppSetPicDescFormat(pictures_[1], PIXEL_FORMAT_YUV_SEMIPLANAR_420);
  // A picture that is no JPEG fails when the stream comes to it.
  EXPECT_EQ(acldvppJpegDecodeAsync(channel_, blocks_[0], bytes, pictures_[1], t_.one), ok);
  EXPECT_EQ(aclrtSynchronizeStream(t_.one), ACL_ERROR_UNSUPPORTED_JPEG);
  acldvppFree(file);
  acldvppDestroyJpegeConfig(how);
}

TEST_F(media, wrong_pictures_and_memory_are_refused) {
  acldvppResizeConfig* const how = acldvppCreateResizeConfig();
  const auto resize = [&] { return acldvppVpcResizeAsync(channel_, pictures_[0], pictures_[1], how, t_.one); };
  acldvppSetPicDescSize(pictures_[1], bytes - 1);
  EXPECT_EQ(resize(), ACL_ERROR_INVALID_PARAM);
  acldvppSetPicDescSize(pictures_[1], bytes);
  acldvppSetPicDescWidthStride(pictures_[1], width - 2);
  EXPECT_EQ(resize(), ACL_ERROR_INVALID_PARAM);
  acldvppSetPicDescWidthStride(pictures_[1], width);
  acldvppSetPicDescData(pictures_[1], t_.a);
  EXPECT_EQ(resize(), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_THAT(violation(), testing::HasSubstr("media_memory acldvppVpcResizeAsync: "));
  acldvppSetPicDescData(pictures_[1], blocks_[1]);
  EXPECT_EQ(resize(), ok);
  EXPECT_EQ(acldvppFree(std::exchange(blocks_[1], nullptr)), ok);
  EXPECT_THAT(violation(), testing::HasSubstr("early_free acldvppFree: "));
  acldvppChannelDesc* const closed = acldvppCreateChannelDesc();
  EXPECT_EQ(acldvppVpcResizeAsync(closed, pictures_[0], pictures_[0], how, t_.one), ACL_ERROR_INVALID_PARAM);
  acldvppDestroyChannelDesc(closed);
  acldvppDestroyResizeConfig(how);
}

}  // namespace
}  // namespace ascend_simulator_test

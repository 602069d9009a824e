// The begin of a small program for the simulator: a device, two streams, blocks of each kind. At its end everything is
// given back, however the program went.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "acl/ops/acl_dvpp.h"
#include "ascend_simulator.h"

namespace ascend_simulator_test {

inline constexpr std::size_t size = 4096;
inline constexpr std::size_t granule = std::size_t{2} << 20;

struct bench {
  bench() {
    aclInit(nullptr);
    EXPECT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    EXPECT_EQ(aclrtGetCurrentContext(&context), ACL_SUCCESS);
    EXPECT_EQ(aclrtCreateStream(&one), ACL_SUCCESS);
    EXPECT_EQ(aclrtCreateStream(&two), ACL_SUCCESS);
    EXPECT_EQ(aclrtMalloc(&a, size, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    EXPECT_EQ(aclrtMalloc(&b, size, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    EXPECT_EQ(aclrtMallocHost(&host, size), ACL_SUCCESS);
  }
  bench(const bench&) = delete;
  bench& operator=(const bench&) = delete;
  ~bench() {
    aclrtSetCurrentContext(context);
    for (void* s : {one, two}) {
      if (s != nullptr) {
        EXPECT_EQ(aclrtDestroyStream(s), ACL_SUCCESS);
      }
    }
    for (void* e : events) aclrtDestroyEvent(e);
    if (mapped) aclrtUnmapMem(range);
    if (memory != nullptr) aclrtFreePhysical(memory);
    if (range != nullptr) aclrtReleaseMemAddress(range);
    if (media != nullptr) acldvppFree(media);
    if (a != nullptr) aclrtFree(a);
    if (b != nullptr) aclrtFree(b);
    if (host != nullptr) aclrtFreeHost(host);
    aclrtResetDevice(0);
  }

  static std::byte* at(void* p, std::size_t offset) { return static_cast<std::byte*>(p) + offset; }
  static aclError fill(void* p, aclrtStream s, std::size_t n = size) { return aclrtMemsetAsync(p, n, 7, n, s); }
  static aclError copy(void* to, const void* from, aclrtMemcpyKind kind, aclrtStream s, std::size_t n = size) {
    return aclrtMemcpyAsync(to, n, from, n, kind, s);
  }
  aclError to_host(const void* from, aclrtStream s) const { return copy(host, from, ACL_MEMCPY_DEVICE_TO_HOST, s); }
  aclError from_host(void* to, aclrtStream s) const { return copy(to, host, ACL_MEMCPY_HOST_TO_DEVICE, s); }
  // A plain event, recorded here.
  aclrtEvent record(aclrtStream s) {
    aclrtEvent e = nullptr;
    EXPECT_EQ(aclrtCreateEvent(&e), ACL_SUCCESS);
    EXPECT_EQ(aclrtRecordEvent(e, s), ACL_SUCCESS);
    events.push_back(e);
    return e;
  }
  static aclrtPhysicalMemProp on_device() {
    aclrtPhysicalMemProp p{};
    p.memAttr = ACL_HBM_MEM_HUGE;
    p.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    return p;
  }
  // A reservation of two granules and one of memory, mapped at its start where that is wished.
  void reserve(bool map) {
    const aclrtPhysicalMemProp wanted = on_device();
    EXPECT_EQ(aclrtReserveMemAddress(&range, 2 * granule, 0, nullptr, 1), ACL_SUCCESS);
    EXPECT_EQ(aclrtMallocPhysical(&memory, granule, &wanted, 0), ACL_SUCCESS);
    if (!map) return;
    EXPECT_EQ(aclrtMapMem(range, granule, 0, memory, 0), ACL_SUCCESS);
    mapped = true;
  }
  void take_media() { EXPECT_EQ(acldvppMalloc(&media, size), ACL_SUCCESS); }

  aclrtContext context = nullptr;
  aclrtStream one = nullptr, two = nullptr;
  void *a = nullptr, *b = nullptr, *host = nullptr, *media = nullptr, *range = nullptr;
  aclrtDrvMemHandle memory = nullptr;
  bool mapped = false;
  std::vector<aclrtEvent> events;
};

// The violations so far, one a line, and none from here on.
inline std::string taken_violations() {
  std::string all;
  ascend_simulator_violation one{};
  for (std::uint64_t i = 0; ascend_simulator_get_violation(i, &one) != 0; ++i) {
    all.append(one.kind).append(" ").append(one.call).append(": ").append(one.text).append("\n");
  }
  ascend_simulator_clear();
  return all;
}

// Runs a small program with one mistake in it. Its wrong call ends with m.code. If m.violation names one, there is a
// violation of that kind and call; else there is none.
template <class Bench, class Misuse>
void expect_caught(const Misuse& m) {
  std::string said;
  {
    Bench t;
    taken_violations();
    EXPECT_EQ(m.program(t), m.code);
    said = taken_violations();
  }
  if (m.violation == nullptr) {
    EXPECT_EQ(said, "");
  } else {
    EXPECT_THAT(said, testing::HasSubstr(std::string{m.violation} + ": "));
  }
  taken_violations();  // what the mistake led to
}

}  // namespace ascend_simulator_test

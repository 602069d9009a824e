// Small programs, each with one mistake: the simulator answers with AscendCL's code for it, or with a violation that
// names the call. Small programs without one pass without a word.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <thread>

#include "simulator/ascend/bench_device.hpp"

namespace ascend_simulator_test {
namespace {

constexpr aclError ok = ACL_SUCCESS;
constexpr aclrtMemcpyKind h2d = ACL_MEMCPY_HOST_TO_DEVICE;
constexpr aclrtMemcpyKind d2h = ACL_MEMCPY_DEVICE_TO_HOST;
constexpr aclrtMemcpyKind d2d = ACL_MEMCPY_DEVICE_TO_DEVICE;

bool is_profile(const char* part) {
  const char* const named = std::getenv("ASCEND_SIMULATOR_PROFILE");
  return std::string_view{named != nullptr ? named : "A2:8.5"}.find(part) != std::string_view::npos;
}
bool anywhere() {
  return true;
}
bool strict() {
  return is_profile(":8.0");
}
bool with_registration() {
  return is_profile("A2") || is_profile("A3") || is_profile("950");
}
bool with_media() {
  return !is_profile("950");
}
bool without_1g() {
  return is_profile("310") || is_profile("910");
}

struct misuse {
  const char* name;
  aclError code;          // of the wrong call
  const char* violation;  // its kind and the call's name; null: the code says it
  aclError (*program)(bench&);
  bool (*applies)() = anywhere;
};

std::ostream& operator<<(std::ostream& out, const misuse& m) {
  return out << m.name;
}

const misuse races[] = {
    {"two_streams_write", ok, "race aclrtMemsetAsync",
     [](bench& t) {
       t.fill(t.a, t.one);
       return t.fill(t.a, t.two);
     }},
    {"read_what_another_stream_writes", ok, "race aclrtMemcpyAsync",
     [](bench& t) {
       t.fill(t.a, t.one);
       return t.to_host(t.a, t.two);
     }},
    {"write_what_another_stream_reads", ok, "race aclrtMemsetAsync",
     [](bench& t) {
       t.to_host(t.a, t.one);
       return t.fill(t.a, t.two);
     }},
    {"one_byte_in_common", ok, "race aclrtMemsetAsync",
     [](bench& t) {
       t.fill(t.a, t.one, 1025);
       return t.fill(t.at(t.a, 1024), t.two, 64);
     }},
    {"synchronous_copy_of_what_is_written", ok, "race aclrtMemcpy",
     [](bench& t) {
       t.fill(t.a, t.one);
       std::array<std::byte, size> to{};
       return aclrtMemcpy(to.data(), size, t.a, size, d2h);
     }},
    {"synchronous_copy_over_what_is_read", ok, "race aclrtMemcpy",
     [](bench& t) {
       t.copy(t.b, t.a, d2d, t.one);
       const std::array<std::byte, size> from{};
       return aclrtMemcpy(t.a, size, from.data(), size, h2d);
     }},
    {"synchronous_fill_of_what_is_read", ok, "race aclrtMemset",
     [](bench& t) {
       t.copy(t.b, t.a, d2d, t.one);
       return aclrtMemset(t.a, size, 0, size);
     }},
    {"event_recorded_before_the_write", ok, "race aclrtMemcpyAsync",
     [](bench& t) {
       aclrtEvent e = t.record(t.one);
       t.fill(t.a, t.one);
       aclrtStreamWaitEvent(t.two, e);
       return t.to_host(t.a, t.two);
     }},
    {"wait_for_another_event", ok, "race aclrtMemcpyAsync",
     [](bench& t) {
       aclrtEvent other = t.record(t.two);
       t.fill(t.a, t.one);
       t.record(t.one);
       aclrtStreamWaitEvent(t.two, other);
       return t.to_host(t.a, t.two);
     }},
    {"the_wrong_stream_waits", ok, "race aclrtMemcpyAsync",
     [](bench& t) {
       t.fill(t.a, t.one);
       aclrtStreamWaitEvent(t.one, t.record(t.one));
       return t.to_host(t.a, t.two);
     }},
    {"wait_behind_the_use", ok, "race aclrtMemcpyAsync",
     [](bench& t) {
       t.fill(t.a, t.one);
       aclrtEvent e = t.record(t.one);
       const aclError used = t.to_host(t.a, t.two);
       aclrtStreamWaitEvent(t.two, e);
       return used;
     }},
    {"synchronize_the_wrong_stream", ok, "race aclrtMemcpy",
     [](bench& t) {
       t.fill(t.a, t.one);
       aclrtSynchronizeStream(t.two);
       std::array<std::byte, size> to{};
       return aclrtMemcpy(to.data(), size, t.a, size, d2h);
     }},
    {"event_never_recorded", ok, "race aclrtMemcpyAsync",
     [](bench& t) {
       t.fill(t.a, t.one);
       aclrtEvent e = nullptr;
       aclrtCreateEvent(&e);
       t.events.push_back(e);
       aclrtStreamWaitEvent(t.two, e);
       return t.to_host(t.a, t.two);
     }},
    {"the_default_stream_is_behind_nobody", ok, "race aclrtMemsetAsync",
     [](bench& t) {
       t.fill(t.a, t.one);
       const aclError used = t.fill(t.a, nullptr);
       aclrtSynchronizeStream(nullptr);
       return used;
     }},
    {"pinned_memory_in_two_streams", ok, "race aclrtMemcpyAsync",
     [](bench& t) {
       t.from_host(t.a, t.one);
       return t.to_host(t.b, t.two);
     }},
    {"done_by_luck_is_not_ordered", ok, "race aclrtMemsetAsync",
     [](bench& t) {
       t.fill(t.a, t.one);
       std::this_thread::sleep_for(std::chrono::milliseconds{5});  // by then an eager stream has done it
       return t.fill(t.a, t.two);
     }},
    {"rows_over_rows", ok, "race aclrtMemcpy2dAsync",
     [](bench& t) {
       t.fill(t.at(t.a, 1024), t.one, 64);
       return aclrtMemcpy2dAsync(t.a, 512, t.b, 512, 64, 4, d2d, t.two);
     }},
    {"through_a_second_mapping", ok, "race aclrtMemsetAsync",
     [](bench& t) {
       t.reserve(true);
       void* second = t.at(t.range, granule);
       EXPECT_EQ(aclrtMapMem(second, granule, 0, t.memory, 0), ok);
       t.fill(t.range, t.one);
       const aclError used = t.fill(second, t.two);
       aclrtSynchronizeDevice();
       EXPECT_EQ(aclrtUnmapMem(second), ok);
       return used;
     }},
    {"another_context_is_not_waited_for", ok, "race aclrtMemsetAsync",
     [](bench& t) {
       t.fill(t.a, t.one);
       aclrtContext other = nullptr;
       EXPECT_EQ(aclrtCreateContext(&other, 0), ok);
       aclrtSynchronizeDevice();  // of this context's streams
       const aclError code = aclrtMemsetAsync(t.a, size, 1, size, nullptr);
       aclrtSynchronizeDevice();
       aclrtSetCurrentContext(t.context);
       EXPECT_EQ(aclrtDestroyContext(other), ok);
       return code;
     }},
    {"reuse_by_an_own_pool_that_does_not_wait", ok, "race aclrtMemsetAsync",
     [](bench& t) {
       t.fill(t.at(t.a, 1024), t.one, 512);
       t.to_host(t.at(t.b, 0), t.one);
       return t.fill(t.at(t.a, 1024), t.two, 512);
     }},
};

const misuse early_frees[] = {
    {"block_under_a_fill", ok, "early_free aclrtFree",
     [](bench& t) {
       t.fill(t.a, t.one);
       return aclrtFree(std::exchange(t.a, nullptr));
     }},
    {"source_of_a_copy", ok, "early_free aclrtFree",
     [](bench& t) {
       t.copy(t.b, t.a, d2d, t.one);
       return aclrtFree(std::exchange(t.a, nullptr));
     }},
    {"destination_of_a_copy", ok, "early_free aclrtFree",
     [](bench& t) {
       t.from_host(t.a, t.one);
       return aclrtFree(std::exchange(t.a, nullptr));
     }},
    {"host_block_that_is_written", ok, "early_free aclrtFreeHost",
     [](bench& t) {
       t.to_host(t.a, t.one);
       return aclrtFreeHost(std::exchange(t.host, nullptr));
     }},
    {"host_block_that_is_read", ok, "early_free aclrtFreeHost",
     [](bench& t) {
       t.from_host(t.a, t.one);
       return aclrtFreeHost(std::exchange(t.host, nullptr));
     }},
    {"waited_for_another_stream", ok, "early_free aclrtFree",
     [](bench& t) {
       t.fill(t.a, t.one);
       aclrtSynchronizeStream(t.two);
       return aclrtFree(std::exchange(t.a, nullptr));
     }},
    {"waited_for_an_event_before_the_use", ok, "early_free aclrtFree",
     [](bench& t) {
       aclrtEvent e = t.record(t.one);
       t.fill(t.a, t.one);
       aclrtSynchronizeEvent(e);
       return aclrtFree(std::exchange(t.a, nullptr));
     }},
    {"another_stream_waits_the_host_does_not", ok, "early_free aclrtFree",
     [](bench& t) {
       t.fill(t.a, t.one);
       aclrtStreamWaitEvent(t.two, t.record(t.one));
       return aclrtFree(std::exchange(t.a, nullptr));
     }},
    {"mapping_under_a_fill", ok, "early_free aclrtUnmapMem",
     [](bench& t) {
       t.reserve(true);
       t.fill(t.range, t.one);
       t.mapped = false;
       return aclrtUnmapMem(t.range);
     }},
    {"media_block_under_a_copy", ok, "early_free acldvppFree",
     [](bench& t) {
       t.take_media();
       t.copy(t.a, t.media, d2d, t.one);
       return acldvppFree(std::exchange(t.media, nullptr));
     },
     with_media},
    {"registration_of_memory_in_use", ok, "early_free aclrtHostUnregister",
     [](bench& t) {
       void* on_device = nullptr;
       aclrtHostRegister(t.host, size, ACL_HOST_REGISTER_MAPPED, &on_device);
       t.from_host(t.a, t.one);
       return aclrtHostUnregister(t.host);
     },
     with_registration},
};

const misuse uses[] = {
    {"rows_beyond_a_host_block", ACL_ERROR_RT_PARAM_INVALID, "out_of_bounds aclrtMemcpy2dAsync",
     [](bench& t) { return aclrtMemcpy2dAsync(t.a, 1024, t.host, size, 64, 2, h2d, t.one); }},
    {"fill_of_a_freed_block", ACL_ERROR_RT_PARAM_INVALID, "use_after_free aclrtMemsetAsync",
     [](bench& t) {
       void* gone = std::exchange(t.a, nullptr);
       aclrtFree(gone);
       return t.fill(gone, t.one);
     }},
    {"copy_from_a_freed_block", ACL_ERROR_RT_PARAM_INVALID, "use_after_free aclrtMemcpyAsync",
     [](bench& t) {
       void* gone = std::exchange(t.a, nullptr);
       aclrtFree(gone);
       return t.to_host(gone, t.one);
     }},
    {"copy_to_a_freed_host_block", ACL_ERROR_RT_PARAM_INVALID, "use_after_free aclrtMemcpyAsync",
     [](bench& t) {
       void* gone = std::exchange(t.host, nullptr);
       aclrtFreeHost(gone);
       return t.copy(gone, t.a, d2h, t.one);
     }},
    {"synchronous_copy_of_a_freed_block", ACL_ERROR_RT_PARAM_INVALID, "use_after_free aclrtMemcpy",
     [](bench& t) {
       void* gone = std::exchange(t.a, nullptr);
       aclrtFree(gone);
       return aclrtMemcpy(t.host, size, gone, size, d2h);
     }},
    {"fill_of_a_part_that_was_given_back", ACL_ERROR_RT_PARAM_INVALID, "use_after_free aclrtMemsetAsync",
     [](bench& t) {
       ascend_simulator_part_taken(t.at(t.a, 512), 512);
       ascend_simulator_part_given_back(t.at(t.a, 512));
       return t.fill(t.at(t.a, 512), t.one, 512);
     }},
    {"fill_beyond_the_block", ACL_ERROR_RT_PARAM_INVALID, "out_of_bounds aclrtMemsetAsync",
     [](bench& t) { return t.fill(t.a, t.one, size + 64); }},
    {"fill_of_the_rounding_behind_the_block", ACL_ERROR_RT_PARAM_INVALID, "out_of_bounds aclrtMemsetAsync",
     [](bench& t) { return t.fill(t.at(t.a, size), t.one, 1); }},
    {"copy_beyond_the_source", ACL_ERROR_RT_PARAM_INVALID, "out_of_bounds aclrtMemcpyAsync",
     [](bench& t) { return t.copy(t.b, t.at(t.a, 64), d2d, t.one); }},
    {"copy_beyond_the_host_block", ACL_ERROR_RT_PARAM_INVALID, "out_of_bounds aclrtMemcpyAsync",
     [](bench& t) { return t.copy(t.at(t.host, 64), t.a, d2h, t.one); }},
    {"fill_beyond_a_part", ACL_ERROR_RT_PARAM_INVALID, "out_of_bounds aclrtMemsetAsync",
     [](bench& t) {
       ascend_simulator_part_taken(t.a, 512);
       return t.fill(t.a, t.one, 1024);
     }},
    {"an_address_that_is_no_memory", ACL_ERROR_RT_PARAM_INVALID, "wild_address aclrtMemsetAsync",
     [](bench& t) { return t.fill(t.at(t.a, std::size_t{1} << 32), t.one); }},
    {"reserved_and_not_mapped", ACL_ERROR_RT_PARAM_INVALID, "unmapped aclrtMemsetAsync",
     [](bench& t) {
       t.reserve(false);
       return t.fill(t.range, t.one);
     }},
    {"used_behind_its_unmapping", ACL_ERROR_RT_PARAM_INVALID, "unmapped aclrtMemsetAsync",
     [](bench& t) {
       t.reserve(true);
       aclrtUnmapMem(t.range);
       t.mapped = false;
       return t.fill(t.range, t.one);
     }},
    {"mapped_without_access", ACL_ERROR_RT_PARAM_INVALID, "no_access aclrtMemsetAsync",
     [](bench& t) {
       t.reserve(false);
       EXPECT_EQ(aclrtMemMapNoAccess(t.range, granule, 0, t.memory, 0), ok);
       t.mapped = true;
       return t.fill(t.range, t.one);
     }},
    {"copy_to_a_kernels_address", ACL_ERROR_RT_PARAM_INVALID, "kernel_address aclrtMemcpyAsync",
     [](bench& t) {
       void* on_device = nullptr;
       aclrtHostRegister(t.host, size, ACL_HOST_REGISTER_MAPPED, &on_device);
       const aclError used = t.copy(on_device, t.a, d2d, t.one);
       aclrtHostUnregister(t.host);
       return used;
     },
     with_registration},
};

const misuse frees[] = {
    {"null", ACL_ERROR_INVALID_PARAM, nullptr, [](bench&) { return aclrtFree(nullptr); }},
    {"null_host", ACL_ERROR_INVALID_PARAM, nullptr, [](bench&) { return aclrtFreeHost(nullptr); }},
    {"twice", ACL_ERROR_RT_PARAM_INVALID, "double_free aclrtFree",
     [](bench& t) {
       void* gone = std::exchange(t.a, nullptr);
       aclrtFree(gone);
       return aclrtFree(gone);
     }},
    {"twice_on_the_host", ACL_ERROR_RT_PARAM_INVALID, "double_free aclrtFreeHost",
     [](bench& t) {
       void* gone = std::exchange(t.host, nullptr);
       aclrtFreeHost(gone);
       return aclrtFreeHost(gone);
     }},
    {"inside_a_block", ACL_ERROR_RT_PARAM_INVALID, "interior_free aclrtFree",
     [](bench& t) { return aclrtFree(t.at(t.a, 64)); }},
    {"memory_of_the_heap", ACL_ERROR_RT_PARAM_INVALID, "foreign_free aclrtFree",
     [](bench&) {
       int own = 0;
       return aclrtFree(&own);
     }},
    {"heap_as_host_block", ACL_ERROR_RT_PARAM_INVALID, "foreign_free aclrtFreeHost",
     [](bench&) {
       int own = 0;
       return aclrtFreeHost(&own);
     }},
    {"host_block_as_device", ACL_ERROR_RT_PARAM_INVALID, "wrong_family aclrtFree",
     [](bench& t) { return aclrtFree(t.host); }},
    {"device_block_as_host", ACL_ERROR_RT_PARAM_INVALID, "wrong_family aclrtFreeHost",
     [](bench& t) { return aclrtFreeHost(t.a); }},
    {"device_block_as_media", ACL_ERROR_RT_PARAM_INVALID, "wrong_family acldvppFree",
     [](bench& t) { return acldvppFree(t.a); }},
    {"media_block_as_device", ACL_ERROR_RT_PARAM_INVALID, "wrong_family aclrtFree",
     [](bench& t) {
       t.take_media();
       return aclrtFree(t.media);
     },
     with_media},
    {"mapping_as_block", ACL_ERROR_RT_PARAM_INVALID, "wrong_family aclrtFree",
     [](bench& t) {
       t.reserve(true);
       return aclrtFree(t.range);
     }},
    {"physical_memory_twice", ACL_ERROR_RT_PARAM_INVALID, "foreign_free aclrtFreePhysical",
     [](bench& t) {
       t.reserve(false);
       void* gone = std::exchange(t.memory, nullptr);
       aclrtFreePhysical(gone);
       return aclrtFreePhysical(gone);
     }},
    {"unmapped_twice", ACL_ERROR_RT_PARAM_INVALID, "foreign_free aclrtUnmapMem",
     [](bench& t) {
       t.reserve(true);
       aclrtUnmapMem(t.range);
       t.mapped = false;
       return aclrtUnmapMem(t.range);
     }},
    {"addresses_under_a_mapping", ACL_ERROR_RT_PARAM_INVALID, "order aclrtReleaseMemAddress",
     [](bench& t) {
       t.reserve(true);
       return aclrtReleaseMemAddress(t.range);
     }},
    {"host_block_that_is_registered", ACL_ERROR_RT_PARAM_INVALID, "registered aclrtFreeHost",
     [](bench& t) {
       void* on_device = nullptr;
       aclrtHostRegister(t.host, size, ACL_HOST_REGISTER_MAPPED, &on_device);
       const aclError freed = aclrtFreeHost(t.host);
       aclrtHostUnregister(t.host);
       return freed;
     },
     with_registration},
    {"part_twice", ok, "double_free ascend_simulator_part_given_back",
     [](bench& t) {
       ascend_simulator_part_taken(t.a, 512);
       ascend_simulator_part_given_back(t.a);
       ascend_simulator_part_given_back(t.a);
       return ok;
     }},
};

const misuse rules[] = {
    {"copy_on_the_device_at_32", ACL_ERROR_RT_ADDR_UNALIGNED, nullptr,
     [](bench& t) { return t.copy(t.b, t.at(t.a, 32), d2d, t.one, 64); }},
    {"copy_on_the_device_to_32", ACL_ERROR_RT_ADDR_UNALIGNED, nullptr,
     [](bench& t) { return t.copy(t.at(t.b, 32), t.a, d2d, t.one, 64); }},
    {"copy_to_the_device_at_32", ok, "copy_alignment aclrtMemcpyAsync",
     [](bench& t) { return t.copy(t.at(t.a, 32), t.host, h2d, t.one, 64); }, strict},
    {"copy_to_the_host_at_32", ok, "copy_alignment aclrtMemcpyAsync",
     [](bench& t) { return t.copy(t.at(t.host, 32), t.a, d2h, t.one, 64); }, strict},
    {"pageable_memory_in_a_stream", ACL_ERROR_RT_SYS_DMA, nullptr,
     [](bench& t) {
       alignas(64) std::array<std::byte, 64> own{};
       EXPECT_EQ(t.copy(t.a, own.data(), h2d, t.one, 64), ok);  // said when the stream comes to it
       return aclrtSynchronizeStream(t.one);
     },
     strict},
    {"part_at_32", ok, "part_start ascend_simulator_part_taken",
     [](bench& t) {
       ascend_simulator_part_taken(t.at(t.a, 32), 64);
       return ok;
     }},
    {"part_of_a_media_block_at_64", ok, "part_start ascend_simulator_part_taken",
     [](bench& t) {
       t.take_media();
       ascend_simulator_part_taken(t.at(t.media, 64), 64);
       return ok;
     },
     with_media},
    {"part_without_its_tail", ok, "part_tail ascend_simulator_part_taken",
     [](bench& t) {
       ascend_simulator_part_taken(t.a, 512);
       ascend_simulator_part_taken(t.at(t.a, 512), 512);
       return ok;
     },
     with_media},
    {"part_over_a_part", ok, "part_overlap ascend_simulator_part_taken",
     [](bench& t) {
       ascend_simulator_part_taken(t.a, 512);
       ascend_simulator_part_taken(t.at(t.a, 448), 512);
       return ok;
     }},
    {"part_beyond_its_block", ok, "part_tail ascend_simulator_part_taken",
     [](bench& t) {
       ascend_simulator_part_taken(t.at(t.a, size - 64), 128);
       return ok;
     }},
    {"wrong_kind", ACL_ERROR_RT_PARAM_INVALID, nullptr, [](bench& t) { return t.copy(t.host, t.a, h2d, t.one); }},
    {"wrong_kind_now", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) { return aclrtMemcpy(t.a, size, t.b, size, d2h); }},
    {"kind_of_another_call", ACL_ERROR_INVALID_PARAM, nullptr,
     [](bench& t) { return t.copy(t.a, t.b, static_cast<aclrtMemcpyKind>(6), t.one); }},
    {"more_than_the_room", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) { return aclrtMemcpy(t.a, size - 1, t.b, size, d2d); }},
    {"fill_of_more_than_the_room", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) { return aclrtMemsetAsync(t.a, 10, 0, 11, t.one); }},
    {"copy_of_null", ACL_ERROR_INVALID_PARAM, nullptr,
     [](bench& t) { return aclrtMemcpy(t.a, size, nullptr, size, h2d); }},
    {"host_to_host_in_a_stream", ACL_ERROR_RT_FEATURE_NOT_SUPPORT, nullptr,
     [](bench& t) { return t.copy(t.host, t.host, ACL_MEMCPY_HOST_TO_HOST, t.one); }},
    {"no_bytes", ACL_ERROR_INVALID_PARAM, nullptr,
     [](bench&) {
       void* p = nullptr;
       return aclrtMalloc(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST);
     }},
    {"more_than_there_is", ACL_ERROR_RT_MEMORY_ALLOCATION, nullptr,
     [](bench&) {
       void* p = nullptr;
       return aclrtMalloc(&p, std::size_t{1} << 45, ACL_MEM_MALLOC_HUGE_FIRST);
     }},
    {"pages_of_1g_where_there_are_none", ACL_ERROR_RT_FEATURE_NOT_SUPPORT, nullptr,
     [](bench&) {
       void* p = nullptr;
       return aclrtMalloc(&p, 1, ACL_MEM_MALLOC_HUGE1G_ONLY);
     },
     without_1g},
};

const misuse machinery[] = {
    {"flush_beyond_the_block", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) { return aclrtMemFlush(t.a, size + 1); }},
    {"invalidate_behind_free", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) {
       void* const gone = std::exchange(t.a, nullptr);
       aclrtFree(gone);
       return aclrtMemInvalidate(gone, size);
     }},
    {"flush_of_the_hosts_memory", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) { return aclrtMemFlush(t.host, size); }},
    {"cached_memory_in_pages_of_1g", ACL_ERROR_INVALID_PARAM, nullptr,
     [](bench&) {
       void* p = nullptr;
       return aclrtMallocCached(&p, size, ACL_MEM_MALLOC_HUGE1G_ONLY);
     }},
    {"a_kind_of_memory_without_a_configuration", ACL_ERROR_INVALID_PARAM, nullptr,
     [](bench&) {
       void* p = nullptr;
       return aclrtMalloc(&p, size, ACL_MEM_TYPE_HIGH_BAND_WIDTH);
     }},
    {"a_configuration_without_its_attributes", ACL_ERROR_INVALID_PARAM, nullptr,
     [](bench&) {
       void* p = nullptr;
       aclrtMallocConfig with{nullptr, 1};
       return aclrtMallocWithCfg(&p, size, ACL_MEM_MALLOC_HUGE_FIRST, &with);
     }},
    {"thread_without_a_context", ACL_ERROR_RT_CONTEXT_NULL, nullptr,
     [](bench&) {
       aclError code = ok;
       std::thread{[&] {
         std::size_t some = 0;
         code = aclrtGetMemInfo(ACL_HBM_MEM, &some, &some);
       }}.join();
       return code;
     }},
    {"stream_of_another_context", ACL_ERROR_RT_STREAM_CONTEXT, nullptr,
     [](bench& t) {
       aclrtSetDevice(1);
       const aclError code = t.fill(t.a, t.one);
       aclrtResetDevice(1);
       return code;
     }},
    {"event_of_another_context", ACL_ERROR_RT_STREAM_CONTEXT, nullptr,
     [](bench& t) {
       aclrtEvent e = t.record(t.one);
       aclrtSetDevice(1);
       const aclError code = aclrtSynchronizeEvent(e);
       aclrtResetDevice(1);
       aclrtSetCurrentContext(t.context);
       return code;
     }},
    {"no_such_device", ACL_ERROR_RT_INVALID_DEVICEID, nullptr, [](bench&) { return aclrtSetDevice(2); }},
    {"reset_of_what_is_not_set", ACL_ERROR_RT_INVALID_DEVICEID, "order aclrtResetDevice",
     [](bench&) { return aclrtResetDevice(1); }},
    {"a_device_goes_with_its_blocks", ok, "leak aclrtResetDevice",
     [](bench& t) {
       aclrtSetDevice(1);
       void* p = nullptr;
       aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST);
       const aclError code = aclrtResetDevice(1);
       aclrtSetCurrentContext(t.context);
       aclrtFree(p);
       return code;
     }},
    {"stream_that_was_destroyed", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) {
       void* gone = std::exchange(t.two, nullptr);
       aclrtDestroyStream(gone);
       return t.fill(t.a, gone);
     }},
    {"event_that_was_destroyed", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) {
       aclrtEvent e = t.record(t.one);
       t.events.clear();
       aclrtDestroyEvent(e);
       return aclrtStreamWaitEvent(t.two, e);
     }},
    {"plain_event_recorded_again", ACL_ERROR_RT_PARAM_INVALID, "event aclrtRecordEvent",
     [](bench& t) { return aclrtRecordEvent(t.record(t.one), t.one); }},
    {"plain_event_reset", ok, "event aclrtResetEvent",
     [](bench& t) { return aclrtResetEvent(t.record(t.one), t.one); }},
    {"wait_for_an_event_without_sync", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) {
       aclrtEvent e = nullptr;
       aclrtCreateEventWithFlag(&e, ACL_EVENT_TIME_LINE);
       t.events.push_back(e);
       aclrtRecordEvent(e, t.one);
       return aclrtStreamWaitEvent(t.two, e);
     }},
    {"old_query_of_a_new_event", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) {
       aclrtEvent e = nullptr;
       aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC);
       t.events.push_back(e);
       aclrtEventStatus status{};
       return aclrtQueryEvent(e, &status);
     }},
    {"callback_without_a_subscriber", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) { return aclrtLaunchCallback([](void*) {}, nullptr, ACL_CALLBACK_BLOCK, t.one); }},
    {"stream_with_a_subscriber_goes", ACL_ERROR_RT_PARAM_INVALID, "subscribed aclrtDestroyStream",
     [](bench& t) {
       aclrtSubscribeReport(1, t.one);
       const aclError code = aclrtDestroyStream(t.one);
       aclrtUnSubscribeReport(1, t.one);
       return code;
     }},
    {"half_a_handle_is_mapped", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) {
       t.reserve(false);
       return aclrtMapMem(t.range, granule / 2, 0, t.memory, 0);
     }},
    {"mapped_outside_the_reservation", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) {
       t.reserve(false);
       return aclrtMapMem(t.at(t.range, 2 * granule), granule, 0, t.memory, 0);
     }},
    {"mapped_over_a_mapping", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) {
       t.reserve(true);
       return aclrtMapMem(t.range, granule, 0, t.memory, 0);
     }},
    {"memory_of_half_a_granule", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) {
       const aclrtPhysicalMemProp wanted = t.on_device();
       return aclrtMallocPhysical(&t.memory, granule / 2, &wanted, 0);
     }},
    {"access_to_half_a_mapping", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) {
       t.reserve(true);
       aclrtMemAccessDesc all{ACL_RT_MEM_ACCESS_FLAGS_READWRITE, {0, ACL_MEM_LOCATION_TYPE_DEVICE}, {}};
       return aclrtMemSetAccess(t.range, granule / 2, &all, 1);
     }},
    {"registered_twice", ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, nullptr,
     [](bench& t) {
       void* on_device = nullptr;
       aclrtHostRegister(t.host, size, ACL_HOST_REGISTER_MAPPED, &on_device);
       const aclError code = aclrtHostRegister(t.host, size, ACL_HOST_REGISTER_MAPPED, &on_device);
       aclrtHostUnregister(t.host);
       return code;
     },
     with_registration},
    {"unregistered_twice", ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, nullptr,
     [](bench& t) { return aclrtHostUnregister(t.host); }, with_registration},
    {"registered_inside_a_page", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) {
       void* on_device = nullptr;
       return aclrtHostRegister(t.at(t.host, 64), 64, ACL_HOST_REGISTER_MAPPED, &on_device);
     },
     with_registration},
    {"abort_of_the_default_stream", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench&) { return aclrtStreamAbort(nullptr); }},
    {"failed_work_is_said_when_somebody_waits", 507035, nullptr,
     [](bench& t) {
       ascend_simulator_fail_work(507035);
       EXPECT_EQ(t.fill(t.a, t.one), ok);
       return aclrtSynchronizeStream(t.one);
     }},
    {"wait_of_no_time", ACL_ERROR_RT_PARAM_INVALID, nullptr,
     [](bench& t) { return aclrtSynchronizeStreamWithTimeout(t.one, 0); }},
};

class misuses : public testing::TestWithParam<misuse> {};

TEST_P(misuses, is_caught) {
  const misuse& m = GetParam();
  if (m.applies()) expect_caught<bench>(m);  // or it is another profile's rule
}
const auto name_of = [](const auto& one) { return std::string{one.param.name}; };
INSTANTIATE_TEST_SUITE_P(race, misuses, testing::ValuesIn(races), name_of);
INSTANTIATE_TEST_SUITE_P(early_free, misuses, testing::ValuesIn(early_frees), name_of);
INSTANTIATE_TEST_SUITE_P(use, misuses, testing::ValuesIn(uses), name_of);
INSTANTIATE_TEST_SUITE_P(free, misuses, testing::ValuesIn(frees), name_of);
INSTANTIATE_TEST_SUITE_P(rule, misuses, testing::ValuesIn(rules), name_of);
INSTANTIATE_TEST_SUITE_P(machinery, misuses, testing::ValuesIn(machinery), name_of);

TEST(fine, cached_and_configured_blocks_live_beside_the_others) {
  taken_violations();
  {
    bench t;
    void *cached = nullptr, *configured = nullptr;
    EXPECT_EQ(aclrtMallocCached(&cached, size, ACL_MEM_MALLOC_HUGE_FIRST), ok);
    EXPECT_EQ(t.fill(cached, t.one), ok);
    EXPECT_EQ(aclrtSynchronizeStream(t.one), ok);
    EXPECT_EQ(aclrtMemFlush(cached, size), ok);
    EXPECT_EQ(aclrtMemInvalidate(cached, size), ok);
    aclrtMallocAttribute module{};
    aclrtMallocConfig with{&module, 1};
    EXPECT_EQ(aclrtMallocWithCfg(&configured, size, ACL_MEM_TYPE_HIGH_BAND_WIDTH, &with), ok);
    EXPECT_EQ(t.copy(configured, cached, d2d, t.one), ok);
    EXPECT_EQ(aclrtSynchronizeStream(t.one), ok);
    EXPECT_EQ(aclrtFree(configured), ok);
    EXPECT_EQ(aclrtFree(cached), ok);
  }
  EXPECT_EQ(taken_violations(), "");
}

TEST(fine, an_aborted_stream_drops_what_it_has_not_begun_and_goes_on) {
  taken_violations();
  {
    bench t;
    EXPECT_EQ(t.fill(t.a, t.one), ok);
    EXPECT_EQ(t.from_host(t.a, t.one), ok);
    EXPECT_EQ(aclrtStreamAbort(t.one), ok);
    EXPECT_EQ(aclrtSynchronizeStream(t.one), ok);
    EXPECT_EQ(t.fill(t.a, t.two), ok);
    EXPECT_EQ(aclrtSynchronizeStream(t.two), ok);
    EXPECT_EQ(t.fill(t.a, t.one), ok);
    EXPECT_EQ(aclrtSynchronizeStream(t.one), ok);
    EXPECT_EQ(aclrtStreamAbort(t.a), ACL_ERROR_RT_PARAM_INVALID);  // no stream
  }
  EXPECT_EQ(taken_violations(), "");
}

TEST(fine, a_free_that_waits_waits_for_default_streams_too) {
  taken_violations();
  {
    bench t;
    void *first = nullptr, *second = nullptr;
    EXPECT_EQ(aclrtMalloc(&first, size, ACL_MEM_MALLOC_HUGE_FIRST), ok);
    EXPECT_EQ(aclrtMalloc(&second, size, ACL_MEM_MALLOC_HUGE_FIRST), ok);
    EXPECT_EQ(t.fill(first, nullptr), ok);
    EXPECT_EQ(aclrtFreeWithDevSync(first), ok);
    aclrtContext other = nullptr;
    EXPECT_EQ(aclrtCreateContext(&other, 0), ok);
    EXPECT_EQ(t.fill(second, nullptr), ok);
    EXPECT_EQ(aclrtSetCurrentContext(t.context), ok);
    EXPECT_EQ(aclrtFreeWithDevSync(second), ok);
    EXPECT_EQ(aclrtDestroyContext(other), ok);
  }
  EXPECT_EQ(taken_violations(), "");
}

// A host function that runs then wants what the call held.
TEST(fine, a_context_goes_when_its_default_stream_is_done) {
  taken_violations();
  bool called = false;
  {
    bench t;
    void* block = nullptr;
    EXPECT_EQ(aclrtMalloc(&block, size, ACL_MEM_MALLOC_HUGE_FIRST), ok);
    aclrtContext other = nullptr;
    EXPECT_EQ(aclrtCreateContext(&other, 0), ok);
    EXPECT_EQ(t.fill(block, nullptr), ok);
    EXPECT_EQ(aclrtLaunchHostFunc(
                  nullptr, [](void* to) { *static_cast<bool*>(to) = true; }, &called),
              ok);
    EXPECT_EQ(aclrtDestroyContext(other), ok);
    EXPECT_TRUE(called);
    EXPECT_EQ(aclrtSetCurrentContext(t.context), ok);
    EXPECT_EQ(aclrtFree(block), ok);
  }
  EXPECT_EQ(taken_violations(), "");
}

// A copy of no bytes reads and writes none, so it is behind no work.
TEST(fine, a_copy_of_no_bytes_uses_none) {
  taken_violations();
  {
    bench t;
    EXPECT_EQ(t.to_host(t.a, t.one), ok);
    EXPECT_EQ(aclrtMemcpy(t.at(t.a, 64), 0, t.at(t.host, 64), 0, h2d), ok);
    EXPECT_EQ(aclrtMemset(t.at(t.a, 64), 64, 0, 0), ok);
    EXPECT_EQ(aclrtSynchronizeStream(t.one), ok);
  }
  EXPECT_EQ(taken_violations(), "");
}

TEST(misuse, there_are_at_least_sixty) {
  EXPECT_GE(std::size(races) + std::size(early_frees) + std::size(uses) + std::size(frees) + std::size(rules) +
                std::size(machinery),
            60u);
}

TEST(misuse, the_programs_own_memory_is_not_taken_for_a_host_block_that_went) {
  bench t;
  void* gone = nullptr;
  ASSERT_EQ(aclrtMallocHost(&gone, size), ok);
  ASSERT_EQ(aclrtFreeHost(gone), ok);
  const std::size_t room = (size + 4095) / 4096 * 4096 + 4096;  // what the block had, with its guard
  void* const own = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(own, MAP_FAILED);
  taken_violations();
  EXPECT_EQ(aclrtMemcpy(t.a, size, own, size, h2d), ok);
  EXPECT_EQ(taken_violations(), "");
  munmap(own, room);
}

TEST(misuse_death, a_host_thread_that_touches_device_memory_dies_of_it) {
  constexpr const char* said = "host_access";
  bench t;
  EXPECT_DEATH(std::memset(t.a, 1, 1), said);
  EXPECT_DEATH(std::memset(t.at(t.a, 2 * size), 1, 1), said);
}

}  // namespace
}  // namespace ascend_simulator_test

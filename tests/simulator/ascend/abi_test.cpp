// The same interface written down twice, by two hands: by the backend that calls AscendCL and by the simulator that is
// called. A difference in more than the names of types does not compile. Structures are held against the layouts that
// compiled programs printed with CANN's headers.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "acl/acl.h"
#include "acl/dvpp/hi_dvpp.h"
#include "acl/ops/acl_dvpp.h"
#include "device/ascend/library.hpp"

namespace {

using berth::detail::ascend::functions;

template <class A, class B>
constexpr bool same_value() {
  if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) return true;
  if constexpr ((std::is_integral_v<A> || std::is_enum_v<A>)&&(std::is_integral_v<B> || std::is_enum_v<B>)) {
    return sizeof(A) == sizeof(B);
  }
  return std::is_same_v<A, B>;
}
template <class A, class B>
constexpr bool same_call = false;
template <class A, class... As, class B, class... Bs>
constexpr bool same_call<A(As...), B(Bs...)> = [] {
  if constexpr (sizeof...(As) != sizeof...(Bs)) {
    return false;
  } else {
    return same_value<A, B>() && (same_value<As, Bs>() && ...);
  }
}();

#define SAME(type, name, parameters) \
  static_assert(same_call<std::remove_pointer_t<decltype(functions::name)>, decltype(::name)>, #name);
BERTH_ASCEND_REQUIRED(SAME)
BERTH_ASCEND_OPTIONAL(SAME)
#undef SAME
static_assert(!same_call<int(void*), int(void*, int)> && !same_call<int(int), int(long)> &&
              !same_call<int(void*), int(int)>);

static_assert(sizeof(aclrtMemLocation) == 8 && offsetof(aclrtMemLocation, type) == 4);
static_assert(sizeof(aclrtPhysicalMemProp) == 32 && offsetof(aclrtPhysicalMemProp, memAttr) == 8 &&
              offsetof(aclrtPhysicalMemProp, location) == 12 && offsetof(aclrtPhysicalMemProp, reserve) == 24);
static_assert(sizeof(aclrtMemAccessDesc) == 24 && offsetof(aclrtMemAccessDesc, location) == 4);
static_assert(sizeof(aclrtPtrAttributes) == 28 && offsetof(aclrtPtrAttributes, pageSize) == 8);
static_assert(sizeof(aclrtMallocAttribute) == 12 && offsetof(aclrtMallocAttribute, value) == 4);
static_assert(sizeof(aclrtMallocConfig) == 16 && offsetof(aclrtMallocConfig, numAttrs) == 8);
static_assert(ACL_EVENT_RECORDED_STATUS_COMPLETE == 1 && ACL_EVENT_STATUS_COMPLETE == 0);

TEST(ascend_abi, codes_are_those_the_backend_knows) {
  using namespace berth::detail::ascend;
  EXPECT_EQ(int{ACL_ERROR_UNINITIALIZE}, uninitialised);
  EXPECT_EQ(int{ACL_ERROR_REPEAT_INITIALIZE}, repeated_initialise);
  EXPECT_EQ(int{ACL_ERROR_COMPILING_STUB_MODE}, stub_library);
  EXPECT_EQ(int{ACL_ERROR_RT_PARAM_INVALID}, parameter_invalid);
  EXPECT_EQ(int{ACL_ERROR_RT_INVALID_DEVICEID}, invalid_device);
  EXPECT_EQ(int{ACL_ERROR_RT_WAIT_TIMEOUT}, wait_timeout);
  EXPECT_EQ(int{ACL_ERROR_RT_FEATURE_NOT_SUPPORT}, runtime_unsupported);
  EXPECT_EQ(int{ACL_ERROR_RT_MEMORY_ALLOCATION}, out_of_memory);
}

}  // namespace

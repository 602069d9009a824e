#include "op/ascend/library.hpp"

#include <dlfcn.h>

#include <array>

namespace berth::op::ascend {
namespace {

// In the order of the look-up: the umbrella comes last, as a simulator or an old CANN has all in one.
constexpr std::array names{"libopapi.so",    "libopapi_math.so",        "libopapi_nn.so",
                           "libopapi_cv.so", "libopapi_transformer.so", "libnnopbase.so",
                           "libascendcl.so"};
std::array<void*, names.size()> libraries{};

functions opened() {
  for (std::size_t i = 0; i < names.size(); ++i) libraries[i] = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  functions acl;
#define BERTH_ACLNN_LOAD(type, name, parameters) acl.name = reinterpret_cast<decltype(acl.name)>(acl.find(#name));
  BERTH_ACLNN_FUNCTIONS(BERTH_ACLNN_LOAD)
#undef BERTH_ACLNN_LOAD
  if (const auto runtime = driver::load()) acl.runtime = *runtime;
  return acl;
}

bool is_whole(const functions& acl) {
#define BERTH_ACLNN_PRESENT(type, name, parameters) &&acl.name != nullptr
  return acl.runtime != nullptr &&
         acl.find("aclnnAddGetWorkspaceSize") != nullptr BERTH_ACLNN_FUNCTIONS(BERTH_ACLNN_PRESENT);
#undef BERTH_ACLNN_PRESENT
}

}  // namespace

void* functions::find(const char* name) const noexcept {
  for (void* library : libraries) {
    if (library == nullptr) continue;
    if (void* found = dlsym(library, name); found != nullptr) return found;
  }
  return nullptr;
}

const functions* load() {
  static const functions acl = opened();
  return is_whole(acl) ? &acl : nullptr;
}

int format_of(std::size_t dimensions) noexcept {
  switch (dimensions) {
    case 3: return 47;  // NCL
    case 4: return 0;   // NCHW
    case 5: return 30;  // NCDHW
    default: return 2;  // ND
  }
}

int data_type(element e) noexcept {
  constexpr int types[] = {0, 1, 27, 11, 2, 4, 6, 7, 3, 8, 9, 10, 12};  // by element
  static_assert(std::size(types) == static_cast<std::size_t>(element::other));
  return e < element::other ? types[static_cast<std::size_t>(e)] : -1;
}

}  // namespace berth::op::ascend

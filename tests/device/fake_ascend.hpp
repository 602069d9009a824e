// The fake AscendCL that the tests of the Ascend device talk to, beside the device itself.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "device/ascend/library.hpp"
#include "support/fake_ascend.hpp"

namespace berth::support {

// A function of the library that the device has loaded. Null before a device was opened, and where it lacks the name.
template <class Function>
Function* ascend_function(const char* name) {
  void* library = dlopen("libascendcl.so", RTLD_NOW | RTLD_NOLOAD);
  return library != nullptr ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}
#define BERTH_FAKE_ASCEND(name) (*berth::support::ascend_function<decltype(::name)>(#name))

}  // namespace berth::support

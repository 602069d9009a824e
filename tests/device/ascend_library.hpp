// The simulator's own functions (simulator/ascend), beside the Ascend device that runs on it: found with dlsym in the
// library that the device has loaded.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "ascend_simulator.h"
#include "device/ascend/library.hpp"

namespace berth::support {

// A function of the library that the device has loaded. Null before a device was opened, and where it lacks the name.
template <class Function>
Function* ascend_function(const char* name) {
  void* library = dlopen("libascendcl.so", RTLD_NOW | RTLD_NOLOAD);
  return library != nullptr ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}
#define BERTH_ASCEND_SIMULATOR(name) \
  (*berth::support::ascend_function<decltype(::ascend_simulator_##name)>("ascend_simulator_" #name))

}  // namespace berth::support

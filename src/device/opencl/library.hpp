// The OpenCL installable-client-driver loader, opened at run time: Berth links to no OpenCL library.
#pragma once

#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>

#include "berth/core/result.hpp"

namespace berth::detail::opencl {

// Every function that the backend calls; expanded into the table below and into its loader.
#define BERTH_OPENCL_FUNCTIONS(X)       \
  X(clGetPlatformIDs)                   \
  X(clGetDeviceIDs)                     \
  X(clGetDeviceInfo)                    \
  X(clCreateContext)                    \
  X(clReleaseContext)                   \
  X(clCreateCommandQueueWithProperties) \
  X(clReleaseCommandQueue)              \
  X(clRetainCommandQueue)               \
  X(clGetCommandQueueInfo)              \
  X(clSVMAlloc)                         \
  X(clSVMFree)                          \
  X(clCreateBuffer)                     \
  X(clReleaseMemObject)                 \
  X(clEnqueueMapBuffer)                 \
  X(clEnqueueUnmapMemObject)            \
  X(clEnqueueSVMMemcpy)                 \
  X(clEnqueueSVMMemFill)                \
  X(clEnqueueMarkerWithWaitList)        \
  X(clEnqueueBarrierWithWaitList)       \
  X(clCreateUserEvent)                  \
  X(clSetUserEventStatus)               \
  X(clGetEventInfo)                     \
  X(clWaitForEvents)                    \
  X(clRetainEvent)                      \
  X(clReleaseEvent)                     \
  X(clFlush)                            \
  X(clFinish)

struct functions {
#define BERTH_OPENCL_MEMBER(name) decltype(&::name) name = nullptr;
  BERTH_OPENCL_FUNCTIONS(BERTH_OPENCL_MEMBER)
#undef BERTH_OPENCL_MEMBER
};

// Loads the library on the first call and keeps it: drivers have threads that outlive the program's use of them.
// Errors: no_such_device.
[[nodiscard]] result<const functions*> load();

// Returns the error of an OpenCL status that is no success.
[[nodiscard]] error failure(cl_int status, const char* what) noexcept;

}  // namespace berth::detail::opencl

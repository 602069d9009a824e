/* Media memory of the second version; the simulator has nothing else of it. See ../acl.h. */
#pragma once

#include <stdint.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

int32_t hi_mpi_dvpp_malloc(uint32_t deviceId, void** devPtr, uint64_t size);
int32_t hi_mpi_dvpp_free(void* devPtr);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

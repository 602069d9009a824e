// What a test may ask of tests/support/fake_ascend.cpp beside AscendCL's own functions. Found with dlsym, as those are.
#pragma once

#include <cstdint>

extern "C" {
// The nth call of this function from now (1: the next one) does nothing but fail with this code.
void fake_ascend_fail(const char* function, int nth, int code);
// The next operation that a stream comes to fails with this code, which the stream's next synchronize or query says.
void fake_ascend_fail_work(int code);
// Calls of this function so far; of all functions where null.
std::uint64_t fake_ascend_calls(const char* function);
// Blocks, registrations, streams, events, reservations, physical memory and mappings that were not given back.
std::uint64_t fake_ascend_live();
// Calls that real hardware may have taken for a while and then answered with corrupted memory.
std::uint64_t fake_ascend_mistakes();
// 0: the program runs on the chip (memory of MallocHost has no alignment), 1: beside it.
void fake_ascend_run_mode(int mode);
// From now on aclFinalize says on standard error whether a device was open.
void fake_ascend_announce_finalize();
}

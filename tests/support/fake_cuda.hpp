// The questions that a test may ask of tests/support/fake_cuda.cpp beside the driver's own functions. Found with dlsym.
#pragma once

#include <cstdint>

extern "C" {
// Counts calls that real hardware may have taken for a while and then answered with corrupted memory. Memory goes while
// work uses it, or a range of addresses goes with mappings in it.
std::uint64_t fake_cuda_mistakes();
// Blocks, reservations, physical memory, mappings, streams and events that were not given back.
std::uint64_t fake_cuda_live();
// Begins a capture of the stream in the global mode. The end returns whether it is whole: no thread has made a call
// that breaks it.
void fake_cuda_begin_capture(void* stream);
// The stream that is captured is a blocking one, which the legacy default stream is ordered with.
void fake_cuda_capture_is_of_a_blocking_stream();
bool fake_cuda_end_capture();
// From now on no physical memory can be mapped a second time.
void fake_cuda_refuse_aliases(bool refuse);
}

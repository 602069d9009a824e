// Misuse of scratch that must not compile; check.cmake switches each fault on alone.
#include "berth/scratch/scratch.hpp"

struct copies {
  copies(const copies&) {}
};
struct destroys {
  ~destroys() {}
};
struct alignas(128) wide {
  float lanes[32];
};

void uses() {
  berth::scratch<float> a(10);
  berth::scratch<float, 2048> largest(10);
  berth::scratch<float, 0, 4096> page(10);
  berth::scratch<wide, 0, 128> lanes(10);
#if defined(COPIED)  // says: deleted
  berth::scratch<float> b = a;
#elif defined(COPY_ASSIGNED)               // says: deleted
  a = a;
#elif defined(MOVED)                       // says: deleted
  berth::scratch<float> b = static_cast<berth::scratch<float>&&>(a);
#elif defined(ON_THE_HEAP)                 // says: deleted
  delete new berth::scratch<float>(10);
#elif defined(ARRAY_ON_THE_HEAP)           // says: deleted
  delete[] new berth::scratch<float>[1] { berth::scratch<float>(1) };
#elif defined(FROM_AN_IMPLICIT_COUNT)      // says: conver
  berth::scratch<float> b = 10;
#elif defined(NOT_TRIVIALLY_COPYABLE)      // says: T must be trivially copyable and trivially destructible
  berth::scratch<copies> b(10);
#elif defined(NOT_TRIVIALLY_DESTRUCTIBLE)  // says: T must be trivially copyable and trivially destructible
  berth::scratch<destroys> b(10);
#elif defined(OF_CONST)                    // says: T must be an object type that can be written
  berth::scratch<const float> b(10);
#elif defined(TOO_LARGE_FOR_A_STACK)       // says: InlineBytes must be at most 2048
  berth::scratch<float, 2049> b(10);
#elif defined(ALIGNED_TO_LESS)             // says: Alignment must be a power of two, at least 64
  berth::scratch<float, 512, 32> b(10);
#elif defined(ALIGNED_TO_NO_POWER)         // says: Alignment must be a power of two, at least 64
  berth::scratch<float, 512, 96> b(10);
#elif defined(TOO_WIDE_FOR_ITS_ALIGNMENT)  // says: T needs a larger Alignment
  berth::scratch<wide> b(10);
#endif
}

// Which chip and which CANN the simulator is, and how it behaves: read from the environment once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ascend_simulator {

inline constexpr std::size_t page = 4096;
inline constexpr std::size_t huge_page = std::size_t{2} << 20;

// Source: the CANN application development guides, by product; limits of streams and events from the runtime's sources
// (see acl.h). Memory is that of a common card of the chip. The rounding of blocks is in suballocation.hpp.
struct chip {
  const char* name;      // as ASCEND_SIMULATOR_PROFILE has it
  const char* soc_name;  // as aclrtGetSocName says it
  std::size_t memory;
  std::size_t media_memory;  // what acldvppMalloc can give at most
  bool registers_host;       // aclrtHostRegister
  bool pages_of_1g;
  bool media_v1;       // acldvppMalloc
  bool cube_of_float;  // products of FLOAT as they are, without leave to be less exact (A2, A3, 950)
  std::uint32_t streams, events;
};

enum class schedule : std::uint8_t { eager, random, latest };

struct settings {
  chip on;
  bool strict = false;  // CANN 8.0: copies start at multiples of 64, pageable memory fails when the stream comes to it
  bool old_calls_only = false;  // this library is built without what CANN 8.0 on a 310P lacks
  schedule order = schedule::eager;
  std::uint64_t seed = 0;
  std::size_t memory = 0;  // the chip's, less what another process holds
  std::size_t total = 0;
  int start_code = 0;  // what aclInit returns, where it is wished
  struct fault {
    std::string function;
    int nth, code;
  };
  std::vector<fault> faults;
  std::string wrong;  // why the environment is refused, else empty
};

// README.md has the variables. Never fails: what is wrong is said by `wrong`, and aclInit fails with it.
[[nodiscard]] settings read_settings();

}  // namespace ascend_simulator

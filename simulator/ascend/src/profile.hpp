// The simulated chip and CANN, and the simulator's behaviour: read from the environment once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ascend_simulator {

inline constexpr std::size_t page = 4096;
inline constexpr std::size_t huge_page = std::size_t{2} << 20;

// Source: the CANN application development guides, by product. Limits of streams and events are from the runtime's
// sources (see acl.h). Memory is that of a common card of the chip. The rounding of blocks is in suballocation.hpp.
struct chip {
  const char* name;      // the name in ASCEND_SIMULATOR_PROFILE
  const char* soc_name;  // the name that aclrtGetSocName returns
  std::size_t memory;
  std::size_t media_memory;  // the most that acldvppMalloc can give
  bool registers_host;       // aclrtHostRegister
  bool pages_of_1g;
  bool media_v1;       // acldvppMalloc
  bool cube_of_float;  // exact products of FLOAT by default (A2, A3, 950)
  std::uint32_t streams, events;
};

enum class schedule : std::uint8_t { eager, random, latest };

struct settings {
  chip on;
  bool strict = false;  // CANN 8.0: copies start at multiples of 64, pageable memory fails when the stream comes to it
  bool old_calls_only = false;  // this library lacks the calls that CANN 8.0 on a 310P lacks
  schedule order = schedule::eager;
  std::uint64_t seed = 0;
  std::size_t memory = 0;  // the chip's, less what another process holds
  std::size_t total = 0;
  int start_code = 0;  // the code that aclInit returns, if set
  struct fault {
    std::string function;
    int nth, code;
  };
  std::vector<fault> faults;
  std::string wrong;  // why the environment is refused; empty: it is valid
};

// Reads the settings; README.md has the variables. Never fails: `wrong` names a mistake, and aclInit fails with it.
[[nodiscard]] settings read_settings();

}  // namespace ascend_simulator

#include "berth/core/contract.hpp"

#include <cstdio>
#include <cstdlib>

namespace berth {

void contract_violation(const char* what, std::source_location where) noexcept {
  std::fprintf(stderr, "berth: %s:%u: contract: %s\n", where.file_name(), static_cast<unsigned>(where.line()), what);
  std::fflush(stderr);
  std::abort();
}

}  // namespace berth

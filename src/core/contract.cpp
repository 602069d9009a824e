#include "berth/core/contract.hpp"

#include <cstdio>
#include <cstdlib>

namespace berth {

void contract_violation(const char* what, source_location where) noexcept {
  std::fprintf(stderr, "berth: %s:%u: contract: %s\n", where.file_name(), where.line(), what);
  std::fflush(stderr);
  std::abort();
}

}  // namespace berth

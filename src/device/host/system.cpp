#include "device/host/system.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "device/host/memory_limits.hpp"

namespace berth::detail {

bytes page_size() noexcept {
  static const bytes size = static_cast<bytes>(sysconf(_SC_PAGESIZE));
  return size;
}

std::uint64_t number_in(const char* path, std::uint64_t fallback) noexcept {
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return fallback;
  unsigned long long number = 0;
  const bool read = std::fscanf(file, "%llu", &number) == 1;
  std::fclose(file);
  return read ? number : fallback;
}

static std::string processor_name() {
  std::string name = "host memory";
  std::FILE* file = std::fopen("/proc/cpuinfo", "re");
  if (file == nullptr) return name;
  char line[256];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    const std::string_view text{line};
    if (!text.starts_with("model name")) continue;
    const std::size_t colon = text.find(": ");
    if (colon == std::string_view::npos) break;
    name = text.substr(colon + 2);
    if (name.ends_with('\n')) name.pop_back();
    break;
  }
  std::fclose(file);
  return name;
}

device_properties host_properties() {
  device_properties p;
  p.name = "host";
  p.description = processor_name();
  p.rules = p.pinned_rules = rules::host();
  p.total_memory = std::min(static_cast<bytes>(sysconf(_SC_PHYS_PAGES)) * page_size(), control_group_limit());
  p.host_accessible = true;
  return p;
}

error system_error(const char* what) noexcept {
  const int number = errno;
  const bool memory = number == ENOMEM || number == ENOSPC || number == EAGAIN;
  return {memory ? errc::out_of_memory : errc::device_failed, what, static_cast<std::uint64_t>(number)};
}

}  // namespace berth::detail

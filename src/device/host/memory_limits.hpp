// The memory that the system permits to this process, and the memory it has.
#pragma once

#include <string>

#include "berth/core/bytes.hpp"

namespace berth::detail {

// Returns the least memory limit of the process's control groups and of those around them; max_bytes if none is set.
// `membership` is the file that names the groups, `mount` the folder where the system shows them. Version 2 shows
// memory.max in a group's folder, version 1 memory/GROUP/memory.limit_in_bytes. A container that sees its own group as
// the root is covered, since all folders up to `mount` are read. May throw bad_alloc. O(depth).
[[nodiscard]] bytes control_group_limit(const char* membership = "/proc/self/cgroup",
                                        const std::string& mount = "/sys/fs/cgroup");

// Returns the resident memory of this process, as the system counts it (VmRSS); 0 if unknown.
[[nodiscard]] bytes resident_memory() noexcept;

}  // namespace berth::detail

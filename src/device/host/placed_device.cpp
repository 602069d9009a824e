// Host memory in huge pages, or on one NUMA node: "host:huge", "host:node=1", "host:huge,node=1".
//
// Blocks are anonymous mappings of their own. A system grants huge pages to those: transparent_hugepage/enabled is
// "madvise" or "always" nearly everywhere. It does not grant them to the shared file behind the host device's virtual
// memory: shmem_enabled is "never" nearly everywhere. So there is no virtual memory here, and no stitching. If the
// system has no huge pages left, the block has small ones. The mbind system call puts memory on a NUMA node, so no
// library is needed; the node must have the memory (MPOL_BIND). docs/decisions/0043 has the figures.
#include "device/host/placed_device.hpp"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "device/host/common.hpp"

namespace berth::detail {
namespace {

constexpr unsigned most_numa_nodes = 1024;  // the largest number that the system can be built for

result<void> bind(void* start, bytes size, unsigned numa_node) noexcept {
#ifdef SYS_mbind
  constexpr unsigned word = std::numeric_limits<unsigned long>::digits;
  std::array<unsigned long, most_numa_nodes / word> mask{};
  mask[numa_node / word] = 1UL << (numa_node % word);
  if (syscall(SYS_mbind, start, size, MPOL_BIND, mask.data(), most_numa_nodes + 1UL, 0U) == 0) return {};
  if (errno == EINVAL) return error{errc::no_such_device, "host: no memory on a NUMA node of this number", numa_node};
  if (errno == ENOSYS) return error{errc::unsupported, "host: the system knows no NUMA nodes"};
  if (errno == EPERM) return error{errc::unsupported, "host: binding to a NUMA node is forbidden here"};
  return system_error("host: binding to a NUMA node");
#else
  return error{errc::unsupported, "host: the system knows no NUMA nodes"};
#endif
}

bool has_huge_pages() noexcept {
  std::FILE* file = std::fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
  if (file == nullptr) return false;
  char line[128] = "";
  const bool read = std::fgets(line, sizeof line, file) != nullptr;
  std::fclose(file);
  return read && std::strstr(line, "[never]") == nullptr;
}

struct page_rule {
  bool huge = false;
  std::optional<unsigned> numa_node{};
};

std::optional<page_rule> read(std::string_view argument) noexcept {
  page_rule p;
  while (!argument.empty()) {
    const std::size_t comma = argument.find(',');
    const std::string_view word = argument.substr(0, comma);
    argument = comma == std::string_view::npos ? std::string_view{} : argument.substr(comma + 1);
    if (comma != std::string_view::npos && argument.empty()) return std::nullopt;
    if (word == "huge" && !p.huge) {
      p.huge = true;
    } else if (word.starts_with("node=") && !p.numa_node) {
      unsigned number = 0;
      const auto [rest, wrong] = std::from_chars(word.data() + 5, word.data() + word.size(), number);
      if (wrong != std::errc{} || rest != word.data() + word.size()) return std::nullopt;
      p.numa_node = number;
    } else {
      return std::nullopt;
    }
  }
  return p;
}

class placed_device final : public host_memory_device {
 public:
  placed_device(std::string_view argument, const page_rule& p)
      : rule_{p},
        huge_page_{static_cast<bytes>(number_in("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", 2U << 20))} {
    properties_ = host_properties();
    properties_.name.append(":").append(argument);
    if (p.huge) properties_.description.append(", in huge pages");
    if (p.numa_node) properties_.description.append(", NUMA node ").append(std::to_string(*p.numa_node));
  }

  result<void*> allocate(bytes size, memory_kind kind) override {
    if (size > properties_.total_memory) {
      return error{errc::out_of_memory, "host: more memory than the machine has", size};
    }
    block_note note = make_note(size);
    const auto block = map_aligned(mapped(size), is_huge(size) ? huge_page_ : page_size());
    if (!block) return block;
    if (is_huge(size)) (void)madvise(*block, mapped(size), MADV_HUGEPAGE);
    if (rule_.numa_node) {
      if (auto done = bind(*block, mapped(size), *rule_.numa_node); !done) {
        munmap(*block, mapped(size));
        return done.error();
      }
    }
    if (kind == memory_kind::pinned) lock_pages(*block, mapped(size), std::move(note));
    return block;
  }
  void free(void* block, bytes size, memory_kind) noexcept override { unmap_block(block, size, mapped(size)); }

 private:
  [[nodiscard]] bool is_huge(bytes size) const noexcept { return rule_.huge && size >= huge_page_; }
  // Does not cut a huge page for its last bytes: that costs less memory than it saves time.
  [[nodiscard]] bytes mapped(bytes size) const noexcept {
    return align_up(size, is_huge(size) ? huge_page_ : page_size());
  }

  static result<void*> map_aligned(bytes size, bytes alignment) noexcept {
    const bytes slack = alignment - page_size();
    if (!fits_size_t(size + slack)) return error{errc::overflow, "host: more addresses than a process has", size};
    void* const range = mmap(nullptr, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (range == MAP_FAILED) return system_error("host: out of memory");
    const bytes before =
        align_up(reinterpret_cast<std::uintptr_t>(range), alignment) - reinterpret_cast<std::uintptr_t>(range);
    std::byte* const start = static_cast<std::byte*>(range) + before;
    if (before != 0) munmap(range, before);
    if (before != slack) munmap(start + size, slack - before);
    return start;
  }

  const page_rule rule_;
  const bytes huge_page_;
};

}  // namespace

result<std::shared_ptr<device_backend>> open_placed(std::string_view argument) {
  const auto p = read(argument);
  if (!p) return error{errc::no_such_device, "host: what follows the colon is huge, node=N, or both with a comma"};
  if (p->huge && !has_huge_pages()) {
    return error{errc::unsupported, "host: the system gives no huge pages (/sys/kernel/mm/transparent_hugepage)"};
  }
  if (p->numa_node && *p->numa_node >= most_numa_nodes) {
    return error{errc::no_such_device, "host: no memory on a NUMA node of this number", *p->numa_node};
  }
  auto opened = std::make_shared<placed_device>(argument, *p);
  if (p->numa_node) {
    const auto tried = opened->allocate(page_size(), memory_kind::device);
    if (!tried) return tried.error();
    opened->free(*tried, page_size(), memory_kind::device);
  }
  return std::shared_ptr<device_backend>{std::move(opened)};
}

}  // namespace berth::detail

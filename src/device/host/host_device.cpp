// The host device: real memory, streams on worker threads, virtual memory by remapping one anonymous file.
//
// Physical memory is a range of that file (memfd_create), mapping is mmap(MAP_FIXED) over a reservation, and unmapping
// puts the reservation's PROT_NONE back. Pages are committed when they are touched, as malloc's are, and given back by
// punching a hole. A granule is a page: a mapping costs the same time and one entry of vm.max_map_count whatever its
// size, so that larger granules would save nothing and lose the parts that are left over (docs/decisions/0403).
#define _FILE_OFFSET_BITS 64  // 64-bit file offsets on 32-bit hosts
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <new>

#include "device/backend.hpp"
#include "device/host/queue.hpp"

namespace berth::detail {
namespace {

constexpr std::align_val_t block_alignment{64};

bytes page_size() noexcept {
  static const bytes size = static_cast<bytes>(sysconf(_SC_PAGESIZE));
  return size;
}

// The first number in a file of /proc, or the fallback.
std::size_t number_in(const char* path, std::size_t fallback) noexcept {
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return fallback;
  unsigned long long number = 0;
  const bool read = std::fscanf(file, "%llu", &number) == 1;
  std::fclose(file);
  return read ? static_cast<std::size_t>(number) : fallback;
}

std::string processor_name() {
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

error system_error(const char* what) noexcept {
  const int number = errno;
  const bool memory = number == ENOMEM || number == ENOSPC || number == EAGAIN;
  return {memory ? errc::out_of_memory : errc::device_failed, what, static_cast<std::uint64_t>(number)};
}

// Which parts of the file hold physical memory: first fit over the free parts, which are merged on return.
class file_space {
 public:
  // The file is grown by the caller to end().
  bytes take(bytes size) {
    const auto hole = std::ranges::find_if(holes_, [size](const auto& one) { return one.second >= size; });
    if (hole == holes_.end()) {
      const bytes start = end_;
      end_ += size;
      return start;
    }
    const bytes start = hole->first;
    if (hole->second == size) {
      holes_.erase(hole);
    } else {
      auto rest = holes_.extract(hole);
      rest.key() += size;
      rest.mapped() -= size;
      holes_.insert(std::move(rest));
    }
    return start;
  }

  void give_back(bytes start, bytes size) {
    auto next = holes_.lower_bound(start);
    if (next != holes_.end() && next->first == start + size) {
      size += next->second;
      next = holes_.erase(next);
    }
    if (next != holes_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == start) {
        before->second += size;
        return;
      }
    }
    holes_.emplace_hint(next, start, size);
  }

  [[nodiscard]] bytes end() const noexcept { return end_; }

 private:
  std::map<bytes, bytes> holes_;  // start -> size
  bytes end_ = 0;
};

class host_device final : public device_backend {
 public:
  host_device() {
    properties_.name = "host";
    properties_.description = processor_name();
    properties_.rules = rules::host();
    properties_.pinned_rules = rules::host();
    properties_.total_memory = static_cast<bytes>(sysconf(_SC_PHYS_PAGES)) * page_size();
    properties_.host_accessible = true;
    file_ = memfd_create("berth", MFD_CLOEXEC);
    properties_.virtual_memory = file_ >= 0;
    properties_.granule = properties_.virtual_memory ? page_size() : 0;
    // A mapping in the middle of a reservation splits it: two of the system's mappings each. Some are for others.
    const std::size_t limit = number_in("/proc/sys/vm/max_map_count", 65530);
    properties_.max_mappings = properties_.virtual_memory ? (limit - std::min<std::size_t>(limit, 4096)) / 2 : 0;
  }
  ~host_device() override {
    if (file_ >= 0) close(file_);
  }

  result<void*> allocate(bytes size, memory_kind kind) override {
    if (size > properties_.total_memory) {
      return error{errc::out_of_memory, "host: more memory than the machine has", size};
    }
    if (kind == memory_kind::pinned) return allocate_pinned(size);
    void* block = ::operator new(static_cast<std::size_t>(size), block_alignment, std::nothrow);
    if (block == nullptr) return error{errc::out_of_memory, "host: out of memory", size};
    return block;
  }

  void free(void* block, bytes size, memory_kind kind) noexcept override {
    if (kind == memory_kind::device) {
      ::operator delete(block, block_alignment);
      return;
    }
    const bytes pages = align_up(size, page_size());
    {
      const std::lock_guard lock{mutex_};
      if (unlocked_blocks_.erase(block) != 0) unlocked_.fetch_sub(size, std::memory_order_relaxed);
    }
    munmap(block, pages);  // unlocks too
  }

  bool reaches_foreign_memory() const noexcept override { return true; }
  bytes unlocked() const noexcept override { return unlocked_.load(std::memory_order_relaxed); }

  result<void*> reserve(bytes size) override {
    if (!fits_size_t(size)) return error{errc::overflow, "host: more addresses than a process has", size};
    void* start = mmap(nullptr, size, PROT_NONE, reservation_flags, -1, 0);
    if (start == MAP_FAILED) return system_error("host: no address range");
    return start;
  }
  void release(void* address, bytes size) noexcept override { munmap(address, size); }

  // A handle is 1 + the start in the file.
  result<std::uint64_t> create_physical(bytes size) override {
    const std::lock_guard lock{mutex_};
    if (size > properties_.total_memory - physical_) {
      return error{errc::out_of_memory, "host: more physical memory than the machine has", size};
    }
    const bytes end_before = space_.end();
    const bytes start = space_.take(size);
    if (space_.end() != end_before && ftruncate(file_, static_cast<off_t>(space_.end())) != 0) {
      const error failure = system_error("host: physical memory");
      space_.give_back(start, size);
      return failure;
    }
    physical_ += size;
    return start + 1;
  }
  void destroy_physical(std::uint64_t handle, bytes size) noexcept override {
    const std::lock_guard lock{mutex_};
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(handle - 1),
              static_cast<off_t>(size));
    space_.give_back(handle - 1, size);
    physical_ -= size;
  }

  result<void> map(void* address, bytes size, std::uint64_t handle, bytes offset) override {
    const auto start = static_cast<off_t>(handle - 1 + offset);
    void* mapped = mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, start);
    if (mapped == MAP_FAILED) return system_error("host: map");
    return {};
  }
  result<void> unmap(void* address, bytes size) override {
    if (mmap(address, size, PROT_NONE, reservation_flags | MAP_FIXED, -1, 0) == MAP_FAILED) {
      return system_error("host: unmap");
    }
    return {};
  }

  result<std::unique_ptr<backend_queue>> create_queue(std::shared_ptr<stream_clock> clock) override {
    return host_queue::create(std::move(clock));
  }
  result<std::unique_ptr<backend_event>> create_event() override {
    return std::unique_ptr<backend_event>{new host_event};
  }

 private:
  static constexpr int reservation_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

  // Whole pages of its own, so that locking them says nothing about other memory.
  result<void*> allocate_pinned(bytes size) {
    const bytes pages = align_up(size, page_size());
    void* block = mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return system_error("host: out of pinned memory");
    if (mlock(block, pages) != 0) {
      const std::lock_guard lock{mutex_};
      unlocked_blocks_.emplace(block, size);
      unlocked_.fetch_add(size, std::memory_order_relaxed);
    }
    return block;
  }

  int file_ = -1;
  std::atomic<bytes> unlocked_{0};
  std::mutex mutex_;  // guards what follows
  std::map<void*, bytes> unlocked_blocks_;
  file_space space_;
  bytes physical_ = 0;
};

}  // namespace

result<std::shared_ptr<device_backend>> open_host(std::string_view argument) {
  static const std::shared_ptr<device_backend> the_host = std::make_shared<host_device>();
  if (!argument.empty()) return error{errc::no_such_device, "there is one host device: \"host\""};
  return the_host;
}

}  // namespace berth::detail

// The host device: real memory, streams on worker threads, virtual memory by remapping one anonymous file.
//
// Physical memory is a range of that file (memfd_create). Mapping is mmap(MAP_FIXED) over a reservation, and unmapping
// restores the reservation's PROT_NONE. Pages are committed at the first touch, as malloc's are, and freed by punching
// a hole. The child of a fork would share that file with its parent. So every mapping becomes a private one of the same
// bytes there, and new physical memory comes from a file of the child's own. A granule is a page. A mapping of any size
// costs the same time and one entry of vm.max_map_count. So larger granules would save nothing and lose the remainders
// (docs/decisions/0403).
#define _FILE_OFFSET_BITS 64  // 64-bit file offsets on 32-bit hosts
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <new>
#include <vector>

#include "device/host/common.hpp"
#include "device/host/placed_device.hpp"

namespace berth::detail {
namespace {

constexpr std::align_val_t block_alignment{64};

// The parts of the file that hold physical memory: first fit over the free parts, which are merged on return. A
// returned part needs no new map entry: it reuses the entry made when it was taken.
class file_space {
 public:
  // The caller grows the file to end().
  bytes take(bytes size) {
    const auto hole = std::ranges::find_if(holes_, [size](const auto& one) { return one.second >= size; });
    const bytes start = hole == holes_.end() ? end_ : hole->first;
    taken_.emplace(start, size);
    if (hole == holes_.end()) {
      end_ += size;
    } else if (hole->second == size) {
      holes_.erase(hole);
    } else {
      auto rest = holes_.extract(hole);
      rest.key() += size;
      rest.mapped() -= size;
      holes_.insert(std::move(rest));
    }
    return start;
  }

  // Undoes the growth for the last part of take(), at the end.
  void undo_growth(bytes start) noexcept {
    taken_.erase(start);
    end_ = start;
  }

  // Makes two parts of one, the first of `at` bytes.
  void split(bytes start, bytes at) {
    const auto part = taken_.find(start);
    taken_.emplace_hint(std::next(part), start + at, part->second - at);
    part->second = at;
  }

  void give_back(bytes start) noexcept {
    auto entry = taken_.extract(start);
    auto next = holes_.lower_bound(start);
    if (next != holes_.end() && next->first == start + entry.mapped()) {
      entry.mapped() += next->second;
      next = holes_.erase(next);
    }
    if (next != holes_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == start) {
        before->second += entry.mapped();
        return;
      }
    }
    holes_.insert(next, std::move(entry));
  }

  // All parts taken so far belong to another file: none of them returns here.
  void begin_another_file() noexcept {
    holes_.clear();
    taken_.clear();
  }

  [[nodiscard]] bytes end() const noexcept { return end_; }

 private:
  using parts = std::map<bytes, bytes>;  // start -> size
  parts holes_;
  parts taken_;
  bytes end_ = 0;
};

class host_device final : public host_memory_device {
 public:
  host_device() {
    properties_ = host_properties();
    own_file_ = {.descriptor = memfd_create("berth", MFD_CLOEXEC)};
    properties_.virtual_memory = own_file_.descriptor >= 0;
    properties_.contiguous_physical = properties_.virtual_memory;
    if (!properties_.virtual_memory) properties_.notes.push_back("virtual memory is not used: the system has no memfd");
    properties_.granule = properties_.virtual_memory ? page_size() : 0;
    // A mapping in the middle of a reservation splits it: two of the system's mappings each. Some are left for others,
    // and an eighth for pages that guards hide (pool/guard/hidden_pages.hpp).
    const auto limit = static_cast<std::size_t>(number_in("/proc/sys/vm/max_map_count", 65530));
    properties_.max_mappings = properties_.virtual_memory ? (limit - std::min(limit, limit / 8 + 4096)) / 2 : 0;
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
    unmap_block(block, size, align_up(size, page_size()));
  }

  result<void*> reserve(bytes size) override {
    if (!fits_size_t(size)) return error{errc::overflow, "host: more addresses than a process has", size};
    void* start = mmap(nullptr, size, PROT_NONE, reservation_flags, -1, 0);
    if (start == MAP_FAILED) return system_error("host: no address range");
    return start;
  }
  void release(void* address, bytes size) noexcept override { munmap(address, size); }

  // A handle is 1 + a start. Starts continue through all files.
  result<std::uint64_t> create_physical(bytes size, physical_form) override {
    const std::lock_guard lock{mutex_};
    if (size > properties_.total_memory - physical_) {
      return error{errc::out_of_memory, "host: more physical memory than the machine has", size};
    }
    if (auto ok = have_own_file(); !ok) return ok.error();
    const bytes end_before = space_.end();
    const bytes start = space_.take(size);
    if (space_.end() != end_before) {
      if (auto ok = lengthen(own_file_.descriptor, space_.end() - own_file_.first); !ok) {
        space_.undo_growth(start);
        return ok.error();
      }
    }
    physical_ += size;
    return start + 1;
  }
  void destroy_physical(std::uint64_t handle, bytes size) noexcept override {
    const std::lock_guard lock{mutex_};
    physical_ -= size;
    const file& in = file_of(handle);
    if (in.parents) return;
    fallocate(in.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(handle - 1 - in.first),
              static_cast<off_t>(size));
    space_.give_back(handle - 1);
  }

  result<std::uint64_t> split_physical(std::uint64_t handle, bytes, bytes at) override {
    const std::lock_guard lock{mutex_};
    if (!file_of(handle).parents) space_.split(handle - 1, at);
    return handle + at;
  }

  result<void> map(void* address, bytes size, std::uint64_t handle, bytes offset) override {
    file in;
    {
      const std::lock_guard lock{mutex_};
      in = file_of(handle);
    }
    if (!map_from(in, address, size, handle, offset)) return system_error("host: map");
    return {};
  }
  result<void> unmap(void* address, bytes size) override {
    if (mmap(address, size, PROT_NONE, reservation_flags | MAP_FIXED, -1, 0) == MAP_FAILED) {
      return system_error("host: unmap");
    }
    return {};
  }

  // For a private mapping, in the child of a fork, the bytes would be lost.
  void rest(void* address, bytes size, std::uint64_t handle) noexcept override {
    {
      const std::lock_guard lock{mutex_};
      if (file_of(handle).parents) return;
    }
    madvise(address, size, MADV_DONTNEED);
  }

 private:
  struct file {
    bytes first = 0;  // the start of its first byte
    int descriptor = -1;
    bool parents = false;  // of a process that this one was forked from
  };

  [[nodiscard]] const file& file_of(std::uint64_t handle) const noexcept {
    if (own_file_.first < handle) return own_file_;
    const auto newest = std::ranges::find_if(parents_files_.rbegin(), parents_files_.rend(),
                                             [handle](const file& one) { return one.first < handle; });
    return *newest;
  }
  static bool map_from(const file& in, void* address, bytes size, std::uint64_t handle, bytes offset) noexcept {
    const int flags = MAP_FIXED | (in.parents ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED);
    const auto start = static_cast<off_t>(handle - 1 - in.first + offset);
    return mmap(address, size, PROT_READ | PROT_WRITE, flags, in.descriptor, start) != MAP_FAILED;
  }

  // Beyond the process's limit the system would send a signal that ends it.
  static result<void> lengthen(int descriptor, bytes length) noexcept {
    rlimit most{};
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && length > most.rlim_cur) {
      return error{errc::out_of_memory, "host: physical memory: the limit of the sizes of files (ulimit -f)", length};
    }
    if (ftruncate(descriptor, static_cast<off_t>(length)) != 0) return system_error("host: physical memory");
    return {};
  }

  // The first new physical memory after a fork makes the child's file. The caller holds the mutex.
  result<void> have_own_file() {
    if (!own_file_.parents) return {};
    parents_files_.reserve(parents_files_.size() + 1);
    const int made = memfd_create("berth", MFD_CLOEXEC);
    if (made < 0) return system_error("host: physical memory");
    parents_files_.push_back(own_file_);
    space_.begin_another_file();
    own_file_ = {.first = space_.end(), .descriptor = made};
    return {};
  }

  // If this fails (too many mappings), the parent's bytes become read-only.
  void part_from_parent() noexcept override {
    own_file_.parents = true;
    book.for_each_mapping([this](void* address, const address_book::mapping& one) {
      if (!map_from(file_of(one.handle), address, one.size, one.handle, one.offset)) {
        mprotect(address, one.size, PROT_READ);
      }
    });
  }

  static constexpr int reservation_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

  // Uses whole pages of its own, so that locking them affects no other memory.
  result<void*> allocate_pinned(bytes size) {
    const bytes pages = align_up(size, page_size());
    block_note note = make_note(size);
    void* block = mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return system_error("host: out of pinned memory");
    lock_pages(block, pages, std::move(note));
    return block;
  }

  // The mutex_ guards the fields below.
  file own_file_;
  std::vector<file> parents_files_;  // oldest first
  file_space space_;
  bytes physical_ = 0;
};

}  // namespace

result<std::shared_ptr<device_backend>> open_host(std::string_view argument) {
  // Never destroyed: objects that end with the program, or after it, may still use it.
  static const auto* const the_host = new std::shared_ptr<device_backend>{std::make_shared<host_device>()};
  return argument.empty() ? *the_host : open_placed(argument);
}

}  // namespace berth::detail

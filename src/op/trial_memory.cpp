#include "op/trial_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace berth::op {
namespace {

constexpr std::byte pattern{0xa5};

}  // namespace

trial_memory::trial_memory(const device& on, bytes size, bytes alignment) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto used = static_cast<std::size_t>(align_up(size, alignment));
  used_ = (used + page - 1) / page * page;
  void* at = mmap(nullptr, used_ + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc{};
  mapped_ = used_ + 2 * page;
  base_ = static_cast<std::byte*>(at);
  (void)mprotect(base_, page, PROT_NONE);
  (void)mprotect(base_ + page + used_, page, PROT_NONE);
  begin_ = base_ + page;
  data_ = begin_ + used_ - used;
  size_ = used;
  std::memset(begin_, static_cast<int>(pattern), used_);
  if (on.properties().host_accessible) return;
  auto block = on.allocate(used_);
  if (!block) {
    munmap(base_, mapped_);
    throw bad_result{block.error()};
  }
  block_ = static_cast<std::byte*>(*block);
  on_ = on;
}

trial_memory& trial_memory::operator=(trial_memory&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(begin_, other.begin_);
  std::swap(data_, other.data_);
  std::swap(block_, other.block_);
  std::swap(mapped_, other.mapped_);
  std::swap(used_, other.used_);
  std::swap(size_, other.size_);
  std::swap(on_, other.on_);
  return *this;
}

trial_memory::~trial_memory() {
  if (block_ != nullptr) on_->free(block_, used_);
  if (base_ != nullptr) munmap(base_, mapped_);
}

void trial_memory::upload(stream& s) const {
  if (is_mirror()) s.copy(block_, begin_, used_).value();
}

void trial_memory::download(stream& s) const {
  if (is_mirror()) s.copy(begin_, block_, used_).value();
}

bool trial_memory::untouched_before() const noexcept {
  return std::all_of(begin_, data_, [](std::byte b) { return b == pattern; });
}

}  // namespace berth::op

#include "tool/replay_policies.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "berth/pool/pool.hpp"
#include "tool/holes_by_address.hpp"
#include "tool/units.hpp"

namespace berth::tool {
namespace {

class berth_policy final : public policy {
 public:
  berth_policy(pool_options options, std::uint32_t streams)
      : device_{device::open("null:" + std::to_string(std::clamp<bytes>(options.limit, 1, most_addresses))).value()},
        pool_{device_, cut(options)} {
    streams_.reserve(streams);
    for (std::uint32_t i = 0; i < streams; ++i) streams_.emplace_back(device_);
  }

  std::uint64_t allocate(bytes size, std::uint32_t stream) override {
    const auto block = pool_.allocate_raw(std::max<bytes>(size, 1), streams_[stream]);
    return block ? reinterpret_cast<std::uintptr_t>(*block) : 0;
  }
  void free(std::uint64_t handle, bytes size, std::uint32_t stream) override {
    pool_.free(reinterpret_cast<void*>(static_cast<std::uintptr_t>(handle)), std::max<bytes>(size, 1),
               streams_[stream]);
  }
  figures result() override {
    const pool_statistics s = pool_.statistics();
    return {s.reserved_peak, s.pool_hit_rate(), s.cache_hit_rate(), s.stitched};
  }
  pool_statistics now() override { return pool_.statistics(); }

 private:
  static constexpr bytes most_addresses = bytes{1} << 62;  // more the pool cannot reserve, nor a log be alive
  static pool_options cut(pool_options o) {
    o.limit = std::min(o.limit, most_addresses);
    return o;
  }

  device device_;
  std::vector<stream> streams_;
  pool pool_;
};

// Free ranges by offset and by size, over segments that do not touch. The base of the re-implementations.
class segments {
 public:
  using by_size = std::set<std::pair<bytes, bytes>>;

  segments() = default;
  explicit segments(bool by_address) {
    if (by_address) holes_.emplace();
  }

  void add_free(bytes offset, bytes size) {
    auto after = free_.lower_bound(offset);
    if (after != free_.end() && after->first == offset + size && !borders_.contains(after->first)) {
      size += after->second;
      after = erase(after);
    }
    if (after != free_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == offset && !borders_.contains(offset)) {
        offset = before->first;
        size += before->second;
        erase(before);
      }
    }
    insert(offset, size);
  }
  bytes add_segment(bytes size) {
    const bytes offset = end_;
    borders_.insert(offset);
    end_ += size;
    reserved_ += size;
    peak_ = std::max(peak_, reserved_);
    segments_[offset] = size;
    add_free(offset, size);
    return offset;
  }
  // Adds memory right behind the last byte of an expandable segment, so that the free range there grows.
  void extend(bytes size) {
    const bytes offset = end_;
    end_ += size;
    reserved_ += size;
    peak_ = std::max(peak_, reserved_);
    add_free(offset, size);
  }
  [[nodiscard]] bytes free_at_end() const {
    return free_.empty() || free_.rbegin()->first + free_.rbegin()->second != end_ ? 0 : free_.rbegin()->second;
  }
  // Gives the whole pages in free ranges back to the device, and says how much that is.
  bytes release_free_pages(bytes page) {
    bytes released = 0;
    const std::vector<std::pair<bytes, bytes>> all{free_.begin(), free_.end()};
    for (const auto& [offset, size] : all) {
      const bytes first = align_up(offset - begin, page) + begin,
                  last = align_down(offset + size - begin, page) + begin;
      if (first >= last) continue;
      erase(free_.find(offset));
      if (first > offset) insert(offset, first - offset);
      if (offset + size > last) insert(last, offset + size - last);
      borders_.insert(last);  // no range grows over addresses without memory
      released += last - first;
    }
    reserved_ -= released;
    return released;
  }
  // Takes n bytes from the front of the free range at `offset`; the rest stays free if it is at least `least`.
  bytes take(bytes offset, bytes n, bytes least) {
    const bytes size = free_.at(offset);
    erase(free_.find(offset));
    if (size - n >= least && size > n) {
      insert(offset + n, size - n);
      return n;
    }
    return size;
  }
  // Gives segments that are wholly free back to the device, and returns their bytes.
  bytes release_free_segments() {
    bytes released = 0;
    while (!idle_.empty()) {
      const auto s = segments_.find(*idle_.begin());
      released += s->second;
      erase(free_.find(s->first));
      segments_.erase(s);
    }
    reserved_ -= released;
    return released;
  }
  // Contract: the segments are by address.
  [[nodiscard]] std::optional<bytes> first_fit(bytes n) const { return holes_->first(n); }
  [[nodiscard]] const by_size& sizes() const { return sizes_; }
  [[nodiscard]] bytes reserved() const { return reserved_; }
  [[nodiscard]] bytes peak() const { return peak_; }
  void add_to(pool_statistics& s) const {
    for (const auto& [size, offset] : sizes_) s.free += size;
    if (!sizes_.empty()) s.largest_hole = std::max(s.largest_hole, sizes_.rbegin()->first);
    s.reserved += reserved_;
    s.live_rounded = s.reserved - s.free;
  }
  // Counts the holes below the largest request and below all idle bytes. Contract: `s` has those of all spaces.
  void add_unusable_to(pool_statistics& s) const {
    const bytes least = std::min(s.largest_request, s.free);
    for (const auto& [size, offset] : sizes_) s.unusable += size < least ? size : 0;
  }

 private:
  void insert(bytes offset, bytes size) {
    free_[offset] = size;
    sizes_.insert({size, offset});
    if (holes_) holes_->insert(offset, size);
    const auto segment = segments_.find(offset);
    if (segment != segments_.end() && segment->second == size) idle_.insert(offset);
  }
  std::map<bytes, bytes>::iterator erase(std::map<bytes, bytes>::const_iterator at) {
    sizes_.erase({at->second, at->first});
    if (holes_) holes_->erase(at->first);
    idle_.erase(at->first);
    return free_.erase(at);
  }

  std::optional<holes_by_address> holes_;  // the free ranges once more, where they are asked for by address
  std::map<bytes, bytes> free_;
  by_size sizes_;
  std::set<bytes> borders_;
  std::map<bytes, bytes> segments_;
  std::set<bytes> idle_;              // segments that are wholly free
  static constexpr bytes begin = 64;  // so that no handle is 0
  bytes end_ = begin;
  bytes reserved_ = 0;
  bytes peak_ = 0;
};

// One segment of the whole capacity. The highest byte ever used counts as reserved.
class fit_like final : public policy {
 public:
  fit_like(bytes capacity, bool first) : first_{first}, space_{first} {
    start_ = space_.add_segment(align_down(capacity, granularity));
  }

  std::uint64_t allocate(bytes size, std::uint32_t) override {
    const bytes n = align_up(std::max<bytes>(size, 1), granularity);
    bytes at = 0;
    if (first_) {
      at = space_.first_fit(n).value_or(0);
    } else if (const auto fit = space_.sizes().lower_bound({n, 0}); fit != space_.sizes().end()) {
      at = fit->second;
    }
    if (at == 0) return 0;
    space_.take(at, n, 1);
    highest_ = std::max(highest_, at + n - start_);
    largest_ = std::max(largest_, n);
    return at;
  }
  void free(std::uint64_t handle, bytes size, std::uint32_t) override {
    space_.add_free(handle, align_up(std::max<bytes>(size, 1), granularity));
  }
  figures result() override { return {.peak_reserved = highest_}; }
  pool_statistics now() override {
    pool_statistics s;
    s.reserved = highest_;
    s.largest_request = largest_;
    for (auto [size, offset] : space_.sizes()) {
      if (offset - start_ >= highest_) continue;
      size = std::min(size, highest_ - (offset - start_));
      s.free += size;
      s.largest_hole = std::max(s.largest_hole, size);
    }
    for (auto [size, offset] : space_.sizes()) {
      if (offset - start_ >= highest_) continue;
      size = std::min(size, highest_ - (offset - start_));
      if (size < std::min(largest_, s.free)) s.unusable += size;
    }
    s.live_rounded = s.reserved - s.free;
    return s;
  }

 private:
  static constexpr bytes granularity = 64;
  bool first_;
  segments space_;
  bytes start_ = 0;
  bytes highest_ = 0;
  bytes largest_ = 0;
};

// TensorFlow's best fit with coalescing: multiples of 256, and regions that double from 1 MiB. It splits off a
// remainder that is as large as the request or 128 MiB. ONNX Runtime's kSameAsRequested takes regions of the request's
// size. The real one bins the chunks of a region by powers of two and then takes the smallest, as here.
class bfc_like final : public policy {
 public:
  bfc_like(bytes capacity, bool doubles) : capacity_{capacity}, doubles_{doubles} {}

  std::uint64_t allocate(bytes size, std::uint32_t) override {
    const bytes n = align_up(std::max<bytes>(size, 1), 256);
    ++allocations_;
    auto fit = space_.sizes().lower_bound({n, 0});
    if (fit == space_.sizes().end()) {
      if (!extend(n)) return 0;
      fit = space_.sizes().lower_bound({n, 0});
    }
    largest_ = std::max(largest_, n);
    const bytes at = fit->second;
    const bytes rest = fit->first - n;
    const bool split = fit->first >= 2 * n || rest >= (bytes{128} << 20);
    taken_[at] = space_.take(at, n, split ? 1 : max_bytes);
    return at;
  }
  void free(std::uint64_t handle, bytes, std::uint32_t) override {
    space_.add_free(handle, taken_[handle]);
    taken_.erase(handle);
  }
  figures result() override {
    const auto n = static_cast<double>(std::max<std::uint64_t>(allocations_, 1));
    return {.peak_reserved = space_.peak(), .pool_hit_rate = 1 - static_cast<double>(extensions_) / n};
  }
  bytes shrink() override { return space_.release_free_segments(); }
  pool_statistics now() override {
    pool_statistics s;
    s.largest_request = largest_;
    space_.add_to(s);
    space_.add_unusable_to(s);
    return s;
  }

 private:
  bool extend(bytes n) {
    const bytes room = align_down(capacity_ - space_.reserved(), 256);
    if (n > room) return false;
    if (doubles_) {
      while (region_ < n) region_ *= 2;
    }
    space_.add_segment(doubles_ ? std::min(region_, room) : n);
    if (doubles_) region_ *= 2;
    ++extensions_;
    return true;
  }

  bytes capacity_;
  bool doubles_;
  bytes region_ = bytes{1} << 20;
  bytes largest_ = 0;
  segments space_;
  std::unordered_map<bytes, bytes> taken_;
  std::uint64_t allocations_ = 0;
  std::uint64_t extensions_ = 0;
};

// PyTorch's caching allocator. It rounds to multiples of 512. Requests of up to 1 MiB come from segments of 2 MiB,
// those below 10 MiB from segments of 20 MiB. Larger ones get segments of their own, in multiples of 2 MiB. Each stream
// has best fit, and a large remainder above 1 MiB is split off. Free segments go back before it gives up. With
// expandable segments each stream has one of small and one of large blocks, which grows by pages of 2 and of 20 MiB.
class pytorch_like final : public policy {
 public:
  pytorch_like(const pytorch_settings& how, bytes capacity, std::uint32_t streams)
      : how_{how}, capacity_{capacity}, pools_(std::size_t{2} * streams) {}

  std::uint64_t allocate(bytes size, std::uint32_t stream) override {
    const bytes n = align_up(std::max<bytes>(size, 1), 512);
    const bool small = n <= mib;
    segments& space = pools_[std::size_t{2} * stream + (small ? 0 : 1)];
    ++allocations_;
    if (!has_fit(space, n) && !grow(space, n, small)) return 0;
    largest_ = std::max(largest_, n);
    const auto [found, at] = *space.sizes().lower_bound({n, 0});
    const bool may_split = small || how_.expandable_segments || n < how_.max_split_size;
    const bytes taken = space.take(at, n, !may_split ? max_bytes : small ? 512 : mib + 1);
    const std::uint64_t handle = ++last_;
    blocks_[handle] = {&space, at, taken};
    return handle;
  }
  void free(std::uint64_t handle, bytes, std::uint32_t) override {
    const auto b = blocks_.find(handle);
    b->second.space->add_free(b->second.offset, b->second.size);
    blocks_.erase(b);
  }
  figures result() override {
    const auto n = static_cast<double>(std::max<std::uint64_t>(allocations_, 1));
    return {.peak_reserved = peak_, .pool_hit_rate = 1 - static_cast<double>(mallocs_) / n};
  }
  pool_statistics now() override {
    pool_statistics s;
    s.largest_request = largest_;
    for (const segments& one : pools_) one.add_to(s);
    for (const segments& one : pools_) one.add_unusable_to(s);
    return s;
  }

 private:
  static constexpr bytes mib = bytes{1} << 20;
  static constexpr bytes small_page = 2 * mib, large_page = 20 * mib;

  // Returns whether the best fit may be used: a block above max_split_size serves no request below it, and no request
  // that would leave 20 MiB of it unused.
  [[nodiscard]] bool has_fit(const segments& space, bytes n) const {
    const auto fit = space.sizes().lower_bound({n, 0});
    if (fit == space.sizes().end()) return false;
    if (how_.expandable_segments || fit->first < how_.max_split_size) return true;
    return n >= how_.max_split_size && fit->first - n < large_page;
  }
  bool grow(segments& space, bytes n, bool small) {
    const bool expands = how_.expandable_segments;
    const auto need = [&] {
      if (expands) return align_up(n - std::min(n, space.free_at_end()), small ? small_page : large_page);
      return small ? small_page : n < 10 * mib ? large_page : align_up(n, 2 * mib);
    };
    const bytes soft =
        how_.garbage_collection_threshold == 0 ? capacity_ : share_of(capacity_, how_.garbage_collection_threshold);
    if (reserved_ + need() > soft) {
      for (std::size_t i = 0; i < pools_.size(); ++i) {
        const bytes page = i % 2 == 0 ? small_page : large_page;
        reserved_ -= expands ? pools_[i].release_free_pages(page) : pools_[i].release_free_segments();
      }
    }
    const bytes more = need();
    if (reserved_ + more > capacity_) return false;
    expands ? space.extend(more) : static_cast<void>(space.add_segment(more));
    reserved_ += more;
    peak_ = std::max(peak_, reserved_);
    ++mallocs_;
    return true;
  }
  struct taken_block {
    segments* space;
    bytes offset;
    bytes size;
  };
  pytorch_settings how_;
  bytes capacity_;
  bytes largest_ = 0;
  bytes reserved_ = 0;  // by all of them; a log may have thousands of streams
  std::vector<segments> pools_;
  std::unordered_map<std::uint64_t, taken_block> blocks_;
  std::uint64_t last_ = 0;
  std::uint64_t allocations_ = 0;
  std::uint64_t mallocs_ = 0;
  bytes peak_ = 0;
};

}  // namespace

std::vector<std::string> policy_names() {
  return {"berth", "first-fit-like", "best-fit-like", "bfc-like", "pytorch-like"};
}

std::unique_ptr<policy> make_pool_policy(const pool_options& options, std::uint32_t streams) {
  return std::make_unique<berth_policy>(options, streams);
}

std::unique_ptr<policy> make_pytorch_policy(const pytorch_settings& how, bytes capacity, std::uint32_t streams) {
  return std::make_unique<pytorch_like>(how, capacity, streams);
}

std::unique_ptr<policy> make_bfc_policy(bool doubles, bytes capacity) {
  return std::make_unique<bfc_like>(capacity, doubles);
}

std::unique_ptr<policy> make_policy(std::string_view name, bytes capacity, std::uint32_t streams) {
  if (name == "berth") {
    return make_pool_policy({.limit = capacity, .wait_for_streams = true, .report_leaks = false}, streams);
  }
  if (name == "first-fit-like") return std::make_unique<fit_like>(capacity, true);
  if (name == "best-fit-like") return std::make_unique<fit_like>(capacity, false);
  if (name == "bfc-like") return make_bfc_policy(true, capacity);
  if (name == "pytorch-like") return make_pytorch_policy({}, capacity, streams);
  return nullptr;
}

}  // namespace berth::tool

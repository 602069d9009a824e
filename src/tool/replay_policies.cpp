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
      : device_{options.limit, streams}, pool_{device_.on, cut(options)} {}

  std::uint64_t allocate(bytes size, std::uint32_t stream) override { return device_.allocate(pool_, size, stream); }
  void free(std::uint64_t handle, bytes size, std::uint32_t stream) override {
    device_.free(pool_, handle, size, stream);
  }
  figures result() override {
    const pool_statistics s = pool_.statistics();
    return {s.reserved_peak, s.pool_hit_rate(), s.cache_hit_rate(), s.stitched};
  }
  pool_statistics now() override { return pool_.statistics(); }

 private:
  static pool_options cut(pool_options o) {
    o.limit = std::min(o.limit, replay_device::most_addresses);
    return o;
  }

  replay_device device_;
  pool pool_;
};

// Free ranges by offset and by size, over segments that do not touch.
class segments {
 public:
  using by_size = std::set<std::pair<bytes, bytes>>;

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
  void add_segment(bytes size) {
    borders_.insert(end_);
    segments_[end_] = size;
    extend(size);
  }
  // Adds memory right behind the last byte of an expandable segment, so that the free range there grows.
  void extend(bytes size) {
    const bytes offset = end_;
    end_ += size;
    add_free(offset, size);
  }
  [[nodiscard]] bytes end() const { return end_; }
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
    return released;
  }
  // Takes n bytes from the front of the free range at `offset`; the rest stays free if it is at least `least`. Returns
  // how much it took.
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
    return released;
  }
  // Keeps the free ranges by address too, for first_fit(). Contract: there are none yet.
  void keep_by_address() { holes_.emplace(); }
  // Contract: the ranges are kept by address.
  [[nodiscard]] std::optional<bytes> first_fit(bytes n) const { return holes_->first(n); }
  [[nodiscard]] std::optional<bytes> best_fit(bytes n) const {
    const auto fit = sizes_.lower_bound({n, 0});
    return fit == sizes_.end() ? std::nullopt : std::optional{fit->second};
  }
  [[nodiscard]] bytes size_at(bytes offset) const { return free_.at(offset); }
  [[nodiscard]] const by_size& sizes() const { return sizes_; }

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

  std::map<bytes, bytes> free_;
  by_size sizes_;
  std::optional<holes_by_address> holes_;
  std::set<bytes> borders_;
  std::map<bytes, bytes> segments_;
  std::set<bytes> idle_;              // segments that are wholly free
  static constexpr bytes begin = 64;  // so that no handle is 0
  bytes end_ = begin;
};

// The base of the re-implementations: spaces of free ranges, and the figures of what they do.
class reimplemented : public policy {
 public:
  void free(std::uint64_t handle, bytes, std::uint32_t) final {
    const auto b = blocks_.find(handle);
    b->second.space->add_free(b->second.offset, b->second.size);
    blocks_.erase(b);
  }
  figures result() final {
    const auto n = static_cast<double>(std::max<std::uint64_t>(last_, 1));
    return {.peak_reserved = peak_, .pool_hit_rate = 1 - static_cast<double>(device_calls_) / n};
  }
  pool_statistics now() final {
    pool_statistics s;
    s.reserved = reserved_;
    s.largest_request = largest_;
    for (const segments& space : spaces_) {
      for (const auto& [size, offset] : space.sizes()) s.free += size;
      if (!space.sizes().empty()) s.largest_hole = std::max(s.largest_hole, space.sizes().rbegin()->first);
    }
    // The idle bytes of other spaces are unusable too.
    const bytes least = std::min(s.largest_request, s.free);
    for (const segments& space : spaces_) {
      for (const auto& [size, offset] : space.sizes()) s.unusable += size < least ? size : 0;
    }
    s.live_rounded = s.reserved - s.free;
    return s;
  }

 protected:
  reimplemented(bytes capacity, std::size_t spaces) : spaces_(spaces), capacity_{capacity} {}

  // Takes memory of the device for a space. Returns false if the capacity does not suffice.
  bool grow(segments& space, bytes more, bool expands) {
    if (more > capacity_ - reserved_) return false;
    expands ? space.extend(more) : space.add_segment(more);
    reserved_ += more;
    peak_ = std::max(peak_, reserved_);
    return true;
  }
  // Takes n bytes at the front of a free range, and the rest of it too if that is below `least`. Returns the handle.
  std::uint64_t take(segments& space, bytes offset, bytes n, bytes least) {
    largest_ = std::max(largest_, n);
    blocks_[++last_] = {&space, offset, space.take(offset, n, least)};
    return last_;
  }

  std::vector<segments> spaces_;
  bytes capacity_;
  bytes reserved_ = 0;  // by all spaces: a log may have thousands of streams
  std::uint64_t device_calls_ = 0;

 private:
  struct taken_block {
    segments* space;
    bytes offset;
    bytes size;
  };
  bytes largest_ = 0;
  bytes peak_ = 0;
  std::unordered_map<std::uint64_t, taken_block> blocks_;
  std::uint64_t last_ = 0;  // how many allocations there were
};

// One segment of the whole capacity. The highest byte ever used counts as reserved.
class fit_like final : public reimplemented {
 public:
  fit_like(bytes capacity, bool first) : reimplemented{align_down(capacity, granularity), 1}, first_{first} {
    if (first) spaces_[0].keep_by_address();
  }

  std::uint64_t allocate(bytes size, std::uint32_t) override {
    const bytes n = align_up(std::max<bytes>(size, 1), granularity);
    segments& space = spaces_[0];
    if (const auto at = first_ ? space.first_fit(n) : best_fit(space, n)) return take(space, *at, n, 1);
    const bytes more = n - std::min(n, space.free_at_end());
    if (more != 0 && !grow(space, more, true)) return 0;
    return take(space, space.end() - space.free_at_end(), n, 1);
  }

 private:
  // Returns nothing if the hole at the end serves, which is as large as the capacity leaves it.
  [[nodiscard]] std::optional<bytes> best_fit(const segments& space, bytes n) const {
    const bytes at_end = space.free_at_end() + capacity_ - reserved_;
    for (auto hole = space.sizes().lower_bound({n, 0}); hole != space.sizes().end(); ++hole) {
      if (hole->second + hole->first == space.end()) continue;
      return at_end < n || hole->first <= at_end ? std::optional{hole->second} : std::nullopt;
    }
    return std::nullopt;
  }

  static constexpr bytes granularity = 64;
  bool first_;
};

// TensorFlow's best fit with coalescing: multiples of 256, and regions that double from 1 MiB. It splits off a
// remainder that is as large as the request or 128 MiB. ONNX Runtime's kSameAsRequested takes regions of the request's
// size. The real one bins the chunks of a region by powers of two and then takes the smallest, as here.
class bfc_like final : public reimplemented {
 public:
  bfc_like(bytes capacity, bool doubles) : reimplemented{capacity, 1}, doubles_{doubles} {}

  std::uint64_t allocate(bytes size, std::uint32_t) override {
    const bytes n = align_up(std::max<bytes>(size, 1), 256);
    segments& space = spaces_[0];
    if (!space.best_fit(n) && !extend(n)) return 0;
    const bytes at = *space.best_fit(n);
    const bytes rest = space.size_at(at) - n;
    const bool split = rest >= n || rest >= (bytes{128} << 20);
    return take(space, at, n, split ? 1 : max_bytes);
  }
  bytes shrink() override {
    const bytes released = spaces_[0].release_free_segments();
    reserved_ -= released;
    return released;
  }

 private:
  bool extend(bytes n) {
    const bytes room = align_down(capacity_ - reserved_, 256);
    if (n > room) return false;
    if (doubles_) {
      while (region_ < n) region_ *= 2;
    }
    (void)grow(spaces_[0], doubles_ ? std::min(region_, room) : n, false);
    if (doubles_) region_ *= 2;
    ++device_calls_;
    return true;
  }

  bool doubles_;
  bytes region_ = bytes{1} << 20;
};

// PyTorch's caching allocator. It rounds to multiples of 512. Requests of up to 1 MiB come from segments of 2 MiB,
// those below 10 MiB from segments of 20 MiB. Larger ones get segments of their own, in multiples of 2 MiB. Each stream
// has best fit, and a large remainder above 1 MiB is split off. Free segments go back before it gives up. With
// expandable segments each stream has one of small and one of large blocks, which grows by pages of 2 and of 20 MiB.
class pytorch_like final : public reimplemented {
 public:
  pytorch_like(const pytorch_settings& how, bytes capacity, std::uint32_t streams)
      : reimplemented{capacity, std::size_t{2} * streams}, how_{how} {}

  std::uint64_t allocate(bytes size, std::uint32_t stream) override {
    const bytes n = align_up(std::max<bytes>(size, 1), 512);
    const bool small = n <= mib;
    segments& space = spaces_[std::size_t{2} * stream + (small ? 0 : 1)];
    if (!has_fit(space, n) && !add_memory(space, n, small)) return 0;
    const bool may_split = small || how_.expandable_segments || n < how_.max_split_size;
    return take(space, *space.best_fit(n), n, !may_split ? max_bytes : small ? 512 : mib + 1);
  }

 private:
  static constexpr bytes mib = bytes{1} << 20;
  static constexpr bytes small_page = 2 * mib, large_page = 20 * mib;

  // Returns whether the best fit may be used: a block above max_split_size serves no request below it, and no request
  // that would leave 20 MiB of it unused.
  [[nodiscard]] bool has_fit(const segments& space, bytes n) const {
    const auto fit = space.best_fit(n);
    if (!fit) return false;
    const bytes size = space.size_at(*fit);
    if (how_.expandable_segments || size < how_.max_split_size) return true;
    return n >= how_.max_split_size && size - n < large_page;
  }
  bool add_memory(segments& space, bytes n, bool small) {
    const bool expands = how_.expandable_segments;
    const auto need = [&] {
      if (expands) return align_up(n - std::min(n, space.free_at_end()), small ? small_page : large_page);
      return small ? small_page : n < 10 * mib ? large_page : align_up(n, 2 * mib);
    };
    const bytes soft =
        how_.garbage_collection_threshold == 0 ? capacity_ : share_of(capacity_, how_.garbage_collection_threshold);
    if (reserved_ + need() > soft) {
      for (std::size_t i = 0; i < spaces_.size(); ++i) {
        const bytes page = i % 2 == 0 ? small_page : large_page;
        reserved_ -= expands ? spaces_[i].release_free_pages(page) : spaces_[i].release_free_segments();
      }
    }
    if (!grow(space, need(), expands)) return false;
    ++device_calls_;
    return true;
  }

  pytorch_settings how_;
};

}  // namespace

replay_device::replay_device(bytes capacity, std::uint32_t stream_count)
    : on{device::open("null:" + std::to_string(std::clamp<bytes>(capacity, 1, most_addresses))).value()} {
  streams.reserve(stream_count);
  for (std::uint32_t i = 0; i < stream_count; ++i) streams.emplace_back(on);
}

std::uint64_t replay_device::allocate(memory_source& from, bytes size, std::uint32_t stream) {
  const auto block = from.allocate_raw(std::max<bytes>(size, 1), streams[stream]);
  return block ? reinterpret_cast<std::uintptr_t>(*block) : 0;
}

void replay_device::free(memory_source& from, std::uint64_t handle, bytes size, std::uint32_t stream) {
  from.free(reinterpret_cast<void*>(static_cast<std::uintptr_t>(handle)), std::max<bytes>(size, 1), streams[stream]);
}

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

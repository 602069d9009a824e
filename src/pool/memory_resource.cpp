#include "berth/pool/memory_resource.hpp"

#include <algorithm>

#include "core/make_room.hpp"

namespace berth {

void* source_resource::do_allocate(std::size_t size, std::size_t alignment) {
  const auto data = source_->allocate_raw(size == 0 ? 1 : size, *stream_, block_options{.alignment = alignment});
  if (!data) throw std::bad_alloc{};
  if (!stream_->idle() && !stream::synchronize(*stream_->clock())) {
    source_->free(*data);
    throw std::bad_alloc{};
  }
  return *data;
}

resource_source::~resource_source() {
  const std::lock_guard held{lock_};
  expects(live_.empty(), "resource_source: destroyed while blocks of it are alive");
  for (auto& [data, g] : freed_) {
    for (const use& u : g.uses) {
      if (u.clock->completed() < u.epoch) (void)stream::synchronize(*u.clock);
    }
    upstream_->deallocate(g.base, g.taken);
  }
}

bytes resource_source::pending() const noexcept {
  const std::lock_guard held{lock_};
  bytes sum = 0;
  for (const auto& [data, g] : freed_) sum += g.size;
  return sum;
}

// Searching all waiting blocks in each call would take quadratic time.
void resource_source::give_back_in_turn() noexcept {
  constexpr std::size_t at_a_time = 16;
  if (++calls_ * at_a_time >= freed_.size()) give_back_what_is_done();
}

void resource_source::give_back_what_is_done() noexcept {
  calls_ = 0;
  std::erase_if(freed_, [this](const auto& one) {
    const given& g = one.second;
    const auto done = [](const use& u) { return u.clock->completed() >= u.epoch || stream::idle(*u.clock); };
    if (!std::ranges::all_of(g.uses, done)) return false;
    upstream_->deallocate(g.base, g.taken);
    return true;
  });
}

memory_source::outcome resource_source::do_allocate(bytes size, stream& s, const block_options* options,
                                                    source_location site) {
  expects(s.clock() != nullptr && s.get_device() == device_, "resource_source: a stream of another device", site);
  const bytes asked = options != nullptr ? options->alignment : 0;
  if (asked != 0 && !is_power_of_two(asked)) {
    return failed({errc::invalid_input, "resource_source: the alignment is not a power of two", asked});
  }
  const bytes alignment = std::max(device_.properties().rules.start_alignment, asked);
  const error no_more{errc::out_of_memory, "resource_source: the memory resource has no more", size};
  const auto taken = checked_add(size, alignment - 1);
  if (!taken || !fits_size_t(*taken)) return failed(no_more);
  std::unique_lock held{lock_};
  give_back_in_turn();
  try {
    // Makes the record first: a block without a record would have to be freed again.
    std::unordered_map<void*, given> one;
    one.emplace(nullptr, given{size, nullptr, *taken, {{s.clock(), 0}}});
    detail::make_room(live_);
    detail::make_room(freed_, live_.size() + 1);  // so that a free cannot fail
    void* base = nullptr;
    try {
      base = upstream_->allocate(*taken);
    } catch (const std::bad_alloc&) {
      if (freed_.empty()) throw;
    }
    if (base == nullptr) {
      held.unlock();  // streams that are waited for may free blocks of this source
      const bool done = s.synchronize().has_value();
      held.lock();
      if (!done) return failed(no_more);
      give_back_what_is_done();
      detail::make_room(live_);
      detail::make_room(freed_, live_.size() + 1);
      base = upstream_->allocate(*taken);
    }
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    void* const data = static_cast<std::byte*>(base) + (align_up(address, alignment) - address);
    auto entry = one.extract(nullptr);
    entry.key() = data;
    entry.mapped().base = base;
    live_.insert(std::move(entry));
    return {data, nullptr};
  } catch (const std::bad_alloc&) {
    return failed(no_more);
  }
}

void resource_source::do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept {
  const std::lock_guard held{lock_};
  const auto at = live_.find(data);
  expects(at != live_.end(), "resource_source: free of a pointer that is no block of it (foreign, or freed twice)",
          site);
  given& g = at->second;
  expects(size == any_size || size == g.size, "resource_source: free with another size than was allocated", site);
  expects(stream_id == any_stream || stream_id == g.uses.front().clock->id(),
          "resource_source: free on another stream than the block's (see use_on)", site);
  for (use& u : g.uses) u.epoch = u.clock->epoch();
  freed_.insert(live_.extract(at));
  give_back_in_turn();
}

void resource_source::do_use_on(void* data, stream& s, const source_location& where) {
  expects(s.clock() != nullptr && s.get_device() == device_, "resource_source: use_on a stream of another device",
          where);
  const std::lock_guard held{lock_};
  const auto at = live_.find(data);
  expects(at != live_.end(), "resource_source: use_on of what is no live block of it", where);
  std::vector<use>& uses = at->second.uses;
  if (std::ranges::none_of(uses, [&s](const use& u) { return u.clock == s.clock(); })) uses.push_back({s.clock(), 0});
}

}  // namespace berth

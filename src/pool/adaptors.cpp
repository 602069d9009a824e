#include "berth/pool/adaptors.hpp"

#include <cinttypes>
#include <new>

#include "core/make_room.hpp"

namespace berth {

memory_source::outcome adaptor::do_allocate(bytes size, stream& s, const block_options* o, source_location site) {
  std::unordered_map<void*, given> one;
  try {
    // Makes room first: a block without a record would have to be freed again.
    one.emplace(nullptr, given{size, s.id(), site});
    const std::lock_guard held{lock_};
    detail::make_room(live_, coming_ + 1);
    if (const auto allowed = before(size, site); !allowed) {
      after_failure(size, allowed.error(), site);
      return failed(allowed.error());
    }
    ++coming_;
  } catch (const std::bad_alloc&) {
    return failed({errc::out_of_memory, "adaptor: no host memory for its own records", size});
  }
  const outcome made = allocate_from(*upstream_, size, s, o, site);
  const std::lock_guard held{lock_};
  --coming_;
  if (made.data == nullptr) {
    take_back(size);
    after_failure(size, *made.why, site);
    return made;
  }
  auto entry = one.extract(nullptr);
  entry.key() = made.data;
  const auto added = live_.insert(std::move(entry));
  after_allocate(made.data, added.position->second);
  return made;
}

void adaptor::do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept {
  {
    const std::lock_guard held{lock_};
    const auto at = live_.find(data);
    expects(at != live_.end(), "adaptor: free of a pointer that is no block of it (foreign, or freed twice)", site);
    const given g = at->second;
    expects(size == any_size || size == g.size, "adaptor: free with another size than was allocated", site);
    expects(stream_id == any_stream || stream_id == g.stream,
            "adaptor: free on another stream than the block's (see use_on)", site);
    live_.erase(at);
    after_free(data, g, site);
  }
  free_to(*upstream_, data, size, stream_id, site);
}

void logging_adaptor::after_allocate(void* data, const given& g) {
  std::fprintf(to_, "allocate %p %" PRIu64 " stream %" PRIu32 " %s:%" PRIu32 "\n", data, g.size, g.stream,
               g.site.file_name(), g.site.line());
}

void logging_adaptor::after_failure(bytes size, const error& why, const source_location& site) {
  std::fprintf(to_, "failed %" PRIu64 " %s %s:%" PRIu32 "\n", size, name(why.code), site.file_name(), site.line());
}

void logging_adaptor::after_free(void* data, const given& g, const source_location& site) noexcept {
  std::fprintf(to_, "free %p %" PRIu64 " stream %" PRIu32 " %s:%" PRIu32 "\n", data, g.size, g.stream, site.file_name(),
               site.line());
}

std::vector<live_block> tracking_adaptor::live_blocks() const {
  const std::lock_guard held{lock_};
  std::vector<live_block> out;
  for (const auto& [data, g] : live_) out.push_back({data, g.size, g.stream, g.site});
  return out;
}

}  // namespace berth

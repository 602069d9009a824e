// The blocks that a guard knows, and its statistics of them.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <new>
#include <numeric>
#include <tuple>
#include <utility>

#include "berth/pool/pool.hpp"
#include "core/countable.hpp"
#include "pool/guard/guard_state.hpp"

namespace berth {

using detail::guarded;

namespace {

constexpr bytes most_quarantine = bytes{64} << 20;
constexpr bytes quarantine_share = 8;  // of what the source may hold

// Returns the options that hold for this source and device.
guard_options settled(guard_options o, bytes most, const device& d) noexcept {
  o.age_alarm = detail::countable(o.age_alarm);
  if (o.quarantine == max_bytes) o.quarantine = std::min(most_quarantine, most / quarantine_share);
  if (!o.pages) return o;
  if (o.red_zone == 0) o.red_zone = 64;
  if (d.properties().host_accessible) return o;
  std::fprintf(stderr, "berth: guard: the host does not reach the memory of %s: patterns behind blocks, no pages\n",
               d.properties().name.c_str());
  o.pages = false;
  return o;
}

}  // namespace

std::uint64_t detail::coarse_ns() noexcept {
  std::timespec t{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

guard_adaptor::state::state(memory_source& m, const guard_options& o)
    : upstream{m},
      untold{memory_source::untold_of(m)},
      most{memory_source::most_of(m)},
      options{settled(o, most, m.get_device())},
      rules{m.get_device().properties().rules},
      quantum{std::lcm(bytes{64},
                       std::lcm(rules.start_alignment, m.get_device().properties().pinned_rules.start_alignment))},
      memory{m.get_device()},
      most_now{most},
      alarm_at_blocks{o.live_alarm != 0 ? o.live_alarm : ~std::uint64_t{0}},
      alarm_at_bytes{o.bytes_alarm != 0 ? o.bytes_alarm : ~bytes{0}},
      next_look_at_ages{o.age_alarm.count() > 0 ? 0 : ~std::uint64_t{0}} {
  show_to_debuggers();
}

guard_adaptor::state::~state() {
  hide_from_debuggers();
}

[[gnu::noinline, gnu::cold]] const detail::call_stack* guard_adaptor::state::keep_stack() noexcept try {
  const detail::call_stack now = detail::take_stack(options.stack_depth, 2);
  const detail::biased_lock::holder held{lock};
  return &*stacks.insert(now).first;
} catch (const std::bad_alloc&) {
  return nullptr;
}

bool guard_adaptor::state::knows(const void* data) const noexcept {
  const detail::biased_lock::holder held{lock};
  return blocks.find(data) != nullptr;
}

void guard_adaptor::state::recycle(guarded* b) noexcept {
  --b->mine.on->blocks;
  for (const detail::block_use& u : b->others) --u.on->blocks;
  b->others.clear();
  b->data = nullptr;
  b->next = std::exchange(spare, b);
}

std::vector<site_holding> guard_adaptor::state::holdings() const {
  struct by_place {
    bool operator()(const guarded* a, const guarded* b) const noexcept {
      const auto key = [](const guarded* g) { return std::tuple{g->site.file_name(), g->site.line(), g->stack}; };
      return key(a) < key(b);
    }
  };
  struct sum {
    std::size_t blocks = 0;
    bytes size = 0;
    const guarded* oldest = nullptr;
  };
  std::map<const guarded*, sum, by_place> places;
  blocks.for_each([&places](const guarded& b) {
    if (b.freed) return;
    sum& s = places[&b];
    ++s.blocks;
    s.size += b.size;
    if (s.oldest == nullptr || b.since < s.oldest->since) s.oldest = &b;
  });
  std::vector<site_holding> out;
  const std::uint64_t now = detail::coarse_ns();
  for (const auto& [one, s] : places) {
    out.push_back({.site = one->site,
                   .blocks = s.blocks,
                   .size = s.size,
                   .oldest_s = static_cast<double>(now - s.oldest->since) * 1e-9,
                   .stream = s.oldest->mine.on->clock->id(),
                   .thread = s.oldest->thread,
                   .oldest = s.oldest->data,
                   .stack = one->stack != nullptr ? detail::text_of(*one->stack) : std::string{}});
  }
  std::ranges::stable_sort(out, std::ranges::greater{}, &site_holding::size);
  return out;
}

// --- queries

guard_statistics guard_adaptor::statistics() const {
  const detail::biased_lock::holder held{state_->lock};
  return state_->sums;
}

std::vector<site_holding> guard_adaptor::live_by_site() const {
  const detail::biased_lock::holder held{state_->lock};
  return state_->holdings();
}

std::vector<live_block> guard_adaptor::live_blocks() const {
  const detail::biased_lock::holder held{state_->lock};
  std::vector<live_block> out;
  state_->blocks.for_each([&out](const guarded& b) {
    if (!b.freed) out.push_back({b.data, b.size, b.mine.on->clock->id(), b.site});
  });
  return out;
}

std::optional<bytes> guard_adaptor::size_of(const void* data) const noexcept {
  const detail::biased_lock::holder held{state_->lock};
  const guarded* const b = state_->blocks.find(data);
  return b != nullptr && !b->freed ? std::optional{b->size} : std::nullopt;
}

const void* guard_adaptor::source_block_of(const void* data) const noexcept {
  const detail::biased_lock::holder held{state_->lock};
  const guarded* const b = state_->blocks.find(data);
  return b != nullptr && !b->freed ? b->raw : nullptr;
}

}  // namespace berth

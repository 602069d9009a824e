#include "trace/arrange.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>

#include "trace/blocks.hpp"

namespace berth::trace {

void decode_records(const stretch& s, std::vector<timed>& out) {
  std::uint64_t now = 0;
  std::size_t open = out.size();  // from here on nothing is known yet of when it was over
  const auto close = [&](const record* before, std::uint64_t at) {
    for (; open < out.size() && out[open].place < before; ++open) out[open].until = at;
  };
  for (const record* at = s.begin; at < s.end; ++at) {
    if (at->kind() == record::gone) continue;
    if (at->kind() != record::stamp) {
      out.push_back({*at, s.thread, now, UINT64_MAX, now, at});
      continue;
    }
    now = at->address;
    close(at, now);
  }
  close(s.seen, s.seen_at);
}

namespace {

class turns {
 public:
  explicit turns(const std::vector<timed>& all) : all_{all} { out_.events.reserve(all.size()); }

  void hear(std::size_t i) {
    place& p = places_[all_[i].what.address];
    settle_late(p, i);
    if (all_[i].what.kind() == record::allocate) {
      if (p.first == none) {
        p.first = i;
      } else if (p.other == none && all_[i].thread != all_[p.first].thread) {
        p.other = i;
      }
      if (p.alive) {
        late& l = late_[all_[i].what.address];
        if (const auto free = take_early_free(i)) {
          l.pairs.push_back({i, *free});
        } else {
          l.open.push_back(i);
        }
      } else {
        allocate(p, i);
      }
    } else if (p.alive && is_size(p.last, i)) {
      emit(i);
      p.alive = false;
      next_late(p, all_[i].what.address);
    } else if (!p.alive || !free_late(i)) {
      early_[all_[i].what.address].push_back(i);
    }
    p.shared = p.shared || (p.heard && p.thread != all_[i].thread);
    p.heard = true;
    p.thread = all_[i].thread;
  }

  arranged finish() {
    std::vector<pair> rest;
    for (const auto& [address, l] : late_) {
      rest.insert(rest.end(), l.pairs.begin(), l.pairs.end());
      for (const std::size_t i : l.open) rest.push_back({i, none});
    }
    std::ranges::sort(rest, {}, &pair::allocation);
    for (pair l : rest) {
      place& p = places_[all_[l.allocation].what.address];
      if (p.alive) {
        auto free = take_any_free(p, p.last, true);
        if (!free && l.free == none) l.free = take_any_free(p, l.allocation, true).value_or(none);
        if (!free && l.free != none && p.shared) {  // it came and went before
          out_.left_out += 2;
          continue;
        }
        if (!free && l.free == none) free = take_any_free(p, p.last, false);
        end(p, free.value_or(none));
      }
      emit(l.allocation);
      p.last = l.allocation;
      p.alive = l.free == none;
      if (!p.alive) emit(l.free);
    }
    for (auto& [address, waiting] : early_) {
      const place& p = places_[address];
      if (const auto free = p.alive ? take_any_free(p, p.last, true) : std::nullopt) emit(*free);
      for (const std::size_t i : waiting) out_.orphans.push_back(all_[i]);
    }
    std::ranges::sort(out_.orphans, {}, &timed::from);
    return std::move(out_);
  }

 private:
  static constexpr std::size_t none = SIZE_MAX;
  struct place {
    bool alive = false;
    std::size_t first = none;  // allocation
    std::size_t other = none;  // the first by another thread
    std::size_t last = 0;      // the allocation
    bool heard = false;
    bool shared = false;  // by several threads, so that their order may not be known
    std::uint32_t thread = 0;
  };
  struct pair {
    std::size_t allocation, free;
  };
  // Allocations at the place of a live block: those whose free is known, and the others.
  struct late {
    std::vector<pair> pairs;
    std::vector<std::size_t> open;
  };

  // A free has the requested size, which identifies its block at an address that several threads use.
  [[nodiscard]] bool is_size(std::size_t i, std::size_t k) const { return all_[i].what.size() == all_[k].what.size(); }

  void emit(const timed& t) {
    out_.events.push_back(t);
    out_.events.back().earliest = t.from;
    now_ = out_.events.back().from = std::max(now_, t.from);
  }
  void emit(std::size_t i) { emit(all_[i]); }

  void allocate(place& p, std::size_t i) {
    emit(i);
    p.alive = true;
    p.last = i;
    const auto free = take_early_free(i);
    if (!free) return;
    emit(*free);
    p.alive = false;
    next_late(p, all_[i].what.address);
  }

  // Takes a free that was seen before the allocation and may be its own. It is by another thread, and was not certainly
  // over.
  std::optional<std::size_t> take_early_free(std::size_t i) {
    const auto early = early_.find(all_[i].what.address);
    if (early == early_.end()) return std::nullopt;
    const auto own = std::ranges::find_if(early->second, [&](std::size_t k) {
      return is_size(i, k) && all_[k].thread != all_[i].thread && all_[k].until >= all_[i].from;
    });
    if (own == early->second.end()) return std::nullopt;
    const std::size_t k = *own;
    early->second.erase(own);
    return k;
  }

  // Takes, for a block without a free of its own, any free without an allocation. Skips a free that certainly precedes
  // every allocation there: its block is older than the recording. With `exactly` takes one of the block's size.
  std::optional<std::size_t> take_any_free(const place& p, std::size_t block, bool exactly) {
    const auto early = early_.find(all_[block].what.address);
    if (early == early_.end()) return std::nullopt;
    const auto may_follow = [&](std::size_t allocation, std::size_t k) {
      if (allocation == none) return false;
      const timed& a = all_[allocation];
      return a.thread == all_[k].thread ? allocation < k : a.from <= all_[k].until;
    };
    const auto own = std::ranges::find_if(early->second, [&](std::size_t k) {
      return (!exactly || is_size(block, k)) && (may_follow(p.first, k) || may_follow(p.other, k));
    });
    if (own == early->second.end()) return std::nullopt;
    const std::size_t k = *own;
    early->second.erase(own);
    return k;
  }

  // Returns whether the free is that of an allocation that waits for the block that is alive.
  bool free_late(std::size_t i) {
    const auto waiting = late_.find(all_[i].what.address);
    if (waiting == late_.end()) return false;
    auto& [pairs, open] = waiting->second;
    const auto own = std::ranges::find_if(open, [&](std::size_t k) { return is_size(k, i); });
    if (own == open.end()) return false;
    pairs.push_back({*own, i});
    open.erase(own);
    return true;
  }

  // Ends the live block, by a free of any size, or by one made up if there is none.
  void end(place& p, std::size_t free) {
    timed ends = all_[free == none ? p.last : free];
    if (free == none) ends.from = now_;
    ends.what.size_and_kind = all_[p.last].what.size() << 2 | std::uint64_t{record::free};
    emit(ends);
    p.alive = false;
  }

  // Ends blocks of an address of one thread, if a waiting allocation was over before event i. A free between them by
  // any thread would have been seen by now: it is missing.
  void settle_late(place& p, std::size_t i) {
    while (p.alive && !p.shared) {
      const auto waiting = late_.find(all_[i].what.address);
      if (waiting == late_.end()) return;
      const auto& [pairs, open] = waiting->second;
      const std::size_t next = std::min(pairs.empty() ? none : pairs[0].allocation, open.empty() ? none : open[0]);
      if (all_[next].until >= all_[i].from) return;
      end(p, none);
      next_late(p, all_[i].what.address);
    }
  }

  // Emits the waiting pairs first: an allocation without a free may stay.
  void next_late(place& p, std::uint64_t address) {
    const auto waiting = late_.find(address);
    if (waiting == late_.end()) return;
    auto& [pairs, open] = waiting->second;
    for (const pair& one : pairs) {
      emit(one.allocation);
      emit(one.free);
    }
    pairs.clear();
    std::size_t next = none;
    if (!open.empty()) {
      next = open.front();
      open.erase(open.begin());
    }
    if (open.empty()) late_.erase(waiting);
    if (next != none) allocate(p, next);
  }

  const std::vector<timed>& all_;
  arranged out_;
  std::uint64_t now_ = 0;
  std::unordered_map<std::uint64_t, place> places_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> early_;  // frees
  std::unordered_map<std::uint64_t, late> late_;
};

}  // namespace

arranged arrange(std::vector<timed> all) {
  std::ranges::stable_sort(all, {}, &timed::from);
  turns t{all};
  for (std::size_t i = 0; i < all.size(); ++i) t.hear(i);
  return t.finish();
}

std::vector<const timed*> alive(const arranged& a) {
  const auto is_allocation = [](const timed& t) { return t.what.kind() == record::allocate; };
  const auto other = partners(a.events, is_allocation, [](const timed& t) { return t.what.address; });
  std::vector<const timed*> out;
  for (std::size_t i = 0; i < other.size(); ++i) {
    if (is_allocation(a.events[i]) && other[i] == no_event) out.push_back(&a.events[i]);
  }
  return out;
}

void owners::note(const record* at, const record* end, std::uint32_t thread) noexcept {
  const owner me = owner_of(thread);
  const auto add = [me](owner& to) { to = to == nobody || to == me ? me : several; };
  for (; at < end; ++at) {
    if (at->kind() == record::stamp || at->kind() == record::gone) continue;
    const std::uint64_t h = mixed(at->address);
    add(of_[h % places]);
    add(of_[places + h / places % places]);
  }
}

std::uint32_t forget_pairs(chunk& c, const owners* among) noexcept {
  constexpr std::uint32_t most_slots = 8192;
  static_assert(most_slots > 2 * chunk::most_records);
  const std::uint32_t slots = std::bit_ceil(2 * c.count + 2);
  const int shift = 64 - std::countr_zero(slots);
  std::array<std::uint16_t, most_slots> last_at;  // by address: its last allocation's place, from 1
  std::fill_n(last_at.begin(), slots, std::uint16_t{0});
  std::bitset<chunk::most_records> gone;
  std::uint32_t forgotten = 0;
  for (std::uint32_t i = 0; i < c.count; ++i) {
    const record& r = c.records[i];
    if (r.kind() == record::stamp || r.kind() == record::gone) continue;
    auto slot = static_cast<std::uint32_t>((r.address * 0x9E3779B97F4A7C15u) >> shift);
    while (last_at[slot] != 0 && c.records[last_at[slot] - 1u].address != r.address) slot = (slot + 1) & (slots - 1);
    if (r.kind() == record::allocate) {
      last_at[slot] = static_cast<std::uint16_t>(i + 1);
    } else if (last_at[slot] != 0 && !gone[last_at[slot] - 1u] &&
               (among == nullptr || among->has_alone(c.thread, r.address))) {
      gone.set(last_at[slot] - 1u);
      gone.set(i);
      forgotten += 2;
    }
  }
  std::uint32_t left = 0;
  const record* stamp = nullptr;  // not yet written
  record time{};
  for (std::uint32_t i = 0; i < c.count; ++i) {
    if (c.records[i].kind() == record::stamp) {
      time = c.records[i];
      stamp = &time;
    } else if (!gone[i] && c.records[i].kind() != record::gone) {
      if (stamp != nullptr) c.records[left++] = *std::exchange(stamp, nullptr);
      c.records[left++] = c.records[i];
    }
  }
  c.count = left;
  return forgotten;
}

std::vector<timed> settle(std::span<const stretch> old, std::span<const stretch> later,
                          const std::unordered_set<std::uint64_t>& busy, std::uint64_t& forgotten) {
  std::vector<timed> all, kept, some;
  std::unordered_set<std::uint64_t> settled;
  for (const stretch& s : old) decode_records(s, some);
  for (timed& t : some) {
    t.place = nullptr;
    const bool left = busy.contains(t.what.address);
    (left ? kept : all).push_back(t);
    if (!left) settled.insert(t.what.address);
  }
  for (const stretch& s : later) {
    some.clear();
    decode_records(s, some);
    std::ranges::copy_if(some, std::back_inserter(all),
                         [&](const timed& t) { return settled.contains(t.what.address); });
  }
  std::size_t gone = all.size();
  const arranged a = arrange(std::move(all));
  std::unordered_set<const record*> stay;
  const auto keep = [&](const timed& t) {
    --gone;
    if (t.place != nullptr) {
      stay.insert(t.place);
    } else {
      kept.push_back(t);
      kept.back().from = t.earliest;
    }
  };
  std::ranges::for_each(a.orphans, keep);
  for (const timed* t : alive(a)) keep(*t);
  std::ranges::stable_sort(kept, [](const timed& x, const timed& y) {
    return x.thread != y.thread ? x.thread < y.thread : x.from < y.from;
  });
  forgotten += gone;
  for (const stretch& s : later) {
    for (record* r = s.begin; r < s.end; ++r) {
      if (r->kind() == record::stamp || !settled.contains(r->address) || stay.contains(r)) continue;
      r->size_and_kind |= std::uint64_t{record::gone};
    }
  }
  return kept;
}

}  // namespace berth::trace

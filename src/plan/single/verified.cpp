#include "plan/single/verified.hpp"

#include <algorithm>
#include <numeric>

#include "berth/plan/verify.hpp"
#include "plan/policy.hpp"
#include "plan/verify/within.hpp"

namespace berth::plan {
namespace {

std::optional<plan> stacked(const problem& p) {
  if (p.memories.size() > 1 || p.max_slab) return {};
  const bytes common = p.memories.empty() ? 1 : p.memories[0].alignment;
  constexpr bytes unplaced = max_bytes;
  struct base {
    bytes size = 0;
    bytes alignment = 1;
    bytes at = unplaced;
  };
  std::vector<base> group;  // by number; none where there are no groups
  bytes top = 0, largest = 0;
  plan out{.offsets = std::vector<bytes>(p.buffers.size(), 0), .status = status::feasible, .solver = "stacked"};
  index tallest = 0;
  if (!p.memories.empty()) {
    for (const auto& [lo, hi] : p.memories[0].reserved) top = std::max(top, hi);
  }
  for (index i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    const bytes size = p.footprint(i);
    if (size > largest) tallest = i;
    largest = std::max(largest, size);
    if (b.offset) top = std::max(top, *b.offset + size);
    if (!b.alias_group) continue;
    if (group.empty()) group.resize(p.buffers.size());
    base& of = group[*b.alias_group];
    of.size = std::max(of.size, size);
    of.alignment = std::lcm(of.alignment, p.alignment_of(i));
    if (b.offset) {
      of.at = *b.offset;
      top = std::max(top, of.at + of.size);
    }
  }
  const auto put = [&](bytes size, bytes alignment) {
    const bytes at = align_up(top, std::lcm(alignment, common));
    top = at + size;
    return at;
  };
  for (index i = 0; i < p.buffers.size() && top <= max_address; ++i) {
    const buffer& b = p.buffers[i];
    if (b.offset) {
      out.offsets[i] = *b.offset;
    } else if (b.alias_group) {
      base& of = group[*b.alias_group];
      if (of.at == unplaced) of.at = put(of.size, of.alignment);
      out.offsets[i] = of.at;
    } else {
      out.offsets[i] = put(p.footprint(i), p.alignment_of(i));
    }
    out.arena_bytes = std::max(out.arena_bytes, out.offsets[i] + p.footprint(i));
  }
  out.lower_bound_bytes = largest;
  if (largest != 0) out.proof.push_back({.bound = largest, .buffers = {tallest}});
  if (out.arena_bytes == largest) out.status = status::optimal;
  if (top > max_address || verify(p, out)) return {};
  return out;
}

}  // namespace

bool verified::are_many() const noexcept {
  return p_.buffers.size() > policy::most_at_once;
}

void verified::consider(const plan& candidate) {
  if (!are_many() || !wait_.may_end() || !candidate.has_offsets()) return;
  if (best_ && best_->arena_bytes <= candidate.arena_bytes) return;
  if (!verify_within(p_, candidate, wait_) && !wait_.was_over()) best_ = candidate;
}

std::optional<plan> verified::take() {
  return best_ ? std::move(best_) : stacked(p_);
}

bool verified::has(const plan& candidate) const {
  return best_ && best_->offsets == candidate.offsets && candidate.memory_of.empty() && candidate.slab_of.empty() &&
         best_->arena_bytes == candidate.arena_bytes && candidate.reuse_penalty == 0;
}

}  // namespace berth::plan

#include "plan/model/canonical.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <tuple>
#include <utility>

#include "plan/mix.hpp"
#include "plan/sort_within.hpp"

namespace berth::plan {
namespace {

using colour = std::uint64_t;

constexpr int refinements = 4;

struct key {
  tick lower = 0, upper = 0;
  bytes size = 0;
  colour rest = 0;
  index given = 0;

  friend bool operator<(const key& x, const key& y) {
    if (x.lower != y.lower) return x.lower < y.lower;
    if (x.upper != y.upper) return x.upper < y.upper;
    if (x.size != y.size) return x.size > y.size;
    return x.rest != y.rest ? x.rest < y.rest : x.given < y.given;
  }
};

key key_of(const problem& p, index i) {
  const buffer& b = p.buffers[i];
  if (p.conflicts) return {0, 0, p.footprint(i), 0, i};
  if (b.lifetimes.empty()) return {b.live.lower, b.live.upper, p.footprint(i), 0, i};
  return {b.lifetimes.front().lower, b.lifetimes.back().upper, p.footprint(i), 0, i};
}

// Combines all fields of one buffer but for its name and group.
colour colour_of(const problem& p, index i) {
  const buffer& b = p.buffers[i];
  colour c = mix(b.size + 1);
  const auto add = [&c](std::uint64_t field) { c = mix(c ^ (field + 0x9e3779b97f4a7c15U)); };
  add(p.alignment_of(i));
  add(p.granularity_of(i));
  add(p.tail_pad_of(i));
  add(b.offset.value_or(~bytes{0}));
  add(b.hint.value_or(~bytes{0}));
  for (const index m : b.memories) add(m);
  if (p.conflicts) return c;
  add(b.memories.size());
  for (const interval& t : b.lifetimes) {
    add(static_cast<std::uint64_t>(t.lower));
    add(static_cast<std::uint64_t>(t.upper));
  }
  return c;
}

bool has_relations(const problem& p) {
  return p.conflicts || !p.separations.empty() || !p.reuse_penalties.empty() ||
         std::any_of(p.buffers.begin(), p.buffers.end(), [](const buffer& b) { return b.alias_group.has_value(); });
}

// Adds to each colour the sum of the colours of the partners: a sum is the same in any order.
std::vector<colour> refined(const problem& p, const std::vector<colour>& before) {
  std::vector<colour> out(before.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = mix(before[i] ^ 1);
  const auto join = [&](index a, index b, colour kind) {
    out[a] += mix(before[b] ^ kind);
    out[b] += mix(before[a] ^ kind);
  };
  if (p.conflicts) {
    for (const pair& c : *p.conflicts) join(c.a, c.b, 0x1111);
  }
  for (const pair& c : p.separations) join(c.a, c.b, 0x2222);
  for (const reuse_penalty& c : p.reuse_penalties) join(c.a, c.b, mix(std::bit_cast<std::uint64_t>(c.weight)));
  std::vector<colour> group;
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (!p.buffers[i].alias_group) continue;
    if (group.empty()) group.resize(p.buffers.size(), 0);
    group[*p.buffers[i].alias_group] += mix(before[i] ^ 0x3333);
  }
  for (index i = 0; i < p.buffers.size() && !group.empty(); ++i) {
    if (p.buffers[i].alias_group) out[i] += mix(group[*p.buffers[i].alias_group]);
  }
  return out;
}

void add_colours(const problem& p, std::vector<key>& keys) {
  std::vector<colour> colours(keys.size());
  for (index i = 0; i < keys.size(); ++i) {
    const key& k = keys[i];
    colours[i] = mix(colour_of(p, i) ^ static_cast<colour>(k.lower) ^ mix(static_cast<colour>(k.upper)));
  }
  if (has_relations(p)) {
    for (int round = 0; round < refinements; ++round) colours = refined(p, colours);
  }
  for (index i = 0; i < keys.size(); ++i) keys[i].rest = colours[i];
}

// Sorts buffers that agree in all else by name, where they have one.
void sort_ties(const problem& p, std::vector<key>& keys) {
  const auto tie = [](const key& x, const key& y) {
    return std::tuple{x.lower, x.upper, x.size, x.rest} == std::tuple{y.lower, y.upper, y.size, y.rest};
  };
  const auto by_name = [&p](const key& x, const key& y) {
    const int order = p.buffers[x.given].name.compare(p.buffers[y.given].name);
    return order != 0 ? order < 0 : x.given < y.given;
  };
  for (std::size_t k = 0; k + 1 < keys.size();) {
    std::size_t end = k + 1;
    while (end < keys.size() && tie(keys[k], keys[end])) ++end;
    const auto at = keys.begin();
    if (end - k > 1) std::sort(at + static_cast<std::ptrdiff_t>(k), at + static_cast<std::ptrdiff_t>(end), by_name);
    k = end;
  }
}

// Returns the problem with buffer given[k] as buffer k, groups numbered as they come, and relations sorted.
problem permuted(const problem& p, const std::vector<index>& given) {
  constexpr index none = ~index{0};
  problem out;
  out.alignment = p.alignment;
  out.granularity = p.granularity;
  out.tail_pad = p.tail_pad;
  out.capacity = p.capacity;
  out.max_slab = p.max_slab;
  out.memories = p.memories;
  std::vector<index> at(given.size()), group(given.size(), none);
  out.buffers.reserve(given.size());
  index groups = 0;
  for (index k = 0; k < given.size(); ++k) {
    const buffer& b = p.buffers[given[k]];
    at[given[k]] = k;
    buffer& q = out.buffers.emplace_back();
    q.size = b.size;
    q.live = b.live;
    q.lifetimes = b.lifetimes;
    q.alignment = b.alignment;
    q.granularity = b.granularity;
    q.tail_pad = b.tail_pad;
    q.offset = b.offset;
    q.hint = b.hint;
    q.memories = b.memories;
    if (!b.alias_group) continue;
    index& number = group[*b.alias_group];
    if (number == none) number = groups++;
    q.alias_group = number;
  }
  const auto renamed = [&at](const pair& c) { return pair{std::min(at[c.a], at[c.b]), std::max(at[c.a], at[c.b])}; };
  const auto before = [](const auto& x, const auto& y) { return x.a != y.a ? x.a < y.a : x.b < y.b; };
  if (p.conflicts) {
    out.conflicts.emplace().reserve(p.conflicts->size());
    for (const pair& c : *p.conflicts) out.conflicts->push_back(renamed(c));
    std::sort(out.conflicts->begin(), out.conflicts->end(), before);
  }
  for (const pair& c : p.separations) out.separations.push_back(renamed(c));
  std::sort(out.separations.begin(), out.separations.end(), before);
  for (const reuse_penalty& c : p.reuse_penalties) {
    const pair r = renamed({c.a, c.b});
    out.reuse_penalties.push_back({r.a, r.b, c.weight});
  }
  std::sort(out.reuse_penalties.begin(), out.reuse_penalties.end(), [](const auto& x, const auto& y) {
    return x.a != y.a ? x.a < y.a : x.b != y.b ? x.b < y.b : x.weight < y.weight;
  });
  return out;
}

bool are_sorted(const problem& p) {
  const auto before = [](const auto& x, const auto& y) { return x.a != y.a ? x.a < y.a : x.b < y.b; };
  const auto sorted = [&](const auto& list) {
    return std::is_sorted(list.begin(), list.end(), before) &&
           std::all_of(list.begin(), list.end(), [](const auto& c) { return c.a < c.b; });
  };
  return (!p.conflicts || sorted(*p.conflicts)) && sorted(p.separations) && sorted(p.reuse_penalties);
}

}  // namespace

std::optional<reordered> in_canonical_order(const problem& p, const patience& wait) {
  std::vector<key> keys;
  keys.reserve(p.buffers.size());
  bool in_order = true, ties = has_relations(p);
  for (index i = 0; i < p.buffers.size(); ++i) {
    keys.push_back(key_of(p, i));
    if (i == 0) continue;
    in_order = in_order && !(keys[i] < keys[i - 1]);
    const auto place = [](const key& k) { return std::tuple{k.lower, k.upper, k.size}; };
    ties = ties || place(keys[i]) == place(keys[i - 1]);
  }
  // Unsorted buffers may tie with any other.
  if (ties || !in_order) {
    add_colours(p, keys);
    in_order = std::is_sorted(keys.begin(), keys.end());
  }
  if (in_order && !ties && are_sorted(p)) return {};
  if (!in_order && !sort_within(keys.begin(), keys.end(), std::less<>{}, wait)) return {};
  sort_ties(p, keys);
  if (wait.over(8 * keys.size())) return {};
  const auto given = [](const key& x, const key& y) { return x.given < y.given; };
  if (std::is_sorted(keys.begin(), keys.end(), given) && are_sorted(p)) return {};
  reordered out;
  out.given.reserve(keys.size());
  for (const key& k : keys) out.given.push_back(k.given);
  out.in_order = permuted(p, out.given);
  return out;
}

void to_given_order(const reordered& r, plan& of) {
  const auto rename = [&r]<class T>(std::vector<T>& by_buffer) {
    if (by_buffer.empty()) return;
    std::vector<T> out(by_buffer.size());
    for (index k = 0; k < out.size(); ++k) out[r.given[k]] = by_buffer[k];
    by_buffer = std::move(out);
  };
  rename(of.offsets);
  rename(of.memory_of);
  rename(of.slab_of);
  for (argument& why : of.proof) {
    for (index& i : why.buffers) i = r.given[i];
  }
  if (of.reason.starts_with("buffer")) of.culprit = r.given[of.culprit];
}

std::vector<double> in_order_of(const reordered& r, std::span<const double> given) {
  std::vector<double> out;
  out.reserve(r.given.size());
  for (const index i : r.given) out.push_back(given[i]);
  return out;
}

}  // namespace berth::plan

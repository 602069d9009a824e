#include "plan/verify/bodies.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace berth::plan {
namespace {

std::span<const interval> lives(const buffer& b) {
  return b.lifetimes.empty() ? std::span{&b.live, 1} : std::span{b.lifetimes};
}

bool meet(const buffer& a, const buffer& b) {
  const auto x = lives(a), y = lives(b);
  for (std::size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    if (x[i].lower < y[j].upper && y[j].lower < x[i].upper) return true;
    ++(x[i].upper <= y[j].upper ? i : j);
  }
  return false;
}

class maker {
 public:
  maker(const problem& p, index m) : p_{p} {
    const auto add = [this](const pair& c) { apart_.emplace(std::min(c.a, c.b), std::max(c.a, c.b)); };
    for (const pair& c : p.separations) add(c);
    if (p.conflicts) {
      for (const pair& c : *p.conflicts) add(c);
    }
    if (!p.memories.empty()) memory_ = &p.memories[m];
  }

  bodies make(std::span<const std::vector<index>> bases) {
    bodies out;
    out.of_buffer.assign(p_.buffers.size(), bodies::no_body);
    for (const std::vector<index>& members : bases) add(members, out);
    join();
    out.neighbours.resize(out.all.size());
    for (std::uint32_t i = 0; i < out.all.size(); ++i) {
      for (std::uint32_t j = 0; j < out.all.size(); ++j) {
        neighbour n{.other = j};
        if (i != j && conflict(out.all[i], out.all[j], n)) out.neighbours[i].push_back(n);
      }
    }
    out.reserved = reserved_;
    find_unit(out);
    return out;
  }

 private:
  void add(const std::vector<index>& members, bodies& out) {
    body b;
    if (memory_ != nullptr) b.alignment = memory_->alignment;
    for (const index i : members) {
      const bytes own = p_.alignment_of(i), factor = own / std::gcd(own, b.alignment);
      // Beyond all addresses one multiple is as good as another.
      b.alignment = b.alignment > max_address / factor ? max_address : b.alignment * factor;
      if (p_.buffers[i].offset) b.pin = p_.buffers[i].offset;
      b.size = std::max(b.size, p_.footprint(i));
      if (p_.footprint(i) != 0) b.parts.push_back(i);
    }
    if (b.parts.empty()) return;
    for (const index i : b.parts) out.of_buffer[i] = static_cast<std::uint32_t>(out.all.size());
    out.all.push_back(std::move(b));
  }

  // Sorts the reserved ranges and joins those that touch.
  void join() {
    if (memory_ == nullptr) return;
    auto all = memory_->reserved;
    std::sort(all.begin(), all.end());
    for (auto [lo, hi] : all) {
      hi = std::min(hi, max_address);
      if (lo >= hi) continue;
      if (!reserved_.empty() && lo <= reserved_.back().second) {
        reserved_.back().second = std::max(reserved_.back().second, hi);
      } else {
        reserved_.emplace_back(lo, hi);
      }
    }
  }

  bool conflict(const body& a, const body& b, neighbour& n) const {
    for (const index x : a.parts) {
      for (const index y : b.parts) {
        if (!(!p_.conflicts && meet(p_.buffers[x], p_.buffers[y])) &&
            !apart_.contains({std::min(x, y), std::max(x, y)}))
          continue;
        n.mine = std::max(n.mine, p_.footprint(x));
        n.theirs = std::max(n.theirs, p_.footprint(y));
      }
    }
    return n.mine != 0;
  }

  // An alignment that divides all sizes is met by itself, as long as the unit does not become finer.
  void find_unit(bodies& out) const {
    bytes unit = 0;
    for (const body& b : out.all) {
      for (const index i : b.parts) unit = std::gcd(unit, p_.footprint(i));
      unit = std::gcd(unit, b.pin.value_or(0));
    }
    for (const auto& [lo, hi] : out.reserved) unit = std::gcd(unit, std::gcd(lo, hi));
    for (bytes before = 0; before != unit;) {
      before = unit;
      for (const body& b : out.all) {
        if (unit % b.alignment != 0) unit = std::gcd(unit, b.alignment);
      }
    }
    out.unit = std::max<bytes>(unit, 1);
  }

  const problem& p_;
  const memory* memory_ = nullptr;
  std::set<std::pair<index, index>> apart_;
  std::vector<std::pair<bytes, bytes>> reserved_;
};

// Returns all that shares a base with each of these, once.
std::vector<std::vector<index>> bases_of(const problem& p, const std::vector<char>& wanted) {
  std::vector<std::vector<index>> out;
  std::map<index, std::size_t> group_at;
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (wanted[i] == 0) continue;
    const auto& group = p.buffers[i].alias_group;
    if (!group || group_at.emplace(*group, out.size()).second) out.emplace_back();
    out[group ? group_at.at(*group) : out.size() - 1].push_back(i);
  }
  return out;
}

}  // namespace

bytes bodies::clear(std::uint32_t i, bytes x) const {
  const body& b = all[i];
  const auto up = [&](bytes y) { return (y + b.alignment - 1) / b.alignment * b.alignment; };
  x = up(x);
  for (bool moved = true; moved && x <= max_address;) {
    moved = false;
    auto next = std::partition_point(reserved.begin(), reserved.end(), [x](const auto& r) { return r.second <= x; });
    for (; next != reserved.end() && next->first < x + b.size; ++next, moved = true) x = up(next->second);
    for (const neighbour& n : neighbours[i]) {
      const auto& pin = all[n.other].pin;
      if (!pin || x >= *pin + n.theirs || *pin >= x + n.mine) continue;
      x = up(*pin + n.theirs);
      moved = true;
    }
  }
  return x;
}

const neighbour* bodies::find(std::uint32_t i, std::uint32_t other) const {
  const auto& own = neighbours[i];
  const auto at = std::partition_point(own.begin(), own.end(), [other](const neighbour& n) { return n.other < other; });
  return at != own.end() && at->other == other ? &*at : nullptr;
}

bool lives_only_in(const problem& p, index i, index m) {
  if (p.memories.size() <= 1) return true;
  std::vector<char> shut(p.memories.size(), 0);
  for (index k = 0; k < p.buffers.size(); ++k) {
    const buffer& b = p.buffers[k];
    if (k != i && !(b.alias_group && b.alias_group == p.buffers[i].alias_group)) continue;
    if (b.memories.empty()) continue;
    for (index other = 0; other < p.memories.size(); ++other) {
      if (std::find(b.memories.begin(), b.memories.end(), other) == b.memories.end()) shut[other] = 1;
    }
  }
  shut[m] = 1;
  return std::find(shut.begin(), shut.end(), 0) == shut.end();
}

std::optional<bodies> bodies_of(const problem& p, index m, std::span<const index> wanted) {
  std::vector<char> named(p.buffers.size(), wanted.empty() ? 1 : 0);
  std::set<index> groups;  // of these all members are looked at
  for (const index i : wanted) {
    named[i] = 1;
    if (p.buffers[i].alias_group) groups.insert(*p.buffers[i].alias_group);
  }
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (p.buffers[i].alias_group && groups.contains(*p.buffers[i].alias_group)) named[i] = 1;
  }
  const auto bases = bases_of(p, named);
  const auto parts = static_cast<std::size_t>(std::count(named.begin(), named.end(), 1));
  if (bases.size() > bodies::most || parts > 2 * bodies::most) return {};
  return maker{p, m}.make(bases);
}

}  // namespace berth::plan

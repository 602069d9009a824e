#include "plan/samples.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

#include "berth/plan/solve.hpp"
#include "plan/large_sets.hpp"

namespace berth_bench {
namespace {

using namespace berth::plan;
using berth::bytes;

struct rectangle {
  tick t0, t1;
  bytes y0, y1;
  [[nodiscard]] double area() const { return static_cast<double>(t1 - t0) * static_cast<double>(y1 - y0); }
};

using tiling = std::vector<rectangle>;

// Returns two pieces of a rectangle, or the rectangle if it is one cell.
tiling cut(std::mt19937& random, const rectangle& r) {
  const auto width = static_cast<unsigned>(r.t1 - r.t0);
  const auto height = static_cast<unsigned>(r.y1 - r.y0);
  if (width == 1 && height == 1) return {r};
  if (height == 1 || (width > 1 && random() % 2 != 0)) {
    const tick at = r.t0 + 1 + random() % (width - 1);
    return {{r.t0, at, r.y0, r.y1}, {at, r.t1, r.y0, r.y1}};
  }
  const bytes at = r.y0 + 1 + random() % (height - 1);
  return {{r.t0, r.t1, r.y0, at}, {r.t0, r.t1, at, r.y1}};
}

// Returns four arms around a centre: no cut goes through.
tiling wheel(std::mt19937& random, const rectangle& r) {
  const auto width = static_cast<unsigned>(r.t1 - r.t0);
  const auto height = static_cast<unsigned>(r.y1 - r.y0);
  if (width < 3 || height < 3) return cut(random, r);
  const tick left = r.t0 + 1 + random() % (width / 2);
  const tick right = left + 1 + random() % static_cast<unsigned>(r.t1 - left - 1);
  const bytes low = r.y0 + 1 + random() % (height / 2);
  const bytes high = low + 1 + random() % static_cast<unsigned>(r.y1 - low - 1);
  return {{r.t0, right, r.y0, low},
          {right, r.t1, r.y0, high},
          {left, r.t1, high, r.y1},
          {r.t0, left, low, r.y1},
          {left, right, low, high}};
}

// Splits pieces until there are `pieces`: the oldest ones first (by depth), or the largest (by area).
tiling tile(std::mt19937& random, const rectangle& all, std::size_t pieces, bool by_area, bool wheels) {
  tiling out{all};
  for (std::size_t next = 0, idle = 0; out.size() < pieces && idle < pieces;) {
    if (by_area) {
      next = static_cast<std::size_t>(
          std::max_element(out.begin(), out.end(), [](auto& a, auto& b) { return a.area() < b.area(); }) - out.begin());
    }
    const tiling parts = wheels ? wheel(random, out[next]) : cut(random, out[next]);
    idle = parts.size() == 1 ? idle + 1 : 0;
    if (by_area) {
      out[next] = parts[0];
      out.insert(out.end(), parts.begin() + 1, parts.end());
    } else {
      out.erase(out.begin());
      out.insert(out.end(), parts.begin(), parts.end());
    }
  }
  return out;
}

problem problem_of(std::mt19937& random, tiling pieces) {
  std::shuffle(pieces.begin(), pieces.end(), random);
  problem p;
  for (const rectangle& r : pieces) p.add({.size = r.y1 - r.y0, .live = {r.t0, r.t1}});
  return p;
}

}  // namespace

void add_tilings(families& out, unsigned seeds) {
  for (unsigned seed = 0; seed < 4 * seeds; ++seed) {
    std::mt19937 random(seed);
    const bool by_area = seed % 2 != 0;
    const std::size_t pieces = 100U << seed % 3;
    const std::string name = (by_area ? "area " : "depth ") + std::to_string(pieces) + " " + std::to_string(seed);
    out["tiling, coarse"].push_back({name, problem_of(random, tile(random, {0, 60, 0, 256}, pieces, by_area, false))});
    const rectangle fine{0, 100'000, 0, 100'000'000};
    out["tiling, fine"].push_back({name, problem_of(random, tile(random, fine, pieces, by_area, false))});
    out["pinwheels"].push_back({name, problem_of(random, tile(random, {0, 4000, 0, 40'000}, pieces, by_area, true))});
  }
}

void add_full(families& out, unsigned seeds) {
  for (unsigned seed = 0; seed < 10 * seeds; ++seed) {
    std::mt19937 random(seed);
    const unsigned live = 4 + seed % 5;
    const tick end = 8 + static_cast<tick>(seed % 3) * 4;
    tiling pieces{{0, end, 0, 20 * live}};
    std::vector<std::size_t> alive{0};
    for (tick now = 0; now < end; ++now) {
      bytes room = 0;
      std::shuffle(alive.begin(), alive.end(), random);
      for (unsigned k = 0; k < 2 && !alive.empty(); ++k) {
        pieces[alive.back()].t1 = now;
        room += pieces[alive.back()].y1;
        alive.pop_back();
      }
      while (room != 0) {
        const bytes size = alive.size() + 1 >= live ? room : std::min<bytes>(room, 1 + random() % 40);
        alive.push_back(pieces.size());
        pieces.push_back({now, end, 0, size});
        room -= size;
      }
    }
    std::erase_if(pieces, [](const rectangle& r) { return r.t0 == r.t1; });
    out["full"].push_back(
        {std::to_string(live) + " alive " + std::to_string(seed), problem_of(random, std::move(pieces))});
  }
}

void add_aligned(families& out, unsigned seeds) {
  for (unsigned seed = 0; seed < 10 * seeds; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    const unsigned buffers = 16 + 6 * (seed % 5);
    const unsigned end = 6 + 2 * (seed % 3);
    problem p;
    for (unsigned i = 0; i < buffers; ++i) {
      const auto lower = static_cast<tick>(below(end));
      const tick upper = std::min<tick>(end, lower + 2 + below(end / 2));
      p.add({.size = 3 + below(10), .live = {lower, upper}, .alignment = bytes{1} << below(3)});
    }
    out["aligned"].push_back({std::to_string(buffers) + " aligned " + std::to_string(seed), std::move(p)});
  }
}

// Alignments from a cache line to a huge page, all at once or in time; sizes evenly over their magnitudes.
void add_alignments(families& out, unsigned seeds) {
  for (unsigned seed = 0; seed < 8 * seeds; ++seed) {
    std::mt19937 random(7000 + seed);
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    const unsigned buffers = 40U << (seed % 4);
    const bool at_once = seed / 4 % 2 == 0;
    problem p;
    for (unsigned i = 0; i < buffers; ++i) {
      const tick lower = at_once ? 0 : static_cast<tick>(below(buffers));
      const tick upper = lower + 1 + (at_once ? 0 : static_cast<tick>(below(20)));
      const bytes magnitude = bytes{1} << (6 + below(17));
      const bytes size = magnitude + random() % magnitude;
      p.add({.size = size, .live = {lower, upper}, .alignment = bytes{64} << 3 * below(6)});
    }
    out["alignments"].push_back({std::to_string(buffers) + " alignments " + std::to_string(seed), std::move(p)});
  }
}

void add_crowded(families& out, unsigned seeds) {
  for (unsigned seed = 0; seed < 2 * seeds; ++seed) {
    std::mt19937 random(1000 + seed);
    const std::size_t small = 100 + 400 * (seed % 3);
    tiling pieces = tile(random, {0, 60, 0, 256}, 160, seed % 2 != 0, false);
    for (std::size_t k = 0; k < small; ++k) {
      const tick from = 60 + static_cast<tick>(random() % 200);
      pieces.push_back({from, from + 1 + static_cast<tick>(random() % 12), 0, 1 + random() % 6});
    }
    out["crowded"].push_back({std::to_string(small) + " beside " + std::to_string(seed), problem_of(random, pieces)});
  }
}

void add_loose(families& out, unsigned seeds) {
  for (unsigned seed = 0; seed < 2 * seeds; ++seed) {
    std::mt19937 random(2000 + seed);
    tiling pieces = tile(random, {0, 60, 0, 1024}, seed % 2 != 0 ? 100 : 200, seed % 4 > 1, false);
    for (rectangle& r : pieces) {
      if (r.y1 - r.y0 > 8) r.y1 -= random() % ((r.y1 - r.y0) / 16 + 1);
    }
    out["loose"].push_back(
        {std::to_string(pieces.size()) + " loose " + std::to_string(seed), problem_of(random, pieces)});
  }
}

void add_mixed(families& out, unsigned seeds) {
  for (unsigned seed = 0; seed < 4 * seeds; ++seed) {
    std::mt19937 random(3000 + seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const std::size_t n = 20 + 100 * below(2) + below(20);
    const std::size_t end = n / 3;
    problem p;
    for (std::size_t i = 0; i < n; ++i) {
      const auto lower = static_cast<tick>(below(end));
      buffer b{.size = 1 + below(200), .live = {lower, lower + 1 + static_cast<tick>(below(end / 3 + 1))}};
      if (below(3) == 0) b.alignment = bytes{1} << below(5);
      if (below(6) == 0) b.lifetimes = {b.live, {b.live.upper + 2, b.live.upper + 4}};
      if (below(10) == 0) b.alias_group = static_cast<index>(below(n / 10));
      p.add(b);
    }
    for (std::size_t k = 0; k < n / 10; ++k) {
      const pair apart{static_cast<index>(below(n)), static_cast<index>(below(n))};
      const buffer& a = p.buffers[apart.a];
      const buffer& b = p.buffers[apart.b];
      if (apart.a != apart.b && !(a.alias_group && a.alias_group == b.alias_group)) p.separations.push_back(apart);
    }
    if (seed % 2 != 0) p.memories = {{.name = "m", .reserved = {{64, 192}}}};
    out["mixed"].push_back({std::to_string(n) + " mixed " + std::to_string(seed), std::move(p)});
  }
}

namespace {

// Puts pieces that begin at one address into groups of two.
void group(problem& p, const tiling& pieces) {
  std::map<bytes, std::vector<index>> at;
  for (index i = 0; i < pieces.size(); ++i) at[pieces[i].y0].push_back(i);
  index groups = 0;
  for (const auto& [y0, all] : at) {
    for (std::size_t k = 0; k + 1 < all.size(); k += 2, ++groups) {
      p.buffers[all[k]].alias_group = p.buffers[all[k + 1]].alias_group = groups;
    }
  }
}

void give_conflicts(problem& p, const tiling& pieces) {
  std::vector<index> by_start(pieces.size()), alive;
  std::iota(by_start.begin(), by_start.end(), index{0});
  std::sort(by_start.begin(), by_start.end(), [&](index a, index b) { return pieces[a].t0 < pieces[b].t0; });
  p.conflicts.emplace();
  for (const index i : by_start) {
    std::erase_if(alive, [&](index j) { return pieces[j].t1 <= pieces[i].t0; });
    for (const index j : alive) p.conflicts->push_back({j, i});
    alive.push_back(i);
  }
}

// Stacks tilings, with a reserved range between each and the next.
problem between_reserved(std::mt19937& random, std::size_t pieces, const rectangle& all) {
  constexpr bytes bands = 17;
  problem p;
  p.memories.resize(1);
  bytes y = all.y0;
  for (bytes k = 0; k < bands; ++k) {
    const bytes end = y + 1 + all.y1 / bands / 2 + random() % (all.y1 / bands);
    for (const rectangle& r : tile(random, {all.t0, all.t1, y, end}, pieces / bands, false, false)) {
      p.add({.size = r.y1 - r.y0, .live = {r.t0, r.t1}});
    }
    if (k + 1 < bands) p.memories[0].reserved.push_back({end, end + 64});
    y = end + 64;
  }
  std::shuffle(p.buffers.begin(), p.buffers.end(), random);
  return p;
}

}  // namespace

void add_constrained(families& out, unsigned seeds) {
  for (unsigned seed = 0; seed < 4 * seeds; ++seed) {
    constexpr std::array<std::size_t, 4> sizes{300, 1000, 3000, 6000};
    std::mt19937 random(9000 + seed);
    const rectangle all{0, 4 * static_cast<tick>(sizes[seed % 4]), 0, 1 << 14};
    tiling pieces = tile(random, all, sizes[seed % 4], false, false);
    std::shuffle(pieces.begin(), pieces.end(), random);
    problem plain;
    for (const rectangle& r : pieces) plain.add({.size = r.y1 - r.y0, .live = {r.t0, r.t1}});
    const auto add = [&](const char* kind, problem p) {
      const std::string name = std::to_string(p.buffers.size()) + " " + kind + " " + std::to_string(seed);
      out[std::string{"tilings, "} + kind].push_back({name, std::move(p)});
    };
    problem pinned = plain, separated = plain, grouped = plain, conflicts = plain, aligned = plain;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const rectangle& r = pieces[i];
      if (random() % 10 == 0) pinned.buffers[i].offset = r.y0;
      aligned.buffers[i].alignment = std::min<bytes>(64, std::gcd(r.y0, bytes{64}));
      for (int k = 0; k < 5; ++k) {
        const std::size_t other = random() % pieces.size();
        if (pieces[other].y1 > r.y0 && r.y1 > pieces[other].y0) continue;
        separated.separations.push_back({static_cast<index>(i), static_cast<index>(other)});
      }
    }
    group(grouped, pieces);
    give_conflicts(conflicts, pieces);
    add("pinned", std::move(pinned));
    add("separated", std::move(separated));
    add("grouped", std::move(grouped));
    add("conflicts", std::move(conflicts));
    add("aligned", std::move(aligned));
    add("reserved", between_reserved(random, sizes[seed % 4], all));
  }
}

namespace {

// Makes buffers that are alive at random times, and returns the peak of live bytes. `uneven`: each power of two is
// equally likely for a size.
problem alive_by_chance(std::mt19937& random, unsigned n, bytes& most_live, bool uneven = false) {
  problem p;
  std::vector<bytes> live(n + 20, 0);
  for (unsigned i = 0; i < n; ++i) {
    const auto lower = static_cast<tick>(random() % n);
    const tick upper = lower + 1 + static_cast<tick>(random() % 20);
    const bytes size = uneven ? (1 + random() % 9) << random() % 14 : 1 + random() % 100;
    p.add({.size = size, .live = {lower, upper}});
    for (tick t = lower; t < upper; ++t) live[static_cast<std::size_t>(t)] += p.buffers.back().size;
  }
  most_live = *std::max_element(live.begin(), live.end());
  return p;
}

}  // namespace

void add_hints(families& out, unsigned seeds) {
  for (unsigned seed = 0; seed < 2 * seeds; ++seed) {
    std::mt19937 random(5000 + seed);
    const unsigned n = 30 * (1 + seed % 4);
    bytes most_live = 0;
    problem p = alive_by_chance(random, n, most_live);
    problem before = p;
    for (buffer& b : before.buffers) b.size = std::max<bytes>(1, random() % 10 == 0 ? b.size / 2 : b.size);
    const plan was = *solve(before, {.work = effort::fast});
    for (index i = 0; i < n; i += 3) p.buffers[i].hint = was.offset(i);
    out["hints"].push_back({std::to_string(n) + " hinted " + std::to_string(seed), std::move(p)});
  }
}

void add_penalties(families& out, unsigned seeds) {
  for (unsigned seed = 0; seed < 2 * seeds; ++seed) {
    std::mt19937 random(6000 + seed);
    const unsigned n = 24 * (1 + seed % 4);
    bytes most_live = 0;
    problem p = alive_by_chance(random, n, most_live);
    for (unsigned k = 0; k < 6 * n; ++k) {
      const auto a = static_cast<index>(random() % n);
      const auto b = static_cast<index>(random() % n);
      if (a != b) p.reuse_penalties.push_back({a, b, static_cast<double>(1 + random() % 9)});
    }
    out["penalties"].push_back({std::to_string(n) + " with penalties " + std::to_string(seed), std::move(p)});
  }
}

void add_slabs(families& out, unsigned seeds) {
  for (unsigned seed = 0; seed < 3 * seeds; ++seed) {
    std::mt19937 random(7000 + seed);
    constexpr std::array<unsigned, 3> sizes{8, 80, 600};
    const unsigned n = sizes[seed % 3];
    bytes most_live = 0;
    problem p = alive_by_chance(random, n, most_live);
    p.max_slab = std::max<bytes>(100, most_live / 3);
    out["slabs"].push_back({std::to_string(n) + " in slabs " + std::to_string(seed), std::move(p)});
  }
  for (unsigned seed = 0; seed < 3 * seeds; ++seed) {
    std::mt19937 random(8000 + seed);
    constexpr std::array<unsigned, 3> sizes{80, 300, 1000};
    const unsigned n = sizes[seed % 3];
    bytes most_live = 0;
    problem p = alive_by_chance(random, n, most_live, true);
    p.max_slab = std::max<bytes>(bytes{9} << 13, most_live / 4);
    out["uneven slabs"].push_back({std::to_string(n) + " in uneven slabs " + std::to_string(seed), std::move(p)});
  }
}

void add_memories(families& out, unsigned seeds) {
  for (unsigned seed = 0; seed < 2 * seeds; ++seed) {
    std::mt19937 random(4000 + seed);
    const unsigned n = 40 + 40 * (seed % 4);
    bytes most_live = 0;
    problem p = alive_by_chance(random, n, most_live);
    p.memories = {{.name = "fast", .capacity = most_live / 2}, {.name = "slow"}};
    out["memories"].push_back({std::to_string(n) + " in two " + std::to_string(seed), std::move(p)});
  }
}

void add_thousands(families& out, unsigned seeds) {
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    for (const large_kind& k : large_kinds()) {
      const auto add = [&](const char* family, std::uint32_t n) {
        out[family].push_back({k.name + (" " + std::to_string(n)) + " " + std::to_string(seed), k.make(n, seed)});
      };
      for (const std::uint32_t n : {2000U, 6000U, 25'000U}) add("thousands", n);
      add("100,000", 100'000);
    }
  }
}

void add_crowds(families& out, unsigned seeds) {
  constexpr unsigned small = 28'000;
  constexpr tick step = 1000;
  for (unsigned seed = 0; seed < 2 * seeds; ++seed) {
    std::mt19937 random(8000 + seed);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    const bool among = seed % 2 != 0;
    tiling pieces = tile(random, {0, 60, 0, 1'000'000}, 200, seed % 4 > 1, false);
    for (rectangle& r : pieces) {
      r.t0 *= step;
      r.t1 *= step;
      r.y1 -= below((r.y1 - r.y0) / 16 + 1);
    }
    const tick from = among ? 0 : 60 * step;
    for (unsigned k = 0; k < small; ++k) {
      const tick at = from + static_cast<tick>(below(59 * step));
      pieces.push_back({at, at + 1 + static_cast<tick>(below(step / 2)), 0, 1 + below(among ? 64 : 4096)});
    }
    out["crowds"].push_back({(among ? "among " : "beside ") + std::to_string(seed), problem_of(random, pieces)});
  }
}

void add_variants(families& out, const sample& of, const std::vector<bytes>& offsets, unsigned seeds) {
  const problem& p = of.what;
  const auto high = [&](std::size_t i) { return offsets[i] + p.buffers[i].size; };
  tick end = 0;
  for (const buffer& b : p.buffers) end = std::max(end, b.live.upper);
  for (unsigned seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(seed);
    std::map<bytes, double> address;
    for (std::size_t i = 0; i < p.buffers.size(); ++i) address[offsets[i]] = address[high(i)] = 0;
    auto last = address.begin();
    for (auto at = last; at != address.end(); last = at++) {
      const double by = std::exp(1.5 * static_cast<double>(random()) / 0x1p32);
      at->second = std::floor(last->second + by * static_cast<double>((at->first - last->first) * 1024));
    }
    const int backwards = random() % 2 != 0 ? -1 : 1;
    const tick from = seed % 2 != 0 ? 0 : static_cast<tick>(random() % static_cast<unsigned long>(end / 2 + 1));
    const tick to = seed % 2 != 0 ? end : from + end / 2;
    problem q;
    for (std::size_t i = 0; i < p.buffers.size(); ++i) {
      const tick lower = backwards * std::max(p.buffers[i].live.lower, from);
      const tick upper = backwards * std::min(p.buffers[i].live.upper, to);
      if ((upper - lower) * backwards <= 0) continue;
      q.add({.size = static_cast<bytes>(address[high(i)] - address[offsets[i]]),
             .live = {std::min(lower, upper), std::max(lower, upper)}});
    }
    out["variants"].push_back({of.name + " " + std::to_string(seed), q});
  }
}

}  // namespace berth_bench

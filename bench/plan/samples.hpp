// Seeded problems to measure a planner.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"

namespace berth_bench {

struct sample {
  std::string name;
  berth::plan::problem what;
};

using families = std::map<std::string, std::vector<sample>>;

// Adds rectangles of time by bytes, cut at random into 100 to 400 pieces, by depth and by area. The grid is coarse or
// fine, with pinwheels in pinwheels too. Max-live is their optimum. Four of each family a seed.
void add_tilings(families& out, unsigned seeds);

// Random buffers that fill every time slot. Most often no layout meets max-live, and the work is to prove that. Ten a
// seed, of 17 to 38 buffers.
void add_full(families& out, unsigned seeds);

// Small sizes at multiples of 1, 2 and 4, alive at random times: the waste of alignment decides. Ten a seed, of 16 to
// 40 buffers.
void add_aligned(families& out, unsigned seeds);
void add_alignments(families& out, unsigned seeds);

// A coarse tiling, and 100 to 900 small buffers that live after it: small buffers must not take the search from the
// core. Two a seed.
void add_crowded(families& out, unsigned seeds);

// Tilings with a fiftieth of the bytes removed, so that the optimum is unknown: little room, as with measured sizes.
// Two a seed, of 100 to 200 buffers.
void add_loose(families& out, unsigned seeds);

// Alignments, gaps, groups, pins, separations and reserved ranges together; of 20 to 120 buffers. Four a seed.
void add_mixed(families& out, unsigned seeds);

// Tilings of 300, 1,000, 3,000 and 6,000 pieces with an additional constraint that the tiling satisfies, so that
// max-live stays the optimum. Each constraint is a family, with four problems a seed:
// * A tenth of the pieces is pinned.
// * Five pairs a piece are separated.
// * Pieces that begin at one address are groups of two.
// * Conflicts are given instead of lifetimes.
// * Sixteen ranges are reserved.
// * Starts are aligned as far as they happen to be.
void add_constrained(families& out, unsigned seeds);

// Every third buffer has a hint: its place in a former plan, in which a tenth of the sizes was smaller. Two a seed, of
// 30 to 120 buffers.
void add_hints(families& out, unsigned seeds);

// Reuse penalties between six times as many pairs as buffers. Two a seed, of 24 to 96 buffers.
void add_penalties(families& out, unsigned seeds);

// Slabs of a third of max-live: of 8 units, whose splits can all be tried, of 80 and of 600. Slabs of a quarter, of 80,
// 300 and 1,000 units of uneven sizes, are a family of their own. Six a seed.
void add_slabs(families& out, unsigned seeds);

// Two memories, the first of half of max-live. Two a seed, of 40 to 160 buffers.
void add_memories(families& out, unsigned seeds);

// Many buffers: of every kind of large_sets.hpp, 2,000, 6,000 and 25,000; 100,000 are a family of their own. Twenty a
// seed.
void add_thousands(families& out, unsigned seeds);

// A tiling of 200 with a little removed from each piece, and 28,000 small buffers that live after it, or throughout
// between its pieces. Two a seed.
void add_crowds(families& out, unsigned seeds);

// Variants of a problem, given a layout. Bytes are stretched by a random monotone map of the addresses. Every other
// variant has all of the time, the rest a window of half of it, some backwards. The layout remains valid, and if it met
// max-live it still does.
void add_variants(families& out, const sample& of, const std::vector<berth::bytes>& offsets, unsigned seeds);

}  // namespace berth_bench

// Plans with moves by trying all of them, for tiny problems; and such problems. Shares no code with the library but for
// the placement of stays.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "berth/plan/solve.hpp"

namespace berth::plan::moves_oracle {

// A stay in one way for a buffer to live; `from` is the stay copied, or -1.
struct piece {
  index memory = 0;
  tick lower = 0, ready = 0, upper = 0;
  int from = -1;
};
using way = std::vector<piece>;

struct ways_of_buffer {
  const problem& p;
  index buffer;
  std::vector<way> found;

  bool served(const way& w, tick at) const {
    for (const use& u : p.buffers[buffer].uses) {
      if (u.at != at) continue;
      bool ok = false;
      int live = 0;
      for (const piece& s : w) {
        if (at < s.lower || at >= s.upper) continue;
        ++live;
        ok |= at >= s.ready && (!u.memory || *u.memory == s.memory);
      }
      if (!ok || (u.write && live > 1)) return false;
    }
    return true;
  }

  // Decides tick by tick which stays end and which copies start; an open stay has upper at the end of the life.
  void go(way w, tick at) {
    const interval live = p.buffers[buffer].live;
    if (at == live.upper) {
      found.push_back(std::move(w));
      return;
    }
    std::vector<std::size_t> open;
    for (std::size_t k = 0; k < w.size(); ++k) {
      if (w[k].upper > at && w[k].ready <= at) open.push_back(k);
    }
    for (std::size_t gone = 0; gone < std::size_t{1} << open.size(); ++gone) {
      way left = w;
      for (std::size_t k = 0; k < open.size(); ++k) {
        if ((gone >> k & 1) != 0) left[open[k]].upper = at;
      }
      // A source must stay until its copy is done, and the contents must be somewhere.
      bool fine = false;
      for (const piece& s : left) {
        fine |= s.ready <= at && s.upper > at;
      }
      for (const piece& s : left) {
        if (s.from >= 0 && s.ready > left[static_cast<std::size_t>(s.from)].upper) fine = false;
      }
      if (!fine) continue;
      start_copies(left, at, 0);
    }
  }

  void start_copies(const way& w, tick at, index to) {
    if (to == p.memories.size()) {
      if (served(w, at)) go(w, at + 1);
      return;
    }
    start_copies(w, at, to + 1);
    for (const piece& s : w) {
      if (s.memory == to && s.upper > at) return;
    }
    const interval live = p.buffers[buffer].live;
    if (at == live.lower) return;  // it may as well have been born there, or where it must be it is not changed yet
    for (std::size_t k = 0; k < w.size(); ++k) {
      if (w[k].ready > at || w[k].upper <= at || w[k].lower == at) continue;
      const bool linked = std::any_of(p.links.begin(), p.links.end(),
                                      [&](const link& l) { return l.from == w[k].memory && l.to == to; });
      if (!linked) continue;
      for (tick ready = at + 1; ready < live.upper; ++ready) {
        way more = w;
        more.push_back({.memory = to, .lower = at, .ready = ready, .upper = live.upper, .from = static_cast<int>(k)});
        start_copies(more, at, to + 1);
      }
    }
  }
};

inline double use_time(const problem& p, const use& u, const way& w) {
  double least = std::numeric_limits<double>::infinity();
  for (const piece& s : w) {
    if (u.at >= s.ready && u.at < s.upper && (!u.memory || *u.memory == s.memory)) {
      least = std::min(least, u.touched * p.memories[s.memory].cost);
    }
  }
  return least;
}

// As plan.hpp says it: access time and stall.
inline double cost_of(const problem& p, const std::vector<way>& ways) {
  struct transfer {
    tick start, due;
    index buffer;
    std::size_t link;
    double done = 0;
  };
  std::vector<transfer> all;
  tick first = std::numeric_limits<tick>::max(), last = std::numeric_limits<tick>::min();
  for (index i = 0; i < ways.size(); ++i) {
    first = std::min(first, p.buffers[i].live.lower);
    last = std::max(last, p.buffers[i].live.upper);
    for (const piece& s : ways[i]) {
      if (s.from < 0) continue;
      const index from = ways[i][static_cast<std::size_t>(s.from)].memory;
      std::size_t l = 0;
      while (p.links[l].from != from || p.links[l].to != s.memory) ++l;
      all.push_back({s.lower, s.ready, i, l});
    }
  }
  std::sort(all.begin(), all.end(), [](const transfer& a, const transfer& b) {
    return std::tie(a.start, a.due, a.buffer) < std::tie(b.start, b.due, b.buffer);
  });
  std::vector<double> free(p.links.size(), 0);
  double clock = 0, stall = 0, access = 0;
  for (tick at = first; at <= last; ++at) {
    double begin = clock;
    for (const transfer& c : all) {
      if (c.due == at) begin = std::max(begin, c.done);
    }
    stall += begin - clock;
    clock = begin;
    for (transfer& c : all) {
      if (c.start != at) continue;
      const link& l = p.links[c.link];
      c.done = std::max(clock, free[c.link]) + l.latency + static_cast<double>(p.buffers[c.buffer].size) / l.bandwidth;
      free[c.link] = c.done;
    }
    for (const step& s : p.steps) {
      if (s.at == at) clock += s.duration;
    }
    for (index i = 0; i < ways.size(); ++i) {
      for (const use& u : p.buffers[i].uses) {
        if (u.at != at) continue;
        const double time = use_time(p, u, ways[i]);
        access += time;
        clock += time;
      }
    }
  }
  return access + stall;
}

inline std::vector<stay> stays_of(const std::vector<way>& ways) {
  std::vector<stay> stays;
  for (index i = 0; i < ways.size(); ++i) {
    for (const piece& s : ways[i]) stays.push_back({i, s.memory, {s.lower, s.upper}, s.ready});
  }
  return stays;
}

struct search {
  const problem& p;
  std::vector<std::vector<way>> choices;
  std::vector<way> chosen;
  std::map<std::pair<index, tick>, bytes> live;
  double best = std::numeric_limits<double>::infinity();
  std::size_t tried = 0;

  bool put(index i, const way& w, bool back) {
    bool fits = true;
    for (const piece& s : w) {
      for (tick at = s.lower; at < s.upper; ++at) {
        bytes& now = live[{s.memory, at}];
        now = back ? now - p.footprint(i) : now + p.footprint(i);
        const auto most = p.memories[s.memory].capacity;
        fits &= !most || now <= *most;
      }
    }
    return fits;
  }

  void go(index i) {
    ++tried;
    if (i == choices.size()) {
      const double cost = cost_of(p, chosen);
      if (cost >= best) return;
      const auto placed = solve(problem_of_stays(p, stays_of(chosen)));
      if (placed && placed->has_offsets()) best = cost;
      return;
    }
    for (const way& w : choices[i]) {
      if (put(i, w, false)) {
        chosen.push_back(w);
        go(i + 1);
        chosen.pop_back();
      }
      put(i, w, true);
    }
  }
};

// The least cost of any plan with moves; nothing where there is none, or (`*given_up`) too many to try.
inline std::optional<double> least_cost(const problem& p, double most_plans, bool* given_up) {
  search all{.p = p, .choices = {}, .chosen = {}, .live = {}};
  double plans = 1;
  for (index i = 0; i < p.buffers.size(); ++i) {
    ways_of_buffer ways{.p = p, .buffer = i, .found = {}};
    const buffer& b = p.buffers[i];
    for (index m = 0; m < p.memories.size(); ++m) {
      ways.go({{.memory = m, .lower = b.live.lower, .ready = b.live.lower, .upper = b.live.upper}}, b.live.lower);
    }
    plans *= static_cast<double>(ways.found.size());
    all.choices.push_back(std::move(ways.found));
  }
  *given_up = plans > most_plans;
  if (*given_up) return std::nullopt;
  all.go(0);
  if (all.best == std::numeric_limits<double>::infinity()) return std::nullopt;
  return all.best;
}

// Two or three buffers in two memories, a small fast one and a slow one.
inline problem small_problem(std::mt19937& random) {
  const auto upto = [&](unsigned most) { return static_cast<unsigned>(random() % (most + 1)); };
  problem p;
  p.memories = {{.name = "fast", .capacity = 2 + upto(4)}, {.name = "slow", .cost = 1.0 + upto(2)}};
  if (upto(3) == 0) p.memories[1].capacity = 6 + upto(4);
  if (upto(3) == 0) p.alignment = 2;
  const tick ticks = 4 + upto(3);
  for (tick at = 0; at < ticks; ++at) {
    if (upto(3) != 0) p.steps.push_back({at, static_cast<double>(upto(6))});
  }
  for (unsigned k = 2 + upto(1); k > 0; --k) {
    const tick lower = upto(2), upper = std::min<tick>(ticks, lower + 2 + upto(4));
    p.add({.size = 1 + upto(3), .live = {lower, upper}});
    auto& uses = p.buffers.back().uses;
    for (tick at = lower; at < upper; ++at) {
      if (at != lower && at != upper - 1 && upto(2) != 0) continue;
      use u{.at = at, .touched = static_cast<double>(p.buffers.back().size), .write = at == lower || upto(3) == 0};
      if (upto(7) == 0) u.memory = upto(1);
      uses.push_back(u);
    }
  }
  p.links.push_back({.from = 1, .to = 0, .bandwidth = 1.0 + upto(3), .latency = 0.5 * upto(2)});
  if (upto(3) != 0) p.links.push_back({.from = 0, .to = 1, .bandwidth = 1.0 + upto(3), .latency = 0.5 * upto(2)});
  return p;
}

}  // namespace berth::plan::moves_oracle

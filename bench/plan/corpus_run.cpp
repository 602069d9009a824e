#include "plan/corpus_run.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "plan/user_seconds.hpp"

namespace berth_bench {
namespace {

using namespace berth::plan;

// Returns the same problem with its buffers in another order.
problem reordered(const problem& p, unsigned order) {
  if (order == 0) return p;
  std::vector<index> at(p.buffers.size());  // by place: the buffer there
  for (index i = 0; i < at.size(); ++i) at[i] = i;
  std::mt19937 random(order);
  std::shuffle(at.begin(), at.end(), random);
  std::vector<index> place(at.size());
  problem out = p;
  for (index k = 0; k < at.size(); ++k) {
    place[at[k]] = k;
    out.buffers[k] = p.buffers[at[k]];
  }
  const auto move = [&](pair& x) { x = {place[x.a], place[x.b]}; };
  for (pair& s : out.separations) move(s);
  if (out.conflicts) {
    for (pair& c : *out.conflicts) move(c);
  }
  for (reuse_penalty& r : out.reuse_penalties) r = {place[r.a], place[r.b], r.weight};
  return out;
}

std::string place_of(const score& s) {
  return s.family + '\t' + s.name + '\t' + std::to_string(s.order);
}

}  // namespace

double gap_of(const problem& p, const plan& got) {
  if (!got.has_offsets()) return 1;
  double all = 0, missed = 0;
  const auto count = [&](double weight, bool bad) {
    all += weight;
    missed += bad ? weight : 0;
  };
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (p.buffers[i].hint) count(1, got.offset(i) != *p.buffers[i].hint);
    if (!got.memory_of.empty()) count(static_cast<double>(p.footprint(i)), got.memory_of[i] != 0);
  }
  for (const reuse_penalty& r : p.reuse_penalties) all += r.weight;
  missed += got.reuse_penalty;
  if (all != 0) return missed / all;
  const auto bound = static_cast<double>(std::max<berth::bytes>(1, got.lower_bound()));
  return static_cast<double>(got.arena()) / bound - 1;
}

void measure(const std::string& family, const sample& s, unsigned orders, effort work, scores& out) {
  for (unsigned order = 0; order < orders; ++order) {
    const problem p = reordered(s.what, order);
    const double start = user_seconds();
    const plan got = *solve(p, {.work = work});
    out.push_back({.family = family,
                   .name = s.name,
                   .order = order,
                   .gap = gap_of(p, got),
                   .proved = got.optimal() || got.status == status::infeasible,
                   .nodes = got.work,
                   .seconds = user_seconds() - start});
  }
}

void summary::add(const score& s) {
  ++count;
  proved += s.proved;
  gap += s.gap;
  worst = std::max(worst, s.gap);
  seconds += s.seconds;
  nodes += s.nodes;
}

verdict compare(const scores& now, const scores& before) {
  std::map<std::string, const score*> by_place;
  for (const score& s : before) by_place[place_of(s)] = &s;
  verdict out;
  double squares = 0, seconds = 0, seconds_before = 0;
  for (const score& s : now) {
    const auto was = by_place.find(place_of(s));
    if (was == by_place.end()) continue;
    constexpr double written = 1e-9;  // the resolution of a baseline's file
    const double by = s.gap - was->second->gap;
    const double change = std::abs(by) < written ? 0 : by;
    out.change += change;
    squares += change * change;
    out.proofs += s.proved - was->second->proved;
    seconds += s.seconds;
    seconds_before += was->second->seconds;
    ++out.count;
  }
  if (out.count == 0) return out;
  out.change /= out.count;
  out.error = std::sqrt(std::max(0.0, squares / out.count - out.change * out.change) / out.count);
  out.time = seconds / std::max(seconds_before, 1e-9);
  return out;
}

}  // namespace berth_bench

// The modelled time of a plan with moves.
#include <algorithm>
#include <tuple>

#include "plan/moves/residence.hpp"

namespace berth::plan {
namespace {

std::vector<copy> copies_of(const moving_model& model, const std::vector<residence>& where) {
  std::vector<copy> copies;
  for (index i = 0; i < where.size(); ++i) {
    for (index l = 0; l < where[i].size(); ++l) {
      const leg& to = where[i][l];
      if (to.source < 0) continue;
      const index from = where[i][static_cast<std::size_t>(to.source)].memory;
      const auto link = static_cast<index>(model.link_of[from * model.memories() + to.memory]);
      copies.push_back({.item = i, .leg = l, .link = link, .start = to.begin, .due = to.ready});
    }
  }
  std::sort(copies.begin(), copies.end(), [](const copy& a, const copy& b) {
    return std::tie(a.start, a.due, a.item, a.leg) < std::tie(b.start, b.due, b.item, b.leg);
  });
  return copies;
}

}  // namespace

void play(const moving_model& model, const std::vector<residence>& where, playout& out) {
  const std::uint32_t periods = model.periods();
  out.access = out.stall = 0;
  out.copied = 0;
  out.copies = copies_of(model, where);
  out.taken = model.duration;
  for (std::size_t i = 0; i < where.size(); ++i) {
    if (where[i].empty()) continue;
    for (const use_in_period& u : model.items[i].uses) {
      const double time = time_of(model, where[i], u);
      out.taken[u.period] += time;
      out.access += time;
    }
  }
  out.waited.assign(periods, 0);
  out.busy.assign(model.links.size() * periods, 0);
  std::vector<double> done(periods + 1, 0);  // by period: when all copies due at it are
  std::vector<double> free(model.links.size(), 0);
  std::size_t next = 0;
  double clock = 0;
  for (std::uint32_t k = 0; k < periods; ++k) {
    if (done[k] > clock) {
      out.waited[k] = done[k] - clock;
      out.stall += out.waited[k];
      clock = done[k];
    }
    for (; next < out.copies.size() && out.copies[next].start == k; ++next) {
      copy& c = out.copies[next];
      const moving_item& one = model.items[c.item];
      c.begin = std::max(clock, free[c.link]);
      c.done = c.begin + model.copy_time(one, model.links[c.link]);
      free[c.link] = c.done;
      done[c.due] = std::max(done[c.due], c.done);
      out.copied += one.size;
    }
    clock += out.taken[k];
  }
  // Adds each copy's share of the time of the periods that it crosses, for the items planned beside it.
  std::vector<double> end(periods, 0);
  double at = 0;
  for (std::uint32_t k = 0; k < periods; ++k) end[k] = at += out.waited[k] + out.taken[k];
  for (const copy& c : out.copies) {
    double from = c.begin;
    for (std::uint32_t k = c.start; k < periods && from < c.done; ++k) {
      const double to = std::min(c.done, end[k]);
      if (to <= from) continue;
      out.busy[c.link * periods + k] += to - from;
      from = to;
    }
  }
}

}  // namespace berth::plan

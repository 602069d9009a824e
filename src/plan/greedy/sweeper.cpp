#include "plan/greedy/sweeper.hpp"

#include <algorithm>
#include <utility>

#include "plan/policy.hpp"

namespace berth::plan {
namespace {

constexpr index rectangles_at_a_time = 65'536;  // between two looks at the wait: a millisecond or two

bool is_over(const patience* wait) {
  return wait != nullptr && wait->over();
}

}  // namespace

by_tick::by_tick(const timeline& line, std::uint32_t rectangle::*at, const patience* wait)
    : first_(line.ticks + std::size_t{3}, 0), of_(line.rectangles.size()) {
  if (is_over(wait)) return;
  for (const rectangle& q : line.rectangles) ++first_[q.*at + std::size_t{2}];
  for (std::size_t t = 2; t < first_.size(); ++t) first_[t] += first_[t - 1];
  for (index i = 0; i < of_.size(); ++i) {
    if (i % rectangles_at_a_time == 0 && is_over(wait)) return;
    of_[first_[line.rectangles[i].*at + std::size_t{1}]++] = i;
  }
}

sweeper::sweeper(const timeline& line, const patience* wait)
    : line_{line},
      wait_{wait},
      starts_{line, &rectangle::lower, wait},
      ends_{line, &rectangle::upper, wait},
      live_(line.ticks),
      stretch_of_(line.rectangles.size()),
      offsets_(line.rectangles.size(), 0),
      memory_{line.rectangles.size()} {
  if (!is_over(wait)) look();
}

// Fills the live bytes by tick, and the stack at the peak.
void sweeper::look() {
  const timeline& line = line_;
  bytes live = 0;
  for (std::uint32_t t = 0; t < line.ticks; ++t) {
    if (t % rectangles_at_a_time == 0 && is_over(wait_)) return;
    for (const index i : ends_.at(t)) live -= line.rectangles[i].size;
    for (const index i : starts_.at(t)) live += line.rectangles[i].size;
    live_[t] = live;
    if (live > live_[peak_]) peak_ = t;
  }
  for (std::uint32_t t = 0; t <= peak_; ++t) {
    for (const index i : starts_.at(t)) {
      if (line.rectangles[i].upper > peak_ && line.rectangles[i].size != 0) stack_.push_back(i);
    }
  }
  const auto life = [&](index i) { return line.rectangles[i].upper - line.rectangles[i].lower; };
  std::stable_sort(stack_.begin(), stack_.end(), [&](index a, index b) { return life(a) > life(b); });
  // The one that rounding adds most to lies highest, where it need not be rounded.
  const auto top = std::max_element(stack_.begin(), stack_.end(), [&](index a, index b) {
    return line.rectangles[a].spare < line.rectangles[b].spare;
  });
  if (top != stack_.end() && line.rectangles[*top].spare != 0) std::rotate(top, top + 1, stack_.end());
  ready_ = true;
}

template <class After, class Before>
const std::vector<bytes>* sweeper::run(After after, Before before, bool with_high_ticks) {
  const std::uint32_t last = line_.ticks;
  placed_ = 0;
  looked_before_ = told_ = memory_.looked_at();
  lay_stack(most_live());
  if (with_high_ticks) find_high_after();
  for (std::uint32_t t = peak_ + 1; t < last; ++t) {
    if (!step(ends_.at(t), starts_.at(t), after)) return nullptr;
  }
  lay_stack(memory_.top());
  if (with_high_ticks) find_high_before();
  for (std::uint32_t t = peak_; t > 0; --t) {
    if (!step(starts_.at(t), ends_.at(t), before)) return nullptr;
  }
  return &offsets_;
}

void sweeper::lay_stack(bytes top) {
  memory_.clear();
  for (const index i : stack_) {
    stretch_of_[i] = memory_.stack(line_.rectangles[i].size, line_.rectangles[i].alignment);
    offsets_[i] = memory_.offset(stretch_of_[i]);
  }
  memory_.extend_to(top);
}

template <class Choose>
bool sweeper::step(std::span<const index> dead, std::span<const index> born, Choose choose) {
  for (const index i : dead) {
    if (line_.rectangles[i].size != 0) memory_.give(stretch_of_[i]);
  }
  for (const index i : born) {
    const rectangle& q = line_.rectangles[i];
    if (q.size == 0) continue;
    stretch_of_[i] = memory_.take(q.size, q.alignment, choose(q));
    offsets_[i] = memory_.offset(stretch_of_[i]);
  }
  placed_ += born.size();
  if (wait_ != nullptr && wait_->over(memory_.looked_at() - std::exchange(told_, memory_.looked_at()))) return false;
  return memory_.looked_at() - looked_before_ <=
         policy::most_holes_per_rectangle * (placed_ + line_.rectangles.size() / 8) + policy::holes_in_advance;
}

// Returns whether at least three quarters of the peak are live. The highest tick of a run of these is a high tick.
bool sweeper::is_high(std::uint32_t t) const {
  return live_[t] >= most_live() - most_live() / 4;
}

// Fills, by tick t, the first high tick from t on; `ticks` if there is none.
void sweeper::find_high_after() {
  next_high_.assign(line_.ticks + std::size_t{1}, line_.ticks);
  for (std::uint32_t t = line_.ticks, high = line_.ticks; t-- > 0;) {
    const bool in_run = t + 1 < line_.ticks && is_high(t + 1);
    if (is_high(t) && (!in_run || live_[t] >= live_[high])) high = t;
    next_high_[t] = high;
  }
}
// Fills, by tick t, the tick behind the first high one below t, backwards in time; 0 if there is none.
void sweeper::find_high_before() {
  next_high_.assign(line_.ticks + std::size_t{1}, 0);
  for (std::uint32_t t = 0, high = 0; t < line_.ticks; ++t) {
    const bool in_run = t > 0 && is_high(t - 1);
    if (is_high(t) && (!in_run || live_[t] >= live_[high - 1])) high = t + 1;
    next_high_[t + 1] = high;
  }
}

const std::vector<bytes>* sweeper::by_ends() {
  return run([this](const rectangle& q) { return q.upper > next_high_[q.lower] ? choice::highest : choice::lowest; },
             [this](const rectangle& q) { return q.lower < next_high_[q.upper] ? choice::highest : choice::lowest; },
             true);
}
const std::vector<bytes>* sweeper::by_best_fit() {
  const auto tightest = [](const rectangle&) { return choice::tightest; };
  return run(tightest, tightest, false);
}

}  // namespace berth::plan

// Planning problems made of choices: small and mostly valid, some large, some with values that no problem should have.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "berth/plan/problem.hpp"
#include "fuzz/fuzz.hpp"

namespace berth::fuzz {

inline constexpr bytes odd_sizes[] = {0,        1, 3, 1 << 20, bytes{1} << 40, (bytes{1} << 62) - 1, bytes{1} << 62,
                                      max_bytes};
inline constexpr plan::tick odd_ticks[] = {0, 1, -1, 1 << 20, plan::tick{1} << 53, INT64_MIN, INT64_MAX};

// Choices that may be more than an input has bytes: after more(), they come from a generator that two bytes start.
class draws {
 public:
  explicit draws(choices& c) : c_{c} {}

  void more() {
    many_.seed(c_.byte() * 256u + c_.byte() + 1u);
    from_many_ = true;
  }
  void fewer() { from_many_ = false; }
  unsigned upto(unsigned most) {
    return (from_many_   ? static_cast<unsigned>(many_() >> 8)
            : most < 256 ? c_.byte()
                         : 256u * c_.byte() + c_.byte()) %
           (most + 1);
  }
  bool one_in(unsigned n) { return upto(n - 1) == n - 1; }
  template <class T, std::size_t N>
  const T& of(const T (&list)[N]) {
    return list[upto(N - 1)];
  }

 private:
  choices& c_;
  std::minstd_rand many_;
  bool from_many_ = false;
};

struct problem_shape {
  bool memories = true;  // and groups, pins, hints, slabs and penalties
  bool odd = true;       // values that no problem should have, now and then
  unsigned most_buffers = 64;
};

class problem_maker {
 public:
  problem_maker(draws& d, const problem_shape& s) : d_{d}, shape_{s} {}

  plan::problem made() {
    const bool large = d_.one_in(6);
    constexpr bytes units[] = {1, 1, 1, 64, 4096, bytes{1} << 30};
    unit_ = d_.of(units);
    constexpr unsigned lengths[] = {4, 12, 40, 300};
    ticks_ = d_.of(lengths);
    how_ = d_.upto(4);
    odd_ = shape_.odd && d_.one_in(8);
    rules();
    // Fewer buffers for several memories: their choice takes seconds of a sanitized planner.
    const unsigned most = p_.memories.empty() ? shape_.most_buffers : shape_.most_buffers / 5;
    const unsigned n = d_.upto(large ? most : std::min(most, 9u));
    if (large) d_.more();
    for (unsigned i = 0; i < n; ++i) p_.add(buffer(i, n));
    d_.fewer();
    if (shape_.memories) placed(n);
    if (n > 1) pairs(n);
    return p_;
  }

 private:
  bytes alignment() {
    constexpr bytes few[] = {1, 2, 4, 3, 6, 64};
    return odd_ && d_.one_in(8) ? d_.of(odd_sizes) : d_.of(few);
  }
  bytes size(unsigned most) { return odd_ && d_.one_in(8) ? d_.of(odd_sizes) : d_.upto(most) * unit_; }
  plan::interval lifetime(unsigned i, unsigned n) {
    if (odd_ && d_.one_in(8)) return {d_.of(odd_ticks), d_.of(odd_ticks)};
    const plan::tick layer = static_cast<plan::tick>(i) * ticks_ / n;
    switch (how_) {
      case 0: return {layer, layer + 1 + d_.upto(3)};
      case 1: return {layer, d_.one_in(4) ? static_cast<plan::tick>(ticks_) + 1 : layer + 1 + d_.upto(5)};
      default: {
        const plan::tick lower = d_.upto(ticks_ - 1);
        return {lower, lower + 1 + d_.upto(how_ == 2 ? 3 : ticks_ - 1 - static_cast<unsigned>(lower))};
      }
    }
  }

  void rules() {
    if (d_.one_in(3)) p_.alignment = alignment();
    if (d_.one_in(4)) p_.granularity = alignment();
    if (d_.one_in(8)) p_.tail_pad = size(3);
    const unsigned memories = shape_.memories && d_.one_in(4) ? 1 + d_.upto(3) : 0;
    for (unsigned m = 0; m < memories; ++m) {
      plan::memory one;
      if (d_.one_in(2)) one.capacity = size(60);
      one.alignment = alignment();
      one.cost = odd_ && d_.one_in(8) ? -1 : d_.upto(5) / 2.0;
      for (unsigned k = d_.upto(7); k > 5; --k) {
        const bytes lo = size(20);
        one.reserved.push_back({lo, lo + size(4)});
      }
      p_.memories.push_back(one);
    }
    if (memories == 0 && d_.one_in(3)) p_.capacity = size(120);
    if (shape_.memories && d_.one_in(12)) p_.max_slab = size(20);
  }

  plan::buffer buffer(unsigned i, unsigned n) {
    plan::buffer b;
    b.size = size(how_ == 4 ? 2 : 15);
    b.live = lifetime(i, n);
    if (d_.one_in(6)) {
      b.lifetimes = {b.live};
      for (unsigned k = d_.upto(2); k > 0; --k) {
        const plan::tick lower = b.lifetimes.back().upper;
        if (lower > (plan::tick{1} << 60)) break;
        b.lifetimes.push_back({lower + d_.upto(3), lower + 4 + d_.upto(3)});
      }
    }
    if (d_.one_in(6)) b.alignment = alignment();
    if (d_.one_in(12)) b.granularity = alignment();
    if (d_.one_in(12)) b.tail_pad = size(2);
    return b;
  }

  // Places of buffers, but for a memory's own rules. A place that contradicts itself stays now and then.
  void placed(unsigned n) {
    const unsigned hurry = n > 12 ? 2 : 4;
    for (unsigned k = d_.upto(hurry * 3); k > hurry && n > 0; --k) {
      plan::buffer& b = p_.buffers[d_.upto(n - 1)];
      const plan::buffer before = b;
      switch (d_.upto(3)) {
        case 0: b.offset = size(40); break;
        case 1: b.hint = size(40); break;
        case 2: b.alias_group = d_.upto(1); break;
        default: b.memories.push_back(d_.upto(3));
      }
      if (!odd_ && !validate(p_)) b = before;
    }
  }

  void pairs(unsigned n) {
    const auto pair = [&] {
      const plan::index a = d_.upto(n - 1), b = d_.upto(n - 1);
      return plan::pair{a, a != b || odd_ ? b : (a + 1) % n};
    };
    if (d_.one_in(6)) {
      p_.conflicts.emplace();
      if (n > 16) d_.more();
      for (unsigned k = d_.upto(2 * n); k > 0; --k) p_.conflicts->push_back(pair());
      d_.fewer();
    }
    for (unsigned k = d_.upto(7); k > 4; --k) {
      p_.separations.push_back(pair());
      if (!odd_ && !validate(p_)) p_.separations.pop_back();
    }
    for (unsigned k = shape_.memories ? d_.upto(9) : 0; k > 6; --k) {
      const plan::pair of = pair();
      p_.reuse_penalties.push_back({of.a, of.b, d_.upto(8) / 2.0});
    }
  }

  draws& d_;
  problem_shape shape_;
  plan::problem p_;
  bytes unit_ = 1;
  unsigned ticks_ = 1, how_ = 0;
  bool odd_ = false;
};

}  // namespace berth::fuzz

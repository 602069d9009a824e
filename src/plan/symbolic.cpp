#include "berth/plan/symbolic.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "berth/core/contract.hpp"

namespace berth::plan {
namespace {

// The size at these values; nothing above max_address.
std::optional<bytes> checked_size(const symbolic_buffer& b, std::span<const bytes> values) {
  bytes sum = 0;
  for (const size_term& t : b.size) {
    bytes product = t.factor;
    for (const index d : t.dimensions) {
      if (product != 0 && values[d] > max_address / product) return {};
      product *= values[d];
    }
    if (product > max_address - sum) return {};
    sum += product;
  }
  return sum;
}

// As above where the largest values have been checked: nothing overflows.
bytes size_at(const symbolic_buffer& b, std::span<const bytes> values) {
  bytes sum = 0;
  for (const size_term& t : b.size) {
    bytes product = t.factor;
    for (const index d : t.dimensions) product *= values[d];
    sum += product;
  }
  return sum;
}

result<void> check(const symbolic_problem& p) {
  std::vector<bytes> most;
  for (std::size_t d = 0; d < p.dimensions.size(); ++d) {
    if (p.dimensions[d].least > p.dimensions[d].most) {
      return error{errc::invalid_input, "dimension: its bounds are reversed", d};
    }
    most.push_back(p.dimensions[d].most);
  }
  for (std::size_t i = 0; i < p.buffers.size(); ++i) {
    for (const size_term& t : p.buffers[i].size) {
      for (const index d : t.dimensions) {
        if (d >= p.dimensions.size()) return error{errc::invalid_input, "buffer: its size names no dimension", i};
      }
    }
    if (!checked_size(p.buffers[i], most)) {
      return error{errc::invalid_input, "buffer: its largest size is out of range", i};
    }
  }
  const problem largest = at_values(p, most);
  if (auto ok = validate(largest); !ok) return ok;
  // No order stacks the buffers higher than this.
  bytes sum = 0;
  for (index i = 0; i < largest.buffers.size(); ++i) {
    const bytes footprint = largest.footprint(i), alignment = largest.alignment_of(i);
    if (alignment > max_address || footprint > max_address || footprint + alignment > max_address - sum) {
      return error{errc::invalid_input, "buffer: the sizes and alignments up to it exceed the address space", i};
    }
    sum += footprint + alignment;
  }
  return {};
}

// Of the conflicting pairs only those that no chain of others implies: bit j of above[k] says that order[k] lies above
// order[j], at once or through others. What is empty even in the `largest` problem carries and rests on nothing.
symbolic_plan supports_of(const symbolic_problem& p, const problem& largest, std::vector<index> order) {
  symbolic_plan out;
  const std::size_t n = order.size(), words = (n + 63) / 64;
  std::vector<std::uint64_t> above(n * words, 0);
  out.first.push_back(0);
  for (std::size_t k = 0; k < n; ++k) {
    const interval& live = p.buffers[order[k]].live;
    std::uint64_t* const mine = above.data() + k * words;
    for (std::size_t j = k; largest.footprint(order[k]) != 0 && j-- > 0;) {
      const interval& other = p.buffers[order[j]].live;
      if (largest.footprint(order[j]) == 0 || live.lower >= other.upper || other.lower >= live.upper) continue;
      if ((mine[j / 64] >> (j % 64) & 1) != 0) continue;
      out.supports.push_back(order[j]);
      mine[j / 64] |= std::uint64_t{1} << (j % 64);
      for (std::size_t w = 0; w < words; ++w) mine[w] |= above[j * words + w];
    }
    out.first.push_back(static_cast<std::uint32_t>(out.supports.size()));
  }
  out.order = std::move(order);
  return out;
}

}  // namespace

problem at_values(const symbolic_problem& p, std::span<const bytes> values) {
  expects(values.size() == p.dimensions.size(), "one value a dimension");
  problem out;
  out.alignment = p.alignment;
  out.granularity = p.granularity;
  for (const symbolic_buffer& b : p.buffers) {
    buffer there;
    there.name = b.name;
    there.size = size_at(b, values);
    there.live = b.live;
    there.alignment = b.alignment;
    out.add(std::move(there));
  }
  return out;
}

result<symbolic_plan> solve_symbolic(const symbolic_problem& p, const options& o) {
  if (auto ok = check(p); !ok) return ok.error();
  std::array<std::vector<bytes>, 3> points;  // most first: it decides
  for (const dimension& d : p.dimensions) {
    points[0].push_back(d.most);
    points[1].push_back(d.least + (d.most - d.least) / 2);
    points[2].push_back(d.least);
  }
  const problem largest = at_values(p, points[0]);
  std::optional<symbolic_plan> best;
  std::array<bytes, 3> best_arenas{};
  std::vector<bytes> offsets(p.buffers.size());
  bytes lower_bound = 0;
  for (const auto& point : points) {
    auto solved = solve(at_values(p, point), o);
    if (!solved) return solved.error();
    // Sums too large for the solver at one point are no reason to refuse: the other points' orders serve.
    if (!solved->has_offsets()) solved->offsets.assign(p.buffers.size(), 0);
    if (&point == points.data()) lower_bound = solved->lower_bound();
    std::vector<index> order(p.buffers.size());
    std::iota(order.begin(), order.end(), index{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](index a, index b) { return solved->offset(a) < solved->offset(b); });
    symbolic_plan candidate = supports_of(p, largest, std::move(order));
    std::array<bytes, 3> arenas{};
    for (std::size_t k = 0; k < points.size(); ++k) arenas[k] = *evaluate(p, candidate, points[k], offsets);
    if (best && arenas >= best_arenas) continue;
    best = std::move(candidate);
    best_arenas = arenas;
  }
  best->most_bytes = best_arenas[0];
  best->most_lower_bound = lower_bound;
  return std::move(*best);
}

result<bytes> evaluate(const symbolic_problem& p, const symbolic_plan& plan, std::span<const bytes> values,
                       std::span<bytes> offsets) {
  if (values.size() != p.dimensions.size()) return error{errc::invalid_input, "not one value a dimension"};
  if (offsets.size() != p.buffers.size()) return error{errc::invalid_input, "not one offset a buffer"};
  for (std::size_t d = 0; d < values.size(); ++d) {
    if (values[d] < p.dimensions[d].least || values[d] > p.dimensions[d].most) {
      return error{errc::invalid_input, "dimension: the value is out of its bounds", d};
    }
  }
  const auto end_of = [&](index i) { return offsets[i] + align_up(size_at(p.buffers[i], values), p.granularity); };
  bytes arena = 0;
  for (std::size_t k = 0; k < plan.order.size(); ++k) {
    const index i = plan.order[k];
    const bytes alignment = p.buffers[i].alignment != 0 ? p.buffers[i].alignment : p.alignment;
    bytes at = 0;
    for (std::uint32_t s = plan.first[k]; s < plan.first[k + 1]; ++s) at = std::max(at, end_of(plan.supports[s]));
    offsets[i] = align_up(at, alignment);
    arena = std::max(arena, end_of(i));
  }
  return arena;
}

}  // namespace berth::plan

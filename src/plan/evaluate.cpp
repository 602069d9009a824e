#include "berth/plan/evaluate.hpp"

#include <algorithm>
#include <map>

#include "plan/model/size.hpp"

namespace berth::plan {
namespace {

bytes sum_at(std::span<const size_term> terms, std::span<const bytes> values) {
  bytes sum = 0;
  for (const size_term& t : terms) {
    bytes product = t.factor;
    for (const index d : t.dimensions) product *= values[d];
    sum += product;
  }
  return sum;
}

result<void> validate_values(const problem& p, std::span<const bytes> values) {
  if (values.size() != p.dimensions.size()) return error{errc::invalid_input, "problem: not one value a dimension"};
  for (std::size_t d = 0; d < values.size(); ++d) {
    const dimension& bounds = p.dimensions[d];
    if (bounds.least > bounds.most) return error{errc::invalid_input, "dimension: its bounds are reversed", d};
    if (values[d] < bounds.least || values[d] > bounds.most) {
      return error{errc::invalid_input, "dimension: the value is out of its bounds", d};
    }
  }
  return {};
}

std::vector<bytes> largest_values(const problem& p) {
  std::vector<bytes> most;
  for (const dimension& d : p.dimensions) most.push_back(d.most);
  return most;
}

// Returns the size of buffer i. Errors: as at_values().
result<bytes> checked_size(const problem& p, index i, std::span<const bytes> values) {
  const buffer& b = p.buffers[i];
  if (b.terms.empty()) return b.size;
  for (const size_term& t : b.terms) {
    for (const index d : t.dimensions) {
      if (d >= values.size()) return error{errc::invalid_input, "buffer: its size names no dimension", i};
    }
  }
  const auto size = size_at(b.terms, values);
  if (!size) return error{errc::overflow, "buffer: its largest size exceeds 2^62 bytes", i};
  return *size;
}

}  // namespace

bytes size_of(const buffer& b, std::span<const bytes> values) {
  return b.terms.empty() ? b.size : sum_at(b.terms, values);
}

std::optional<bytes> size_at(std::span<const size_term> terms, std::span<const bytes> values) {
  bytes sum = 0;
  for (const size_term& t : terms) {
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

result<problem> at_values(const problem& p, std::span<const bytes> values) {
  if (auto ok = validate_values(p, values); !ok) return ok.error();
  problem out = p;
  out.dimensions.clear();
  for (index i = 0; i < p.buffers.size(); ++i) {
    const auto size = checked_size(p, i, values);
    if (!size) return size.error();
    out.buffers[i].size = *size;
    out.buffers[i].terms.clear();
  }
  return out;
}

result<problem> at_most(const problem& p) {
  return at_values(p, largest_values(p));
}

result<bytes> evaluate(const problem& p, const plan& plan, std::span<const bytes> values, std::span<bytes> offsets) {
  if (auto ok = validate_values(p, values); !ok) return ok.error();
  if (offsets.size() != p.buffers.size()) return error{errc::invalid_input, "problem: not one offset a buffer"};
  const auto end_of = [&](index i) {
    return offsets[i] + align_up(size_of(p.buffers[i], values), p.granularity_of(i)) + p.tail_pad_of(i);
  };
  bytes arena = 0;
  for (std::size_t k = 0; k < plan.order.size(); ++k) {
    const index i = plan.order[k];
    bytes at = 0;
    for (std::uint32_t below = plan.first_support[k]; below < plan.first_support[k + 1]; ++below) {
      at = std::max(at, end_of(plan.supports[below]));
    }
    offsets[i] = align_up(at, p.alignment_of(i));
    arena = std::max(arena, end_of(i));
  }
  return arena;
}

evaluator::evaluator(const problem& p, const plan& plan) : ends_(plan.order.size()), offsets_(plan.order.size()) {
  std::map<footprint, std::uint32_t> known;
  std::vector<std::uint32_t> step_of(plan.order.size());
  for (std::uint32_t k = 0; k < plan.order.size(); ++k) {
    const index i = plan.order[k];
    step_of[i] = k;
    std::vector<size_term> terms = p.buffers[i].terms;
    if (terms.empty()) terms.push_back({.factor = p.buffers[i].size});
    const auto [at, fresh] =
        known.emplace(footprint{std::move(terms), p.alignment_of(i), p.granularity_of(i), p.tail_pad_of(i)},
                      static_cast<std::uint32_t>(footprints_.size()));
    if (fresh) footprints_.push_back(at->first);
    steps_.push_back({i, at->second, plan.first_support[k + 1]});
  }
  for (const index below : plan.supports) supports_.push_back(step_of[below]);
  for (const footprint& each : footprints_) taken_.push_back({0, each.alignment});
}

bytes evaluator::evaluate(std::span<const bytes> values) noexcept {
  for (std::size_t f = 0; f < footprints_.size(); ++f) {
    const footprint& each = footprints_[f];
    taken_[f].size = align_up(sum_at(each.terms, values), each.granularity) + each.tail_pad;
  }
  bytes arena = 0;
  std::uint32_t below = 0;
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    const step& s = steps_[k];
    bytes at = 0;
    for (; below < s.last; ++below) at = std::max(at, ends_[supports_[below]]);
    const taken& it = taken_[s.footprint];
    offsets_[s.buffer] = at = align_up(at, it.alignment);
    ends_[k] = at += it.size;
    arena = std::max(arena, at);
  }
  return arena;
}

}  // namespace berth::plan

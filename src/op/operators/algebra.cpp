// Einsum, over any number of operands, and determinants.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

// The labels of one operand's dimensions. Dimensions under "..." have labels of their own: -1 is the last of them.
using labels = std::vector<int>;

struct terms {
  std::vector<labels> inputs;
  labels result;
};

// `rank`: that of the operand, or the dimensions of "..." if this is the result's text.
labels labels_of(std::string_view text, std::size_t ellipsis) {
  labels to;
  bool seen = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text.substr(i, 3) == "...") {
      if (seen) refuse("the equation has '...' twice in one term");
      seen = true;
      for (std::size_t k = ellipsis; k > 0; --k) to.push_back(-static_cast<int>(k));
      i += 2;
      continue;
    }
    const bool letter = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z');
    if (!letter) refuse(std::string{"the equation has a '"} + text[i] + "'");
    to.push_back(text[i]);
  }
  return to;
}
std::size_t letters_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return c != ' ' && c != '.'; }));
}

terms terms_of(const request& q) {
  const auto equation = attribute_or<std::string>(q, "equation", "");
  const std::size_t arrow = equation.find("->");
  const std::string_view all = equation, left = all.substr(0, arrow);
  std::vector<std::string_view> texts;
  for (std::size_t from = 0; from <= left.size();) {
    const std::size_t comma = std::min(left.find(',', from), left.size());
    texts.push_back(left.substr(from, comma - from));
    from = comma + 1;
  }
  if (texts.size() != q.inputs.size()) {
    refuse("the equation has " + std::to_string(texts.size()) + " terms, the node " + std::to_string(q.inputs.size()) +
           " inputs");
  }
  terms t;
  std::size_t widest = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t rank = shape_of(q, i).size(), letters = letters_of(texts[i]);
    const bool open = texts[i].find("...") != std::string_view::npos;
    if (open ? letters > rank : letters != rank) {
      refuse("input " + std::to_string(i) + " has " + std::to_string(rank) + " dimensions, its term is '" +
             std::string{texts[i]} + "'");
    }
    t.inputs.push_back(labels_of(texts[i], rank - letters));
    widest = std::max(widest, open ? rank - letters : 0);
  }
  if (arrow != std::string::npos) {
    t.result = labels_of(all.substr(arrow + 2), widest);
    return t;
  }
  // Without an arrow: the labels of "...", then every letter that occurs once, in the order of the alphabet.
  for (std::size_t k = widest; k > 0; --k) t.result.push_back(-static_cast<int>(k));
  std::map<int, int> times;
  for (const labels& term : t.inputs) {
    for (const int label : term) times[label] += label > 0;
  }
  for (const auto& [label, count] : times) {
    if (count == 1) t.result.push_back(label);
  }
  return t;
}

// Returns the extent of each label; 1 is broadcast over those of other terms.
std::map<int, std::int64_t> extents_of(const request& q, const terms& t) {
  std::map<int, std::int64_t> extents;
  const auto fit = [](std::int64_t a, std::int64_t b, bool broadcast) {
    if (a == b || (broadcast && (a == 1 || b == 1))) return;
    refuse("dimensions of one label are " + std::to_string(a) + " and " + std::to_string(b));
  };
  for (std::size_t i = 0; i < t.inputs.size(); ++i) {
    std::map<int, std::int64_t> own;
    for (std::size_t d = 0; d < t.inputs[i].size(); ++d) {
      const std::int64_t here = shape_of(q, i)[d];
      fit(own.emplace(t.inputs[i][d], here).first->second, here, false);
    }
    for (const auto& [label, here] : own) {
      const auto [at, first] = extents.emplace(label, here);
      fit(at->second, here, true);
      if (at->second == 1) at->second = here;
    }
  }
  return extents;
}
shape einsum_shape(const terms& t, const std::map<int, std::int64_t>& extents) {
  shape to;
  for (std::size_t d = 0; d < t.result.size(); ++d) {
    if (std::count(t.result.begin(), t.result.end(), t.result[d]) != 1) refuse("a label stands twice in the result");
    const auto found = extents.find(t.result[d]);
    if (found == extents.end()) refuse("a label of the result is in no term");
    to.push_back(found->second);
  }
  return to;
}
types einsum_type(const request& q) {
  (void)require_number(q, 0);
  require_same_types(q);
  if (q.inputs.size() >= most_operands) refuse("more than " + std::to_string(most_operands - 1) + " inputs");
  const terms t = terms_of(q);
  const auto extents = extents_of(q, t);
  const shape to = einsum_shape(t, extents);
  shape all;
  std::size_t summed = 0;
  for (const auto& [label, extent] : extents) {
    all.push_back(extent);
    summed += extent > 1 && std::find(t.result.begin(), t.result.end(), label) == t.result.end();
  }
  if (summed > most_rank) refuse("more than " + std::to_string(most_rank) + " labels are summed over");
  limit_steps(all);
  return {dense(input(q, 0).type, to)};
}

// Returns by label the distance of its elements in an operand. A label that stands twice walks along a diagonal.
strides strides_by(const tensor_type& t, const labels& own, const labels& walked) {
  const strides by = strides_of(t);
  strides to(walked.size(), 0);
  for (std::size_t k = 0; k < walked.size(); ++k) {
    for (std::size_t d = 0; d < own.size(); ++d) {
      if (own[d] == walked[k] && t.shape[d] != 1) to[k] += by[d];
    }
  }
  return to;
}
template <class C>
C product_of(element type, std::byte* const* at, const nest& inner, std::int64_t i, std::size_t operands) noexcept {
  C product{1};
  for (std::size_t k = 0; k < operands; ++k) product = times(product, read_as<C>(type, at[k] + i * inner.stride(k)));
  return product;
}
template <class C>
made einsum_in(const request& q, const types& outputs) {
  const terms t = terms_of(q);
  const auto extents = extents_of(q, t);
  labels summed;
  shape summed_shape;
  for (const auto& [label, extent] : extents) {
    if (std::find(t.result.begin(), t.result.end(), label) != t.result.end()) continue;
    summed.push_back(label);
    summed_shape.push_back(extent);
  }
  std::vector<strides> outer_by, inner_by;
  for (std::size_t i = 0; i < t.inputs.size(); ++i) {
    outer_by.push_back(strides_by(input(q, i), t.inputs[i], t.result));
    inner_by.push_back(strides_by(input(q, i), t.inputs[i], summed));
  }
  outer_by.push_back(strides_of(outputs[0]));
  const auto run = [type = outputs[0].type, outer = nest{outputs[0].shape, outer_by},
                    inner = nest{summed_shape, inner_by}, operands = t.inputs.size()](bases at, void*) {
    outer.rows(at, [&](std::byte* const* row) {
      for (std::int64_t i = 0; i < outer.row(); ++i) {
        std::array<std::byte*, most_operands> from;
        for (std::size_t k = 0; k < operands; ++k) from[k] = row[k] + i * outer.stride(k);
        C total{};
        inner.rows({from.data(), operands}, [&](std::byte* const* r) {
          if constexpr (std::is_same_v<C, double>) {
            if (operands == 2) {
              total += dot(type, r[0], inner.stride(0), r[1], inner.stride(1), inner.row());
              return;
            }
          }
          for (std::int64_t k = 0; k < inner.row(); ++k) total = sum(total, product_of<C>(type, r, inner, k, operands));
        });
        store_as<C>(type)(&total, row[operands] + i * outer.stride(operands), 0, 1);
      }
    });
  };
  return function(q, outputs, run);
}
made einsum(const request& q, const types& outputs) {
  return is_real(outputs[0].type) ? einsum_in<double>(q, outputs) : einsum_in<std::int64_t>(q, outputs);
}

types determinant_type(const request& q) {
  const shape& s = shape_of(q, 0);
  (void)require_real(q, 0);
  if (s.size() < 2 || s[s.size() - 1] != s[s.size() - 2]) refuse("the last two dimensions are no square");
  return {dense(input(q, 0).type, {s.begin(), s.end() - 2})};
}
// Eliminates with the largest pivot of each column; overwrites the n by n elements.
double eliminated(double* m, std::int64_t n) noexcept {
  double product = 1;
  for (std::int64_t c = 0; c < n; ++c) {
    std::int64_t pivot = c;
    for (std::int64_t r = c + 1; r < n; ++r) {
      if (std::abs(m[r * n + c]) > std::abs(m[pivot * n + c])) pivot = r;
    }
    if (m[pivot * n + c] == 0) return 0;
    if (pivot != c) {
      std::swap_ranges(m + pivot * n, m + pivot * n + n, m + c * n);
      product = -product;
    }
    product *= m[c * n + c];
    for (std::int64_t r = c + 1; r < n; ++r) {
      const double share = m[r * n + c] / m[c * n + c];
      for (std::int64_t k = c; k < n; ++k) m[r * n + k] -= share * m[c * n + k];
    }
  }
  return product;
}
made determinant(const request& q, const types& outputs) {
  const tensor_type& from = input(q, 0);
  const strides by = strides_of(from);
  const std::int64_t n = from.shape.back(), down = by[by.size() - 2], right = by.back();
  const nest over{outputs[0].shape, {{by.begin(), by.end() - 2}, strides_of(outputs[0])}};
  const auto run = [=, type = from.type](bases at, void* workspace) {
    auto* m = static_cast<double*>(workspace);
    over.each(at, [&](const nest::point& here) {
      for (std::int64_t k = 0; k < n * n; ++k) {
        m[k] = read(type, here[0] + k / n * down + k % n * right);
      }
      write(type, here[1], eliminated(m, n));
    });
  };
  return function(q, outputs, run, static_cast<bytes>(count_of({n, n})) * sizeof(double), "one matrix in f64");
}

constexpr definition algebra_table[] = {
    {"Det", 1, 0, false, determinant_type, determinant, "3x8x8"},
    {"Einsum", any_number, 0, false, einsum_type, einsum, "16x24,24x8"},
};

}  // namespace

const rows algebra_rows{algebra_table};

}  // namespace berth::op

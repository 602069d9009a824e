#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "berth/graph/graph.hpp"

namespace berth {
namespace {

plan::size_term too_large() {
  return {max_bytes, {}};
}

}  // namespace

extent::extent(std::vector<plan::size_term> terms) {
  for (plan::size_term& t : terms) std::sort(t.dimensions.begin(), t.dimensions.end());
  std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.dimensions < b.dimensions; });
  for (plan::size_term& t : terms) {
    if (!terms_.empty() && terms_.back().dimensions == t.dimensions) {
      const auto sum = checked_add(terms_.back().factor, t.factor);
      terms_.back() = sum ? plan::size_term{*sum, std::move(t.dimensions)} : too_large();
    } else {
      terms_.push_back(std::move(t));
    }
  }
  if (terms_.size() > 1) std::erase_if(terms_, [](const plan::size_term& t) { return t.factor == 0; });
  if (terms_.empty()) terms_.push_back({0, {}});
}

extent operator+(const extent& a, const extent& b) {
  std::vector<plan::size_term> sum = a.terms_;
  sum.insert(sum.end(), b.terms_.begin(), b.terms_.end());
  return extent{std::move(sum)};
}

extent operator*(const extent& a, const extent& b) {
  std::vector<plan::size_term> sum;
  for (const plan::size_term& x : a.terms_) {
    for (const plan::size_term& y : b.terms_) {
      const auto factor = checked_mul(x.factor, y.factor);
      plan::size_term& product = sum.emplace_back(factor ? plan::size_term{*factor, x.dimensions} : too_large());
      if (factor) product.dimensions.insert(product.dimensions.end(), y.dimensions.begin(), y.dimensions.end());
    }
  }
  return extent{std::move(sum)};
}

std::vector<bytes> open_sizes::largest() const {
  std::vector<bytes> most;
  for (const plan::dimension& d : dimensions) most.push_back(d.most);
  return most;
}

bool operator==(const open_sizes& a, const open_sizes& b) {
  const auto same = [](const plan::dimension& x, const plan::dimension& y) {
    return x.name == y.name && x.least == y.least && x.most == y.most;
  };
  const auto equal = [](const auto& x, const auto& y) {  // records without padding, a few bytes a value
    return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof x[0]) == 0);
  };
  return equal(a.values, b.values) && equal(a.workspaces, b.workspaces) && equal(a.views, b.views) &&
         a.inside_roots == b.inside_roots && a.extents == b.extents &&
         std::equal(a.dimensions.begin(), a.dimensions.end(), b.dimensions.begin(), b.dimensions.end(), same);
}

graph_fault values_of(const open_sizes& open, std::span<const dimension_value> given, std::vector<bytes>& values) {
  const auto wrong = [](bytes number, std::string_view name, std::string what) {
    return graph_fault{fault_kind::bad_dimension, {}, {}, number, "dimension '" + std::string{name} + "' " + what};
  };
  values.assign(open.dimensions.size(), 0);
  std::vector<bool> has(open.dimensions.size(), false);
  for (const dimension_value& each : given) {
    const auto d = std::find_if(open.dimensions.begin(), open.dimensions.end(),
                                [&](const plan::dimension& known) { return known.name == each.name; });
    const auto at = static_cast<std::size_t>(d - open.dimensions.begin());
    if (d == open.dimensions.end()) return wrong(each.value, each.name, "is not one of the graph");
    if (has[at]) return wrong(each.value, each.name, "has two values");
    if (each.value < d->least || each.value > d->most) {
      return wrong(each.value, each.name,
                   "is " + std::to_string(each.value) + ": the plan is for " + std::to_string(d->least) + " to " +
                       std::to_string(d->most));
    }
    has[at] = true;
    values[at] = each.value;
  }
  for (std::size_t d = 0; d < has.size(); ++d) {
    const plan::dimension& missing = open.dimensions[d];
    if (has[d]) continue;
    return wrong(0, missing.name,
                 "has no value, from " + std::to_string(missing.least) + " to " + std::to_string(missing.most));
  }
  return {};
}

}  // namespace berth

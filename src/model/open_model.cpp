#include "model/open_model.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "berth/graph/fingerprint.hpp"
#include "berth/model/input_error.hpp"
#include "berth/plan/evaluate.hpp"
#include "model/files/size_expression.hpp"

namespace berth::model {
namespace {

using point = std::vector<std::int64_t>;

// Returns up to three values of a range: its ends and one between.
std::vector<std::int64_t> nodes_of(const dimension_range& r) {
  const std::set<std::int64_t> nodes{r.least, r.least + (r.most - r.least) / 2, r.most};
  return {nodes.begin(), nodes.end()};
}

// Returns further values at which sizes are compared: all of a short range, else those beside the ends and between.
std::vector<std::int64_t> checks_of(const dimension_range& r) {
  std::set<std::int64_t> checks;
  const std::int64_t length = r.most - r.least, short_range = 32;
  for (std::int64_t k = 0; k <= std::min<std::int64_t>(length, short_range); ++k) {
    if (length <= short_range) checks.insert(r.least + k);
    if (length > short_range && k <= 8) checks.insert(r.least + length / 8 * k + k % 2);
  }
  for (const std::int64_t k : {r.least + 1, r.least + 2, r.most - 1}) checks.insert(std::clamp(k, r.least, r.most));
  return {checks.begin(), checks.end()};
}

// Turns values at these nodes, `step` apart in a grid, into the coefficients of 1, x, x^2: divided differences, then
// their products. Returns false if a coefficient is no whole number. Wraps on overflow, which the comparison finds.
bool interpolate(const std::vector<std::int64_t>& nodes, std::int64_t* c, std::size_t step) {
  const std::size_t n = nodes.size();
  const auto product = [](std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  };
  const auto difference = [](std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
  };
  for (std::size_t order = 1; order < n; ++order) {
    for (std::size_t k = n; k-- > order;) {
      const std::int64_t rise = difference(c[k * step], c[(k - 1) * step]), run = nodes[k] - nodes[k - order];
      if (rise % run != 0) return false;
      c[k * step] = rise / run;
    }
  }
  for (std::size_t order = n - 1; order-- > 0;) {
    for (std::size_t k = order; k + 1 < n; ++k) {
      c[k * step] = difference(c[k * step], product(nodes[order], c[(k + 1) * step]));
    }
  }
  return true;
}

class fitter {
 public:
  fitter(const std::string& path, const std::vector<dimension_range>& ranges) : path_{path}, ranges_{ranges} {
    for (const dimension_range& r : ranges) nodes_.push_back(nodes_of(r));
    add_grid({});
    std::vector<std::vector<std::int64_t>> checks;
    std::size_t most = 0;
    for (const dimension_range& r : ranges) {
      checks.push_back(checks_of(r));
      most = std::max(most, checks.back().size());
    }
    for (std::size_t k = 0; k < most; ++k) {
      point p;
      for (std::size_t d = 0; d < ranges.size(); ++d) p.push_back(checks[d][(k * (d + 1) + d) % checks[d].size()]);
      if (std::find(points_.begin(), points_.end(), p) == points_.end()) points_.push_back(std::move(p));
    }
  }

  open_model fit(const graph_at& at) {
    open_model made{at(last_of_grid()), {}, 0};
    const graph_structure most = made.graph.structure();
    for (const point& p : points_) add(p, at(p).structure(), most, made.graph);
    open_sizes open;
    for (const dimension_range& r : ranges_) {
      open.dimensions.push_back({name_of(r.name), static_cast<bytes>(r.least), static_cast<bytes>(r.most)});
    }
    const auto note = [&](std::vector<open_sizes::use>& uses, std::uint32_t of, const std::vector<bytes>& sizes) {
      if (std::all_of(sizes.begin(), sizes.end(), [&](bytes s) { return s == sizes[0]; })) return;
      const auto [known, fresh] = numbers_.emplace(sizes, static_cast<std::uint32_t>(open.extents.size()));
      if (fresh) open.extents.push_back(extent_of(sizes));
      uses.push_back({of, known->second});
      if (!exact_[known->second]) ++made.larger;
    };
    const std::size_t values = most.values.size(), nodes = most.nodes.size();
    for (std::uint32_t i = 0; i < by_size_.size(); ++i) {
      if (i < values) {
        note(open.values, i, by_size_[i]);
      } else if (i < values + nodes) {
        note(open.workspaces, i - static_cast<std::uint32_t>(values), by_size_[i]);
      } else {
        note(open.views, i - static_cast<std::uint32_t>(values + nodes), by_size_[i]);
      }
    }
    made.graph.open(std::move(open));
    if (!made.graph.fault().ok()) throw input_error(path_, made.graph.fault().text);
    std::set<std::int64_t> tried;
    for (const point& p : points_) tried.insert(p[0]);
    made.tried.assign(tried.begin(), tried.end());
    return made;
  }

 private:
  // The grid comes first, the last dimension fastest.
  void add_grid(point begun) {
    if (begun.size() == ranges_.size()) {
      points_.push_back(std::move(begun));
      ++grid_;
      return;
    }
    for (const std::int64_t value : nodes_[begun.size()]) {
      point next = begun;
      next.push_back(value);
      add_grid(std::move(next));
    }
  }
  const point& last_of_grid() const { return points_[grid_ - 1]; }

  static std::string name_of(std::string name) {
    for (char& c : name) {
      if (!is_dimension_name(std::string{'x', c})) c = '_';
    }
    return is_dimension_name(name) ? name : "d_" + name;
  }

  // Adds the sizes at one point, after a check that all else is as at the largest values.
  void add(const point& p, const graph_structure& now, const graph_structure& most, const graph& names) {
    graph_structure other = now;
    const auto same = [](auto& to, const auto& from, auto member) {
      for (std::size_t i = 0; i < std::min(to.size(), from.size()); ++i) to[i].*member = from[i].*member;
    };
    same(other.values, most.values, &value_record::size);
    same(other.nodes, most.nodes, &node_record::workspace);
    same(other.views, most.views, &view_record::offset);
    if (const difference d = first_difference(other, most); d.what != change::none) {
      std::string where;
      for (std::size_t k = 0; k < p.size(); ++k) {
        where += (k == 0 ? "" : ", ") + ranges_[k].name + "=" + std::to_string(p[k]);
      }
      throw input_error(path_, "the graph at " + where + " is another than at the largest values: " +
                                   describe(d, other, names) + "; give a narrower range");
    }
    by_size_.resize(now.values.size() + now.nodes.size() + now.views.size());
    std::size_t i = 0;
    for (const value_record& v : now.values) by_size_[i++].push_back(v.size);
    for (const node_record& n : now.nodes) by_size_[i++].push_back(n.workspace);
    for (const view_record& v : now.views) by_size_[i++].push_back(v.offset);
  }

  // Returns the extent of a size from its values at all points; it is nowhere smaller.
  extent extent_of(const std::vector<bytes>& sizes) {
    const auto fits = [&](const extent& e, bool& is_exact, long double& sum) {
      is_exact = true;
      sum = 0;
      for (std::size_t k = 0; k < points_.size(); ++k) {
        const auto size = plan::size_at(e.terms(), {points_as_bytes(k)});
        if (!size || *size < sizes[k]) return false;
        is_exact = is_exact && *size == sizes[k];
        sum += static_cast<long double>(*size);
      }
      return true;
    };
    bool is_exact = false;
    long double sum = 0, least = 0;
    extent best = polynomial(sizes);
    if (!best.empty() && fits(best, is_exact, least)) {
      exact_.push_back(is_exact);
      if (is_exact) return best;
    } else {
      best = {};
      exact_.push_back(false);
    }
    // The product of some dimensions, with the smallest factor.
    for (std::size_t used = 0; used < (std::size_t{1} << ranges_.size()); ++used) {
      plan::size_term t{0, {}};
      for (std::size_t k = 0; k < points_.size(); ++k) {
        bytes product = 1;
        for (std::size_t d = 0; d < ranges_.size(); ++d) {
          if ((used >> d & 1) != 0) product *= static_cast<bytes>(points_[k][d]);
        }
        t.factor = std::max(t.factor, sizes[k] / product + (sizes[k] % product != 0 ? 1 : 0));
      }
      for (std::size_t d = 0; d < ranges_.size(); ++d) {
        if ((used >> d & 1) != 0) t.dimensions.push_back(static_cast<plan::index>(d));
      }
      const extent cover{{std::move(t)}};
      if (fits(cover, is_exact, sum) && (best.empty() || sum < least)) {
        best = cover;
        least = sum;
      }
    }
    return best;
  }

  std::vector<bytes> points_as_bytes(std::size_t k) const { return {points_[k].begin(), points_[k].end()}; }

  // Returns the polynomial through the grid without its negative terms; none with whole coefficients: empty.
  extent polynomial(const std::vector<bytes>& sizes) const {
    std::vector<std::int64_t> c(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(grid_));
    std::size_t step = grid_;
    for (const auto& nodes : nodes_) {
      const std::size_t block = step;
      step /= nodes.size();
      for (std::size_t first = 0; first < grid_; first += block) {
        for (std::size_t k = 0; k < step; ++k) {
          if (!interpolate(nodes, c.data() + first + k, step)) return {};
        }
      }
    }
    std::vector<plan::size_term> terms;
    for (std::size_t i = 0; i < grid_; ++i) {
      if (c[i] <= 0) continue;
      plan::size_term& t = terms.emplace_back(plan::size_term{static_cast<bytes>(c[i]), {}});
      std::size_t rest = grid_;
      for (std::size_t d = 0; d < nodes_.size(); ++d) {
        rest /= nodes_[d].size();
        t.dimensions.insert(t.dimensions.end(), i / rest % nodes_[d].size(), static_cast<plan::index>(d));
      }
    }
    return extent{std::move(terms)};
  }

  const std::string& path_;
  const std::vector<dimension_range>& ranges_;
  std::vector<std::vector<std::int64_t>> nodes_;  // by dimension
  std::vector<point> points_;                     // the grid, then the checks
  std::size_t grid_ = 0;
  std::vector<std::vector<bytes>> by_size_;              // by value, node and view: its size at each point
  std::map<std::vector<bytes>, std::uint32_t> numbers_;  // of the extents
  std::vector<bool> exact_;                              // by extent
};

}  // namespace

open_model open_by_fit(const std::string& path, const std::vector<dimension_range>& ranges, const graph_at& at) {
  if (ranges.size() > 2) throw input_error(path, "more than two dimensions with a range");
  for (const dimension_range& r : ranges) {
    if (r.least < 1 || r.most < r.least || r.most > (std::int64_t{1} << 30)) {
      throw input_error(path, "dimension '" + r.name + "' is from " + std::to_string(r.least) + " to " +
                                  std::to_string(r.most) + ": it needs 1 or more, in rising order, to 2^30");
    }
  }
  return fitter{path, ranges}.fit(at);
}

}  // namespace berth::model

// Operators whose result's shape depends on values. Phase one finds them, from constants.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

// The most elements that phase one looks at to find the shape of a result.
constexpr std::size_t most_looked_at = std::size_t{1} << 24;

types non_zero_type(const request& q) {
  std::int64_t count = 0;
  for (const double v : numbers(q, 0, most_looked_at)) count += v != 0;
  return {dense(element::i64, {std::max<std::int64_t>(rank_of(q, 0), 1), count})};
}
made non_zero(const request& q, const types& outputs) {
  const auto values = numbers(q, 0, most_looked_at);
  const shape s = shape_of(q, 0);
  std::vector<std::vector<std::int64_t>> found(std::max<std::size_t>(s.size(), 1));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0) continue;
    auto rest = static_cast<std::int64_t>(i);
    if (s.empty()) found[0].push_back(0);
    for (std::size_t d = s.size(); d-- > 0; rest /= s[d]) found[d].push_back(rest % s[d]);
  }
  for (std::size_t d = 1; d < found.size(); ++d) found[0].insert(found[0].end(), found[d].begin(), found[d].end());
  return known(q, outputs, std::move(found[0]));
}

std::vector<std::int64_t> chosen(const request& q) {
  const auto condition = integers(q, 1, most_looked_at);
  std::vector<std::int64_t> indices;
  const std::int64_t most =
      q.attributes.contains("axis") ? shape_of(q, 0)[axis_of(q, 0, rank_of(q, 0))] : count_of(shape_of(q, 0));
  for (std::size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] == 0) continue;
    if (static_cast<std::int64_t>(i) >= most) refuse("the condition is longer than the input");
    indices.push_back(static_cast<std::int64_t>(i));
  }
  return indices;
}
types compress_type(const request& q) {
  const auto count = static_cast<std::int64_t>(chosen(q).size());
  shape to{count};
  if (q.attributes.contains("axis")) {
    to = shape_of(q, 0);
    to[axis_of(q, 0, rank_of(q, 0))] = count;
  }
  return {dense(like_first(q)[0].type, to)};
}
made compress(const request& q, const types& outputs) {
  tensor_type from = input(q, 0);
  if (!is_row_major(from)) refuse("an input that is not row-major");
  if (!is_row_major(outputs[0])) refuse("a result that is not row-major");
  const bool flat = !q.attributes.contains("axis");
  if (flat) from = dense(from.type, {count_of(from.shape)});
  const std::size_t axis = flat ? 0 : axis_of(q, 0, rank_of(q, 0));
  const auto cut = static_cast<std::ptrdiff_t>(axis);
  const auto size = static_cast<std::int64_t>(element_size(from.type));
  const std::int64_t outer = count_of({from.shape.begin(), from.shape.begin() + cut});
  const std::int64_t row = count_of({from.shape.begin() + cut + 1, from.shape.end()}) * size;
  // A run of indices that follow one another: one copy.
  struct piece {
    std::int64_t begin, count;
  };
  std::vector<piece> pieces;
  for (const std::int64_t i : chosen(q)) {
    if (pieces.empty() || pieces.back().begin + pieces.back().count != i) pieces.push_back({i, 0});
    ++pieces.back().count;
  }
  pieces.shrink_to_fit();
  const bytes held = pieces.size() * sizeof(piece);
  const auto run = [pieces = std::move(pieces), outer, row, plane = from.shape[axis] * row](bases at, void*) {
    std::byte* to = at[1];
    for (std::int64_t o = 0; o < outer; ++o) {
      for (const piece& p : pieces) {
        std::memcpy(to, at[0] + o * plane + p.begin * row, static_cast<std::size_t>(p.count * row));
        to += p.count * row;
      }
    }
  };
  return holding(function(q, outputs, run), held);
}

// A box of a greedy choice by scores: none may overlap a chosen one by more than a share of what both cover.
struct box {
  double top, left, bottom, right;
  [[nodiscard]] double area() const noexcept { return (bottom - top) * (right - left); }
};
double overlap(const box& a, const box& b) noexcept {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top),
               width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(height > 0) || !(width > 0)) return 0;
  return height * width / (a.area() + b.area() - height * width);
}
std::vector<box> boxes_of(const request& q) {
  const auto corners = numbers(q, 0, most_looked_at);
  const bool centres = attribute_or<std::int64_t>(q, "center_point_box", 0) != 0;
  std::vector<box> boxes;
  for (std::size_t i = 0; i + 4 <= corners.size(); i += 4) {
    const double* c = corners.data() + i;
    boxes.push_back(centres
                        ? box{c[1] - c[3] / 2, c[0] - c[2] / 2, c[1] + c[3] / 2, c[0] + c[2] / 2}
                        : box{std::min(c[0], c[2]), std::min(c[1], c[3]), std::max(c[0], c[2]), std::max(c[1], c[3])});
  }
  return boxes;
}
// Returns batch, class and box of each chosen one.
std::vector<std::int64_t> boxes_chosen(const request& q) {
  const shape &boxes_shape = shape_of(q, 0), &scores_shape = shape_of(q, 1);
  if (boxes_shape.size() != 3 || scores_shape.size() != 3 || boxes_shape[2] != 4 || boxes_shape[0] != scores_shape[0] ||
      boxes_shape[1] != scores_shape[2]) {
    refuse("boxes " + text_of(boxes_shape) + " do not fit scores " + text_of(scores_shape));
  }
  const auto one = [&](std::size_t i, double usual) {
    const auto v = has(q, i) ? numbers(q, i, 1) : std::vector<double>{};
    return v.empty() ? usual : v[0];
  };
  const auto most = truncated<std::int64_t>(one(2, 0));
  const double share = one(3, 0), least = one(4, -std::numeric_limits<double>::infinity());
  if (!(share >= 0 && share <= 1)) refuse("iou_threshold is not between 0 and 1");
  const auto scores = numbers(q, 1, most_looked_at);
  const std::vector<box> boxes = boxes_of(q);
  const std::int64_t count = boxes_shape[1];
  std::int64_t room = std::int64_t{1} << 28;  // of comparisons, so that a small file cannot take for ever
  std::vector<std::int64_t> chosen, order;
  for (std::int64_t lane = 0; count > 0 && lane < scores_shape[0] * scores_shape[1]; ++lane) {
    const std::int64_t batch = lane / scores_shape[1];
    const double* score = scores.data() + lane * count;
    const box* of_batch = boxes.data() + batch * count;
    order.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      if (score[i] > least) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return score[a] > score[b]; });
    const std::size_t first = chosen.size();
    for (const std::int64_t candidate : order) {
      const std::size_t so_far = (chosen.size() - first) / 3;
      if (static_cast<std::int64_t>(so_far) >= most) break;
      if ((room -= static_cast<std::int64_t>(so_far)) < 0) refuse("more than 2^28 pairs of boxes would be compared");
      bool apart = true;
      for (std::size_t k = 0; k < so_far && apart; ++k) {
        apart = !(overlap(of_batch[candidate], of_batch[chosen[first + 3 * k + 2]]) > share);
      }
      if (apart) chosen.insert(chosen.end(), {batch, lane % scores_shape[1], candidate});
    }
  }
  return chosen;
}
types boxes_type(const request& q) {
  return {dense(element::i64, {static_cast<std::int64_t>(boxes_chosen(q).size()) / 3, 3})};
}
made choose_boxes(const request& q, const types& outputs) {
  return known(q, outputs, boxes_chosen(q));
}

// The distinct elements, or slices along an axis.
struct distinct {
  std::vector<std::int64_t> first, inverse, count;  // by distinct slice; by slice; by distinct slice
};
// Returns slices in the order of their elements, one slice being `length` elements `step` apart, in `outer` groups.
template <class C>
distinct distinct_of(const tensor& t, std::int64_t outer, std::int64_t slices, std::int64_t inner, bool sorted) {
  const auto size = static_cast<std::int64_t>(element_size(t.type));
  std::vector<C> values(t.data.size() / static_cast<std::size_t>(size));
  load_as<C>(t.type)(t.data.data(), size, std::ssize(values), values.data());
  // Below 0, 0 or above; NaN comes last.
  const auto compared = [&](std::int64_t a, std::int64_t b) {
    if (values.empty()) return 0;  // however many rows of nothing there are
    for (std::int64_t o = 0; o < outer; ++o) {
      const C* from = values.data() + o * slices * inner;
      for (std::int64_t i = 0; i < inner; ++i) {
        const C x = from[a * inner + i], y = from[b * inner + i];
        if (x == y) continue;
        const bool x_is = x == x, y_is = y == y;
        if (x_is && y_is) return x < y ? -1 : 1;
        if (x_is != y_is) return x_is ? -1 : 1;
      }
    }
    return 0;
  };
  std::vector<std::int64_t> order(static_cast<std::size_t>(slices));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return compared(a, b) < 0; });
  distinct d;
  d.inverse.resize(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || compared(order[i - 1], order[i]) != 0) {
      d.first.push_back(order[i]);
      d.count.push_back(0);
    }
    ++d.count.back();
    d.inverse[static_cast<std::size_t>(order[i])] = std::ssize(d.first) - 1;
  }
  if (sorted) return d;
  std::vector<std::int64_t> place(d.first.size());
  std::iota(place.begin(), place.end(), 0);
  std::sort(place.begin(), place.end(), [&](std::int64_t a, std::int64_t b) {
    return d.first[static_cast<std::size_t>(a)] < d.first[static_cast<std::size_t>(b)];
  });
  distinct by_place = d;
  std::vector<std::int64_t> now(place.size());
  for (std::size_t i = 0; i < place.size(); ++i) {
    const auto from = static_cast<std::size_t>(place[i]);
    by_place.first[i] = d.first[from];
    by_place.count[i] = d.count[from];
    now[from] = static_cast<std::int64_t>(i);
  }
  for (std::int64_t& i : by_place.inverse) i = now[static_cast<std::size_t>(i)];
  return by_place;
}
struct unique_plan {
  std::int64_t outer = 1, slices = 1, inner = 1;
  shape result;
  std::size_t axis = 0;
  distinct found;
};
unique_plan unique_of(const request& q) {
  const tensor& t = parameter(q, 0);
  if (t.data.size() / std::max<bytes>(element_size(t.type), 1) > most_looked_at) refuse("more than 2^24 elements");
  const shape s = shape_of(q, 0);
  unique_plan p;
  if (q.attributes.contains("axis")) {
    p.axis = axis_of(q, 0, rank_of(q, 0));
    p.outer = count_of({s.begin(), s.begin() + static_cast<std::ptrdiff_t>(p.axis)});
    p.slices = s[p.axis];
    p.inner = count_of({s.begin() + static_cast<std::ptrdiff_t>(p.axis) + 1, s.end()});
    p.result = s;
  } else {
    p.slices = count_of(s);
    p.result = {0};
  }
  if (p.slices > static_cast<std::int64_t>(most_looked_at)) refuse("more than 2^24 elements");
  const bool sorted = attribute_or<std::int64_t>(q, "sorted", 1) != 0;
  p.found =
      in_domain(domain_of(t.type), [&]<class C>(C) { return distinct_of<C>(t, p.outer, p.slices, p.inner, sorted); });
  p.result[p.axis] = std::ssize(p.found.first);
  return p;
}
types unique_type(const request& q) {
  const unique_plan p = unique_of(q);
  const shape counts{std::ssize(p.found.first)};
  return {dense(input(q, 0).type, p.result), dense(element::i64, counts), dense(element::i64, {p.slices}),
          dense(element::i64, counts)};
}
made unique(const request& q, const types& outputs) {
  for (const tensor_type& t : outputs) {
    if (!is_row_major(t)) refuse("a result that is not row-major");
  }
  const unique_plan p = unique_of(q);
  const tensor& from = parameter(q, 0);
  const auto size = static_cast<std::size_t>(element_size(from.type)), row = static_cast<std::size_t>(p.inner) * size;
  std::vector<std::byte> values;
  for (std::int64_t o = 0; row > 0 && o < p.outer; ++o) {
    for (const std::int64_t slice : p.found.first) {
      const std::byte* first = from.data.data() + static_cast<std::size_t>(o * p.slices + slice) * row;
      values.insert(values.end(), first, first + row);
    }
  }
  return function(q, outputs, [values, found = p.found](bases at, void*) {
    if (!values.empty()) std::memcpy(at[0], values.data(), values.size());
    const std::array<const std::vector<std::int64_t>*, 3> lists{&found.first, &found.inverse, &found.count};
    for (std::size_t i = 1; i < at.size(); ++i) {
      std::memcpy(at[i], lists[i - 1]->data(), lists[i - 1]->size() * sizeof(std::int64_t));
    }
  });
}

constexpr definition choosing_table[] = {
    {"Compress", 2, 2, true, compress_type, compress, "64x1024"},
    {"NonMaxSuppression", 5, 31, true, boxes_type, choose_boxes, "1x16x4,1x2x16"},
    {"NonZero", 1, 1, true, non_zero_type, non_zero, "64"},
    {"Unique", 1, 1, true, unique_type, unique, "64"},
};

}  // namespace

const rows choosing_rows{choosing_table};

}  // namespace berth::op

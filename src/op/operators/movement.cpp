// Operators that move elements and change none: strided copies.
#include <algorithm>
#include <cstring>

#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

// Copies from input 0 (as `from_by` and an offset see it) to the whole of result 0.
made copy_of(const request& q, const types& outputs, strides from_by, std::int64_t offset = 0) {
  strided_copy c;
  c.from_offset = offset;
  c.shape = outputs[0].shape;
  c.from_by = std::move(from_by);
  c.to_by = strides_of(outputs[0]);
  return copies(q, outputs, {std::move(c)});
}

types concatenation_type(const request& q) {
  require_same_types(q);
  const types first = like_first(q);
  return {dense(first[0].type, concatenated(q))};
}
made concatenation(const request& q, const types& outputs) {
  const std::size_t axis = axis_of(q, q.opset < 4 ? 1 : 0, rank_of(q, 0));
  std::vector<strided_copy> each;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < q.inputs.size(); ++i) {
    strided_copy c;
    c.from = i;
    c.shape = shape_of(q, i);
    c.from_by = strides_of(input(q, i));
    c.to_by = strides_of(outputs[0]);
    c.to_offset = at * c.to_by[axis];
    at += c.shape[axis];
    each.push_back(std::move(c));
  }
  return copies(q, outputs, std::move(each));
}

types split_type(const request& q) {
  const std::size_t axis = axis_of(q, 0, rank_of(q, 0));
  types parts;
  for (const std::int64_t size : split_sizes(q)) {
    parts.push_back(like_first(q)[0]);
    parts.back().shape[axis] = size;
    parts.back() = dense(parts.back().type, parts.back().shape);
  }
  return parts;
}
made split(const request& q, const types& outputs) {
  const std::size_t axis = axis_of(q, 0, rank_of(q, 0));
  std::vector<strided_copy> each;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    strided_copy c;
    c.to = i;
    c.shape = outputs[i].shape;
    c.from_by = strides_of(input(q, 0));
    c.from_offset = at * c.from_by[axis];
    c.to_by = strides_of(outputs[i]);
    at += c.shape[axis];
    each.push_back(std::move(c));
  }
  return copies(q, outputs, std::move(each));
}

types slice_type(const request& q) {
  return {dense(like_first(q)[0].type, sliced(q).result)};
}
made slice(const request& q, const types& outputs) {
  const slicing s = sliced(q);
  strides by = strides_of(input(q, 0));
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < by.size(); ++d) {
    offset += s.start[d] * by[d];
    by[d] *= s.step[d];
  }
  return copy_of(q, outputs, std::move(by), offset);
}

types transpose_type(const request& q) {
  shape to;
  for (const std::size_t d : permutation(q)) to.push_back(shape_of(q, 0)[d]);
  return {dense(like_first(q)[0].type, to)};
}
made transpose(const request& q, const types& outputs) {
  const strides from = strides_of(input(q, 0));
  strides by;
  for (const std::size_t d : permutation(q)) by.push_back(from[d]);
  return copy_of(q, outputs, std::move(by));
}

types expand_type(const request& q) {
  return {dense(like_first(q)[0].type, broadcast(shape_of(q, 0), integers(q, 1, most_rank)))};
}
made expand(const request& q, const types& outputs) {
  return copy_of(q, outputs, broadcast_strides(input(q, 0), outputs[0].shape));
}

// A copy between two splittings of dimensions, in an order of its own.
struct regrouping {
  shape pieces;                    // the input's dimensions, cut
  strides from_by;                 // of the pieces
  std::vector<std::size_t> order;  // in which the result has them
};
made regroup(const request& q, const types& outputs, const regrouping& r) {
  if (!is_row_major(outputs[0])) refuse("a result that is not row-major");
  strided_copy c;
  for (const std::size_t d : r.order) {
    c.shape.push_back(r.pieces[d]);
    c.from_by.push_back(r.from_by[d]);
  }
  c.to_by = row_major(c.shape, outputs[0].type);
  return copies(q, outputs, {std::move(c)});
}

types tile_type(const request& q) {
  const auto times = integers(q, 1, most_rank);
  shape to = shape_of(q, 0);
  if (times.size() != to.size()) refuse("repeats has not one entry per dimension");
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (times[d] < 0 || times[d] > most_extent) refuse("repeats is out of range");
    to[d] *= times[d];
  }
  return {dense(like_first(q)[0].type, to)};
}
made tile(const request& q, const types& outputs) {
  const auto times = integers(q, 1, most_rank);
  const tensor_type& from = input(q, 0);
  const strides by = strides_of(from);
  regrouping r;
  for (std::size_t d = 0; d < times.size(); ++d) {
    if (times[d] != 1) {
      r.pieces.push_back(times[d]);
      r.from_by.push_back(0);
    }
    r.pieces.push_back(from.shape[d]);
    r.from_by.push_back(by[d]);
  }
  for (std::size_t d = 0; d < r.pieces.size(); ++d) r.order.push_back(d);
  if (r.pieces.size() > most_rank) refuse("more than 32 dimensions to repeat");
  return regroup(q, outputs, r);
}

std::int64_t block_of(const request& q) {
  if (shape_of(q, 0).size() != 4) refuse("needs four dimensions");
  const auto block = attribute_or<std::int64_t>(q, "blocksize", 0);
  if (block < 1 || block > most_extent) refuse("blocksize " + std::to_string(block) + " is out of range");
  return block;
}
types depth_to_space_type(const request& q) {
  const std::int64_t b = block_of(q);
  const shape& s = shape_of(q, 0);
  if (b > 32768 || s[1] % (b * b) != 0) refuse("the channels are no multiple of blocksize squared");
  return {dense(like_first(q)[0].type, {s[0], s[1] / (b * b), s[2] * b, s[3] * b})};
}
made depth_to_space(const request& q, const types& outputs) {
  const std::int64_t b = block_of(q);
  const shape& s = shape_of(q, 0);
  const strides by = strides_of(input(q, 0));
  const std::int64_t depth = s[1] / (b * b);
  const bool column_first = attribute_or<std::string>(q, "mode", "DCR") == "CRD";
  regrouping r;
  if (column_first) {
    r = {{s[0], depth, b, b, s[2], s[3]}, {by[0], by[1] * b * b, by[1] * b, by[1], by[2], by[3]}, {0, 1, 4, 2, 5, 3}};
  } else {
    r = {{s[0], b, b, depth, s[2], s[3]},
         {by[0], by[1] * b * depth, by[1] * depth, by[1], by[2], by[3]},
         {0, 3, 4, 1, 5, 2}};
  }
  return regroup(q, outputs, r);
}
types space_to_depth_type(const request& q) {
  const std::int64_t b = block_of(q);
  const shape& s = shape_of(q, 0);
  if (b > 32768 || s[2] % b != 0 || s[3] % b != 0) refuse("height or width is no multiple of blocksize");
  return {dense(like_first(q)[0].type, {s[0], s[1] * b * b, s[2] / b, s[3] / b})};
}
made space_to_depth(const request& q, const types& outputs) {
  const std::int64_t b = block_of(q);
  const shape& s = shape_of(q, 0);
  const strides by = strides_of(input(q, 0));
  const regrouping r{
      {s[0], s[1], s[2] / b, b, s[3] / b, b}, {by[0], by[1], by[2] * b, by[2], by[3] * b, by[3]}, {0, 3, 5, 1, 2, 4}};
  return regroup(q, outputs, r);
}

// The part of the input that amounts below 0 leave, and the padding beside it.
struct padding {
  shape inside;
  std::vector<std::int64_t> cropped;  // in front, by dimension
  std::vector<std::int64_t> pads;     // rank begins, then rank ends
};
padding padding_of(const request& q) {
  padding p{shape_of(q, 0), {}, paddings(q)};
  for (std::size_t d = 0; d < p.inside.size(); ++d) {
    std::int64_t &front = p.pads[d], &back = p.pads[d + p.inside.size()];
    p.inside[d] += std::min<std::int64_t>(front, 0) + std::min<std::int64_t>(back, 0);
    if (p.inside[d] < 0) refuse("crops more than there is");
    p.cropped.push_back(std::max<std::int64_t>(-front, 0));
    front = std::max<std::int64_t>(front, 0);
    back = std::max<std::int64_t>(back, 0);
  }
  return p;
}

types pad_type(const request& q) {
  const padding p = padding_of(q);
  const auto& pads = p.pads;
  shape to = p.inside;
  const auto mode = choice(q, "mode", "constant", {"constant", "edge", "reflect"});
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (mode == "reflect" && std::max(pads[d], pads[d + to.size()]) >= std::max<std::int64_t>(to[d], 1)) {
      refuse("reflects more than there is");
    }
    if (mode == "edge" && to[d] == 0) refuse("an edge of nothing");
    to[d] += pads[d] + pads[d + to.size()];
  }
  return {dense(like_first(q)[0].type, to)};
}

// Copies the elements inside, then the padding, one dimension after another. The edges of dimension d are copied from
// the result itself, which is complete in the dimensions before d.
made pad(const request& q, const types& outputs) {
  const padding p = padding_of(q);
  const auto& pads = p.pads;
  const auto mode = attribute_or<std::string>(q, "mode", "constant");
  const shape& from = p.inside;
  const strides to_by = strides_of(outputs[0]);
  strided_copy inside;
  inside.shape = from;
  inside.from_by = strides_of(input(q, 0));
  inside.to_by = to_by;
  for (std::size_t d = 0; d < from.size(); ++d) {
    inside.from_offset += p.cropped[d] * inside.from_by[d];
    inside.to_offset += pads[d] * to_by[d];
  }
  std::vector<strided_copy> each{inside};
  filling fill;
  const std::size_t inputs = operands_of(q).size();
  if (mode == "constant") {
    fill.wanted = true;
    if (has(q, 2)) {
      if (input(q, 2).type != input(q, 0).type || count_of(shape_of(q, 2)) != 1)
        refuse("the padding value is not one element of the input's type");
      fill.operand = static_cast<std::ptrdiff_t>(operand_of(q, 2));
    } else {
      fill.element.resize(element_size(outputs[0].type));
      write(outputs[0].type, fill.element.data(), attribute_or(q, "value", 0.0f));
    }
    return copies(q, outputs, std::move(each), std::move(fill));
  }
  shape grown = from;
  std::int64_t origin = inside.to_offset;
  for (std::size_t d = 0; d < from.size(); ++d) {
    const std::int64_t rank = static_cast<std::int64_t>(from.size());
    const std::int64_t before = pads[d], after = pads[d + static_cast<std::size_t>(rank)];
    const std::int64_t first = origin, last = origin + (from[d] - 1) * to_by[d];
    for (const bool front : {true, false}) {
      strided_copy c;
      c.from = inputs;  // the result itself
      c.shape = grown;
      c.shape[d] = front ? before : after;
      if (c.shape[d] == 0) continue;
      c.to_by = to_by;
      c.from_by = to_by;
      c.from_by[d] = mode == "edge" ? 0 : -to_by[d];
      // Reflected: the nearest beside the edge is the element after the edge's own.
      const std::int64_t begin = front ? first - before * to_by[d] : last + to_by[d];
      c.to_offset = begin;
      if (mode == "edge") {
        c.from_offset = front ? first : last;
      } else {
        c.from_offset = front ? first + before * to_by[d] : last - to_by[d];
      }
      each.push_back(std::move(c));
    }
    origin -= before * to_by[d];
    grown[d] += before + after;
  }
  return copies(q, outputs, std::move(each));
}

types triangle_type(const request& q) {
  if (shape_of(q, 0).size() < 2) refuse("needs two dimensions");
  return like_first(q);
}
made triangle(const request& q, const types& outputs) {
  const tensor_type from = input(q, 0);
  const bool upper = attribute_or<std::int64_t>(q, "upper", 1) != 0;
  const auto k = has(q, 1) ? integers(q, 1, 1) : std::vector<std::int64_t>{};
  const std::int64_t shift = std::clamp<std::int64_t>(k.empty() ? 0 : k[0], -most_extent, most_extent);
  const std::size_t rank = from.shape.size();
  shape matrices = from.shape;
  matrices[rank - 1] = matrices[rank - 2] = 1;
  const strides by = strides_of(from), to_by = strides_of(outputs[0]);
  const auto run = [=, over = nest{matrices, {by, to_by}}, size = element_size(from.type)](bases at, void*) {
    over.each(at, [&](const nest::point& here) {
      for (std::int64_t r = 0; r < from.shape[rank - 2]; ++r) {
        for (std::int64_t c = 0; c < from.shape[rank - 1]; ++c) {
          std::byte* to = here[1] + r * to_by[rank - 2] + c * to_by[rank - 1];
          const std::byte* it = here[0] + r * by[rank - 2] + c * by[rank - 1];
          const bool kept = upper ? c - r >= shift : c - r <= shift;
          kept ? std::memcpy(to, it, size) : std::memset(to, 0, size);
        }
      }
    });
  };
  return function(q, outputs, run);
}

constexpr definition movement_table[] = {
    {"Concat", any_number, 0, true, concatenation_type, concatenation, "64x1024,64x1024"},
    {"DepthToSpace", 1, 0, true, depth_to_space_type, depth_to_space, "1x16x32x32"},
    {"Expand", 2, 2, true, expand_type, expand, "64x1"},
    {"Pad", 4, 2 | 8, true, pad_type, pad, "64x1024"},
    {"Slice", 5, 2 | 4 | 8 | 16, true, slice_type, slice, "64x1024"},
    {"SpaceToDepth", 1, 0, true, space_to_depth_type, space_to_depth, "1x4x64x64"},
    {"Split", 2, 2, true, split_type, split, "64x1024"},
    {"Tile", 2, 2, true, tile_type, tile, "64x1024"},
    {"Transpose", 1, 0, true, transpose_type, transpose, "64x1024"},
    {"Trilu", 2, 2, true, triangle_type, triangle, "64x64"},
};

}  // namespace

const rows movement_rows{movement_table};

}  // namespace berth::op

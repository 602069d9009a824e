// Operators whose operands give the places of elements: by index, by length. Only phase two can see an index out of
// range, and a kernel cannot refuse. It reads as the nearest one in range.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

std::int64_t in_range(std::int64_t index, std::int64_t size) noexcept {
  return std::clamp<std::int64_t>(index < 0 ? index + size : index, 0, std::max<std::int64_t>(size - 1, 0));
}

element require_indices(const request& q, std::size_t i) {
  const element e = input(q, i).type;
  if (e != element::i32 && e != element::i64) refuse("input " + std::to_string(i) + ", the indices, is " + name(e));
  return e;
}

// Checks constants in phase one.
void check_known_indices(const request& q, std::size_t i, std::int64_t size) {
  if (i >= q.constants.size() || q.constants[i] == nullptr) return;
  const tensor& t = *q.constants[i];
  const std::size_t each = element_size(t.type);
  for (std::size_t k = 0; k + each <= t.data.size(); k += each) {
    const std::int64_t index = read_integer(t.type, t.data.data() + k);
    if (index < -size || index >= size) refuse("index out of range");
  }
}

// The offset that the index at `from` names: one number for each of some dimensions.
struct pointer_reader {
  element type;
  std::int64_t step;  // between the numbers
  std::vector<std::int64_t> sizes, by;
  std::int64_t operator()(const std::byte* from) const {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < by.size(); ++d) {
      offset += in_range(read_integer(type, from + static_cast<std::int64_t>(d) * step), sizes[d]) * by[d];
    }
    return offset;
  }
};

// Copies a slice for each index. `over` walks over the data, the indices and the result; `slice` over the elements of
// a slice in data and result.
made gathered(const request& q, const types& outputs, const nest& over, const nest& slice,
              const pointer_reader& pointer) {
  return function(q, outputs, [=, size = element_size(outputs[0].type)](bases at, void*) {
    over.each(at, [&](const nest::point& here) {
      copy_elements(slice, std::array<std::byte*, 2>{here[0] + pointer(here[1]), here[2]}, size);
    });
  });
}

types gather_type(const request& q) {
  (void)require_indices(q, 1);
  const shape& data = shape_of(q, 0);
  const std::size_t axis = axis_of(q, 0, rank_of(q, 0));
  if (data[axis] == 0 && count_of(shape_of(q, 1)) != 0) refuse("an index into an empty dimension");
  check_known_indices(q, 1, data[axis]);
  shape to(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(axis));
  to.insert(to.end(), shape_of(q, 1).begin(), shape_of(q, 1).end());
  to.insert(to.end(), data.begin() + static_cast<std::ptrdiff_t>(axis) + 1, data.end());
  return {dense(like_first(q)[0].type, to)};
}
made gather(const request& q, const types& outputs) {
  const tensor_type &data = input(q, 0), &indices = input(q, 1);
  const std::size_t axis = axis_of(q, 0, rank_of(q, 0)), rank = indices.shape.size();
  const strides data_by = strides_of(data), to_by = strides_of(outputs[0]);
  const auto from = to_by.begin() + static_cast<std::ptrdiff_t>(axis);
  const strides index_to(from, from + static_cast<std::ptrdiff_t>(rank));
  // Each index copies a slice of all other dimensions.
  shape slice;
  strides slice_from, slice_to;
  for (std::size_t d = 0; d < data.shape.size(); ++d) {
    if (d == axis) continue;
    slice.push_back(data.shape[d]);
    slice_from.push_back(data_by[d]);
    slice_to.push_back(to_by[d < axis ? d : d + rank - 1]);
  }
  return gathered(q, outputs, {indices.shape, {strides(rank, 0), strides_of(indices), index_to}},
                  {slice, {slice_from, slice_to}}, {indices.type, 0, {data.shape[axis]}, {data_by[axis]}});
}

// Checks indices of single elements along an axis, which is returned.
std::size_t axis_of_elements(const request& q) {
  const std::size_t axis = axis_of(q, 0, rank_of(q, 0));
  const shape &data = shape_of(q, 0), &indices = shape_of(q, 1);
  if (indices.size() != data.size()) refuse("indices are not of the data's rank");
  for (std::size_t d = 0; d < data.size(); ++d) {
    if (d != axis && indices[d] > data[d]) refuse("indices are larger than the data");
  }
  check_known_indices(q, 1, data[axis]);
  return axis;
}
types gather_elements_type(const request& q) {
  (void)require_indices(q, 1);
  const std::size_t axis = axis_of_elements(q);
  if (shape_of(q, 0)[axis] == 0 && count_of(shape_of(q, 1)) != 0) refuse("an index into an empty dimension");
  return {dense(like_first(q)[0].type, shape_of(q, 1))};
}
made gather_elements(const request& q, const types& outputs) {
  const tensor_type &data = input(q, 0), &indices = input(q, 1);
  const std::size_t axis = axis_of(q, 0, rank_of(q, 0));
  strides data_by = strides_of(data);
  const std::int64_t along = std::exchange(data_by[axis], 0);
  return gathered(q, outputs, {indices.shape, {data_by, strides_of(indices), strides_of(outputs[0])}}, {{}, {{}, {}}},
                  {indices.type, 0, {data.shape[axis]}, {along}});
}

// Returns the element after a scattered one was combined with it.
template <class C>
C combined(const std::string& how, C was, C update) {
  if (how == "add") return sum(was, update);
  if (how == "mul") return times(was, update);
  if (how == "max") return std::max(was, update);
  if (how == "min") return std::min(was, update);
  return update;
}
void scatter_one(const std::string& how, element type, std::byte* to, const std::byte* update) {
  if (how == "none") {
    std::memcpy(to, update, element_size(type));
    return;
  }
  in_domain(domain_of(type), [&]<class C>(C) {
    const C v = combined(how, read_as<C>(type, to), read_as<C>(type, update));
    store_as<C>(type)(&v, to, 0, 1);
  });
}
std::string scatter_reduction(const request& q) {
  return choice(q, "reduction", "none", {"none", "add", "mul", "max", "min"});
}

// Copies the data, then combines a slice of it with the updates of each index. `over` walks over the indices, the
// updates and the result; `slice` over the elements of a slice in updates and result.
made scattered(const request& q, const types& outputs, const nest& over, const nest& slice,
               const pointer_reader& pointer) {
  const nest whole{shape_of(q, 0), {strides_of(input(q, 0)), strides_of(outputs[0])}};
  return function(q, outputs, [=, how = scatter_reduction(q), type = outputs[0].type](bases at, void*) {
    copy_elements(whole, std::array<std::byte*, 2>{at[0], at[3]}, element_size(type));
    over.each(at.subspan(1), [&](const nest::point& here) {
      const std::array<std::byte*, 2> part{here[1], here[2] + pointer(here[0])};
      slice.each(part, [&](const nest::point& there) { scatter_one(how, type, there[1], there[0]); });
    });
  });
}

types scatter_elements_type(const request& q) {
  (void)require_indices(q, 1);
  (void)scatter_reduction(q);
  if (input(q, 2).type != input(q, 0).type || shape_of(q, 2) != shape_of(q, 1) || rank_of(q, 0) != rank_of(q, 1)) {
    refuse("data, indices and updates do not fit one another");
  }
  (void)axis_of_elements(q);
  return like_first(q);
}
made scatter_elements(const request& q, const types& outputs) {
  const tensor_type &data = input(q, 0), &indices = input(q, 1);
  const std::size_t axis = axis_of(q, 0, rank_of(q, 0));
  strides to_by = strides_of(outputs[0]);
  const std::int64_t along = std::exchange(to_by[axis], 0);
  return scattered(q, outputs, {indices.shape, {strides_of(indices), strides_of(input(q, 2)), to_by}}, {{}, {{}, {}}},
                   {indices.type, 0, {data.shape[axis]}, {along}});
}

// GatherND and ScatterND: the last dimension of the indices names a slice of the data.
struct pointed {
  std::size_t batch = 0, depth = 0;
  shape batches, pointers, slice;
};
pointed pointed_of(const request& q) {
  (void)require_indices(q, 1);
  const shape &data = shape_of(q, 0), &indices = shape_of(q, 1);
  pointed p;
  const auto batch = q.op == "GatherND" ? attribute_or<std::int64_t>(q, "batch_dims", 0) : 0;
  if (indices.empty() || data.empty() || batch < 0 || batch >= std::min(rank_of(q, 0), rank_of(q, 1))) {
    refuse("data, indices and batch_dims do not fit one another");
  }
  p.batch = static_cast<std::size_t>(batch);
  p.depth = static_cast<std::size_t>(indices.back());
  if (p.depth + p.batch > data.size()) refuse("an index is longer than the data's rank");
  for (std::size_t d = 0; d < p.batch; ++d) {
    if (data[d] != indices[d]) refuse("batches of data and indices differ");
  }
  for (std::size_t d = 0; d < p.depth; ++d) {
    if (data[p.batch + d] == 0) refuse("an index into an empty dimension");
  }
  p.batches = {data.begin(), data.begin() + batch};
  p.pointers = {indices.begin() + batch, indices.end() - 1};
  p.slice = {data.begin() + static_cast<std::ptrdiff_t>(p.batch + p.depth), data.end()};
  return p;
}

shape joined(std::initializer_list<const shape*> parts) {
  shape all;
  for (const shape* p : parts) all.insert(all.end(), p->begin(), p->end());
  return all;
}

types gather_nd_type(const request& q) {
  const pointed p = pointed_of(q);
  return {dense(like_first(q)[0].type, joined({&p.batches, &p.pointers, &p.slice}))};
}

pointer_reader reader_of(const request& q, const pointed& p, const strides& by) {
  pointer_reader r{input(q, 1).type, strides_of(input(q, 1)).back(), {}, {}};
  for (std::size_t d = 0; d < p.depth; ++d) {
    r.sizes.push_back(shape_of(q, 0)[p.batch + d]);
    r.by.push_back(by[p.batch + d]);
  }
  return r;
}

made gather_nd(const request& q, const types& outputs) {
  const pointed p = pointed_of(q);
  const strides data_by = strides_of(input(q, 0)), to_by = strides_of(outputs[0]);
  strides index_by = strides_of(input(q, 1));
  index_by.pop_back();
  const std::size_t outer = p.batch + p.pointers.size();
  strides from(outer, 0), to(to_by.begin(), to_by.begin() + static_cast<std::ptrdiff_t>(outer));
  std::copy_n(data_by.begin(), p.batch, from.begin());
  const strides slice_from(data_by.begin() + static_cast<std::ptrdiff_t>(p.batch + p.depth), data_by.end());
  const strides slice_to(to_by.begin() + static_cast<std::ptrdiff_t>(outer), to_by.end());
  return gathered(q, outputs, {joined({&p.batches, &p.pointers}), {from, index_by, to}},
                  {p.slice, {slice_from, slice_to}}, reader_of(q, p, data_by));
}

types scatter_nd_type(const request& q) {
  const pointed p = pointed_of(q);
  (void)scatter_reduction(q);
  if (input(q, 2).type != input(q, 0).type || shape_of(q, 2) != joined({&p.pointers, &p.slice})) {
    refuse("data, indices and updates do not fit one another");
  }
  return like_first(q);
}
made scatter_nd(const request& q, const types& outputs) {
  const pointed p = pointed_of(q);
  const strides to_by = strides_of(outputs[0]), update_by = strides_of(input(q, 2));
  strides index_by = strides_of(input(q, 1));
  index_by.pop_back();
  const auto outer = static_cast<std::ptrdiff_t>(p.pointers.size());
  const strides updates(update_by.begin(), update_by.begin() + outer),
      slice_from(update_by.begin() + outer, update_by.end());
  const strides slice_to(to_by.begin() + static_cast<std::ptrdiff_t>(p.depth), to_by.end());
  return scattered(q, outputs, {p.pointers, {index_by, updates, strides(p.pointers.size(), 0)}},
                   {p.slice, {slice_from, slice_to}}, reader_of(q, p, to_by));
}

types one_hot_type(const request& q) {
  const auto depth = numbers(q, 1, 1);
  if (depth.empty() || !(depth[0] >= 0) || depth[0] > static_cast<double>(most_extent)) refuse("depth is out of range");
  shape to = shape_of(q, 0);
  const std::size_t axis = axis_of(q, -1, rank_of(q, 0) + 1);
  to.insert(to.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<std::int64_t>(depth[0]));
  if (shape_of(q, 2) != shape{2}) refuse("values are not two");
  return {dense(input(q, 2).type, to)};
}
made one_hot(const request& q, const types& outputs) {
  const std::size_t axis = axis_of(q, -1, rank_of(q, 0) + 1);
  strides to_by = strides_of(outputs[0]);
  const std::int64_t along = to_by[axis], depth = outputs[0].shape[axis];
  to_by.erase(to_by.begin() + static_cast<std::ptrdiff_t>(axis));
  const auto run = [=, type = input(q, 0).type, values_by = strides_of(input(q, 2))[0],
                    bytes_each = element_size(outputs[0].type),
                    over = nest{shape_of(q, 0), {strides_of(input(q, 0)), to_by}}](bases at, void*) {
    const std::array<std::byte*, 2> base{at[0], at[2]};
    over.each(base, [&](const nest::point& here) {
      std::int64_t index = read_integer(type, here[0]);
      if (index < 0) index += depth;
      for (std::int64_t k = 0; k < depth; ++k) {
        std::memcpy(here[1] + k * along, at[1] + (k == index ? values_by : 0), bytes_each);
      }
    });
  };
  return function(q, outputs, run);
}

types reverse_type(const request& q) {
  const auto time = attribute_or<std::int64_t>(q, "time_axis", 0),
             batch = attribute_or<std::int64_t>(q, "batch_axis", 1);
  if (shape_of(q, 0).size() < 2 || !((time == 0 && batch == 1) || (time == 1 && batch == 0)))
    refuse("time_axis and batch_axis are not 0 and 1");
  if (shape_of(q, 1) != shape{shape_of(q, 0)[static_cast<std::size_t>(batch)]}) refuse("not one length per batch");
  (void)require_indices(q, 1);
  return like_first(q);
}
made reverse(const request& q, const types& outputs) {
  const auto time = static_cast<std::size_t>(attribute_or<std::int64_t>(q, "time_axis", 0));
  const tensor_type from = input(q, 0);
  const strides from_by = strides_of(from), to_by = strides_of(outputs[0]);
  const shape rest(from.shape.begin() + 2, from.shape.end());
  const nest inner{rest, {{from_by.begin() + 2, from_by.end()}, {to_by.begin() + 2, to_by.end()}}};
  const auto run = [=, type = input(q, 1).type, by = strides_of(input(q, 1))[0], bytes_each = element_size(from.type)](
                       bases at, void*) {
    for (std::int64_t b = 0; b < from.shape[1 - time]; ++b) {
      const std::int64_t length = std::clamp<std::int64_t>(read_integer(type, at[1] + b * by), 0, from.shape[time]);
      for (std::int64_t t = 0; t < from.shape[time]; ++t) {
        const std::int64_t source = t < length ? length - 1 - t : t;
        const std::array<std::byte*, 2> part{at[0] + b * from_by[1 - time] + source * from_by[time],
                                             at[2] + b * to_by[1 - time] + t * to_by[time]};
        copy_elements(inner, part, bytes_each);
      }
    }
  };
  return function(q, outputs, run);
}

constexpr definition gathering_table[] = {
    {"Gather", 2, 0, true, gather_type, gather, "1000x256,64"},
    {"GatherElements", 2, 0, true, gather_elements_type, gather_elements, "64x1024,64x1024"},
    {"GatherND", 2, 0, true, gather_nd_type, gather_nd, "64x64,32x2"},
    {"OneHot", 3, 2, true, one_hot_type, one_hot, "64"},
    {"ReverseSequence", 2, 0, true, reverse_type, reverse, "64x16x8,16"},
    {"Scatter", 3, 0, true, scatter_elements_type, scatter_elements, "64x1024,64x1024,64x1024"},
    {"ScatterElements", 3, 0, true, scatter_elements_type, scatter_elements, "64x1024,64x1024,64x1024"},
    {"ScatterND", 3, 0, true, scatter_nd_type, scatter_nd, "64x64,8x1,8x64"},
};

}  // namespace

const rows gathering_rows{gathering_table};

}  // namespace berth::op

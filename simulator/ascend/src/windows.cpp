// Convolutions, pools and normalisation per channel: operators that find their dimensions by the tensor's format.
// Source: aclnn_convolution.cpp, aclnn_avgpool2d.cpp, aclnn_max_pool.cpp and aclnn_batch_norm.cpp of ops-nn at
// e5c3fa93.
#include <algorithm>
#include <utility>

#include "operator.hpp"

using namespace ascend_simulator;

namespace {

using operand = recipe::operand;

aclFormat format_of(std::size_t rank) {
  return rank == 3 ? ACL_FORMAT_NCL : rank == 4 ? ACL_FORMAT_NCHW : ACL_FORMAT_NCDHW;
}
// Row vectors may be ND: it means NCL then.
void require_format(const aclTensor* t, bool nd_is_ncl) {
  const std::size_t rank = present(t)->shape.size();
  if (t->format == format_of(rank) || (nd_is_ncl && rank == 3 && t->format == ACL_FORMAT_ND)) return;
  refuse_call("the tensor's format is not NCL, NCHW or NCDHW by its dimensions");
}

// --- convolution ---

// ONNX lists the begins of all dimensions, then the ends.
dimensions onnx_pads(const dimensions& given, std::size_t spatial, bool transposed) {
  dimensions begins, ends;
  if (given.size() == spatial) {
    begins = ends = given;
  } else if (given.size() == 2 * spatial && spatial < 3 && !(spatial == 1 && transposed)) {
    for (std::size_t d = 0; d < spatial; ++d) {
      begins.push_back(given[2 * d]);
      ends.push_back(given[2 * d + 1]);
    }
  } else {
    refuse_call("padding has not as many entries as the convolution has");
  }
  begins.insert(begins.end(), ends.begin(), ends.end());
  return begins;
}

void convolution(recipe& r, in x, in weight, in bias, list stride, list padding, list dilation, bool transposed,
                 list output_padding, std::int64_t groups, out y, std::int8_t cube) {
  const std::size_t rank = present(x)->shape.size();
  if (rank < 3 || rank > 5) refuse_call("a convolution has 1 to 3 spatial dimensions");
  for (const aclTensor* t : {x, weight, static_cast<in>(y)}) {
    require_rank(t, rank);
    require_format(t, true);
  }
  if (bias != nullptr) require_rank(bias, 1);
  require_cube(x, cube);
  const std::size_t spatial = rank - 2;
  const dimensions &steps = values_of(stride), &gaps = values_of(dilation), &more = values_of(output_padding);
  if (steps.size() != spatial || gaps.size() != spatial || (transposed && more.size() != spatial)) {
    refuse_call("stride, dilation or outputPadding has not one entry per spatial dimension");
  }
  if (groups < 1 || groups > 65535) refuse_call("groups is out of range");
  berth::op::attributes attributes{{"strides", steps},
                                   {"dilations", gaps},
                                   {"pads", onnx_pads(values_of(padding), spatial, transposed)},
                                   {"group", groups}};
  if (transposed) {
    for (std::size_t d = 0; d < spatial; ++d) {
      if (more[d] >= std::max(steps[d], gaps[d])) refuse_call("outputPadding is not below stride or dilation");
    }
    attributes["output_padding"] = more;
  }
  const operand from = r.in(x), by = r.in(weight), shift = bias != nullptr ? r.in(bias) : recipe::none();
  r.row(transposed ? "ConvTranspose" : "Conv", {from, by, shift}, {r.out(y)}, std::move(attributes));
}

// --- pools ---

// One number applies to both dimensions; an empty list means the usual values.
std::pair<std::int64_t, std::int64_t> of_both(list given, std::pair<std::int64_t, std::int64_t> usual, bool may_lack) {
  const dimensions& v = values_of(given);
  if (v.size() > 2 || (v.empty() && !may_lack)) refuse_call("a list has not one entry or two");
  if (v.empty()) return usual;
  return {v[0], v.back()};
}

struct pool {
  std::int64_t kernel[2], step[2], begin[2], end[2];
};

// Checks the output size as PyTorch does: a window that would begin behind the input and its first padding does not
// count. Returns true if a dimension has one step more than rounding down gives.
bool check_pooled(const pool& p, in x, in y, bool rounds_up) {
  const std::size_t rank = x->shape.size();
  bool more = false, same = false;
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t size = x->shape[rank - 2 + d];
    if (p.kernel[d] < 1 || p.step[d] < 1 || p.begin[d] < 0 || p.end[d] < 0) {
      refuse_call("a window's size, step or padding is out of range");
    }
    const std::int64_t room = size + p.begin[d] + p.end[d] - p.kernel[d];
    if (room < 0) refuse_call("the window is larger than its input");
    const std::int64_t steps = room / p.step[d];
    std::int64_t count = steps + 1;
    if (rounds_up && room % p.step[d] != 0 && (steps + 1) * p.step[d] < size + p.begin[d]) ++count;
    if (y->shape[rank - 2 + d] != count) refuse_call("the output's shape is not what the pool gives");
    if (rounds_up && room % p.step[d] != 0) (count > steps + 1 ? more : same) = true;
  }
  if (more && same) refuse_call("the simulator rounds both dimensions of a pool up, or neither");
  return more;
}

// A tensor of three dimensions lacks the batch.
operand with_batch(operand o) {
  if (o.type.shape.size() == 4) return o;
  o.type.shape.insert(o.type.shape.begin(), 1);
  o.type.strides.insert(o.type.strides.begin(), 0);
  return o;
}

void pooled(recipe& r, const char* row, const pool& p, in x, out y, bool rounds_up, berth::op::attributes attributes) {
  attributes["kernel_shape"] = dimensions{p.kernel[0], p.kernel[1]};
  attributes["strides"] = dimensions{p.step[0], p.step[1]};
  attributes["pads"] = dimensions{p.begin[0], p.begin[1], p.end[0], p.end[1]};
  attributes["ceil_mode"] = std::int64_t{check_pooled(p, x, y, rounds_up) ? 1 : 0};
  const operand from = with_batch(r.in(x));
  r.row(row, {from}, {with_batch(r.out(y))}, std::move(attributes));
}

void require_planes(in x, in y) {
  for (const aclTensor* t : {x, y}) {
    const std::size_t rank = present(t)->shape.size();
    if (rank != 3 && rank != 4) refuse_call("a pool has 3 or 4 dimensions");
  }
  if (x->shape.size() != y->shape.size() || x->format != y->format) {
    refuse_call("input and output are not of the same dimensions and format");
  }
}

void max_pool(recipe& r, in x, list kernel, list strides, std::int64_t auto_pad, list pads, list dilations,
              std::int64_t ceil, out y) {
  require_planes(x, y);
  const chip& on = the().how.on;
  const bool any_type = std::string_view{on.name} == "950";
  if (x->type != ACL_FLOAT16 && !any_type && !(on.cube_of_float && x->type == ACL_FLOAT)) {
    refuse_call("aclnnMaxPool of this chip has not this type");
  }
  if (auto_pad != 0) refuse_call("autoPad is 0");
  const dimensions &gaps = values_of(dilations), &given = values_of(pads);
  if (gaps.size() == 3 || gaps.size() > 4 || std::ranges::any_of(gaps, [](std::int64_t d) { return d != 1; })) {
    refuse_call("dilations are 1");
  }
  if (given.size() == 3 || given.size() > 4) refuse_call("pads has not 0, 1, 2 or 4 entries");
  const auto [high, wide] = of_both(kernel, {}, false);
  const auto [down, right] = of_both(strides, {1, 1}, true);
  pool p{{high, wide}, {down, right}, {}, {}};
  for (std::size_t d = 0; d < 2 && !given.empty(); ++d) {
    p.begin[d] = given[given.size() == 1 ? 0 : d];
    p.end[d] = given.size() == 4 ? given[d + 2] : p.begin[d];
    if (p.begin[d] > p.kernel[d] - p.end[d]) refuse_call("more padding than the window is large");
  }
  pooled(r, "MaxPool", p, x, y, ceil != 0, {});
}

void average_pool(recipe& r, in x, list kernel, list strides, list pads, bool ceil, bool padding_counts,
                  std::int64_t divisor, std::int8_t cube, out y) {
  require_planes(x, y);
  require_format(x, false);
  if (x->type != ACL_FLOAT && x->type != ACL_FLOAT16 && x->type != ACL_BF16) refuse_call("aclnnAvgPool2d: the type");
  require_cube(x, cube);
  if (divisor != 0) refuse_call("the simulator divides by what is in the window");
  const auto [high, wide] = of_both(kernel, {}, false);
  const auto [down, right] = of_both(strides, {high, wide}, true);
  const auto [above, left] = of_both(pads, {}, false);
  if (above > high / 2 || left > wide / 2) refuse_call("more padding than half the window");
  pooled(r, "AveragePool", {{high, wide}, {down, right}, {above, left}, {above, left}}, x, y, ceil,
         {{"count_include_pad", std::int64_t{padding_counts}}});
}

// --- per channel ---

void batch_norm(recipe& r, in given, in weight, in bias, in mean, in variance, bool trains, double epsilon, out y) {
  const std::size_t rank = present(given)->shape.size();
  if (rank < 2) refuse_call("a batch has channels");
  if (present(y)->format != given->format) refuse_call("input and output are not of the same format");
  if (rank == 5 && given->format != ACL_FORMAT_NCDHW) refuse_call("the format of five dimensions is NCDHW");
  if (given->format == ACL_FORMAT_NHWC || given->format == ACL_FORMAT_NDHWC) refuse_call("channels come second");
  if (trains) refuse_call("the simulator normalises by statistics that are given");
  const operand x = r.in(given);
  const auto per_channel = [&](in t, double usual) {
    if (t != nullptr) return r.in(t);
    operand one = r.constant(usual, x.type.type);
    one.type.shape = {x.type.shape[1]};
    one.type.strides = {0};
    return one;
  };
  const operand scale = per_channel(weight, 1), shift = per_channel(bias, 0), middle = per_channel(mean, 0),
                spread = per_channel(variance, 1);
  r.row("BatchNormalization", {x, scale, shift, middle, spread}, {r.out(y)},
        {{"epsilon", static_cast<float>(epsilon)}});
}

}  // namespace

extern "C" {

OPERATOR(Convolution,
         (convolution(r, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, y, cube)),
         in x, in weight, in bias, list stride, list padding, list dilation, bool transposed, list output_padding,
         const std::int64_t groups, out y, std::int8_t cube)
OPERATOR(MaxPool, (max_pool(r, x, kernel, strides, auto_pad, pads, dilations, ceil, y)), in x, list kernel,
         list strides, const std::int64_t auto_pad, list pads, list dilations, const std::int64_t ceil, out y)
OPERATOR(AvgPool2d, (average_pool(r, x, kernel, strides, pads, ceil, padding_counts, divisor, cube, y)), in x,
         list kernel, list strides, list pads, const bool ceil, const bool padding_counts, const std::int64_t divisor,
         const std::int8_t cube, out y)
// Inference saves no values: the last two may be null.
OPERATOR(BatchNorm, (batch_norm(r, x, weight, bias, mean, variance, trains, eps, y)), in x, in weight, in bias,
         out mean, out variance, bool trains, double, double eps, out y, out, out)

}  // extern "C"

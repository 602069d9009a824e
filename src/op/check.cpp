#include "berth/op/check.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

#include "berth/device/device.hpp"
#include "op/oracle.hpp"
#include "op/plain/plain.hpp"

namespace berth::op {

namespace {

constexpr std::byte pattern{0xa5};

// Memory whose last byte is the last of a page, before one that must not be touched.
class guarded_memory {
 public:
  guarded_memory() = default;
  explicit guarded_memory(bytes size, bytes alignment = 64) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const auto used = static_cast<std::size_t>(align_up(size, alignment));
    mapped_ = (used + page - 1) / page * page + 2 * page;
    void* at = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc{};
    base_ = static_cast<std::byte*>(at);
    (void)mprotect(base_, page, PROT_NONE);
    (void)mprotect(base_ + mapped_ - page, page, PROT_NONE);
    begin_ = base_ + page;
    data_ = base_ + mapped_ - page - used;
    size_ = used;
    std::memset(begin_, static_cast<int>(pattern), mapped_ - 2 * page);
  }
  guarded_memory(guarded_memory&& other) noexcept { *this = std::move(other); }
  guarded_memory& operator=(guarded_memory&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(begin_, other.begin_);
    std::swap(data_, other.data_);
    std::swap(mapped_, other.mapped_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~guarded_memory() {
    if (base_ != nullptr) munmap(base_, mapped_);
  }
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] bytes size() const noexcept { return size_; }
  // Whether the bytes of its first page before the data are as they were.
  [[nodiscard]] bool untouched_before() const noexcept {
    return std::all_of(begin_, data_, [](std::byte b) { return b == pattern; });
  }

 private:
  std::byte *base_ = nullptr, *begin_ = nullptr, *data_ = nullptr;
  std::size_t mapped_ = 0, size_ = 0;
};

// splitmix64 (Steele, Lea and Flood 2014).
std::uint64_t next(std::uint64_t& state) noexcept {
  state += 0x9e3779b97f4a7c15u;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The numbers that an operand's elements are drawn from.
struct interval {
  double low = 0, high = 0;
};

// What a type holds, as far as f64 says it; both ends are exact.
interval limits_of(element type) {
  const auto of = []<class T>(T) -> interval {
    const double high = static_cast<double>(std::numeric_limits<T>::max());
    const bool beyond = std::is_integral_v<T> && sizeof(T) == 8;  // 2^64 - 1 is none of f64
    return {static_cast<double>(std::numeric_limits<T>::lowest()), beyond ? std::nextafter(high, 0.0) : high};
  };
  switch (type) {
    case element::f16: return {-65504, 65504};
    case element::bf16: return {-0x1.fep127, 0x1.fep127};
    case element::f32: return of(float{});
    case element::i8: return of(std::int8_t{});
    case element::u8: return of(std::uint8_t{});
    case element::i16: return of(std::int16_t{});
    case element::u16: return of(std::uint16_t{});
    case element::i32: return of(std::int32_t{});
    case element::u32: return of(std::uint32_t{});
    case element::i64: return of(std::int64_t{});
    case element::u64: return of(std::uint64_t{});
    default: return of(double{});
  }
}

interval range_of(element type, const check_options& o) {
  if (type == element::boolean) return {0, 1};
  const bool whole = !is_real(type);
  const interval limits = limits_of(type);
  if (whole && o.low == -1 && o.high == 1) return {limits.low == 0 ? 0.0 : -8.0, 8};  // nobody said otherwise
  if (!(o.low >= limits.low) || !(o.high <= limits.high) || !(o.low <= o.high)) {
    std::array<char, 160> text;
    std::snprintf(text.data(), text.size(), "the range %g to %g is not one of %s, which holds %g to %g", o.low, o.high,
                  name(type), limits.low, limits.high);
    refuse(text.data());
  }
  if (whole && std::ceil(o.low) > std::floor(o.high)) refuse("no whole number lies in the range");
  return whole ? interval{std::ceil(o.low), std::floor(o.high)} : interval{o.low, o.high};
}

double made_up(std::uint64_t& state, element type, const interval& range, bool edges, std::int64_t limit) {
  const double unit = static_cast<double>(next(state) >> 11) * 0x1p-53;
  if (limit > 0) return std::floor(unit * static_cast<double>(limit));
  const bool whole = !is_real(type);
  const auto [low, high] = range;
  if (type != element::boolean && edges && next(state) % 16 == 0) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    const double odd[] = {std::nan(""), inf, -inf, 0x1p-140, -0.0, low, high};
    return whole ? (next(state) % 2 == 0 ? low : high) : odd[next(state) % std::size(odd)];
  }
  // Whole numbers: each of the range as often as the others.
  return whole ? std::min(std::floor(std::lerp(low, high + 1, unit)), high) : std::lerp(low, high, unit);
}

// How the operators that are not defined on numbers of any kind want their inputs, of those in the table.
struct wish {
  element type = element::other;  // other: the one asked for
  std::int64_t below = 0;         // not 0: indices below this
  bool positive = false;
};
wish wish_of(const request& q, std::size_t i) {
  const std::string_view op = q.op;
  const auto is = [op](std::initializer_list<const char*> names) {
    return std::find(names.begin(), names.end(), op) != names.end();
  };
  if (is({"And", "Or", "Xor", "Not"}) || (op == "Where" && i == 0)) return {element::boolean};
  if (is({"Log", "Sqrt", "Reciprocal", "Acosh", "Div", "Mod", "Pow"}) || (op == "BatchNormalization" && i == 4)) {
    return {element::other, 0, true};
  }
  // Of the dimension of input 0 that input 1 counts in.
  const auto dimension = [&](std::size_t d) {
    if (rank_of(q, 0) <= static_cast<std::int64_t>(d)) refuse("input 0 has no dimension to count in");
    return q.inputs[0]->shape[d];
  };
  if (is({"Gather", "GatherElements", "Scatter", "ScatterElements"}) && i == 1) return {element::i64, dimension(0)};
  if (is({"GatherND", "ScatterND"}) && i == 1) return {element::i64, 8};
  if (op == "ReverseSequence" && i == 1) return {element::i64, dimension(0)};
  if (op == "MaxUnpool" && i == 1) return {element::i64, 16};
  if (is({"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}) && i == 1) return {element::i64, dimension(1)};
  if (is({"MatMulInteger", "ConvInteger"})) return {element::u8};
  if (op == "DequantizeLinear" && i == 0) return {element::u8};
  if (is({"QLinearMatMul", "QLinearConv"})) {
    const bool scale = i == 1 || i == 4 || i == 6;
    return scale ? wish{element::f32, 0, true} : wish{element::u8};
  }
  if (op == "QuantizeLinear" && i == 1) return {element::other, 0, true};
  return {};
}

// Attributes and parameters without which the operator says nothing, as small as can be.
void add_defaults(request& q, std::vector<tensor>& parameters) {
  const auto integers_of = [](std::vector<std::int64_t> values, bool scalar = false) {
    tensor t{element::i64, scalar ? shape{} : shape{static_cast<std::int64_t>(values.size())}, {}};
    t.data.resize(values.size() * sizeof(std::int64_t));
    std::memcpy(t.data.data(), values.data(), t.data.size());
    return t;
  };
  const auto attribute = [&](const char* name, op::attribute value) { q.attributes.emplace(name, std::move(value)); };
  const auto parameter = [&](std::size_t i, tensor t) {
    while (q.inputs.size() <= i) q.inputs.emplace_back();
    q.inputs[i] = tensor_type{t.shape, t.type};
    parameters[i] = std::move(t);
  };
  const shape& x = q.inputs.empty() || !q.inputs[0] ? shape{} : q.inputs[0]->shape;
  const std::vector<std::int64_t> ones(x.size(), 1), zeros(x.size(), 0);
  const std::vector<std::int64_t> windows(x.size() < 2 ? 0 : x.size() - 2, 2);
  const std::string_view op = q.op;
  if (op == "Cast") attribute("to", std::int64_t{1});
  if (op == "BitShift") attribute("direction", std::string{"LEFT"});
  if (op == "MaxPool" || op == "AveragePool" || op == "LpPool") attribute("kernel_shape", windows);
  if (op == "MaxUnpool") {
    attribute("kernel_shape", windows);
    attribute("strides", windows);
  }
  if (op == "DepthToSpace" || op == "SpaceToDepth") attribute("blocksize", std::int64_t{2});
  if (op == "LRN") attribute("size", std::int64_t{5});
  if (op == "Reshape") parameter(1, integers_of({-1}));
  if (op == "Unsqueeze") parameter(1, integers_of({0}));
  if (op == "Expand") parameter(1, integers_of({x.empty() ? 1 : x.front(), 16}));
  if (op == "Tile") parameter(1, integers_of(std::vector<std::int64_t>(x.size(), 2)));
  if (op == "CumSum") parameter(1, integers_of({-1}, true));
  if (op == "TopK") parameter(1, integers_of({std::min<std::int64_t>(8, x.empty() ? 1 : x.back())}));
  if (op == "Pad") {
    std::vector<std::int64_t> pads = ones;
    pads.insert(pads.end(), ones.begin(), ones.end());
    parameter(1, integers_of(pads));
  }
  if (op == "Slice") {
    parameter(1, integers_of(zeros));
    parameter(2, integers_of(std::vector<std::int64_t>(x.size(), 1 << 20)));
    std::vector<std::int64_t> axes(x.size());
    for (std::size_t d = 0; d < x.size(); ++d) axes[d] = static_cast<std::int64_t>(d);
    parameter(3, integers_of(axes));
    parameter(4, integers_of(std::vector<std::int64_t>(x.size(), 2)));
  }
  if (op == "Resize") {
    std::vector<std::int64_t> sizes = x;
    if (!sizes.empty()) sizes.back() *= 2;
    parameter(3, integers_of(sizes));
  }
}

// The operand's type with gaps (each stride doubled), and every other dimension reversed.
tensor_type spread_out(tensor_type t, std::int64_t& first) {
  t.strides = row_major(t.shape, t.type);
  first = 0;
  if (count_of(t.shape) == 0) return t;
  for (std::size_t d = 0; d < t.strides.size(); ++d) {
    t.strides[d] *= 2;
    if (d % 2 == 0) {
      first += (t.shape[d] - 1) * t.strides[d];
      t.strides[d] = -t.strides[d];
    }
  }
  return t;
}

struct prepared {
  request q;
  std::vector<tensor> parameters;
  std::vector<std::size_t> operands;
  std::vector<std::vector<double>> values;  // by operand, row-major, as the type holds them
};

prepared prepare(std::string_view name, const check_options& o) {
  const definition* d = find(name);
  if (d == nullptr) refuse("no operator is called '" + std::string{name} + "'");
  prepared p;
  p.q.op = d->name;
  p.q.opset = o.opset;
  p.q.attributes = o.attributes;
  const auto shapes = o.shapes.empty() ? shapes_of(d->example) : o.shapes;
  p.parameters.resize(std::max<std::size_t>(shapes.size(), 32));
  for (const shape& s : shapes) {
    (void)count_of(s);
    p.q.inputs.emplace_back(tensor_type{s, o.type});
  }
  add_defaults(p.q, p.parameters);
  p.q.constants.assign(p.q.inputs.size(), nullptr);
  std::uint64_t state = o.seed;
  p.operands = operands_of(p.q);
  for (std::size_t i = 0; i < p.q.inputs.size(); ++i) {
    if (!p.q.inputs[i]) continue;
    if (!p.parameters[i].data.empty()) {
      p.q.constants[i] = &p.parameters[i];
      continue;
    }
    const wish w = wish_of(p.q, i);
    if (w.type != element::other) p.q.inputs[i]->type = w.type;
    if (std::find(p.operands.begin(), p.operands.end(), i) == p.operands.end()) continue;
    const element type = p.q.inputs[i]->type;
    if (element_size(type) == 0) refuse("no such element type");
    const interval range = w.below > 0 ? interval{} : range_of(type, o);
    std::vector<double> values(static_cast<std::size_t>(count_of(p.q.inputs[i]->shape)));
    for (double& v : values) {
      v = made_up(state, type, range, o.edges, w.below);
      if (w.positive && !o.edges) v = is_real(type) ? 1 + std::abs(v) : std::max(1.0, std::abs(v));
      std::byte rounded[8] = {};
      write(type, rounded, v);  // the reference sees what the operand can hold
      v = read(type, rounded);
    }
    p.values.push_back(std::move(values));
  }
  return p;
}

// Puts row-major values where the type's strides say.
void lay_out(const tensor_type& t, const std::vector<double>& values, std::byte* first) {
  const strides by = strides_of(t);
  std::vector<std::int64_t> at(t.shape.size(), 0);
  for (const double v : values) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < at.size(); ++d) offset += at[d] * by[d];
    write(t.type, first + offset, v);
    for (std::size_t d = at.size(); d-- > 0;) {
      if (++at[d] < t.shape[d]) break;
      at[d] = 0;
    }
  }
}

struct judged {
  served run;
  std::vector<guarded_memory> memory;
  guarded_memory workspace;
  std::vector<memory_range> ranges;
};

// Operation and memory for the request, inputs filled.
judged set_up(const request& q, const prepared& p, bool strided) {
  request mine = q;
  judged j;
  std::vector<std::int64_t> first(p.operands.size(), 0);
  for (std::size_t k = 0; strided && k < p.operands.size(); k += 2) {
    mine.inputs[p.operands[k]] = spread_out(*mine.inputs[p.operands[k]], first[k]);
  }
  j.run = serve(mine);
  const auto add = [&](const tensor_type& t, std::int64_t at, bool doubled) {
    const bytes size = static_cast<bytes>(count_of(t.shape)) * element_size(t.type);
    // Gaps double every dimension's stride, so that the whole is at most twice as long.
    const bytes room = std::max<bytes>(doubled ? 2 * size : size, 1);
    j.memory.emplace_back(room, std::max<bytes>(element_size(t.type), 1));
    j.ranges.push_back({j.memory.back().data() + at, j.memory.back().size() - static_cast<bytes>(at)});
  };
  for (std::size_t k = 0; k < p.operands.size(); ++k) {
    const tensor_type& t = *mine.inputs[p.operands[k]];
    add(t, first[k], strided && k % 2 == 0);
    lay_out(t, p.values[k], static_cast<std::byte*>(j.ranges.back().address));
  }
  for (const tensor_type& t : j.run.outputs) add(t, 0, false);
  if (j.run.run != nullptr && j.run.run->workspace() != 0) j.workspace = guarded_memory{j.run.run->workspace(), 64};
  return j;
}

std::vector<double> results_of(const judged& j, std::size_t inputs, std::size_t output) {
  const tensor_type& t = j.run.outputs[output];
  std::vector<double> values(static_cast<std::size_t>(count_of(t.shape)));
  const auto size = static_cast<std::int64_t>(element_size(t.type));
  load_as<double>(t.type)(static_cast<const std::byte*>(j.ranges[inputs + output].address), size,
                          static_cast<std::int64_t>(values.size()), values.data());
  return values;
}

// The same request with every float in f64.
request in_f64(request q) {
  for (auto& input : q.inputs) {
    if (input && is_real(input->type)) input->type = element::f64;
  }
  return q;
}

// What was found wrong first stays.
void blame(check_result& r, std::string why) {
  if (r.why.empty()) r.why = std::move(why);
}

// `expected`: by result, what is wanted.
void compare(check_result& r, const judged& got, const std::vector<std::vector<double>>& expected, std::size_t inputs) {
  double total = 0;
  std::uint64_t count = 0;
  for (std::size_t o = 0; o < got.run.outputs.size(); ++o) {
    const auto a = results_of(got, inputs, o);
    const auto& b = expected[o];
    const element type = got.run.outputs[o].type;
    r.tolerance = std::max(r.tolerance, tolerance_of(type));
    for (std::size_t i = 0; i < a.size(); ++i) {
      double reference = b[i];
      std::byte rounded[8] = {};
      write(type, rounded, reference);  // an overflow of the type is no difference
      reference = std::isinf(read(type, rounded)) ? read(type, rounded) : reference;
      const bool same = a[i] == reference || (std::isnan(a[i]) && std::isnan(reference));
      const double difference = same ? 0 : std::abs(a[i] - reference) / std::max(1.0, std::abs(reference));
      total += difference;
      ++count;
      if (difference > r.largest_difference || std::isnan(difference)) {
        r.largest_difference = difference;
        r.worst_output = o;
        r.worst_element = i;
      }
    }
  }
  r.mean_difference = count == 0 ? 0 : total / static_cast<double>(count);
  if (!(r.largest_difference <= r.tolerance)) {
    blame(r, "result " + std::to_string(r.worst_output) + ", element " + std::to_string(r.worst_element) +
                 " differs by " + std::to_string(r.largest_difference) + " (allowed: " + std::to_string(r.tolerance) +
                 ")");
  }
}

// What the results are judged by: loops of the oracle where the kernel in f64 would be this very kernel.
std::vector<std::vector<double>> reference(check_result& r, const prepared& p, std::size_t results, stream& s) {
  const request wide = in_f64(p.q);
  const auto same_type = [&](std::size_t i) { return wide.inputs[i]->type == p.q.inputs[i]->type; };
  const bool same = std::all_of(p.operands.begin(), p.operands.end(), same_type);
  r.reference = "the kernel in f64";
  if (same) {
    if (auto expected = expected_of(p.q, p.values)) {
      r.reference = "other loops";
      return {*std::move(expected)};
    }
    r.reference = "this kernel: layouts, memory and heap are judged, not what it computes";
  }
  judged want = set_up(wide, p, false);
  want.run.run->run_checked(want.ranges, {want.workspace.data(), want.run.run->workspace()}, s).value();
  s.synchronize().value();
  std::vector<std::vector<double>> expected;
  for (std::size_t o = 0; o < results; ++o) expected.push_back(results_of(want, p.operands.size(), o));
  return expected;
}

void time_it(check_result& r, const check_options& o, judged& j, stream& s) {
  std::vector<void*> addresses;
  for (const memory_range& m : j.ranges) addresses.push_back(m.address);
  const auto once = [&] {
    j.run.run->run(addresses, j.workspace.data(), s).value();
    s.synchronize().value();
  };
  for (std::uint32_t i = 0; i < o.warm_up; ++i) once();
  std::vector<double> us(o.runs);
  const std::uint64_t before = o.heap_calls == nullptr ? 0 : o.heap_calls();
  for (double& each : us) {
    const auto begin = std::chrono::steady_clock::now();
    once();
    each = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  }
  if (o.heap_calls != nullptr) r.heap_calls_second = static_cast<std::int64_t>(o.heap_calls() - before);
  std::sort(us.begin(), us.end());
  if (us.empty()) return;
  for (const double each : us) r.mean_us += each / static_cast<double>(us.size());
  r.median_us = us[us.size() / 2];
  r.fastest_us = us.front();
  r.slowest_us = us.back();
}

}  // namespace

double tolerance_of(element type) noexcept {
  switch (type) {
    case element::f64: return 0x1p-40;
    case element::f32: return 0x1p-18;
    case element::f16: return 0x1p-10;
    case element::bf16: return 0x1p-7;
    default: return 0;
  }
}

element element_named(std::string_view wanted) noexcept {
  for (int e = 0; e < static_cast<int>(element::other); ++e) {
    if (wanted == name(static_cast<element>(e))) return static_cast<element>(e);
  }
  return element::other;
}

std::vector<shape> shapes_of(std::string_view text) {
  std::vector<shape> shapes;
  while (true) {
    const std::string_view one = text.substr(0, text.find(','));
    shape s;
    if (one != "scalar") {
      for (const char* at = one.data();; ++at) {
        std::int64_t d = 0;
        const auto [end, wrong] = std::from_chars(at, one.data() + one.size(), d);
        if (wrong != std::errc{} || d < 0)
          refuse("'" + std::string{one} + "' is no shape: numbers with x between them, or scalar");
        s.push_back(d);
        at = end;
        if (at == one.data() + one.size()) break;
        if (*at != 'x') refuse("'" + std::string{one} + "' is no shape: numbers with x between them, or scalar");
      }
    }
    shapes.push_back(std::move(s));
    if (one.size() == text.size()) return shapes;
    text.remove_prefix(one.size() + 1);
  }
}

check_result check(std::string_view name, const check_options& o) {
  check_result r;
  const prepared p = prepare(name, o);
  const std::uint64_t before = o.heap_calls == nullptr ? 0 : o.heap_calls();
  (void)serve(p.q);
  if (o.heap_calls != nullptr) r.heap_calls_first = static_cast<std::int64_t>(o.heap_calls() - before);
  judged got = set_up(p.q, p, o.strided);
  for (const std::size_t i : p.operands) r.inputs.push_back(*p.q.inputs[i]);
  r.outputs = got.run.outputs;
  for (const guarded_memory& m : got.memory) r.memory += m.size();
  if (got.run.run == nullptr) {  // empty results
    r.ok = true;
    return r;
  }
  operation& run = *got.run.run;
  r.kernel = run.kernel();
  r.workspace = run.workspace();
  r.parts.assign(run.workspace_parts().begin(), run.workspace_parts().end());
  r.memory += r.workspace;
  stream s{device::host()};
  if (r.workspace != 0) {
    const auto short_one = run.run_checked(got.ranges, {got.workspace.data(), r.workspace - 1}, s);
    s.synchronize().value();
    if (short_one) blame(r, "a workspace one byte short is taken");
  }
  const auto ran = run.run_checked(got.ranges, {got.workspace.data(), r.workspace}, s);
  if (!ran) {
    r.why = std::string{ran.error().what} + " (" + std::to_string(ran.error().number) + ")";
    return r;
  }
  s.synchronize().value();
  compare(r, got, reference(r, p, got.run.outputs.size(), s), p.operands.size());
  for (const guarded_memory& m : got.memory) {
    if (!m.untouched_before()) blame(r, "bytes before an operand were written");
  }
  if (r.workspace != 0 && !got.workspace.untouched_before()) blame(r, "bytes before the workspace were written");
  time_it(r, o, got, s);
  if (r.heap_calls_second > 0) blame(r, std::to_string(r.heap_calls_second) + " calls of the heap in phase two");
  r.ok = r.why.empty();
  return r;
}

}  // namespace berth::op

// Operators of the C interface with made-up descriptions: any row of the table, any types, shapes, strides and
// attributes. Each is refused with one line, or runs within the memory that its description says.
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "berth/op.h"
#include "berth/op/operator.hpp"
#include "fuzz/fuzz.hpp"

using namespace berth;

namespace {

constexpr std::int64_t dimensions[] = {1, 2, 3, 4, 5, 8, 1, 2, 3, 4, 0, 17};
// Beyond what is accepted, or so small that nothing takes long.
constexpr std::int64_t numbers[] = {0,
                                    1,
                                    2,
                                    3,
                                    4,
                                    -1,
                                    -2,
                                    1,
                                    0,
                                    7,
                                    11,
                                    std::numeric_limits<std::int64_t>::min(),
                                    std::numeric_limits<std::int64_t>::max(),
                                    std::int64_t{1} << 31,
                                    -(std::int64_t{1} << 62)};
constexpr double reals[] = {0,
                            1,
                            0.5,
                            -1,
                            2,
                            1e-5,
                            1e30,
                            -1e30,
                            1e300,
                            std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity()};
constexpr const char* names[] = {"axis",
                                 "axes",
                                 "kernel_shape",
                                 "pads",
                                 "strides",
                                 "dilations",
                                 "group",
                                 "auto_pad",
                                 "ceil_mode",
                                 "count_include_pad",
                                 "perm",
                                 "keepdims",
                                 "to",
                                 "alpha",
                                 "beta",
                                 "epsilon",
                                 "mode",
                                 "blocksize",
                                 "size",
                                 "k",
                                 "largest",
                                 "sorted",
                                 "exclusive",
                                 "reverse",
                                 "batch_dims",
                                 "reduction",
                                 "transA",
                                 "transB",
                                 "storage_order",
                                 "output_padding",
                                 "output_shape",
                                 "num_outputs",
                                 "split",
                                 "direction",
                                 "fmod",
                                 "upper",
                                 "nearest_mode",
                                 "p",
                                 "batch_axis",
                                 "time_axis",
                                 "ignore_index",
                                 "min",
                                 "max",
                                 "lambd",
                                 "bias",
                                 "allowzero",
                                 "scales",
                                 "noop_with_empty_axes",
                                 "coordinate_transformation_mode",
                                 "stash_type"};
constexpr const char* texts[] = {"NOTSET",  "SAME_UPPER", "SAME_LOWER", "VALID",      "constant",      "edge",
                                 "reflect", "nearest",    "linear",     "cubic",      "add",           "mul",
                                 "max",     "none",       "mean",       "sum",        "LEFT",          "CRD",
                                 "tanh",    "floor",      "ceil",       "asymmetric", "align_corners", ""};
// Limits of an operand that is run. A window may take each element of one with each of another: a second if sanitized.
constexpr std::size_t most_bytes = std::size_t{1} << 20;
constexpr std::int64_t most_elements = 1 << 12;

void said(berth_status s) {
  fuzz::require((s == BERTH_OK) == (berth_error_text()[0] == '\0'), "a failure has a text, a success none");
  fuzz::require(std::strchr(berth_error_text(), '\n') == nullptr, "a text is one line");
  fuzz::require(s != BERTH_INTERNAL, berth_error_text());
}

std::size_t size_of(std::int32_t type) {
  return static_cast<std::size_t>(element_size(static_cast<element>(type)));
}

// A tensor with memory of just the bytes that it spans, so that a step beyond is seen by the address sanitizer.
class operand {
 public:
  // Returns nothing if the operand is refused, or too large to be given memory.
  static std::optional<operand> make(fuzz::choices& c, std::int32_t type, std::vector<std::int64_t> shape,
                                     bool row_major) {
    operand o;
    std::vector<std::int64_t> strides;
    std::int64_t low = 0, high = 0, elements = 1;
    auto next = static_cast<std::int64_t>(size_of(type));
    bool empty = false, large = false;
    strides.resize(shape.size());
    for (std::size_t d = shape.size(); d-- > 0;) {
      strides[d] = next;
      if (!row_major) {
        const std::uint8_t how = c.byte();
        if (how % 4 == 1) strides[d] = -next;
        if (how % 4 == 2) strides[d] = 2 * next;
        if (how % 8 == 7) strides[d] = c.of(numbers);
      }
      empty = empty || shape[d] == 0;
      large = large || shape[d] > std::int64_t{1} << 20 || strides[d] > std::int64_t{1} << 20 ||
              strides[d] < -(std::int64_t{1} << 20);
      if (large || next > std::int64_t{1} << 20) {
        large = true;
        continue;
      }
      if (shape[d] > 1) (strides[d] < 0 ? low : high) += (shape[d] - 1) * strides[d];
      next *= std::max<std::int64_t>(shape[d], 1);
      elements *= std::max<std::int64_t>(shape[d], 1);
      large = large || elements > most_elements;
    }
    const auto span = large || empty ? 0 : static_cast<std::size_t>(high - low) + size_of(type);
    if (span > most_bytes) large = true;
    if (!large) {
      o.memory_.reset(new unsigned char[span]);
      for (std::size_t i = 0; i < span; ++i) o.memory_[i] = c.empty() ? static_cast<unsigned char>(i * 37) : c.byte();
    }
    const berth_status s = berth_tensor_create(type, shape.data(), shape.size(), row_major ? nullptr : strides.data(),
                                               large ? nullptr : o.memory_.get() - low,
                                               large ? 0 : span + static_cast<std::size_t>(low), &o.tensor_);
    said(s);
    if (s != BERTH_OK) return std::nullopt;
    return o;
  }
  operand(operand&& other) noexcept { *this = std::move(other); }
  operand& operator=(operand&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(tensor_, other.tensor_);
    return *this;
  }
  ~operand() { berth_tensor_destroy(tensor_); }
  [[nodiscard]] berth_tensor* tensor() const { return tensor_; }

 private:
  operand() = default;
  std::unique_ptr<unsigned char[]> memory_;
  berth_tensor* tensor_ = nullptr;
};

class game {
 public:
  game(fuzz::choices c, berth_stream* on) : c_{c}, on_{on} {}

  void play() {
    const auto rows = op::all();
    name_ = rows[c_.below(rows.size())]->name;
    const std::size_t count = c_.byte() % 6;
    const std::uint8_t type = c_.byte() % 13;
    std::vector<std::int64_t> first;
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::int64_t> shape(c_.byte() % 5);
      for (std::int64_t& d : shape) d = c_.byte() % 32 == 0 ? c_.of(numbers) : c_.of(dimensions);
      if (i == 0) first = shape;
      const std::uint8_t how = c_.byte();
      if (how % 4 == 0) shape = first;
      const std::int32_t own = how % 8 < 5 ? type : how % 8 == 5 ? BERTH_I64 : c_.byte() % 13;
      if (how >= 250) {
        inputs_.push_back(nullptr);
        continue;
      }
      auto made = operand::make(c_, own, shape, how % 16 < 12);
      if (!made) return;
      inputs_.push_back(made->tensor());
      operands_.push_back(std::move(*made));
    }
    make_attributes();
    run();
  }

 private:
  void make_attributes() {
    const std::size_t count = c_.byte() % 4;
    lists_.reserve(count);
    real_lists_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      berth_attribute a{};
      a.struct_size = sizeof a;
      a.name = c_.of(names);
      a.kind = c_.byte() % 6;
      a.integer = c_.of(numbers);
      a.number = c_.of(reals);
      a.text = c_.of(texts);
      lists_.emplace_back(c_.byte() % 6);
      for (std::int64_t& v : lists_.back()) v = c_.of(numbers);
      real_lists_.emplace_back(lists_.back().size());
      for (double& v : real_lists_.back()) v = c_.of(reals);
      a.integers = lists_.back().data();
      a.numbers = real_lists_.back().data();
      a.count = lists_.back().size();
      attributes_.push_back(a);
    }
  }

  void run() {
    const std::size_t wanted = 1 + c_.byte() % 3;
    std::vector<berth_tensor*> results;
    for (std::size_t i = 0; i < wanted; ++i) {
      std::int32_t type = -1;
      std::int64_t shape[32];
      std::size_t rank = 99;
      const berth_status s = berth_op_infer(name_, inputs_.data(), inputs_.size(), attributes_.data(),
                                            attributes_.size(), wanted, i, &type, shape, 32, &rank);
      said(s);
      if (s != BERTH_OK) return fuzz::require(type == -1 && rank == 99, "a failure leaves its outputs");
      fuzz::require(type >= 0 && type <= BERTH_BOOL && rank <= 32, "a result has a type and a shape");
      auto made = operand::make(c_, type, {shape, shape + rank}, c_.byte() % 4 != 0);
      if (!made) return;
      results.push_back(made->tensor());
      operands_.push_back(std::move(*made));
    }
    std::uint64_t size = 7;
    berth_executor* executor = nullptr;
    const berth_status s =
        berth_op_workspace_size(nullptr, name_, inputs_.data(), inputs_.size(), attributes_.data(), attributes_.size(),
                                results.data(), results.size(), &size, &executor);
    said(s);
    if (s != BERTH_OK) return fuzz::require(size == 7 && executor == nullptr, "a failure leaves its outputs");
    if (size <= 8 * most_bytes) {
      std::unique_ptr<void, decltype(&std::free)> work{
          size == 0 ? nullptr : std::aligned_alloc(64, static_cast<std::size_t>(size + 63) / 64 * 64), &std::free};
      if (size != 0) fuzz::require(berth_op_run(work.get(), size - 1, executor, on_) != BERTH_OK, "one byte short");
      said(berth_op_run(work.get(), size, executor, on_));
      said(berth_stream_synchronize(on_));
    }
    berth_executor_destroy(executor);
  }

  fuzz::choices c_;
  berth_stream* on_;
  const char* name_ = nullptr;
  std::vector<operand> operands_;
  std::vector<const berth_tensor*> inputs_;
  std::vector<berth_attribute> attributes_;
  std::vector<std::vector<std::int64_t>> lists_;
  std::vector<std::vector<double>> real_lists_;
};

berth_stream* stream_of_all() {
  static berth_stream* const made = [] {
    berth_device* host = nullptr;
    berth_stream* s = nullptr;
    fuzz::require(berth_device_open(nullptr, &host) == BERTH_OK && berth_stream_create(host, &s) == BERTH_OK,
                  berth_error_text());
    return s;
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  game{{data, size}, stream_of_all()}.play();
  return 0;
}

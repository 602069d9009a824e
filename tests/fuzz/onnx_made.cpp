// Models of ONNX made of choices: bytes changed at random hardly ever are one, and what hurts is in the nodes.
#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "berth/graph/graph_plan.hpp"
#include "berth/model/onnx.hpp"
#include "berth/model/program.hpp"
#include "berth/model/runner.hpp"
#include "berth/op/check.hpp"
#include "berth/op/operator.hpp"
#include "fuzz/fuzz.hpp"
#include "model/onnx_maker.hpp"

using namespace berth;
using list = std::vector<std::int64_t>;

namespace {

constexpr std::int64_t extents[] = {1,
                                    2,
                                    3,
                                    4,
                                    5,
                                    7,
                                    8,
                                    1,
                                    2,
                                    4,
                                    16,
                                    31,
                                    0,
                                    -1,
                                    1 << 10,
                                    1 << 16,
                                    1 << 20,
                                    1 << 30,
                                    (1 << 30) - 1,
                                    (1 << 30) + 1,
                                    std::int64_t{1} << 32,
                                    INT64_MAX};
constexpr std::int64_t numbers[] = {0,
                                    1,
                                    -1,
                                    2,
                                    -2,
                                    3,
                                    4,
                                    5,
                                    7,
                                    0,
                                    1,
                                    8,
                                    1 << 20,
                                    (1 << 30) - 1,
                                    1 << 30,
                                    std::int64_t{1} << 31,
                                    std::int64_t{1} << 40,
                                    std::int64_t{1} << 62,
                                    INT64_MAX,
                                    INT64_MIN};
constexpr float infinity = std::numeric_limits<float>::infinity(),
                nan_of_floats = std::numeric_limits<float>::quiet_NaN();
constexpr float reals[] = {0, 1, -1, 0.5f, 1e30f, -1e30f, infinity, nan_of_floats, 9.3e18f};
constexpr const char* operators[] = {"Abs",
                                     "Add",
                                     "AveragePool",
                                     "BatchNormalization",
                                     "Cast",
                                     "Clip",
                                     "Concat",
                                     "Constant",
                                     "ConstantOfShape",
                                     "Conv",
                                     "Div",
                                     "Dropout",
                                     "Elu",
                                     "Exp",
                                     "Flatten",
                                     "Gather",
                                     "Gelu",
                                     "Gemm",
                                     "GlobalAveragePool",
                                     "HardSwish",
                                     "Identity",
                                     "LayerNormalization",
                                     "LeakyRelu",
                                     "Log",
                                     "MatMul",
                                     "Max",
                                     "MaxPool",
                                     "Min",
                                     "Mul",
                                     "Neg",
                                     "Pad",
                                     "Pow",
                                     "ReduceMean",
                                     "Relu",
                                     "Reshape",
                                     "Shape",
                                     "Sigmoid",
                                     "Slice",
                                     "Softmax",
                                     "Split",
                                     "Sqrt",
                                     "Squeeze",
                                     "Sub",
                                     "Tanh",
                                     "Transpose",
                                     "Unsqueeze"};
constexpr const char* attributes[] = {"axis",       "axes",      "perm",  "group",     "kernel_shape",
                                      "strides",    "dilations", "pads",  "ceil_mode", "count_include_pad",
                                      "keepdims",   "to",        "split", "transA",    "transB",
                                      "allowzero",  "starts",    "ends",  "steps",     "value_int",
                                      "value_ints", "min",       "max"};

// Attributes with a meaning for these operators. One of several of one name is taken.
struct attribute {
  const char* op;
  const char* name;
  std::variant<std::int64_t, list, std::string, float> value;
};
const attribute meant[] = {
    {"Einsum", "equation", "ij,jk->ik"},
    {"Einsum", "equation", "ij,kl->"},
    {"Einsum", "equation", "...j,jk"},
    {"Einsum", "equation", "ii,ij->i"},
    {"RNN", "direction", "bidirectional"},
    {"RNN", "layout", 1},
    {"GRU", "direction", "reverse"},
    {"GRU", "linear_before_reset", 1},
    {"GRU", "layout", 1},
    {"LSTM", "direction", "reverse"},
    {"LSTM", "input_forget", 1},
    {"LSTM", "hidden_size", 16},
    {"LSTM", "layout", 1},
    {"GridSample", "mode", "bicubic"},
    {"GridSample", "mode", "nearest"},
    {"GridSample", "padding_mode", "border"},
    {"GridSample", "padding_mode", "reflection"},
    {"GridSample", "align_corners", 1},
    {"RoiAlign", "mode", "max"},
    {"RoiAlign", "output_height", 3},
    {"RoiAlign", "output_width", 2},
    {"RoiAlign", "sampling_ratio", 2},
    {"RoiAlign", "coordinate_transformation_mode", "output_half_pixel"},
    {"DFT", "axis", 1},
    {"DFT", "inverse", 1},
    {"DFT", "onesided", 1},
    {"STFT", "onesided", 0},
    {"HannWindow", "periodic", 0},
    {"Unique", "axis", 0},
    {"Unique", "sorted", 0},
    {"Compress", "axis", 0},
    {"NonMaxSuppression", "center_point_box", 1},
    {"MaxPool", "kernel_shape", list{2, 2}},
    {"AveragePool", "kernel_shape", list{2, 2}},
    {"LpPool", "kernel_shape", list{2, 2}},
    {"MaxUnpool", "kernel_shape", list{2, 2}},
    {"DepthToSpace", "blocksize", 2},
    {"SpaceToDepth", "blocksize", 2},
    {"BitShift", "direction", "LEFT"},
    {"Resize", "mode", "cubic"},
    {"Resize", "mode", "linear"},
    {"Resize", "coordinate_transformation_mode", "align_corners"},
    {"LRN", "size", 5},
    {"Cast", "to", 7},
    {"BatchNormalization", "training_mode", 1},
};

// Inputs of these are integers that mean something: one each.
struct integers {
  const char* op;
  list values;
};
const integers given[] = {
    {"MelWeightMatrix", {8, 64, 8000, 0, 4000}},
    {"BlackmanWindow", {16}},
    {"HammingWindow", {16}},
    {"HannWindow", {16}},
};

// Most choices are small and alike, so that shapes often fit.
class maker {
 public:
  explicit maker(fuzz::choices c) : c_{c}, first_{c_.byte()}, m_{first_ % 4 == 0 ? 17 : c_.byte() % 2 == 0 ? 13 : 11} {}

  std::string text() {
    // One node that fits nothing hides all others: some models are of those that mostly fit alone.
    if (first_ / 32 != 5) unfit();
    for (std::size_t i = c_.byte() % 4; i > 0; --i) {
      fitting();
      m_.output(names_.back());
    }
    lists();
    if (c_.byte() % 2 == 1 || first_ / 32 == 5) m_.model().mutable_opset_import(0)->set_version(17);
    return m_.text();
  }

 private:
  void unfit() {
    for (std::size_t i = 1 + c_.below(2); i > 0; --i) m_.input(named("x"), dims(extents));
    for (std::size_t i = c_.below(7); i > 0; --i) constant();
    for (std::size_t i = 1 + c_.below(6); i > 0; --i) node();
    const std::string last = names_.back();
    m_.output(c_.byte() % 4 == 0 ? any() : last);
    if (c_.byte() % 4 == 0) m_.output(any());
  }
  std::string named(const char* stem) {
    names_.push_back(stem + std::to_string(names_.size()));
    return names_.back();
  }
  std::string any() { return names_.empty() || c_.byte() % 24 == 0 ? "" : names_[c_.below(names_.size())]; }
  template <std::size_t N>
  list dims(const std::int64_t (&from)[N], std::size_t most = 5) {
    list d(c_.byte() % (most + 1));
    for (auto& each : d) each = c_.byte() % 3 == 0 ? c_.of(from) : from[1 + c_.byte() % 4];
    return d;
  }

  void constant() { constant(dims(extents, 4)); }
  void constant(const list& shape) {
    std::int64_t count = 1;
    for (const std::int64_t d : shape) count = d < 0 || d > 64 ? 1 : count * d;
    count = std::min<std::int64_t>(count, 512);
    const std::string name = named("c");
    if (c_.byte() % 2 == 0) {
      std::vector<float> values(static_cast<std::size_t>(count), 1.0f);
      for (std::size_t i = 0; i < values.size() && i < 8; ++i) values[i] = c_.of(reals);
      m_.floats(name, shape, values);
    } else if (c_.byte() % 2 == 0) {
      m_.list(name, dims(numbers, 6));
    } else {
      list values(static_cast<std::size_t>(count), 1);
      for (std::size_t i = 0; i < values.size() && i < 8; ++i) values[i] = c_.of(numbers);
      m_.integers(name, shape, values);
    }
  }

  void node() {
    const char* op = c_.of(operators);
    std::vector<std::string> inputs, outputs;
    inputs.push_back(c_.byte() % 2 == 0 ? any() : names_.back());
    for (std::size_t i = c_.byte() % 5; i > 0; --i) inputs.push_back(any());
    if (std::string_view{op} == "Constant") inputs.clear();
    const std::size_t results = c_.byte() % 4 == 0 ? 1 + c_.below(3) : 1;
    for (std::size_t i = 0; i < results; ++i) outputs.push_back(named("n"));
    if (c_.byte() % 32 == 0) outputs.front().clear();
    m_.node(op, inputs, outputs);
    for (std::size_t i = c_.byte() % 4; i > 0; --i) {
      const char* name = c_.of(attributes);
      const std::string_view of = name;
      const bool is_list = of == "axes" || of == "perm" || of == "kernel_shape" || of == "strides" ||
                           of == "dilations" || of == "pads" || of == "split" || of == "starts" || of == "ends" ||
                           of == "steps" || of == "value_ints";
      if (is_list) {
        m_.with(name, dims(numbers, 6));
      } else {
        m_.with(name, c_.byte() % 3 == 0 ? c_.of(numbers) : numbers[c_.byte() % 8]);
      }
    }
  }

  // Integers that mean something to most operators.
  void index(const std::string& name, const list& shape) {
    std::int64_t count = 1;
    for (const std::int64_t d : shape) count = d < 0 || d > 4096 ? 1 : std::min<std::int64_t>(count * d, 4096);
    list values(static_cast<std::size_t>(count), 1);
    for (std::size_t i = 0; i < values.size() && i < 8; ++i) {
      if (c_.byte() % 8 == 0) values[i] = c_.of(numbers);
    }
    m_.integers(name, shape, values);
  }
  // Adds a node of any row of the table, with operands like those of its example but smaller. Operands drawn one by one
  // hardly ever fit an operator that wants three.
  void fitting() {
    const op::definition& row = *op::all()[c_.below(op::all().size())];
    const std::string_view op = row.name;
    std::vector<std::string> inputs, results{named("n")};
    const auto fixed = std::find_if(std::begin(given), std::end(given), [&](const auto& g) { return op == g.op; });
    for (std::int64_t value : fixed == std::end(given) ? list{} : fixed->values) {
      inputs.push_back(named("c"));
      m_.integers(inputs.back(), {}, {c_.byte() % 8 == 0 ? c_.of(numbers) : value});
    }
    for (list shape : fixed == std::end(given) ? op::shapes_of(row.example) : std::vector<list>{}) {
      for (auto& d : shape) d = c_.byte() % 32 == 0 ? c_.of(extents) : d > 64 ? d / 16 : d;
      const bool parameter = (row.parameters >> inputs.size() & 1u) != 0;
      const int what = c_.byte() % 8;
      if (what == 0) {
        constant(shape);
        inputs.push_back(names_.back());
      } else {
        inputs.push_back(named("x"));
        parameter || what < 3 ? index(inputs.back(), shape) : static_cast<void>(m_.input(inputs.back(), shape));
      }
    }
    for (std::size_t more = c_.byte() % 8; more > 5; --more) {
      inputs.push_back(c_.byte() % 2 == 0 ? "" : named("x"));
      if (!inputs.back().empty()) index(inputs.back(), {1});
    }
    const bool several = op == "BatchNormalization" && c_.byte() % 2 == 0;
    for (int more = several ? 2 : 0; more > 0; --more) results.push_back(named("n"));
    m_.node(row.name, inputs, results);
    std::string_view last;
    for (const auto& [of, name, value] : meant) {
      if (std::string_view{of} != row.name || last == name || c_.byte() % 4 == 0) continue;
      last = name;
      if (const auto* text = std::get_if<std::string>(&value)) {
        m_.with_text(name, *text);
      } else if (const auto* number = std::get_if<std::int64_t>(&value)) {
        m_.with(name, c_.byte() % 8 == 0 ? c_.of(numbers) : *number);
      } else if (const auto* real = std::get_if<float>(&value)) {
        auto* nodes = m_.model().mutable_graph()->mutable_node();
        auto* a = nodes->Mutable(nodes->size() - 1)->add_attribute();
        a->set_name(name);
        a->set_type(onnx::AttributeProto::FLOAT);
        a->set_f(*real);
      } else {
        list changed = std::get<list>(value);
        for (auto& each : changed) each = c_.byte() % 16 == 0 ? c_.of(numbers) : each;
        m_.with(name, changed);
      }
    }
  }

  // Sequences, and what is made of them.
  void lists() {
    std::vector<std::string> made;
    const auto some = [&] { return c_.byte() % 24 == 0 || made.empty() ? any() : made[c_.below(made.size())]; };
    const auto place = [&] {
      if (c_.byte() % 3 == 0) return std::string{};
      const std::string at = named("c");
      m_.integers(at, {}, {c_.byte() % 8 == 0 ? c_.of(numbers) : numbers[c_.byte() % 6]});
      return at;
    };
    const auto add = [&](const char* op, const std::vector<std::string>& inputs) {
      made.push_back("s" + std::to_string(made.size()));
      m_.node(op, inputs, {made.back()});
    };
    const auto tensor = [&](const char* op, const std::vector<std::string>& inputs) {
      m_.node(op, inputs, {named("n")});
      const std::string result = names_.back();
      return result;
    };
    for (std::size_t left = c_.byte() % 6; left > 0; --left) {
      switch (c_.byte() % 12) {
        case 0: add("SequenceConstruct", {any(), any()}); break;
        case 1: add("SequenceEmpty", {}); break;
        case 2:
          add("SplitToSequence", {any(), place()});
          m_.with("axis", numbers[c_.byte() % 4]).with("keepdims", numbers[c_.byte() % 2]);
          break;
        case 3: add("SequenceInsert", {some(), any(), place()}); break;
        case 4: add("SequenceErase", {some(), place()}); break;
        case 5: add("Identity", {some()}); break;
        case 6: c_.byte() % 2 == 0 ? add("Optional", {some()}) : add("OptionalGetElement", {some()}); break;
        case 7: (void)tensor("SequenceAt", {some(), place()}); break;
        case 8:
          (void)tensor("ConcatFromSequence", {some()});
          m_.with("axis", numbers[c_.byte() % 4]).with("new_axis", numbers[c_.byte() % 2]);
          break;
        case 9: (void)tensor(c_.byte() % 2 == 0 ? "SequenceLength" : "OptionalHasElement", {some()}); break;
        case 10: {
          test::onnx_maker body;
          body.input("e", {1}).node(c_.byte() % 2 == 0 ? "Neg" : "Identity", {"e"}, {"r"}).output("r");
          add("SequenceMap", {some()});
          test::give(m_, "body", body);
          break;
        }
        default: add_rounds(some(), c_.byte() % 2 == 0 ? any() : "i", made); break;
      }
    }
    for (const std::string& name : made) {
      if (c_.byte() % 3 == 0) m_.output(name);
    }
    if (!made.empty() && !names_.empty()) m_.output(names_.back());
  }
  // A loop that adds to a sequence, or hands a tensor on.
  void add_rounds(const std::string& from, const std::string& element, std::vector<std::string>& made) {
    test::onnx_maker body;
    body.input("i", {}).input("go", {}).input("s", {});
    auto* g = body.model().mutable_graph();
    test::of_type(g->mutable_input(0), onnx::TensorProto::INT64);
    test::of_type(g->mutable_input(1), onnx::TensorProto::BOOL);
    g->mutable_input(2)->clear_type();
    c_.byte() % 4 == 0 ? body.node("Neg", {"s"}, {"more"}) : body.node("SequenceInsert", {"s", element}, {"more"});
    body.node("Identity", {"go"}, {"on"}).output("on").output("more");
    if (c_.byte() % 4 == 0) body.output("s");
    g = body.model().mutable_graph();
    test::of_type(g->mutable_output(0), onnx::TensorProto::BOOL);
    const std::string rounds = named("c");
    m_.integers(rounds, {}, {c_.byte() % 8 == 0 ? c_.of(numbers) : numbers[c_.byte() % 8]});
    made.push_back("s" + std::to_string(made.size()));
    std::vector<std::string> results{made.back()};
    if (body.model().graph().output_size() == 3) results.push_back(named("n"));
    m_.node("Loop", {rounds, "", from}, results);
    test::give(m_, "body", body);
  }

  fuzz::choices c_;
  std::uint8_t first_;
  test::onnx_maker m_;
  std::vector<std::string> names_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = maker{{data, size}}.text();
  const std::string& path = fuzz::path_of(text);
  fuzz::reading(path, [&] {
    model::program p = model::lower(model::read_onnx(path));
    fuzz::require(p.graph.fault().ok(), p.graph.fault().text);
    const auto plan = plan_graph(p.graph, {.search = {.work = plan::effort::fast}, .verify = false});
    if (!plan || plan->no_reuse_bytes > bytes{1} << 20) return;
    for (const auto& c : p.constants) {
      if (c.data.size() > 1 << 16) return;
    }
    // Small programs run.
    device host = device::open("host").value();
    pool memory{host};
    stream s{host};
    auto runs = model::runner::create(std::move(p), memory, s, {.work = plan::effort::fast});
    if (!runs) return;
    for (std::size_t i = 0; i < runs->get_program().inputs.size(); ++i) {
      const auto n = static_cast<std::size_t>(runs->get_program().graph[runs->get_program().inputs[i].value].size / 4);
      for (std::size_t k = 0; k < n; ++k) runs->input(i)[k] = static_cast<float>(k % 7);
    }
    fuzz::require(runs->run().has_value(), "a program that was made runs");
    (void)s.synchronize();
  });
  return 0;
}

#include "berth/model/ggml_trace.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "berth/model/input_error.hpp"
#include "model/file.hpp"
#include "model/files/json_fields.hpp"
#include "model/files/readers.hpp"
#include "model/files/text.hpp"

namespace berth::model {
namespace {

constexpr std::uint32_t none = UINT32_MAX;

struct traced_tensor {
  enum class sort : std::uint8_t { leaf, node, external };
  std::size_t line = 0;
  sort kind = sort::leaf;
  std::string name;
  std::string op;
  tensor_type type;
  std::uint32_t view_of = none;  // the root
  bytes view_offset = 0;
  std::vector<std::uint32_t> operands;
  bool placed = false;  // before ggml's allocator runs
  bool output = false;
  bool in_place = false;
  bool read = false;
};

// The operators of 2026 that make their result of their operands alone, and write nowhere else. MAP_CUSTOM and CUSTOM
// are the application's functions. OPT_STEP moves the moments too, which the graph does not show.
constexpr std::string_view pure =
    " ABS ACC ADD ADD1 ADD_ID ADD_REL_POS ARANGE ARGMAX ARGSORT CEIL CLAMP COL2IM_1D CONCAT CONT CONV_2D CONV_2D_DW "
    " CONV_3D CONV_TRANSPOSE_1D CONV_TRANSPOSE_2D COS COUNT_EQUAL CPY CROSS_ENTROPY_LOSS CROSS_ENTROPY_LOSS_BACK "
    " CUMSUM DIAG DIAG_MASK_INF DIAG_MASK_ZERO DIV DUP ELU EXP EXPM1 FILL FLASH_ATTN_BACK FLASH_ATTN_EXT FLOOR "
    " GATED_DELTA_NET GATED_LINEAR_ATTN GEGLU GEGLU_ERF GEGLU_QUICK GELU GELU_ERF GELU_QUICK GET_REL_POS GET_ROWS "
    " GET_ROWS_BACK GLU GROUP_NORM HARDSIGMOID HARDSWISH IM2COL IM2COL_3D IM2COL_BACK L2_NORM LEAKY_RELU LOG MEAN MUL "
    " MUL_MAT MUL_MAT_ID NEG NORM OUT_PROD PAD PAD_REFLECT_1D POOL_1D POOL_2D POOL_2D_BACK REGLU RELU REPEAT "
    " REPEAT_BACK RMS_NORM RMS_NORM_BACK ROLL ROPE ROPE_BACK ROUND RWKV_WKV6 RWKV_WKV7 SCALE SET SET_ROWS SGN SIGMOID "
    " SILU SILU_BACK SIN SOFTPLUS SOFT_MAX SOFT_MAX_BACK SOLVE_TRI SQR SQRT SSM_CONV SSM_SCAN STEP SUB SUM SUM_ROWS "
    " SWIGLU SWIGLU_OAI TANH TIMESTEP_EMBEDDING TOP_K TRI TRUNC UNARY UPSCALE WIN_PART WIN_UNPART XIELU ";

bool is_pure(const std::string& op) {
  return op.find(' ') == std::string::npos && pure.find(" " + op + " ") != std::string_view::npos;
}

element element_of(const std::string& type) {
  if (type == "f32") return element::f32;
  if (type == "f16") return element::f16;
  if (type == "bf16") return element::bf16;
  if (type == "i32") return element::i32;
  if (type == "i64") return element::i64;
  if (type == "i16") return element::i16;
  if (type == "i8") return element::i8;
  return element::other;  // quantised: the size says it
}

std::uint32_t id_in(const json_value& v, std::size_t tensors, const char* what) {
  const bytes id = v.as_bytes();
  if (id >= tensors) v.fail(std::string{what} + " " + std::to_string(id) + " is no tensor of the trace");
  return static_cast<std::uint32_t>(id);
}

traced_tensor read_tensor(const json_value& v, std::size_t tensors, std::size_t line, std::uint32_t expected) {
  if (const bytes id = v.at("id").as_bytes(); id != expected) {
    v.fail("id " + std::to_string(id) + " where " + std::to_string(expected) + " was to come");
  }
  traced_tensor t;
  t.line = line;
  const std::string kind = v.at("k").as_id();
  if (kind != "leaf" && kind != "node" && kind != "ext") v.fail("k is " + quote(kind) + ", not leaf, node or ext");
  t.kind = kind == "leaf"   ? traced_tensor::sort::leaf
           : kind == "node" ? traced_tensor::sort::node
                            : traced_tensor::sort::external;
  t.name = v.at("name").as_id();
  t.op = v.at("op").as_id();
  t.type.type = element_of(v.at("type").as_id());
  const json_value extents = v.at("ne");
  const json_value strides = v.at("nb");
  for (std::size_t i = 0; i < extents.size(); ++i) t.type.shape.push_back(extents.at(i).as_tick());
  for (std::size_t i = 0; i < strides.size(); ++i) t.type.strides.push_back(strides.at(i).as_tick());
  t.type.size = v.at("size").as_bytes();
  if (const auto root = v.find("vs")) {
    t.view_of = id_in(*root, tensors, "vs");
    if (const auto offset = v.find("vo")) t.view_offset = offset->as_bytes();
  }
  if (const auto operands = v.find("src")) {
    for (std::size_t i = 0; i < operands->size(); ++i) {
      const json_value operand = operands->at(i);
      if (operand.is_null()) continue;
      const std::uint32_t id = id_in(operand, tensors, "src");
      if (id != expected) t.operands.push_back(id);  // ggml_cast lists itself
    }
  }
  if (const auto flags = v.find("fl")) t.output = flags->as_id().find('O') != std::string::npos;
  if (const auto placed = v.find("pre")) t.placed = placed->as_bytes() != 0;
  if (const auto in_place = v.find("ip")) t.in_place = in_place->as_bytes() != 0;
  return t;
}

struct file_text {
  std::string name;
  bytes alignment = 1;
  std::vector<traced_tensor> tensors;
};

file_text read_lines(const std::string& path, std::string_view text) {
  file_text file;
  std::string_view rest = text;
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  std::size_t expected = 0;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    const std::string_view written = trim(cut(rest, '\n'));
    if (written.empty()) continue;
    const json parsed = parse_json(path, written, line);
    const bool header = expected == 0 && file.tensors.empty();
    const json_value v{parsed, header ? "the header" : "tensor " + std::to_string(file.tensors.size()), path,
                       static_cast<std::uint32_t>(line)};
    if (header) {
      if (v.at("schema").as_id() != "ggml-graph-trace/1") v.fail("schema is not ggml-graph-trace/1");
      if (const auto name = v.find("graph")) file.name = name->as_id();
      if (const auto align = v.find("align")) file.alignment = align->as_bytes();
      if (!is_power_of_two(file.alignment)) v.fail("align is not a power of two");
      expected = v.at("n_tensors").as_bytes();
      if (expected == 0 || expected > lines) v.fail("n_tensors is not the number of the lines that follow");
      file.tensors.reserve(expected);
      continue;
    }
    if (file.tensors.size() == expected) v.fail("more tensors than the header's n_tensors");
    file.tensors.push_back(read_tensor(v, expected, line, static_cast<std::uint32_t>(file.tensors.size())));
  }
  if (expected == 0) throw input_error(path, "empty: no header");
  if (file.tensors.size() != expected) {
    throw input_error(
        path, "ends after " + std::to_string(file.tensors.size()) + " of " + std::to_string(expected) + " tensors");
  }
  return file;
}

// Builds the graph from the tensors, in the order in which they exist.
class trace_builder {
 public:
  trace_builder(const file_text& file, ggml_trace& out) : file_{file}, out_{out} {
    out_.value_of.assign(file.tensors.size(), {});
  }

  void build() {
    using sort = traced_tensor::sort;
    for (std::uint32_t i = 0; i < file_.tensors.size(); ++i) {
      if (file_.tensors[i].kind != sort::node && file_.tensors[i].view_of == none) add_root(i);
    }
    for (std::uint32_t i = 0; i < file_.tensors.size(); ++i) {
      if (file_.tensors[i].kind != sort::node && file_.tensors[i].view_of != none) add_view(i);
    }
    for (std::uint32_t i = 0; i < file_.tensors.size(); ++i) {
      if (file_.tensors[i].kind == sort::node) add_node(i);
    }
    for (std::uint32_t i = 0; i < file_.tensors.size(); ++i) {
      const traced_tensor& t = file_.tensors[i];
      if (t.kind != sort::external && (t.output || (!t.read && t.kind == sort::node))) {
        out_.graph.output(out_.value_of[i]);
      }
    }
    if (const graph_fault& fault = out_.graph.fault(); !fault.ok()) throw input_error(out_.path, one_line(fault.text));
  }

 private:
  void bind(std::uint32_t i, value_id v) {
    out_.value_of[i] = v;
    out_.id_of.resize(out_.graph.values().size(), i);
  }
  value_id operand(std::uint32_t i, std::uint32_t user) const {
    const value_id v = out_.value_of[i];
    if (v == value_id{}) {
      const traced_tensor& t = file_.tensors[user];
      throw input_error(out_.path, t.line,
                        "tensor " + quote(t.name) + " uses " + quote(file_.tensors[i].name) + ", which comes after it");
    }
    return v;
  }
  void add_root(std::uint32_t i) {
    const traced_tensor& t = file_.tensors[i];
    const bool outside = t.placed || t.kind == traced_tensor::sort::external;
    bind(i, outside ? out_.graph.external(t.name, t.type) : out_.graph.input(t.name, t.type));
  }
  void add_view(std::uint32_t i) {
    const traced_tensor& t = file_.tensors[i];
    bind(i, out_.graph.view(t.name, operand(t.view_of, i), t.type, t.view_offset));
  }
  void add_node(std::uint32_t i) {
    const traced_tensor& t = file_.tensors[i];
    const bool computes =
        t.op != "VIEW" && t.op != "RESHAPE" && t.op != "PERMUTE" && t.op != "TRANSPOSE" && t.op != "NONE";
    if (!computes) return t.view_of != none ? add_view(i) : add_root(i);
    std::vector<value_id> inputs;
    for (const std::uint32_t operand_id : t.operands) inputs.push_back(operand(operand_id, i));
    const auto index = static_cast<std::uint32_t>(out_.graph.nodes().size());
    if (!is_pure(t.op)) out_.once.push_back(index);
    node_options options;
    options.op = t.op;
    if (t.view_of != none || t.placed) {
      const value_id destination = t.view_of != none
                                       ? out_.graph.view(t.name, operand(t.view_of, i), t.type, t.view_offset)
                                       : out_.graph.external(t.name, t.type);
      return bind(i, out_.graph.node_into(t.name, std::move(inputs), destination, std::move(options)));
    }
    for (std::uint32_t k = 0; t.in_place && k < inputs.size(); ++k) options.in_place.push_back(k);
    bind(i, out_.graph.node(t.name, std::move(inputs), t.type, std::move(options)));
  }

  const file_text& file_;
  ggml_trace& out_;
};

}  // namespace

ggml_trace read_ggml_trace(const std::string& path) {
  return parse_ggml_trace(path, read_file(path));
}

ggml_trace parse_ggml_trace(const std::string& path, std::string_view text) {
  file_text file = read_lines(path, text);
  for (const traced_tensor& t : file.tensors) {
    for (const std::uint32_t operand : t.operands) file.tensors[operand].read = true;
  }
  ggml_trace trace;
  trace.path = path;
  trace.name = file.name;
  trace.rules = {.name = "ggml",
                 .start_alignment = file.alignment,
                 .size_granularity = file.alignment,
                 .source = "the trace's header"};
  trace_builder{file, trace}.build();
  return trace;
}

}  // namespace berth::model

#include "berth/model/onnx.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "berth/model/input_error.hpp"
#include "model/file.hpp"
#include "model/files/text.hpp"
#include "model/onnx/external.hpp"
#include "model/onnx/operators.hpp"
#include "model/onnx/parse.hpp"
#include "model/onnx/parts.hpp"
#include "model/onnx/prepare.hpp"
#include "model/onnx/said_dimensions.hpp"
#include "model/onnx/scoped_names.hpp"
#include "op/request.hpp"

namespace berth::model {

namespace {

class reader {
 public:
  reader(const std::string& path, const dimensions& said) : said_{said} { out_.source = path; }

  // `external`: reads the tensors that lie in other files, or refuses them.
  description read(std::string_view file, void (*external)(wire::model&, const std::string&)) {
    model_ = wire::parse(out_.source, file);
    read_opset();
    bind_dimensions();
    external(model_, out_.source);  // once, however often a function is called
    put_functions_in_place(model_, out_.source, file.size());
    sort_nodes(model_, out_.source);
    const wire::graph& g = *model_.graph;
    if (!g.sparse_initializers.empty()) fail("sparse initializers are not supported");
    for (const auto& t : g.initializers) {
      if (!out_.constants.emplace(own(t.name), constant(t, "initializer '" + t.name + "'")).second) {
        fail("two initializers are called '" + t.name + "'");
      }
    }
    for (const auto& input : g.inputs) {
      if (out_.constants.contains(input.name)) continue;
      input.type.kind == wire::type_kind::tensor ? out_.inputs.push_back(input_of(input)) : add_list_input(input);
    }
    for (const auto& output : g.outputs) out_.outputs.push_back(own(output.name));
    for (const auto* all : {&g.values, &g.outputs}) {
      for (const auto& v : *all) declare(v);
    }
    for (const auto& n : g.nodes) out_.nodes.push_back(node_of(n));
    if (has_bodies_ && !like_ours_.empty()) {
      fail("the name '" + like_ours_ + "' is of the kind that values of sub-graphs get here");
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw input_error(out_.source, one_line(what)); }

  void read_opset() {
    constexpr std::int64_t first_ir_with_opsets = 3;
    if (model_.opsets.empty() && model_.ir_version >= first_ir_with_opsets) fail("it names no opset");
    out_.opset = opset_of(model_.opsets, model_.opsets.empty() ? 1 : out_.opset);
  }

  // Keeps the file's type of a value, for inference to compare.
  void declare(const wire::value_info& v) {
    if (v.type.kind != wire::type_kind::tensor) return;
    out_.declared.emplace_back(own(v.name), declared(v.type));
  }

  // Writes the sizes said into the inputs.
  void bind_dimensions() {
    said_dimensions said{said_};
    std::set<std::string> initializers;
    for (const auto& t : model_.graph->initializers) initializers.insert(t.name);
    for (auto& input : model_.graph->inputs) {
      if (initializers.contains(input.name)) continue;
      if (input.type.kind != wire::type_kind::tensor) {
        bind_list(input, said);
        continue;
      }
      if (!input.type.has_shape) fail("input '" + input.name + "' has no shape");
      for (std::size_t d = 0; d < input.type.shape.size(); ++d) {
        auto& dim = input.type.shape[d];
        dim.value = said.find_or_note(input.name, static_cast<int>(d), dim);
      }
    }
    if (const std::string open = said.complaint(); !open.empty()) fail(open);
    if (const std::string idle = said.unused(); !idle.empty()) fail("no input has a dimension called '" + idle + "'");
  }

  // An input that is a sequence or an optional. The caller gives the number of its tensors, and their shapes.
  struct list_input {
    bool nothing = false, sequence = false;
    std::int64_t type = 0;  // of the elements, by ONNX's number
    std::vector<shape> of;
  };
  void bind_list(const wire::value_info& input, said_dimensions& said) {
    const std::string& name = input.name;
    list_input& l = lists_[name];
    static const auto& nothing_known = *new wire::type;
    const auto inner_of = [](const wire::type& t) { return t.inner.empty() ? &nothing_known : &t.inner.front(); };
    const wire::type* type = &input.type;
    if (type->kind == wire::type_kind::optional) {
      const auto present = said.find(name + ".present");
      l.nothing = present == 0;
      type = inner_of(*type);
      if (l.nothing) return;
    }
    std::int64_t length = 1;
    l.sequence = type->kind == wire::type_kind::sequence;
    if (l.sequence) {
      type = inner_of(*type);
      const auto known = said.find(name + ".length");
      if (!known) said.note("input '" + name + "': its length", name + ".length");
      length = known.value_or(0);
      // Each element gets a name of its own.
      const std::int64_t most = std::min<std::int64_t>(1 << 14, (1 << 26) / (1 + std::ssize(name)));
      if (length < 0 || length > most) {
        fail("input '" + name + "': a length of " + std::to_string(length) + " is not from 0 to " +
             std::to_string(most));
      }
    }
    if (type->kind != wire::type_kind::tensor)
      fail("input '" + name + "' is neither a tensor nor a sequence or optional of tensors");
    l.type = type->element;
    for (std::int64_t i = 0; i < length; ++i) {
      l.of.push_back(bind_element(l.sequence ? element_name(name, i) : name, *type, said));
    }
  }
  shape bind_element(const std::string& name, const wire::type& type, said_dimensions& said) {
    shape s;
    if (type.shape.size() > op::most_rank) fail("input '" + name + "' has too many dimensions");
    for (const auto& dim : type.shape) s.push_back(said.find_or_note(name, static_cast<int>(s.size()), dim));
    // An input without a shape has as many dimensions as the caller gave.
    for (int d = 0; !type.has_shape; ++d) {
      const auto size = said.find(name, d, nullptr);
      if (!size && d == 0) said.note("input '" + name + "': its shape", name + ".0");
      if (!size) break;
      s.push_back(*size);
    }
    return s;
  }
  static std::string element_name(const std::string& name, std::int64_t i) {
    return name + "[" + std::to_string(i) + "]";
  }

  // Adds the tensors of the input, and the node that makes it of them. An optional with a value is that value.
  void add_list_input(const wire::value_info& v) {
    const std::string& name = own(v.name);
    const list_input& l = lists_.at(name);
    node made{name, "SequenceConstruct", {}, {name}, {}};
    for (std::size_t i = 0; i < l.of.size(); ++i) {
      value_info element{l.sequence ? element_name(name, std::ssize(made.inputs)) : name, op::element_of_onnx(l.type),
                         l.of[i]};
      (void)element_count(out_, "input '" + element.name + "'", element.shape);
      made.inputs.push_back(element.name);
      out_.inputs.push_back(std::move(element));
    }
    if (l.nothing) made.op = "Optional";
    if (l.sequence && l.of.empty()) {
      made.op = "SequenceEmpty";
      made.attributes.emplace("dtype", l.type);
    }
    if (l.nothing || l.sequence) out_.nodes.push_back(std::move(made));
  }

  tensor constant(const wire::tensor& t, const std::string& what) const {
    tensor made{op::element_of_onnx(t.type), t.dims, {}};
    const bytes size = static_cast<bytes>(element_count(out_, what, made.shape)) * element_size(made.type);
    auto data = data_of(t);
    if (!data) fail(what + ": its element type is not supported");
    made.data = *std::move(data);
    if (made.data.size() != size) {
      fail(what + ": has " + std::to_string(made.data.size()) + " bytes of data where its shape takes " +
           std::to_string(size));
    }
    return made;
  }

  value_info input_of(const wire::value_info& v) {
    value_info made{own(v.name), op::element_of_onnx(v.type.element), {}};
    for (const auto& d : v.type.shape) made.shape.push_back(*d.value);
    (void)element_count(out_, "input '" + v.name + "'", made.shape);
    return made;
  }

  // Returns a name of the file. Constants of sub-graphs are hoisted as "#3/NAME", and their values get names like
  // "@3/NAME" (infer.cpp). A value of the file with such a name would be taken for one of them.
  const std::string& own(const std::string& name) {
    (void)name_of(out_.source, name);
    if (!name.empty() && (name[0] == '#' || name[0] == '@')) {
      const auto end = std::find_if(name.begin() + 1, name.end(), [](char c) { return c < '0' || c > '9'; });
      if (end != name.begin() + 1 && end != name.end() && *end == '/') like_ours_ = name;
    }
    return name;
  }

  // Refuses an operator, and attributes, that the file's opset lacks.
  void check(const node& made, const wire::node& n) const {
    const std::int64_t opset = out_.opset;
    const onnx_operator* row = find_onnx_operator(n.op);
    if (row == nullptr) fail(called(made) + ": ONNX has no such operator");
    if (defined_in(*row, opset) == 0) {
      const std::string_view all = row->opsets;
      fail(called(made) + ": the operator came with opset " + std::string{all.substr(0, all.find(' '))} +
           ", and the file is of opset " + std::to_string(opset));
    }
    if (const std::string newer = newer_than_read(n.op, opset); !newer.empty()) fail(called(made) + ": " + newer);
    for (const auto& a : n.attributes) {
      if (has_attribute(*row, a.name, opset)) continue;
      fail(called(made) + ": the operator has no attribute '" + a.name + "' in opset " + std::to_string(opset));
    }
  }

  node node_of(const wire::node& n) {
    node made{n.name, n.op, n.inputs, n.outputs, {}};
    if (made.name.empty() && !made.outputs.empty()) made.name = made.outputs.front();
    (void)name_of(out_.source, made.name);
    for (std::string& each : made.inputs) each = names_(own(each));
    for (const std::string& each : made.outputs) (void)own(each);
    if (!is_known_domain(n)) {
      fail(called(made) + ": operators of domain '" + n.domain + "' are not supported");
    }
    check(made, n);
    const bool has_bodies = made.op == "If" || made.op == "Loop" || made.op == "Scan" || made.op == "SequenceMap";
    for (const auto& a : n.attributes) {
      using kind = wire::attribute_kind;
      if (add_plain(made.attributes, a)) continue;
      if (a.kind == kind::type && made.op == "Optional") continue;  // it holds nothing
      if (a.kind == kind::graph && !a.graphs.empty() && has_bodies) {
        made.bodies.emplace(a.name, body_of(made, a.graphs.front()));
        continue;
      }
      if (a.kind != kind::tensor || a.tensors.empty()) {
        fail(called(made) + ": attribute '" + a.name + "' is of a kind that is not supported");
      }
      made.attributes.emplace(a.name, constant(a.tensors.front(), called(made) + ", attribute '" + a.name + "'"));
    }
    return made;
  }

  std::shared_ptr<const subgraph> body_of(const node& n, const wire::graph& g) {
    if (!g.sparse_initializers.empty()) fail(called(n) + ": sparse initializers are not supported");
    has_bodies_ = true;
    const scoped_names::inner_graph inside{names_};
    auto made = std::make_shared<subgraph>();
    for (const auto& v : g.inputs) {
      made->inputs.push_back(own(v.name));
      names_.hide(v.name);
    }
    for (const auto& t : g.initializers) {
      const std::string name = "#" + std::to_string(hoisted_++) + "/" + own(t.name);
      out_.constants.emplace(name, constant(t, "initializer '" + t.name + "'"));
      names_.say(t.name, name);
    }
    for (const auto& each : g.nodes) {
      for (const std::string& output : each.outputs) names_.hide(output);
      made->nodes.push_back(node_of(each));
    }
    for (const auto& v : g.outputs) made->outputs.push_back(names_(own(v.name)));
    return made;
  }

  const dimensions& said_;
  wire::model model_;
  description out_;
  scoped_names names_;  // what constants of the sub-graphs around a node are called in the description
  std::map<std::string, list_input> lists_;
  std::uint64_t hoisted_ = 0;  // constants of sub-graphs
  bool has_bodies_ = false;
  std::string like_ours_;  // a name of the file that could be one of ours
};

}  // namespace

description read_onnx(const std::string& path, const dimensions& said) {
  const std::string file = read_file(path);
  return reader{path, said}.read(file, path == "-" ? refuse_external_data : read_external_data);
}

description read_onnx(const std::string& path, std::string_view file, const dimensions& said) {
  return reader{path, said}.read(file, refuse_external_data);
}

}  // namespace berth::model

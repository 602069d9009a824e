// Graphs of ONNX files by their shapes alone: no weights, no kernels, any element type, operators of any kind.

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "berth/model/input_error.hpp"
#include "berth/model/onnx.hpp"
#include "model/file.hpp"
#include "model/files/text.hpp"
#include "model/onnx/fold.hpp"
#include "model/onnx/infer.hpp"
#include "model/onnx/node_uses.hpp"
#include "model/onnx/proto.hpp"
#include "model/onnx/said_dimensions.hpp"
#include "model/onnx/shape_rules.hpp"
#include "op/request.hpp"

namespace berth::model {

namespace {

// What the table of operators has been written for, and what newer files are read as.
constexpr std::int64_t newest_opset = 17, newest_ir = 8;
// Constants up to this size are read: shapes, axes, scales. Weights are not.
constexpr std::size_t most_elements_read = std::size_t{1} << 12;

class shapes_reader {
 public:
  shapes_reader(const std::string& path, const dimensions& said) : said_{said} { m_.source = path; }

  shapes_graph read(std::string_view file) {
    proto_ = parse_onnx(m_.source, file);
    read_versions();
    const auto& g = proto_.graph();
    for (const auto* list : {&g.value_info(), &g.output()}) {
      for (const auto& v : *list) declared_.emplace(v.name(), &v.type());
    }
    for (const auto& t : g.initializer()) {
      if (taken(t.name())) fail("two initializers are called '" + t.name() + "'");
      add_constant(name_of(m_.source, t.name()), t);
    }
    for (const auto& t : g.sparse_initializer()) constants_.insert(name_of(m_.source, t.values().name()));
    for (const auto& v : g.input()) add_input(v);
    if (const std::string open = said_.complaint(); !open.empty()) fail(open);
    uses_ = uses_of(g);
    for (int i = 0; i < g.node_size(); ++i) {
      if (uses_.used[static_cast<std::size_t>(i)]) add_node(*proto_.mutable_graph()->mutable_node(i), i);
      const auto before = static_cast<std::uint32_t>(out_.node_of.size());
      out_.node_of.resize(out_.graph.nodes().size(), static_cast<std::uint32_t>(i));
      if (out_.node_of.size() != before && (runs_once(g.node(i)) || trains(g.node(i)))) out_.once.push_back(before);
    }
    for (const auto& v : g.output()) {
      const auto found = values_.find(v.name());
      if (found != values_.end()) out_.graph.output(found->second);
      if (found == values_.end() && !constants_.contains(v.name())) {
        fail("output '" + name_of(m_.source, v.name()) + "' is computed by no node");
      }
    }
    add_before(out_, g);
    if (const std::string idle = said_.unused(); !idle.empty()) fail("nothing has a dimension called '" + idle + "'");
    if (const graph_fault& fault = out_.graph.fault(); !fault.ok()) fail(fault.text);
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw input_error(m_.source, one_line(what)); }

  void read_versions() {
    for (const auto& opset : proto_.opset_import()) {
      if (opset.domain().empty() || opset.domain() == "ai.onnx") m_.opset = opset.version();
    }
    if (m_.opset > newest_opset) {
      out_.notes.push_back("opset " + std::to_string(m_.opset) + " is newer than " + std::to_string(newest_opset) +
                           ": operators that have changed since are read as they were");
    }
    if (proto_.ir_version() > newest_ir) {
      out_.notes.push_back("IR version " + std::to_string(proto_.ir_version()) + " is newer than " +
                           std::to_string(newest_ir) + ": what it has added is passed over");
    }
  }

  bool taken(const std::string& name) const { return values_.contains(name) || constants_.contains(name); }

  void know(const std::string& name, known k) {
    types_.insert_or_assign(name, value_info{name, op::element_of_onnx(k.type), k.s});
    known_.insert_or_assign(name, std::move(k));
  }

  void add_constant(const std::string& name, const onnx::TensorProto& t) {
    known k{{t.dims().begin(), t.dims().end()}, t.data_type()};
    constants_.insert(name);
    const std::int64_t count = element_count(m_, "initializer '" + name + "'", k.s);
    if (static_cast<std::uint64_t>(count) <= most_elements_read) {
      const element type = op::element_of_onnx(t.data_type());
      auto data = data_of(t);
      if (data && data->size() == static_cast<bytes>(count) * element_size(type)) {
        m_.constants.insert_or_assign(name, tensor{type, k.s, *std::move(data)});
      }
    }
    know(name, std::move(k));
  }

  void add_input(const onnx::ValueInfoProto& v) {
    const std::string& name = name_of(m_.source, v.name());
    if (constants_.contains(name)) return;
    const std::string what = "input '" + name + "'";
    if (!v.type().has_tensor_type()) {
      fail(what + " is not a tensor: a sequence or an optional is planned only in a model that runs here; say --dim " +
           name + ".length=N or --dim " + name + ".present=0");
    }
    const auto& type = v.type().tensor_type();
    if (!type.has_shape()) fail(what + " has no shape");
    known k{{}, type.elem_type()};
    for (int d = 0; d < type.shape().dim_size(); ++d) {
      const auto& dim = type.shape().dim(d);
      k.s.push_back(said_.find_or_note(name, d, dim));
    }
    (void)element_count(m_, what, k.s);
    if (taken(name)) fail(what + " is there twice");
    const bytes size = size_of(what, k);
    if (size != 0) {
      values_.emplace(name, out_.graph.input(name, {k.s, element::other, size}));
      out_.names.push_back(name);
    } else {
      constants_.insert(name);
    }
    know(name, std::move(k));
  }

  // Bytes of a value; 0 for one that holds nothing or is of strings, which takes no part in the plan.
  bytes size_of(const std::string& what, const known& k) {
    const unsigned bits = bits_of(k.type);
    if (k.type == onnx::TensorProto::STRING) {
      out_.notes.push_back(one_line(what) + " is of strings, whose size no shape says: not counted");
      return 0;
    }
    if (bits == 0) fail(what + ": its element type (" + std::to_string(k.type) + ") has no size that is known here");
    const auto all = checked_mul(static_cast<bytes>(element_count(m_, what, k.s)), bits);
    if (!all) fail(what + ": its size exceeds 2^64 bits");
    return *all / 8 + (*all % 8 != 0 ? 1 : 0);
  }

  static bool has_sub_graphs(const onnx::NodeProto& n) {
    return std::any_of(n.attribute().begin(), n.attribute().end(),
                       [](const auto& a) { return a.has_g() || a.graphs_size() != 0; });
  }

  node plain_node(const onnx::NodeProto& n) const {
    node made{n.name(), n.op_type(), {n.input().begin(), n.input().end()}, {n.output().begin(), n.output().end()}, {}};
    if (made.name.empty() && !made.outputs.empty()) made.name = made.outputs.front();
    (void)name_of(m_.source, made.name);
    (void)name_of(m_.source, made.op);
    for (const auto* names : {&made.inputs, &made.outputs}) {
      for (const std::string& each : *names) (void)name_of(m_.source, each);
    }
    for (const auto& a : n.attribute()) {
      if (add_plain(made.attributes, a) || a.type() != onnx::AttributeProto::TENSOR) continue;
      tensor t{op::element_of_onnx(a.t().data_type()), {a.t().dims().begin(), a.t().dims().end()}, {}};
      const std::int64_t count = element_count(m_, called(made) + ", attribute '" + a.name() + "'", t.shape);
      if (static_cast<std::uint64_t>(count) > most_elements_read) continue;
      auto data = data_of(a.t());
      if (!data || data->size() != static_cast<bytes>(count) * element_size(t.type)) continue;
      t.data = *std::move(data);
      made.attributes.emplace(a.name(), std::move(t));
    }
    return made;
  }

  std::string ask_beside_table(const node& n, std::vector<known>& results) const {
    std::vector<const known*> inputs;
    for (const std::string& name : n.inputs) {
      const auto found = known_.find(name);
      inputs.push_back(found == known_.end() ? nullptr : &found->second);
    }
    return infer_beside_table(n, inputs, results);
  }

  // Of Berth's own table: what it says of the results, or why it says nothing.
  std::string ask_table(const node& n, std::vector<known>& results, std::vector<tensor>& folded,
                        std::vector<std::uint32_t>& in_place) {
    try {
      op::request q = request_of(m_, n, types_);
      const auto types = op::infer(q);
      for (std::size_t i = 0; i < types.size(); ++i) {
        results[i].s = types[i].shape;
        results[i].type = op::onnx_number(types[i].type);
      }
      const bool small = std::all_of(types.begin(), types.end(), [](const tensor_type& t) {
        return static_cast<std::uint64_t>(op::count_of(t.shape)) <= most_elements_read;
      });
      if (small) folded = fold(m_, n, q, types, room_);
      if (!folded.empty() || types.size() != 1) return "";
      // Which operands the table's kernel may write its result over.
      const op::served made = op::serve(q);
      const auto operands = op::operands_of(q);
      for (std::size_t k = 0; made.run != nullptr && k < operands.size(); ++k) {
        if (made.run->operand(k).may_overwrite) in_place.push_back(static_cast<std::uint32_t>(operands[k]));
      }
      return "";
    } catch (const op::refusal& why) {
      return why.what();
    }
  }
  // A result that no rule speaks of: from the file, and from what the caller said.
  known find_result(const node& n, const std::string& name, const std::string& why) {
    const auto declared = declared_.find(name);
    const onnx::TypeProto* said = declared == declared_.end() ? nullptr : declared->second;
    if (said != nullptr && said->value_case() != onnx::TypeProto::VALUE_NOT_SET && !said->has_tensor_type()) {
      fail(called(n) + ": its result '" + name + "' is no dense tensor");
    }
    known k;
    const bool tensor_said = said != nullptr && said->has_tensor_type();
    if (tensor_said) k.type = said->tensor_type().elem_type();
    const bool ranked = tensor_said && said->tensor_type().has_shape();
    const int rank = ranked ? said->tensor_type().shape().dim_size() : 0;
    for (int d = 0; !ranked || d < rank; ++d) {
      const auto* dim = ranked ? &said->tensor_type().shape().dim(d) : nullptr;
      const auto size = said_.find(name, d, dim);
      if (!size && !ranked && d > 0) break;  // as many as were said
      if (!size && !ranked) {
        fail(called(n) + ": the shape of its result '" + name + "' is not known (" + why +
             "); give it in the file (value_info) or say it with --dim " + name + ".0=N, " + name + ".1=N, ...");
      }
      if (!size) {
        fail(called(n) + ": dimension " + std::to_string(d) + " of its result '" + name + "' is not known (" + why +
             "); " + said_dimensions::how_to_say(name, d, dim->dim_param()));
      }
      k.s.push_back(*size);
    }
    if (k.type == 0) {
      const auto first =
          std::find_if(n.inputs.begin(), n.inputs.end(), [&](const auto& i) { return known_.contains(i); });
      if (first == n.inputs.end()) fail(called(n) + ": the element type of its result '" + name + "' is not known");
      k.type = known_.at(*first).type;
      out_.notes.push_back(called(n) + ": its result '" + name + "' is taken to be of its first input's element type");
    }
    return k;
  }

  // A Dropout whose result is random, or may be: nothing says before the run that it does not train.
  bool trains(const onnx::NodeProto& n) const {
    if (n.op_type() != "Dropout" || !is_known_domain(n)) return false;
    if (m_.opset < 7) {
      return std::none_of(n.attribute().begin(), n.attribute().end(),
                          [](const auto& a) { return a.name() == "is_test" && a.i() != 0; });
    }
    if (n.input_size() < 3 || n.input(2).empty()) return false;
    const auto said = m_.constants.find(n.input(2));
    return said == m_.constants.end() || said->second.data != std::vector<std::byte>{std::byte{0}};
  }

  static bool is_view(const node& n) {
    const std::set<std::string_view> views{"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"};
    return views.contains(n.op);
  }

  void keep_constant(const std::string& name, known k, tensor* t) {
    constants_.insert(name);
    if (t != nullptr) m_.constants.insert_or_assign(name, std::move(*t));
    know(name, std::move(k));
  }

  void add_node(onnx::NodeProto& proto, int index) {
    node n = plain_node(proto);
    std::set<std::string> reads{n.inputs.begin(), n.inputs.end()};
    reads.erase("");
    for (const std::string& name : reads) {
      if (!known_.contains(name) && !taken(name)) {
        fail(called(n) + ": input '" + name + "' comes from no earlier node");
      }
    }
    while (n.op != "Split" && n.outputs.size() > 1 && n.outputs.back().empty()) n.outputs.pop_back();
    for (const std::string& name : n.outputs) {
      if (!name.empty() && taken(name)) fail(called(n) + ": its result '" + name + "' is there already");
    }
    std::vector<known> results(n.outputs.size());
    std::vector<tensor> folded;
    std::vector<std::uint32_t> in_place;
    if (n.op == "Constant" && is_known_domain(proto)) {
      add_constant_node(n, proto);
      return;
    }
    const std::string why = !is_known_domain(proto) ? "operators of domain '" + proto.domain() + "' are not known here"
                            : has_sub_graphs(proto) ? "it has sub-graphs"
                            : op::find(n.op) == nullptr ? ask_beside_table(n, results)
                                                        : ask_table(n, results, folded, in_place);
    if (!why.empty()) {
      for (std::size_t i = 0; i < results.size(); ++i) {
        if (n.outputs[i].empty()) continue;
        results[i] = find_result(n, n.outputs[i], why);
      }
    }
    if (has_sub_graphs(proto)) {
      out_.notes.push_back(called(n) + ": what its sub-graphs need while they run is not counted");
    }
    if (!folded.empty()) {
      for (std::size_t i = 0; i < folded.size(); ++i) {
        if (!n.outputs[i].empty()) keep_constant(n.outputs[i], std::move(results[i]), &folded[i]);
      }
      return;
    }
    const auto& captured = uses_.captured[static_cast<std::size_t>(index)];
    place(n, is_known_domain(proto) && is_view(n) && !trains(proto), std::move(results), captured, in_place);
  }

  void add_constant_node(const node& n, const onnx::NodeProto& proto) {
    if (n.outputs.empty()) return;
    for (const auto& a : proto.attribute()) {
      if (a.type() != onnx::AttributeProto::TENSOR) continue;
      known k{{a.t().dims().begin(), a.t().dims().end()}, a.t().data_type()};
      const auto found = n.attributes.find(a.name());
      tensor* t = nullptr;
      tensor copy;
      if (found != n.attributes.end()) {
        copy = std::get<tensor>(found->second);
        t = &copy;
      }
      keep_constant(n.outputs[0], std::move(k), t);
      return;
    }
    tensor t = constant_of(m_, n);
    (void)element_count(m_, called(n), t.shape);
    keep_constant(n.outputs[0], {t.shape, op::onnx_number(t.type)}, &t);
  }

  // The node with its results in the graph.
  void place(const node& n, bool view, std::vector<known> results, const std::set<std::string>& captured,
             const std::vector<std::uint32_t>& in_place) {
    if (view && n.outputs.size() == 1 && !n.inputs.empty()) {
      const auto root = values_.find(n.inputs[0]);
      const bytes size = size_of(called(n), results[0]);
      if (root == values_.end()) {  // of a constant
        keep_constant(n.outputs[0], std::move(results[0]), nullptr);
        return;
      }
      if (size != out_.graph[root->second].size) fail(called(n) + ": its result is not of its input's size");
      values_.emplace(n.outputs[0], out_.graph.view(n.outputs[0], root->second, {results[0].s, element::other, size}));
      out_.names.push_back(n.outputs[0]);
      know(n.outputs[0], std::move(results[0]));
      return;
    }
    std::vector<value_id> inputs;
    node_options options;
    options.op = n.op;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const auto found = values_.find(n.inputs[i]);
      if (found == values_.end()) continue;
      if (std::find(in_place.begin(), in_place.end(), i) != in_place.end()) {
        options.in_place.push_back(static_cast<std::uint32_t>(inputs.size()));
      }
      inputs.push_back(found->second);
    }
    for (const std::string& name : captured) {
      if (const auto found = values_.find(name); found != values_.end()) inputs.push_back(found->second);
    }
    // Not what another operand shows too: it may be read after the result is written.
    std::erase_if(options.in_place, [&](std::uint32_t k) {
      const auto root = out_.graph[inputs[k]].root;
      return std::count_if(inputs.begin(), inputs.end(), [&](value_id v) { return out_.graph[v].root == root; }) != 1;
    });
    std::vector<tensor_type> types;
    std::vector<std::size_t> of;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (n.outputs[i].empty()) continue;
      const std::string what = called(n) + ", result '" + n.outputs[i] + "'";
      const bytes size = size_of(what, results[i]);
      if (size == 0) {
        keep_constant(n.outputs[i], std::move(results[i]), nullptr);
        continue;
      }
      types.push_back({results[i].s, element::other, size});
      of.push_back(i);
    }
    if (types.empty()) return;
    if (types.size() != 1 || of[0] != 0) options.in_place.clear();
    const std::string& name = n.outputs[of[0]];
    const std::vector<value_id> made =
        types.size() == 1
            ? std::vector<value_id>{out_.graph.node(name, std::move(inputs), types[0], std::move(options))}
            : out_.graph.node_n(name, std::move(inputs), types, std::move(options));
    for (std::size_t k = 0; k < of.size(); ++k) {
      values_.emplace(n.outputs[of[k]], made[k]);
      out_.names.push_back(n.outputs[of[k]]);
      know(n.outputs[of[k]], std::move(results[of[k]]));
    }
  }

  said_dimensions said_;
  onnx::ModelProto proto_;
  description m_;  // source, opset, and the constants that are read; no nodes
  allowance room_{m_};
  std::unordered_map<std::string, const onnx::TypeProto*> declared_;
  std::unordered_map<std::string, known> known_;  // by name, constants too
  value_types types_;                             // the same, for the table
  std::unordered_set<std::string> constants_;     // what lies in no arena
  std::unordered_map<std::string, value_id> values_;
  node_uses uses_;
  shapes_graph out_;
};

}  // namespace

shapes_graph read_onnx_shapes(const std::string& path, const dimensions& said) {
  return read_onnx_shapes(path, read_file(path), said);
}

shapes_graph read_onnx_shapes(const std::string& path, std::string_view file, const dimensions& said) {
  return shapes_reader{path, said}.read(file);
}

}  // namespace berth::model

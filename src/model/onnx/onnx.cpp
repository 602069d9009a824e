#include "berth/model/onnx.hpp"

#include <onnx/checker.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "berth/model/input_error.hpp"
#include "model/file.hpp"
#include "model/files/text.hpp"
#include "model/onnx/external.hpp"
#include "model/onnx/proto.hpp"
#include "model/onnx/said_dimensions.hpp"
#include "model/onnx/scoped_names.hpp"
#include "op/request.hpp"

namespace berth::model {

namespace {

class reader {
 public:
  reader(const std::string& path, const dimensions& said) : said_{said} { out_.source = path; }

  // `external`: what is done with tensors that lie in other files. It is done before the checker of libonnx sees them:
  // that one looks whether the files are there, wherever those are.
  description read(std::string_view file, void (*external)(onnx::ModelProto&, const std::string&)) {
    proto_ = parse_onnx(out_.source, file);
    bind_dimensions();
    external(proto_, out_.source);
    check();
    if (proto_.graph().sparse_initializer_size() != 0) fail("sparse initializers are not supported");
    for (const auto& opset : proto_.opset_import()) {
      if (opset.domain().empty() || opset.domain() == "ai.onnx") out_.opset = opset.version();
    }
    for (const auto& t : proto_.graph().initializer()) {
      out_.constants.emplace(own(t.name()), constant(t, "initializer '" + t.name() + "'"));
    }
    for (const auto& input : proto_.graph().input()) {
      if (out_.constants.contains(input.name())) continue;
      input.type().has_tensor_type() ? out_.inputs.push_back(input_of(input)) : add_list_input(input);
    }
    for (const auto& output : proto_.graph().output()) out_.outputs.push_back(own(output.name()));
    for (const auto& n : proto_.graph().node()) out_.nodes.push_back(node_of(n));
    if (has_bodies_ && !like_ours_.empty()) {
      fail("the name '" + like_ours_ + "' is of the kind that values of sub-graphs get here");
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw input_error(out_.source, one_line(what)); }

  // Writes the sizes said into the inputs. What the file says about shapes further on is dropped, since it may
  // contradict them.
  void bind_dimensions() {
    said_dimensions said{said_};
    std::set<std::string> initializers;
    for (const auto& t : proto_.graph().initializer()) initializers.insert(t.name());
    for (auto& input : *proto_.mutable_graph()->mutable_input()) {
      if (initializers.contains(input.name())) continue;
      if (!input.type().has_tensor_type()) {
        bind_list(input, said);
        continue;
      }
      auto& type = *input.mutable_type()->mutable_tensor_type();
      if (!type.has_shape()) fail("input '" + input.name() + "' has no shape");
      for (int d = 0; d < type.shape().dim_size(); ++d) {
        auto& dim = *type.mutable_shape()->mutable_dim(d);
        dim.set_dim_value(said.find_or_note(input.name(), d, dim));
      }
    }
    if (const std::string open = said.complaint(); !open.empty()) fail(open);
    if (const std::string idle = said.unused(); !idle.empty()) fail("no input has a dimension called '" + idle + "'");
    proto_.mutable_graph()->clear_value_info();
  }

  // An input that is a sequence or an optional: how many tensors it is, and what each is like, the caller says.
  struct list_input {
    bool nothing = false, sequence = false;
    std::int64_t type = 0;  // of the elements, by ONNX's number
    std::vector<shape> of;
  };
  void bind_list(const onnx::ValueInfoProto& input, said_dimensions& said) {
    const std::string& name = input.name();
    list_input& l = lists_[name];
    const onnx::TypeProto* type = &input.type();
    if (type->has_optional_type()) {
      const auto present = said.find(name + ".present");
      l.nothing = present == 0;
      type = &type->optional_type().elem_type();
      if (l.nothing) return;
    }
    std::int64_t length = 1;
    l.sequence = type->has_sequence_type();
    if (l.sequence) {
      type = &type->sequence_type().elem_type();
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
    if (!type->has_tensor_type())
      fail("input '" + name + "' is neither a tensor nor a sequence or optional of tensors");
    l.type = type->tensor_type().elem_type();
    for (std::int64_t i = 0; i < length; ++i) {
      l.of.push_back(bind_element(l.sequence ? element_name(name, i) : name, type->tensor_type(), said));
    }
  }
  shape bind_element(const std::string& name, const onnx::TypeProto::Tensor& type, said_dimensions& said) {
    shape s;
    if (type.shape().dim_size() > static_cast<int>(op::most_rank)) fail("input '" + name + "' has too many dimensions");
    for (int d = 0; d < type.shape().dim_size(); ++d) s.push_back(said.find_or_note(name, d, type.shape().dim(d)));
    // Where the file says nothing it has as many dimensions as were said.
    for (int d = 0; !type.has_shape(); ++d) {
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

  // The tensors of which the input is made, and the node that makes it of them. An optional that holds something is it.
  void add_list_input(const onnx::ValueInfoProto& v) {
    const std::string& name = own(v.name());
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

  void check() const {
    try {
      onnx::checker::check_model(proto_);
    } catch (const std::exception& e) {
      fail(one_line(e.what()));
    }
  }

  tensor constant(const onnx::TensorProto& t, const std::string& what) const {
    tensor made{op::element_of_onnx(t.data_type()), {t.dims().begin(), t.dims().end()}, {}};
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

  value_info input_of(const onnx::ValueInfoProto& v) {
    const auto& type = v.type().tensor_type();
    value_info made{own(v.name()), op::element_of_onnx(type.elem_type()), {}};
    for (const auto& d : type.shape().dim()) made.shape.push_back(d.dim_value());
    (void)element_count(out_, "input '" + v.name() + "'", made.shape);
    return made;
  }

  // A name of the file. Constants of sub-graphs are hoisted as "#3/NAME", and what is computed in them gets names like
  // "@3/NAME" (infer.cpp): a value of the file called so would be taken for one of them.
  const std::string& own(const std::string& name) {
    (void)name_of(out_.source, name);
    if (!name.empty() && (name[0] == '#' || name[0] == '@')) {
      const auto end = std::find_if(name.begin() + 1, name.end(), [](char c) { return c < '0' || c > '9'; });
      if (end != name.begin() + 1 && end != name.end() && *end == '/') like_ours_ = name;
    }
    return name;
  }

  node node_of(const onnx::NodeProto& n) {
    node made{n.name(), n.op_type(), {n.input().begin(), n.input().end()}, {n.output().begin(), n.output().end()}, {}};
    if (made.name.empty() && !made.outputs.empty()) made.name = made.outputs.front();
    (void)name_of(out_.source, made.name);
    for (std::string& each : made.inputs) each = names_(own(each));
    for (const std::string& each : made.outputs) (void)own(each);
    if (!is_known_domain(n)) {
      fail(called(made) + ": operators of domain '" + n.domain() + "' are not supported");
    }
    const bool has_bodies = made.op == "If" || made.op == "Loop" || made.op == "Scan" || made.op == "SequenceMap";
    for (const auto& a : n.attribute()) {
      if (add_plain(made.attributes, a)) continue;
      if (a.type() == onnx::AttributeProto::TYPE_PROTO && made.op == "Optional") continue;  // it holds nothing
      if (a.type() == onnx::AttributeProto::GRAPH && has_bodies) {
        made.bodies.emplace(a.name(), body_of(made, a.g()));
        continue;
      }
      if (a.type() != onnx::AttributeProto::TENSOR) {
        fail(called(made) + ": attribute '" + a.name() + "' is of a kind that is not supported");
      }
      made.attributes.emplace(a.name(), constant(a.t(), called(made) + ", attribute '" + a.name() + "'"));
    }
    return made;
  }

  std::shared_ptr<const subgraph> body_of(const node& n, const onnx::GraphProto& g) {
    if (g.sparse_initializer_size() != 0) fail(called(n) + ": sparse initializers are not supported");
    has_bodies_ = true;
    const scoped_names::inner_graph inside{names_};
    auto made = std::make_shared<subgraph>();
    for (const auto& v : g.input()) {
      made->inputs.push_back(own(v.name()));
      names_.hide(v.name());
    }
    for (const auto& t : g.initializer()) {
      const std::string name = "#" + std::to_string(hoisted_++) + "/" + own(t.name());
      out_.constants.emplace(name, constant(t, "initializer '" + t.name() + "'"));
      names_.say(t.name(), name);
    }
    for (const auto& each : g.node()) {
      for (const std::string& output : each.output()) names_.hide(output);
      made->nodes.push_back(node_of(each));
    }
    for (const auto& v : g.output()) made->outputs.push_back(names_(own(v.name())));
    return made;
  }

  const dimensions& said_;
  onnx::ModelProto proto_;
  description out_;
  scoped_names names_;  // what constants of the sub-graphs around a node are called in the description
  std::map<std::string, list_input> lists_;
  std::uint64_t hoisted_ = 0;  // constants of sub-graphs
  bool has_bodies_ = false;
  std::string like_ours_;  // a name of the file that could be one of ours
};

}  // namespace

description read_onnx(const std::string& path, const dimensions& said) {
  return reader{path, said}.read(read_file(path), path == "-" ? refuse_external_data : read_external_data);
}

description read_onnx(const std::string& path, std::string_view file, const dimensions& said) {
  return reader{path, said}.read(file, refuse_external_data);
}

}  // namespace berth::model

#include "model/onnx/parse.hpp"

#include <bit>
#include <type_traits>

#include "berth/core/bytes.hpp"
#include "berth/model/input_error.hpp"
#include "model/onnx/wire.hpp"

namespace berth::model::wire {
namespace {

class parser {
 public:
  parser(const std::string& path, std::string_view file)
      : path_{path}, file_{file}, left_{(least + ratio * bytes{file.size()}) / 2} {}

  model parse() {
    model m;
    if (file_.empty()) fail(file_.data(), "the file is empty");
    read(file_, m);
    if (!m.graph) throw input_error(path_, "not an ONNX model: it has no graph");
    return m;
  }

 private:
  // Two bytes of a file can stand for a node of some hundred.
  static constexpr bytes least = bytes{1} << 29, ratio = 16;
  static constexpr int most_levels = 100;

  [[noreturn]] void fail(const char* at, const char* what) const {
    throw input_error(path_,
                      "not an ONNX model, or a truncated one: byte " + std::to_string(at - file_.data()) + ": " + what);
  }
  void spend(bytes n) {
    if (n > left_) throw input_error(path_, "its parts take more than 512 MiB and 16 times the file");
    left_ -= n;
  }

  // Calls f(field) for each field of a message.
  template <class F>
  void each_field(std::string_view text, F&& f) {
    if (++level_ > most_levels) fail(text.data(), "its messages are more than 100 deep");
    while (!text.empty()) {
      const char* at = text.data();
      const auto each = take_field(text);
      if (!each) fail(at, "a field is no field, or ends beyond its message");
      f(*each);
    }
    --level_;
  }
  template <class Message>
  void read(std::string_view text, Message& m) {
    each_field(text, [&](const field& f) { add(m, f); });
  }
  // Takes the field into the member with its number: put(f, 1, first, 2, second).
  template <class To, class... More>
  void put(const field& f, std::uint64_t number, To& to, More&&... more) {
    if (f.number == number) return take(to, f);
    if constexpr (sizeof...(more) > 0) put(f, more...);
  }
  template <class Message>
  requires std::is_class_v<Message>
  void take(Message& m, const field& f) {
    expect(f, form::text);
    read(f.body, m);
  }
  template <class Message>
  requires std::is_class_v<Message>
  void take(std::optional<Message>& m, const field& f) {
    if (!m) m.emplace();
    take(*m, f);
  }
  template <class Message>
  requires std::is_class_v<Message>
  void take(std::vector<Message>& all, const field& f) {
    expect(f, form::text);
    spend(sizeof(Message));
    Message& m = all.emplace_back();
    if constexpr (requires { m.body; }) m.body = f.body;
    read(f.body, m);
  }
  // Reads the message of a field; joins two occurrences.
  template <class Message>
  void join_first(std::vector<Message>& all, const field& f) {
    if (!all.empty()) return take(all.front(), f);
    take(all, f);
  }

  void expect(const field& f, form is) const {
    if (f.is != is) fail(f.whole.data(), "a field has another wire type than in ONNX");
  }
  void take(std::string& to, const field& f) {
    expect(f, form::text);
    spend(f.body.size());
    to = f.body;
  }
  void take(std::vector<std::string>& to, const field& f) {
    expect(f, form::text);
    spend(sizeof(std::string) + f.body.size());
    to.emplace_back(f.body);
  }
  void take(std::optional<std::string_view>& to, const field& f) {
    expect(f, form::text);
    to = f.body;
  }
  void take(std::int64_t& to, const field& f) { to = integer(f); }
  [[nodiscard]] std::int64_t integer(const field& f) const {
    expect(f, form::number);
    return static_cast<std::int64_t>(f.value);
  }
  // Numbers one by one, or packed.
  template <class Number>
  requires std::is_integral_v<Number>
  void take(std::vector<Number>& to, const field& f) {
    if (f.is == form::number) {
      spend(2 * sizeof(Number));
      to.push_back(static_cast<Number>(f.value));
      return;
    }
    expect(f, form::text);
    for (std::string_view text = f.body; !text.empty();) {
      const char* at = text.data();
      const auto n = take_number(text);
      if (!n) fail(at, "a number ends beyond its list");
      spend(2 * sizeof(Number));
      to.push_back(static_cast<Number>(*n));
    }
  }
  template <class Real>
  requires std::is_floating_point_v<Real>
  void take(std::vector<Real>& to, const field& f) {
    using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
    if (f.is == (sizeof(Real) == 4 ? form::four_bytes : form::eight_bytes)) {
      spend(2 * sizeof(Real));
      to.push_back(std::bit_cast<Real>(static_cast<Bits>(f.value)));
      return;
    }
    expect(f, form::text);
    if (f.body.size() % sizeof(Real) != 0) fail(f.body.data(), "a list of floats ends within one");
    spend(f.body.size());
    to.reserve(to.size() + f.body.size() / sizeof(Real));
    for (std::string_view text = f.body; !text.empty();) {
      to.push_back(std::bit_cast<Real>(static_cast<Bits>(*take_bytes(text, sizeof(Real)))));
    }
  }

  void add(model& m, const field& f) { put(f, 1, m.ir_version, 7, m.graph, 8, m.opsets, 25, m.functions); }
  void add(opset& o, const field& f) { put(f, 1, o.domain, 2, o.version); }
  void add(graph& g, const field& f) {
    put(f, 1, g.nodes, 2, g.name, 5, g.initializers, 11, g.inputs, 12, g.outputs, 13, g.values, 15,
        g.sparse_initializers);
    if (f.number == 1) g.nodes.back().in_file = static_cast<std::uint32_t>(g.nodes.size() - 1);
  }
  void add(function& to, const field& f) {
    put(f, 1, to.name, 4, to.inputs, 5, to.outputs, 6, to.attributes, 7, to.nodes, 9, to.opsets, 10, to.domain, 11,
        to.defaults, 13, to.overload);
  }
  void add(node& n, const field& f) {
    put(f, 1, n.inputs, 2, n.outputs, 3, n.name, 4, n.op, 5, n.attributes, 7, n.domain, 8, n.overload);
  }
  // Files of before IR version 2 do not say of which kind an attribute is.
  void add(attribute& a, const field& f) {
    const auto is = [&a](attribute_kind kind) {
      if (a.kind == attribute_kind::undefined) a.kind = kind;
    };
    a.has_one = a.has_one || f.number == 5 || f.number == 6;
    a.has_list = a.has_list || f.number == 10 || f.number == 11;
    if (a.has_one && a.has_list) fail(f.whole.data(), "an attribute has one tensor or graph and a list of them");
    switch (f.number) {
      case 1: return take(a.name, f);
      case 20: {
        const std::int64_t kind = integer(f);
        const bool known = kind >= 0 && kind <= static_cast<std::int64_t>(attribute_kind::types);
        if (!known) fail(f.whole.data(), "an attribute is of a kind that ONNX has not");
        a.kind = static_cast<attribute_kind>(kind);
        return;
      }
      case 21: return take(a.refers_to, f);
      case 2:
        expect(f, form::four_bytes);
        a.number = std::bit_cast<float>(static_cast<std::uint32_t>(f.value));
        return is(attribute_kind::number);
      case 3: a.integer = integer(f); return is(attribute_kind::integer);
      case 4: take(a.text, f); return is(attribute_kind::text);
      case 5: join_first(a.tensors, f); return is(attribute_kind::tensor);
      case 6: join_first(a.graphs, f); return is(attribute_kind::graph);
      case 7: take(a.numbers, f); return is(attribute_kind::numbers);
      case 8: take(a.integers, f); return is(attribute_kind::integers);
      case 9: take(a.texts, f); return is(attribute_kind::texts);
      case 10: take(a.tensors, f); return is(attribute_kind::tensors);
      case 11: take(a.graphs, f); return is(attribute_kind::graphs);
      case 14: return is(attribute_kind::type);
      case 15: return is(attribute_kind::types);
      case 22: take(a.sparse_tensors, f); return is(attribute_kind::sparse_tensor);
      case 23: take(a.sparse_tensors, f); return is(attribute_kind::sparse_tensors);
      default: return;
    }
  }
  void add(tensor& t, const field& f) {
    put(f, 1, t.dims, 2, t.type, 4, t.floats, 5, t.int32s, 7, t.int64s, 8, t.name, 9, t.raw, 10, t.doubles, 11,
        t.uint64s, 13, t.external_data);
    if (f.number == 14) t.external = integer(f) == 1;
  }
  void add(std::pair<std::string, std::string>& entry, const field& f) { put(f, 1, entry.first, 2, entry.second); }
  void add(sparse_tensor& t, const field& f) { put(f, 1, t.values, 2, t.indices); }
  void add(value_info& v, const field& f) { put(f, 1, v.name, 2, v.type); }

  void add(type& t, const field& f) {
    const auto is = [&](type_kind kind) {
      expect(f, form::text);
      if (t.kind != kind) t = type{.kind = kind};
    };
    switch (f.number) {
      case 1:
        is(type_kind::tensor);
        return each_field(f.body, [&](const field& of_tensor) {
          put(of_tensor, 1, t.element);
          if (of_tensor.number != 2) return;
          t.has_shape = true;
          expect(of_tensor, form::text);
          each_field(of_tensor.body, [&](const field& of_shape) { put(of_shape, 1, t.shape); });
        });
      case 4:
      case 9:
        is(f.number == 4 ? type_kind::sequence : type_kind::optional);
        return each_field(f.body, [&](const field& inner) {
          if (inner.number == 1) join_first(t.inner, inner);
        });
      case 5: return is(type_kind::map);
      case 7: return is(type_kind::opaque);
      case 8: return is(type_kind::sparse_tensor);
      default: return;
    }
  }
  void add(dimension& d, const field& f) {
    if (f.number == 1) d = {integer(f), {}};
    if (f.number == 2) {
      take(d.name, f);
      d.value.reset();
    }
  }

  const std::string& path_;
  std::string_view file_;
  bytes left_;
  int level_ = 0;
};

}  // namespace

model parse(const std::string& path, std::string_view file) {
  return parser{path, file}.parse();
}

}  // namespace berth::model::wire

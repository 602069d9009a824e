// The messages of ONNX as tests make them, written and read here without a part of the reader that they test. Names and
// accessors are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto and of protobuf's own classes.
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onnx {

// One value of a field: a number, bits of a float, a text, or a message.
class message;
template <class T>
class copied {
 public:
  copied() = default;
  copied(const copied& other) : it_{other.it_ ? std::make_unique<T>(*other.it_) : nullptr} {}
  copied(copied&&) noexcept = default;
  copied& operator=(copied other) noexcept {
    it_ = std::move(other.it_);
    return *this;
  }
  [[nodiscard]] bool there() const { return it_ != nullptr; }
  [[nodiscard]] T& made() {
    if (!it_) it_ = std::make_unique<T>();
    return *it_;
  }
  [[nodiscard]] const T& get() const {
    static const T none{};
    return it_ ? *it_ : none;
  }
  void clear() { it_.reset(); }

 private:
  std::unique_ptr<T> it_;
};

template <class T>
class repeated : public std::list<T> {
 public:
  using std::list<T>::list;
  [[nodiscard]] T& operator[](int i) { return *at(i); }
  [[nodiscard]] const T& operator[](int i) const { return *const_cast<repeated*>(this)->at(i); }
  [[nodiscard]] T* Mutable(int i) { return &*at(i); }
  [[nodiscard]] int size() const { return static_cast<int>(std::list<T>::size()); }
  void RemoveLast() { this->pop_back(); }
  void SwapElements(int i, int k) { std::swap(*at(i), *at(k)); }

 private:
  typename std::list<T>::iterator at(int i) {
    return i == size() - 1 ? std::prev(this->end()) : std::next(this->begin(), i);
  }
};

namespace wire_format {

inline void append_number(std::string& to, std::uint64_t n) {
  for (; n >= 128; n >>= 7) to += static_cast<char>((n & 127) | 128);
  to += static_cast<char>(n);
}
inline void append_tag(std::string& to, int field, unsigned form) {
  append_number(to, static_cast<std::uint64_t>(field) << 3 | form);
}
inline void append_text(std::string& to, int field, const std::string& text) {
  append_tag(to, field, 2);
  append_number(to, text.size());
  to += text;
}
inline std::uint64_t take_number(std::string_view& text, bool& good) {
  std::uint64_t n = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (text.empty()) break;
    const auto b = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    if (shift < 64) n |= std::uint64_t{b & 127u} << shift;
    if (b < 128) return n;
  }
  good = false;
  return 0;
}

// Writes the fields of a message one after the other.
struct writer {
  std::string& to;
  void one(int field, bool there, std::int64_t n) const {
    if (there) append_tag(to, field, 0), append_number(to, static_cast<std::uint64_t>(n));
  }
  void one(int field, bool there, float x) const {
    if (there) append_tag(to, field, 5), to.append(reinterpret_cast<const char*>(&x), sizeof x);
  }
  void one(int field, bool there, const std::string& text) const {
    if (there) append_text(to, field, text);
  }
  template <class T>
  void one(int field, const copied<T>& m) const {
    if (m.there()) append_text(to, field, m.get().SerializeAsString());
  }
  void many(int field, const repeated<std::string>& all) const {
    for (const auto& each : all) append_text(to, field, each);
  }
  template <class T>
  void many(int field, const repeated<T>& all) const {
    if constexpr (std::is_floating_point_v<T>) {
      std::string packed;
      for (const T x : all) packed.append(reinterpret_cast<const char*>(&x), sizeof x);
      if (!packed.empty()) append_text(to, field, packed);
    } else if constexpr (std::is_integral_v<T>) {
      for (const T n : all) one(field, true, static_cast<std::int64_t>(n));
    } else {
      for (const auto& each : all) append_text(to, field, each.SerializeAsString());
    }
  }
};

// A field that was read. Each member of the message is asked whether it is its own.
struct reader {
  int field;
  unsigned form;
  std::uint64_t number;
  std::string_view text;
  bool good = true, taken = false;

  void one(int f, bool& there, std::int64_t& n) {
    if (f == field && form == 0) taken = there = true, n = static_cast<std::int64_t>(number);
  }
  void one(int f, bool& there, float& x) {
    if (f != field || form != 5) return;
    const auto bits = static_cast<std::uint32_t>(number);
    std::memcpy(&x, &bits, sizeof x);
    taken = there = true;
  }
  void one(int f, bool& there, std::string& to) {
    if (f == field && form == 2) taken = there = true, to = text;
  }
  template <class T>
  void one(int f, copied<T>& m) {
    if (f == field && form == 2) taken = true, good = good && m.made().merge(text);
  }
  void many(int f, repeated<std::string>& all) {
    if (f == field && form == 2) taken = true, all.emplace_back(text);
  }
  template <class T>
  void many(int f, repeated<T>& all) {
    if (f != field) return;
    taken = true;
    if constexpr (std::is_floating_point_v<T>) {
      for (; text.size() >= sizeof(T); text.remove_prefix(sizeof(T)))
        std::memcpy(&all.emplace_back(), text.data(), sizeof(T));
    } else if constexpr (std::is_integral_v<T>) {
      if (form == 0) all.push_back(static_cast<T>(number));
      while (form == 2 && !text.empty() && good) all.push_back(static_cast<T>(take_number(text, good)));
    } else {
      good = good && all.emplace_back().merge(text);
    }
  }
};

}  // namespace wire_format

// The part that all messages have; `Message::each(f)` shows f its fields.
template <class Message>
class message_of {
 public:
  [[nodiscard]] std::string SerializeAsString() const {
    std::string text;
    const wire_format::writer w{text};
    const_cast<Message&>(static_cast<const Message&>(*this)).each(w);
    return text + unknown_;
  }
  [[nodiscard]] bool ParseFromString(std::string_view text) {
    static_cast<Message&>(*this) = Message{};
    return merge(text);
  }
  [[nodiscard]] bool merge(std::string_view text) {
    while (!text.empty()) {
      bool good = true;
      const std::string_view from = text;
      const std::uint64_t tag = wire_format::take_number(text, good);
      wire_format::reader r{static_cast<int>(tag >> 3), static_cast<unsigned>(tag & 7), 0, {}};
      const std::size_t fixed = r.form == 1 ? 8 : r.form == 5 ? 4 : 0;
      if (r.form == 0 || r.form == 2) r.number = wire_format::take_number(text, good);
      const std::size_t size = r.form == 2 ? static_cast<std::size_t>(r.number) : fixed;
      if (!good || size > text.size() || r.form == 3 || r.form == 4) return false;
      r.text = text.substr(0, size);
      if (fixed != 0) std::memcpy(&r.number, r.text.data(), fixed);
      text.remove_prefix(size);
      static_cast<Message&>(*this).each(r);
      if (!r.good) return false;
      if (!r.taken) unknown_ += from.substr(0, from.size() - text.size());
    }
    return true;
  }
  void add_unknown(int field, std::uint64_t n) {
    wire_format::append_tag(unknown_, field, 0);
    wire_format::append_number(unknown_, n);
  }

 private:
  std::string unknown_;
};

#define ONNX_ONE(type, name)               \
 public:                                   \
  [[nodiscard]] const type& name() const { \
    return name##_;                        \
  }                                        \
  [[nodiscard]] bool has_##name() const {  \
    return has_##name##_;                  \
  }                                        \
  void set_##name(type v) {                \
    name##_ = std::move(v);                \
    has_##name##_ = true;                  \
  }                                        \
  void clear_##name() {                    \
    name##_ = {};                          \
    has_##name##_ = false;                 \
  }                                        \
                                           \
 private:                                  \
  type name##_{};                          \
  bool has_##name##_ = false;

#define ONNX_MESSAGE(type, name)           \
 public:                                   \
  [[nodiscard]] const type& name() const { \
    return name##_.get();                  \
  }                                        \
  [[nodiscard]] bool has_##name() const {  \
    return name##_.there();                \
  }                                        \
  [[nodiscard]] type* mutable_##name() {   \
    return &name##_.made();                \
  }                                        \
  void clear_##name() {                    \
    name##_.clear();                       \
  }                                        \
                                           \
 private:                                  \
  copied<type> name##_;

#define ONNX_MANY_OF(type, name)                     \
 public:                                             \
  [[nodiscard]] const repeated<type>& name() const { \
    return name##_;                                  \
  }                                                  \
  [[nodiscard]] int name##_size() const {            \
    return name##_.size();                           \
  }                                                  \
  [[nodiscard]] repeated<type>* mutable_##name() {   \
    return &name##_;                                 \
  }                                                  \
  void clear_##name() {                              \
    name##_.clear();                                 \
  }                                                  \
                                                     \
 private:                                            \
  repeated<type> name##_;

#define ONNX_NUMBERS(type, name) \
  ONNX_MANY_OF(type, name)       \
 public:                         \
  void add_##name(type v) {      \
    name##_.push_back(v);        \
  }                              \
                                 \
 private:

#define ONNX_TEXTS(name)                               \
  ONNX_MANY_OF(std::string, name)                      \
 public:                                               \
  [[nodiscard]] const std::string& name(int i) const { \
    return name##_[i];                                 \
  }                                                    \
  void add_##name(std::string v) {                     \
    name##_.push_back(std::move(v));                   \
  }                                                    \
  void set_##name(int i, std::string v) {              \
    name##_[i] = std::move(v);                         \
  }                                                    \
                                                       \
 private:

#define ONNX_MESSAGES(type, name)               \
  ONNX_MANY_OF(type, name)                      \
 public:                                        \
  [[nodiscard]] const type& name(int i) const { \
    return name##_[i];                          \
  }                                             \
  type* add_##name() {                          \
    return &name##_.emplace_back();             \
  }                                             \
  [[nodiscard]] type* mutable_##name(int i) {   \
    return name##_.Mutable(i);                  \
  }                                             \
                                                \
 private:

class GraphProto;

class StringStringEntryProto : public message_of<StringStringEntryProto> {
  ONNX_ONE(std::string, key)
  ONNX_ONE(std::string, value)
 public:
  template <class F>
  void each(F&& f) {
    f.one(1, has_key_, key_);
    f.one(2, has_value_, value_);
  }
};

class TensorProto : public message_of<TensorProto> {
 public:
  enum DataType {
    UNDEFINED,
    FLOAT,
    UINT8,
    INT8,
    UINT16,
    INT16,
    INT32,
    INT64,
    STRING,
    BOOL,
    FLOAT16,
    DOUBLE,
    UINT32,
    UINT64,
    COMPLEX64,
    COMPLEX128,
    BFLOAT16,
    UINT4 = 21,
    INT4,
    FLOAT4E2M1,
    FLOAT8E8M0,
    UINT2,
    INT2
  };
  enum DataLocation { DEFAULT, EXTERNAL };
  ONNX_NUMBERS(std::int64_t, dims)
  ONNX_ONE(std::int64_t, data_type)
  ONNX_NUMBERS(float, float_data)
  ONNX_NUMBERS(std::int32_t, int32_data)
  ONNX_TEXTS(string_data)
  ONNX_NUMBERS(std::int64_t, int64_data)
  ONNX_ONE(std::string, name)
  ONNX_ONE(std::string, raw_data)
  ONNX_NUMBERS(double, double_data)
  ONNX_NUMBERS(std::uint64_t, uint64_data)
  ONNX_MESSAGES(StringStringEntryProto, external_data)
  ONNX_ONE(std::int64_t, data_location)
 public:
  template <class F>
  void each(F&& f) {
    f.many(1, dims_);
    f.one(2, has_data_type_, data_type_);
    f.many(4, float_data_);
    f.many(5, int32_data_);
    f.many(6, string_data_);
    f.many(7, int64_data_);
    f.one(8, has_name_, name_);
    f.one(9, has_raw_data_, raw_data_);
    f.many(10, double_data_);
    f.many(11, uint64_data_);
    f.many(13, external_data_);
    f.one(14, has_data_location_, data_location_);
  }
};

class SparseTensorProto : public message_of<SparseTensorProto> {
  ONNX_MESSAGE(TensorProto, values)
  ONNX_MESSAGE(TensorProto, indices)
  ONNX_NUMBERS(std::int64_t, dims)
 public:
  template <class F>
  void each(F&& f) {
    f.one(1, values_);
    f.one(2, indices_);
    f.many(3, dims_);
  }
};

class AttributeProto : public message_of<AttributeProto> {
 public:
  enum AttributeType { UNDEFINED, FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS };
  ONNX_ONE(std::string, name)
  ONNX_ONE(float, f)
  ONNX_ONE(std::int64_t, i)
  ONNX_ONE(std::string, s)
  ONNX_MESSAGE(TensorProto, t)
  ONNX_MESSAGE(GraphProto, g)
  ONNX_NUMBERS(float, floats)
  ONNX_NUMBERS(std::int64_t, ints)
  ONNX_TEXTS(strings)
  ONNX_ONE(std::int64_t, type)
  ONNX_ONE(std::string, ref_attr_name)
 public:
  template <class F>
  void each(F&& f) {
    f.one(1, has_name_, name_);
    f.one(2, has_f_, f_);
    f.one(3, has_i_, i_);
    f.one(4, has_s_, s_);
    f.one(5, t_);
    f.one(6, g_);
    f.many(7, floats_);
    f.many(8, ints_);
    f.many(9, strings_);
    f.one(20, has_type_, type_);
    f.one(21, has_ref_attr_name_, ref_attr_name_);
  }
};

class TensorShapeProto : public message_of<TensorShapeProto> {
 public:
  class Dimension : public message_of<Dimension> {
    ONNX_ONE(std::int64_t, dim_value)
    ONNX_ONE(std::string, dim_param)
   public:
    template <class F>
    void each(F&& f) {
      f.one(1, has_dim_value_, dim_value_);
      f.one(2, has_dim_param_, dim_param_);
    }
  };
  ONNX_MESSAGES(Dimension, dim)
 public:
  template <class F>
  void each(F&& f) {
    f.many(1, dim_);
  }
};

class TypeProto : public message_of<TypeProto> {
 public:
  class Tensor : public message_of<Tensor> {
    ONNX_ONE(std::int64_t, elem_type)
    ONNX_MESSAGE(TensorShapeProto, shape)
   public:
    template <class F>
    void each(F&& f) {
      f.one(1, has_elem_type_, elem_type_);
      f.one(2, shape_);
    }
  };
  class Holder : public message_of<Holder> {  // a sequence, or an optional
    ONNX_MESSAGE(TypeProto, elem_type)
   public:
    template <class F>
    void each(F&& f) {
      f.one(1, elem_type_);
    }
  };
  ONNX_MESSAGE(Tensor, tensor_type)
  ONNX_MESSAGE(Holder, sequence_type)
  ONNX_MESSAGE(Holder, optional_type)
 public:
  template <class F>
  void each(F&& f) {
    f.one(1, tensor_type_);
    f.one(4, sequence_type_);
    f.one(9, optional_type_);
  }
};

class ValueInfoProto : public message_of<ValueInfoProto> {
  ONNX_ONE(std::string, name)
  ONNX_MESSAGE(TypeProto, type)
 public:
  template <class F>
  void each(F&& f) {
    f.one(1, has_name_, name_);
    f.one(2, type_);
  }
};

class NodeProto : public message_of<NodeProto> {
  ONNX_TEXTS(input)
  ONNX_TEXTS(output)
  ONNX_ONE(std::string, name)
  ONNX_ONE(std::string, op_type)
  ONNX_MESSAGES(AttributeProto, attribute)
  ONNX_ONE(std::string, domain)
 public:
  template <class F>
  void each(F&& f) {
    f.many(1, input_);
    f.many(2, output_);
    f.one(3, has_name_, name_);
    f.one(4, has_op_type_, op_type_);
    f.many(5, attribute_);
    f.one(7, has_domain_, domain_);
  }
};

class GraphProto : public message_of<GraphProto> {
  ONNX_MESSAGES(NodeProto, node)
  ONNX_ONE(std::string, name)
  ONNX_MESSAGES(TensorProto, initializer)
  ONNX_MESSAGES(ValueInfoProto, input)
  ONNX_MESSAGES(ValueInfoProto, output)
  ONNX_MESSAGES(ValueInfoProto, value_info)
  ONNX_MESSAGES(SparseTensorProto, sparse_initializer)
 public:
  template <class F>
  void each(F&& f) {
    f.many(1, node_);
    f.one(2, has_name_, name_);
    f.many(5, initializer_);
    f.many(11, input_);
    f.many(12, output_);
    f.many(13, value_info_);
    f.many(15, sparse_initializer_);
  }
};

class OperatorSetIdProto : public message_of<OperatorSetIdProto> {
  ONNX_ONE(std::string, domain)
  ONNX_ONE(std::int64_t, version)
 public:
  template <class F>
  void each(F&& f) {
    f.one(1, has_domain_, domain_);
    f.one(2, has_version_, version_);
  }
};

class FunctionProto : public message_of<FunctionProto> {
  ONNX_ONE(std::string, name)
  ONNX_TEXTS(input)
  ONNX_TEXTS(output)
  ONNX_TEXTS(attribute)
  ONNX_MESSAGES(NodeProto, node)
  ONNX_MESSAGES(OperatorSetIdProto, opset_import)
  ONNX_ONE(std::string, domain)
  ONNX_MESSAGES(AttributeProto, attribute_proto)
 public:
  template <class F>
  void each(F&& f) {
    f.one(1, has_name_, name_);
    f.many(4, input_);
    f.many(5, output_);
    f.many(6, attribute_);
    f.many(7, node_);
    f.many(9, opset_import_);
    f.one(10, has_domain_, domain_);
    f.many(11, attribute_proto_);
  }
};

class ModelProto : public message_of<ModelProto> {
  ONNX_ONE(std::int64_t, ir_version)
  ONNX_ONE(std::string, producer_name)
  ONNX_MESSAGE(GraphProto, graph)
  ONNX_MESSAGES(OperatorSetIdProto, opset_import)
  ONNX_MESSAGES(FunctionProto, functions)
 public:
  template <class F>
  void each(F&& f) {
    f.one(1, has_ir_version_, ir_version_);
    f.one(2, has_producer_name_, producer_name_);
    f.one(7, graph_);
    f.many(8, opset_import_);
    f.many(25, functions_);
  }
};

// Data beside a model: the values of a sequence or an optional.
class SequenceProto : public message_of<SequenceProto> {
  ONNX_MESSAGES(TensorProto, tensor_values)
 public:
  template <class F>
  void each(F&& f) {
    f.many(3, tensor_values_);
  }
};

class OptionalProto : public message_of<OptionalProto> {
 public:
  enum DataType { UNDEFINED };
  ONNX_ONE(std::int64_t, elem_type)
  ONNX_MESSAGE(TensorProto, tensor_value)
  ONNX_MESSAGE(SequenceProto, sequence_value)
 public:
  template <class F>
  void each(F&& f) {
    f.one(2, has_elem_type_, elem_type_);
    f.one(3, tensor_value_);
    f.one(5, sequence_value_);
  }
};

#undef ONNX_ONE
#undef ONNX_MESSAGE
#undef ONNX_MANY_OF
#undef ONNX_NUMBERS
#undef ONNX_TEXTS
#undef ONNX_MESSAGES

}  // namespace onnx

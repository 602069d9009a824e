#include "berth/model/builtin.hpp"

#include <cmath>
#include <cstring>

#include "op/plain/plain.hpp"

namespace berth::model {

namespace {

class builder {
 public:
  explicit builder(std::string name) { d_.source = std::move(name); }

  std::string input(std::string name, shape s) {
    d_.inputs.push_back({name, element::f32, std::move(s)});
    return name;
  }

  std::string add(const std::string& op, std::vector<std::string> inputs, std::map<std::string, attribute> attributes) {
    const std::string name = op + "_" + std::to_string(d_.nodes.size());
    d_.nodes.push_back({name, op, std::move(inputs), {name}, std::move(attributes)});
    return name;
  }

  std::string constant(shape s, float scale, float around = 0) {
    std::size_t count = 1;
    for (const std::int64_t each : s) count *= static_cast<std::size_t>(each);
    std::vector<float> values = pseudo_random(count, ++seed_, scale);
    for (float& v : values) v += around;
    return keep({element::f32, std::move(s), bytes_of(values)});
  }

  std::string integers(const shape& values) {
    return keep({element::i64, {static_cast<std::int64_t>(values.size())}, bytes_of(values)});
  }

  // Adds a convolution with weights that keep the variance through a rectifier (He et al. 2015).
  std::string convolution(const std::string& x, std::int64_t from, std::int64_t to, std::int64_t kernel,
                          std::int64_t stride, std::int64_t groups = 1) {
    const float fan_in = static_cast<float>(from / groups * kernel * kernel);
    const std::string w = constant({to, from / groups, kernel, kernel}, std::sqrt(6.0f / fan_in));
    const std::int64_t pad = kernel / 2;
    const std::string y = add("Conv", {x, w},
                              {{"kernel_shape", shape{kernel, kernel}},
                               {"strides", shape{stride, stride}},
                               {"pads", shape{pad, pad, pad, pad}},
                               {"group", groups}});
    // Scales around 0.5 keep the sum of many residual branches small.
    return add("BatchNormalization",
               {y, constant({to}, 0.1f, 0.5f), constant({to}, 0.1f), constant({to}, 0.1f), constant({to}, 0.1f, 1.0f)},
               {});
  }

  std::string linear(const std::string& x, std::int64_t from, std::int64_t to) {
    const std::string w = constant({from, to}, std::sqrt(3.0f / static_cast<float>(from)));
    return add("Add", {add("MatMul", {x, w}, {}), constant({to}, 0.1f)}, {});
  }

  std::string normalized(const std::string& x, std::int64_t width) {
    return add("LayerNormalization", {x, constant({width}, 0.1f, 1.0f), constant({width}, 0.1f)},
               {{"axis", std::int64_t{-1}}});
  }

  std::string classified(const std::string& x, std::int64_t width, std::int64_t classes) {
    const std::string flat = add("Flatten", {add("GlobalAveragePool", {x}, {})}, {});
    return linear(flat, width, classes);
  }

  description finish(const std::string& output) {
    d_.outputs = {output};
    return std::move(d_);
  }

 private:
  template <class T>
  static std::vector<std::byte> bytes_of(const std::vector<T>& values) {
    std::vector<std::byte> data(values.size() * sizeof(T));
    std::memcpy(data.data(), values.data(), data.size());
    return data;
  }

  std::string keep(tensor t) {
    const std::string name = "constant_" + std::to_string(d_.constants.size());
    d_.constants.emplace(name, std::move(t));
    return name;
  }

  description d_;
  std::uint64_t seed_ = 0;
};

description mobilenet() {
  builder b{"builtin:mobilenet"};
  const auto relu6 = [&b](const std::string& x) { return b.add("Clip", {x}, {{"min", 0.0f}, {"max", 6.0f}}); };
  std::string x = b.input("image", {1, 224, 224, 3});
  x = b.add("Transpose", {x}, {{"perm", shape{0, 3, 1, 2}}});
  x = relu6(b.convolution(x, 3, 32, 3, 2));
  struct stage {
    std::int64_t expand, channels, repeat, stride;
  };
  constexpr stage stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                              {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  std::int64_t width = 32;
  for (const stage& s : stages) {
    for (std::int64_t i = 0; i < s.repeat; ++i) {
      const std::int64_t stride = i == 0 ? s.stride : 1;
      const std::int64_t inner = width * s.expand;
      std::string y = s.expand == 1 ? x : relu6(b.convolution(x, width, inner, 1, 1));
      y = relu6(b.convolution(y, inner, inner, 3, stride, inner));
      y = b.convolution(y, inner, s.channels, 1, 1);
      x = stride == 1 && width == s.channels ? b.add("Add", {x, y}, {}) : y;
      width = s.channels;
    }
  }
  x = relu6(b.convolution(x, width, 1280, 1, 1));
  return b.finish(b.classified(x, 1280, 1000));
}

description resnet50() {
  builder b{"builtin:resnet50"};
  const auto relu = [&b](const std::string& x) { return b.add("Relu", {x}, {}); };
  std::string x = b.input("image", {1, 3, 224, 224});
  x = relu(b.convolution(x, 3, 64, 7, 2));
  x = b.add("MaxPool", {x}, {{"kernel_shape", shape{3, 3}}, {"strides", shape{2, 2}}, {"pads", shape{1, 1, 1, 1}}});
  std::int64_t width = 64;
  constexpr std::int64_t repeats[] = {3, 4, 6, 3};
  for (std::int64_t s = 0; s < 4; ++s) {
    const std::int64_t inner = std::int64_t{64} << s;
    for (std::int64_t i = 0; i < repeats[s]; ++i) {
      const std::int64_t stride = i == 0 && s > 0 ? 2 : 1;
      std::string y = relu(b.convolution(x, width, inner, 1, 1));
      y = relu(b.convolution(y, inner, inner, 3, stride));
      y = b.convolution(y, inner, 4 * inner, 1, 1);
      const std::string shortcut = i == 0 ? b.convolution(x, width, 4 * inner, 1, stride) : x;
      x = relu(b.add("Add", {y, shortcut}, {}));
      width = 4 * inner;
    }
  }
  return b.finish(b.classified(x, width, 1000));
}

description transformer() {
  constexpr std::int64_t tokens = 128, width = 256, heads = 4, blocks = 4;
  builder b{"builtin:transformer"};
  const auto split = [&b](const std::string& x, shape order) {
    const std::string parts = b.add("Reshape", {x, b.integers({1, tokens, heads, width / heads})}, {});
    return b.add("Transpose", {parts}, {{"perm", std::move(order)}});
  };
  std::string x = b.input("tokens", {1, tokens, width});
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::string seen = b.normalized(x, width);
    const std::string q = split(b.linear(seen, width, width), {0, 2, 1, 3});
    const std::string k = split(b.linear(seen, width, width), {0, 2, 3, 1});
    const std::string v = split(b.linear(seen, width, width), {0, 2, 1, 3});
    std::string scores = b.add("MatMul", {q, k}, {});
    const std::string root = b.constant({1}, 0, std::sqrt(static_cast<float>(width / heads)));
    scores = b.add("Softmax", {b.add("Div", {scores, root}, {})}, {{"axis", std::int64_t{-1}}});
    std::string mixed = b.add("Transpose", {b.add("MatMul", {scores, v}, {})}, {{"perm", shape{0, 2, 1, 3}}});
    mixed = b.add("Reshape", {mixed, b.integers({1, tokens, width})}, {});
    x = b.add("Add", {x, b.linear(mixed, width, width)}, {});
    const std::string wide = b.add("Gelu", {b.linear(b.normalized(x, width), width, 4 * width)}, {});
    x = b.add("Add", {x, b.linear(wide, 4 * width, width)}, {});
  }
  return b.finish(b.normalized(x, width));
}

}  // namespace

std::vector<std::string> builtin_names() {
  return {"builtin:mobilenet", "builtin:resnet50", "builtin:transformer"};
}

std::optional<description> builtin(std::string_view name) {
  if (name == "builtin:mobilenet") return mobilenet();
  if (name == "builtin:resnet50") return resnet50();
  if (name == "builtin:transformer") return transformer();
  return std::nullopt;
}

std::vector<float> pseudo_random(std::size_t count, std::uint64_t seed, float scale) {
  // splitmix64 (Steele, Lea, Flood 2014); the top 24 bits are a float's worth.
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u;
  std::vector<float> values(count);
  for (float& v : values) {
    std::uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    v = scale * (static_cast<float>(z >> 40) * 0x1p-23f - 1.0f);
  }
  return values;
}

std::vector<std::byte> pseudo_random(element type, std::size_t count, std::uint64_t seed) {
  const std::vector<float> values = pseudo_random(count, seed);
  const auto as_element = [type](float v) -> double {
    switch (type) {
      case element::f32:
      case element::f16:
      case element::bf16:
      case element::f64: return v;
      case element::i8: return std::floor(128 * double{v});
      case element::u8: return std::floor(128 * double{v}) + 128;
      case element::boolean: return v < 0 ? 0 : 1;
      default: return std::floor(5 * double{v}) + 5;
    }
  };
  const auto each = static_cast<std::size_t>(element_size(type));
  std::vector<std::byte> elements(count * each);
  for (std::size_t i = 0; i < count; ++i) op::write(type, elements.data() + i * each, as_element(values[i]));
  return elements;
}

}  // namespace berth::model

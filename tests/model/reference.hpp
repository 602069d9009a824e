// A model computed by naive loops over row-major tensors: shares no code with lowering or oneDNN.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "berth/model/description.hpp"
#include "op/dense.hpp"

namespace berth::test {

// A tensor's elements as f32: those of halves and of integers up to 32 bits.
inline dense decoded(const model::tensor& t) {
  dense d = zeros(t.shape);
  const auto each = static_cast<std::size_t>(element_size(t.type));
  for (std::size_t i = 0; i < d.values.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, t.data.data() + i * each, each);
    float& v = d.values[i];
    switch (t.type) {
      case element::f32: std::memcpy(&v, &bits, sizeof v); break;
      case element::f16: {
        const auto exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
        v = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                          : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
        v = bits >> 15 != 0 ? -v : v;
        break;
      }
      case element::i8: v = static_cast<float>(static_cast<std::int8_t>(bits)); break;
      case element::u8: v = static_cast<float>(bits); break;
      case element::i32: v = static_cast<float>(static_cast<std::int32_t>(bits)); break;
      default: throw std::runtime_error("reference: elements of a type it does not decode");
    }
  }
  return d;
}

class reference {
 public:
  explicit reference(const model::description& m) : m_{m} {
    for (const auto& [name, t] : m.constants) {
      if (element_size(t.type) > 4) continue;
      values_[name] = decoded(t);
    }
  }

  // Inputs in the model's order; returns the outputs.
  std::vector<dense> run(const std::vector<dense>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) values_[m_.inputs[i].name] = inputs[i];
    for (const model::node& n : m_.nodes) compute(n);
    std::vector<dense> outputs;
    for (const auto& name : m_.outputs) outputs.push_back(values_.at(name));
    return outputs;
  }

 private:
  const dense& in(const model::node& n, std::size_t i) const { return values_.at(n.inputs[i]); }
  template <class T>
  T attribute(const model::node& n, const char* name, T fallback) const {
    return model::attribute_or(m_, n, name, fallback);
  }
  std::vector<std::int64_t> integers(const model::node& n, std::size_t i) const {
    const auto& t = m_.constants.at(n.inputs[i]);
    std::vector<std::int64_t> v(t.data.size() / 8);
    std::memcpy(v.data(), t.data.data(), t.data.size());
    return v;
  }

  static dense map(dense x, const std::function<float(float)>& f) {
    for (float& v : x.values) v = f(v);
    return x;
  }

  static dense zip(const dense& a, const dense& b, const std::function<float(float, float)>& f) {
    const std::size_t rank = std::max(a.shape.size(), b.shape.size());
    const auto wide = [rank](const dense& d) {
      dense w = d;
      w.shape.insert(w.shape.begin(), rank - d.shape.size(), 1);
      return w;
    };
    const dense x = wide(a), y = wide(b);
    shape s(rank);
    for (std::size_t d = 0; d < rank; ++d) s[d] = std::max(x.shape[d], y.shape[d]);
    dense z = zeros(s);
    const auto clipped = [](shape i, const shape& to) {
      for (std::size_t d = 0; d < i.size(); ++d) i[d] = to[d] == 1 ? 0 : i[d];
      return i;
    };
    each_index(s, [&](const shape& i) { z.at(i) = f(x.at(clipped(i, x.shape)), y.at(clipped(i, y.shape))); });
    return z;
  }

  dense convolution(const model::node& n) const {
    const dense &x = in(n, 0), &w = in(n, 1);
    const shape pads = attribute(n, "pads", shape{0, 0, 0, 0});
    const op::window over{{w.shape[2], w.shape[3]},
                          attribute(n, "strides", shape{1, 1}),
                          attribute(n, "dilations", shape{1, 1}),
                          {pads[0], pads[1]},
                          {pads[2], pads[3]}};
    shape out{x.shape[0], w.shape[0]};
    for (std::size_t i = 0; i < 2; ++i) {
      const auto reach = (over.kernel[i] - 1) * over.dilations[i] + 1;
      out.push_back((x.shape[i + 2] + pads[i] + pads[i + 2] - reach) / over.strides[i] + 1);
    }
    const auto bias = n.inputs.size() > 2 ? in(n, 2).values : std::vector<float>{};
    return naive_convolution(x, w, bias, over, attribute<std::int64_t>(n, "group", 1), out);
  }

  // Without output_padding: every input element adds its window.
  dense transposed_convolution(const model::node& n) const {
    const dense &x = in(n, 0), &w = in(n, 1);
    const shape pads = attribute(n, "pads", shape{0, 0, 0, 0}), by = attribute(n, "strides", shape{1, 1});
    const auto groups = attribute<std::int64_t>(n, "group", 1);
    const std::int64_t out = w.shape[1], in_each = x.shape[1] / groups;
    shape to{x.shape[0], out * groups};
    for (std::size_t i = 0; i < 2; ++i)
      to.push_back((x.shape[i + 2] - 1) * by[i] + w.shape[i + 2] - pads[i] - pads[i + 2]);
    dense y = zeros(to);
    each_index(to, [&](const shape& i) {
      if (n.inputs.size() > 2) y.at(i) = in(n, 2).values[static_cast<std::size_t>(i[1])];
    });
    each_index(x.shape, [&](const shape& i) {
      each_index({out, w.shape[2], w.shape[3]}, [&](const shape& k) {
        const std::int64_t h = i[2] * by[0] + k[1] - pads[0], v = i[3] * by[1] + k[2] - pads[1];
        if (h < 0 || v < 0 || h >= to[2] || v >= to[3]) return;
        y.at({i[0], i[1] / in_each * out + k[0], h, v}) += x.at(i) * w.at({i[1], k[0], k[1], k[2]});
      });
    });
    return y;
  }

  dense pooling(const model::node& n) const {
    const dense& x = in(n, 0);
    const bool global = n.op == "GlobalAveragePool", most = n.op == "MaxPool";
    const shape k = global ? shape{x.shape[2], x.shape[3]} : attribute(n, "kernel_shape", shape{});
    const shape s = attribute(n, "strides", shape{1, 1}), p = attribute(n, "pads", shape{0, 0, 0, 0});
    dense y = zeros({x.shape[0], x.shape[1], (x.shape[2] + p[0] + p[2] - k[0]) / s[0] + 1,
                     (x.shape[3] + p[1] + p[3] - k[1]) / s[1] + 1});
    each_index(y.shape, [&](const shape& o) {
      float best = -1e30f, sum = 0, seen = 0;
      each_index(k, [&](const shape& j) {
        const auto h = o[2] * s[0] - p[0] + j[0], v = o[3] * s[1] - p[1] + j[1];
        if (h < 0 || v < 0 || h >= x.shape[2] || v >= x.shape[3]) return;
        best = std::max(best, x.at({o[0], o[1], h, v}));
        sum += x.at({o[0], o[1], h, v});
        seen += 1;
      });
      y.at(o) = most ? best : sum / seen;
    });
    return y;
  }

  dense matmul(const model::node& n) const {
    const dense &a = in(n, 0), &b = in(n, 1);
    const std::size_t rank = std::max(a.shape.size(), b.shape.size());
    shape s = a.shape.size() == rank ? a.shape : b.shape;
    s[rank - 2] = a.shape[a.shape.size() - 2];
    s[rank - 1] = b.shape.back();
    dense c = zeros(s);
    const auto part = [](const dense& d, const shape& i, std::int64_t row, std::int64_t column) {
      shape at(i.end() - static_cast<std::ptrdiff_t>(d.shape.size()), i.end());
      for (std::size_t k = 0; k < at.size(); ++k) at[k] = d.shape[k] == 1 ? 0 : at[k];
      at[at.size() - 2] = row;
      at[at.size() - 1] = column;
      return d.at(at);
    };
    each_index(s, [&](const shape& i) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.shape.back(); ++k) {
        sum += double{part(a, i, i[rank - 2], k)} * part(b, i, k, i[rank - 1]);
      }
      c.at(i) = static_cast<float>(sum);
    });
    return c;
  }

  dense rows(const model::node& n) const {  // Softmax and LayerNormalization over the last axis
    dense y = in(n, 0);
    const auto width = static_cast<std::size_t>(y.shape.back());
    for (std::size_t r = 0; r < y.values.size(); r += width) {
      float* row = y.values.data() + r;
      if (n.op == "Softmax") {
        double sum = 0;
        for (std::size_t i = 0; i < width; ++i) sum += std::exp(row[i]);
        for (std::size_t i = 0; i < width; ++i) row[i] = static_cast<float>(std::exp(row[i]) / sum);
        continue;
      }
      double mean = 0, variance = 0;
      for (std::size_t i = 0; i < width; ++i) mean += row[i] / static_cast<double>(width);
      for (std::size_t i = 0; i < width; ++i) variance += std::pow(row[i] - mean, 2) / static_cast<double>(width);
      for (std::size_t i = 0; i < width; ++i) {
        row[i] =
            static_cast<float>((row[i] - mean) / std::sqrt(variance + 1e-5)) * in(n, 1).values[i] + in(n, 2).values[i];
      }
    }
    return y;
  }

  dense transpose(const model::node& n) const {
    const dense& x = in(n, 0);
    const shape order = attribute(n, "perm", shape{});
    shape s;
    for (const auto d : order) s.push_back(x.shape[static_cast<std::size_t>(d)]);
    dense y = zeros(s);
    each_index(s, [&](const shape& i) {
      shape at(i.size());
      for (std::size_t d = 0; d < i.size(); ++d) at[static_cast<std::size_t>(order[d])] = i[d];
      y.at(i) = x.at(at);
    });
    return y;
  }

  dense concat(const model::node& n) const {
    const auto axis = static_cast<std::size_t>(attribute<std::int64_t>(n, "axis", 0));
    shape s = in(n, 0).shape;
    for (std::size_t i = 1; i < n.inputs.size(); ++i) s[axis] += in(n, i).shape[axis];
    dense y = zeros(s);
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const dense& x = in(n, i);
      each_index(x.shape, [&](shape at) {
        const float v = x.at(at);
        at[axis] += begin;
        y.at(at) = v;
      });
      begin += x.shape[axis];
    }
    return y;
  }

  // Both ways; the scale is one number, or one for each index of the axis.
  dense quantized(const model::node& n) const {
    dense y = in(n, 0);
    const bool back = n.op == "DequantizeLinear";
    const auto axis = static_cast<std::size_t>(attribute<std::int64_t>(n, "axis", 1));
    const bool is_signed = m_.constants.at(n.inputs[2]).type == element::i8;
    each_index(y.shape, [&](const shape& i) {
      const std::size_t k = in(n, 1).values.size() == 1 ? 0 : static_cast<std::size_t>(i[axis]);
      const float scale = in(n, 1).values[k], zero = in(n, 2).values[k];
      const float v = y.at(i);
      const float low = is_signed ? -128.0f : 0.0f;
      y.at(i) = back ? (v - zero) * scale : std::clamp(std::nearbyint(v / scale) + zero, low, low + 255);
    });
    return y;
  }

  void compute(const model::node& n) {
    const std::string& op = n.op;
    dense y;
    if (op == "Conv") {
      y = convolution(n);
    } else if (op == "ConvTranspose") {
      y = transposed_convolution(n);
    } else if (op == "MaxPool" || op == "AveragePool" || op == "GlobalAveragePool") {
      y = pooling(n);
    } else if (op == "MatMul") {
      y = matmul(n);
    } else if (op == "Softmax" || op == "LayerNormalization") {
      y = rows(n);
    } else if (op == "Transpose") {
      y = transpose(n);
    } else if (op == "QuantizeLinear" || op == "DequantizeLinear") {
      y = quantized(n);
    } else if (op == "Pad") {
      const dense& x = in(n, 0);
      const std::vector<std::int64_t> pads = integers(n, 1);
      shape s = x.shape;
      for (std::size_t d = 0; d < s.size(); ++d) s[d] += pads[d] + pads[s.size() + d];
      y = zeros(s);
      for (float& v : y.values) v = n.inputs.size() > 2 ? in(n, 2).values[0] : 0;
      each_index(x.shape, [&](shape at) {
        const float v = x.at(at);
        for (std::size_t d = 0; d < at.size(); ++d) at[d] += pads[d];
        y.at(at) = v;
      });
    } else if (op == "Concat") {
      y = concat(n);
    } else if (op == "Reshape" || op == "Flatten") {
      y = in(n, 0);
      y.shape = op == "Flatten" ? shape{y.shape[0], count_of(y.shape) / y.shape[0]} : integers(n, 1);
    } else if (op == "Split") {
      const dense& x = in(n, 0);
      const auto axis = static_cast<std::size_t>(attribute<std::int64_t>(n, "axis", 0));
      for (std::size_t part = 0; part < n.outputs.size(); ++part) {
        dense p = zeros(x.shape);
        p.shape[axis] /= static_cast<std::int64_t>(n.outputs.size());
        p = zeros(p.shape);
        each_index(p.shape, [&](shape at) {
          const shape to = at;
          at[axis] += static_cast<std::int64_t>(part) * p.shape[axis];
          p.at(to) = x.at(at);
        });
        values_[n.outputs[part]] = p;
      }
      return;
    } else if (op == "BatchNormalization") {
      y = in(n, 0);
      each_index(y.shape, [&](const shape& i) {
        const auto c = static_cast<std::size_t>(i[1]);
        y.at(i) = (y.at(i) - in(n, 3).values[c]) / std::sqrt(in(n, 4).values[c] + 1e-5f) * in(n, 1).values[c] +
                  in(n, 2).values[c];
      });
    } else if (op == "Relu") {
      y = map(in(n, 0), [](float v) { return std::max(v, 0.0f); });
    } else if (op == "LeakyRelu") {
      const float slope = attribute(n, "alpha", 0.01f);
      y = map(in(n, 0), [slope](float v) { return v > 0 ? v : slope * v; });
    } else if (op == "Sigmoid") {
      y = map(in(n, 0), [](float v) { return 1 / (1 + std::exp(-v)); });
    } else if (op == "Gelu") {
      y = map(in(n, 0), [](float v) { return 0.5f * v * (1 + std::erf(v / std::sqrt(2.0f))); });
    } else if (op == "Clip") {
      const float low = attribute(n, "min", -1e30f), high = attribute(n, "max", 1e30f);
      y = map(in(n, 0), [=](float v) { return std::clamp(v, low, high); });
    } else if (op == "Add" || op == "Sub" || op == "Mul" || op == "Div" || op == "Max") {
      y = zip(in(n, 0), in(n, 1), [&](float a, float b) {
        return op == "Add" ? a + b : op == "Sub" ? a - b : op == "Mul" ? a * b : op == "Div" ? a / b : std::max(a, b);
      });
    } else {
      throw std::runtime_error("reference: no " + op);
    }
    values_[n.outputs[0]] = y;
  }

  const model::description& m_;
  std::map<std::string, dense> values_;
};

}  // namespace berth::test

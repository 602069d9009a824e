// Training steps, made by seeds: a forward pass, a loss, and the backward pass that a reverse-mode differentiation of
// it writes. Each backward node reads values of its forward node, which recomputation makes again.
//
//   chain        `depth` layers one behind the other
//   residual     stages of residual blocks, sides halved and channels doubled between them
//   transformer  blocks of attention (scores of tokens x tokens) and two-layer perceptrons
//   u_net        `depth` levels down and up, joined by long skips
//
// Weights and their gradients lie outside the arena (an output of no bytes says that a gradient is there). With
// `updates`, gradients lie in it until a node behind the whole backward pass adds each to its weights, as an optimizer
// does. Costs are multiply-adds; a backward layer costs two forward ones. Seed 0 is the regular net; others vary the
// widths.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "berth/graph/graph.hpp"
#include "irregular_nets.hpp"

namespace berth::training {

struct step {
  berth::graph graph;
  std::vector<double> cost;  // by node
  double forward = 0;        // of the forward pass
  bytes weights = 0;         // outside the arena
};

struct setting {
  std::int64_t batch = 1;
  bool updates = false;
};

// Records forward nodes and writes their backward ones.
class tape {
 public:
  explicit tape(const setting& s) : setting_{s} {}

  struct map {
    value_id value;
    std::int64_t side = 0, channels = 0;
    std::size_t at = 0;  // by value: its gradient
  };

  map input(std::int64_t side, std::int64_t channels) {
    return remember(made_.graph.input("x", type(side, channels)), side, channels, false);
  }
  // Weights: reads x again when it is differentiated, and its own result (the activation's).
  map layer(const std::string& name, const map& x, std::int64_t channels, std::int64_t side) {
    const double macs = work(side * side * channels * x.channels) * 9;
    const map y = add(name, {x}, side, channels, macs);
    const auto weights = static_cast<bytes>(9 * channels * x.channels);
    made_.weights += weights;
    records_.push_back({name, {x}, y, {x.value, y.value}, 2 * macs, true, weights});
    return y;
  }
  // A product of two values, as in attention: reads both again.
  map product(const std::string& name, const map& a, const map& b, std::int64_t side, std::int64_t channels) {
    const double macs = work(side * side * channels * a.channels);
    const map y = add(name, {a, b}, side, channels, macs);
    records_.push_back({name, {a, b}, y, {a.value, b.value}, 2 * macs, false});
    return y;
  }
  // Reads its result again: softmax.
  map pointwise(const std::string& name, const map& x) {
    const double macs = work(x.side * x.side * x.channels);
    const map y = add(name, {x}, x.side, x.channels, macs);
    records_.push_back({name, {x}, y, {y.value}, macs, false});
    return y;
  }
  // Reads nothing again: sums, joins (channels add up), changes of the side.
  map linear(const std::string& name, const std::vector<map>& in, std::int64_t side, std::int64_t channels) {
    const map y = add(name, in, side, channels, work(side * side * channels));
    records_.push_back({name, in, y, {}, made_.cost.back(), false});
    return y;
  }

  step finish(const map& last) {
    for (const double c : made_.cost) made_.forward += c;
    gradient_[last.at] = made_.graph.node("loss", {last.value}, type(last.side, last.channels), {.op = "Loss"});
    made_.cost.push_back(work(last.side * last.side * last.channels));
    for (std::size_t i = records_.size(); i-- > 0;) differentiate(records_[i]);
    for (const auto& [gradient, weights] : updates_) {
      made_.graph.output(made_.graph.node("update." + made_.graph[gradient].name, {gradient}, nothing()));
      made_.cost.push_back(static_cast<double>(weights));
    }
    return std::move(made_);
  }

 private:
  struct record {
    std::string name;
    std::vector<map> in;
    map out;
    std::vector<value_id> saved;
    double cost = 0;
    bool weights = false;
    bytes weight_bytes = 0;
  };

  static tensor_type nothing() { return {.shape = {0}, .type = element::u8}; }
  [[nodiscard]] tensor_type type(std::int64_t side, std::int64_t channels) const {
    return irregular::map_of(side, setting_.batch * channels);
  }
  [[nodiscard]] double work(std::int64_t of_one) const { return static_cast<double>(setting_.batch * of_one); }

  map remember(value_id v, std::int64_t side, std::int64_t channels, bool differentiated) {
    gradient_.emplace_back();
    wanted_.push_back(differentiated);
    return {v, side, channels, gradient_.size() - 1};
  }
  map add(const std::string& name, const std::vector<map>& in, std::int64_t side, std::int64_t channels, double cost) {
    std::vector<value_id> values;
    for (const map& m : in) values.push_back(m.value);
    made_.cost.push_back(cost);
    return remember(made_.graph.node(name, values, type(side, channels), {.op = "Layer"}), side, channels, true);
  }
  void differentiate(const record& r) {
    if (!gradient_[r.out.at]) return;
    std::vector<value_id> reads{*gradient_[r.out.at]};
    reads.insert(reads.end(), r.saved.begin(), r.saved.end());
    std::vector<tensor_type> types;
    if (r.weights) {
      types.push_back(setting_.updates
                          ? tensor_type{.shape = {static_cast<std::int64_t>(r.weight_bytes)}, .type = element::u8}
                          : nothing());
    }
    for (const map& m : r.in) {
      if (wanted_[m.at]) types.push_back(type(m.side, m.channels));
    }
    if (types.empty()) return;
    const std::vector<value_id> results = made_.graph.node_n("d." + r.name, reads, types, {.op = "Gradient"});
    made_.cost.push_back(r.cost);
    std::size_t next = 0;
    if (r.weights && setting_.updates) {
      updates_.emplace_back(results[next++], r.weight_bytes);
    } else if (r.weights) {
      made_.graph.output(results[next++]);
    }
    for (const map& m : r.in) {
      if (!wanted_[m.at]) continue;
      auto& sum = gradient_[m.at];
      const value_id own = results[next++];
      if (!sum) {
        sum = own;
        continue;
      }
      sum = made_.graph.node("sum." + r.name, {*sum, own}, type(m.side, m.channels), {.op = "Add", .in_place = {0, 1}});
      made_.cost.push_back(work(m.side * m.side * m.channels));
    }
  }

  setting setting_;
  step made_;
  std::vector<record> records_;
  std::vector<std::optional<value_id>> gradient_;
  std::vector<bool> wanted_;
  std::vector<std::pair<value_id, bytes>> updates_;
};

// Widths: one, or drawn.
class widths {
 public:
  explicit widths(std::uint32_t seed) : dice_{seed}, drawn_{seed != 0} {}
  std::int64_t operator()(std::int64_t regular) {
    return drawn_ ? regular / 2 + dice_.below(5) * regular / 4 : regular;
  }

 private:
  irregular::dice dice_;
  bool drawn_;
};

inline step chain(int depth, std::uint32_t seed, const setting& s = {}) {
  tape t{s};
  widths w{seed};
  auto x = t.input(32, 64);
  for (int i = 0; i < depth; ++i) x = t.layer("l" + std::to_string(i), x, w(64), 32);
  return t.finish(x);
}

inline step residual(int blocks, std::uint32_t seed, const setting& s = {}) {
  tape t{s};
  widths w{seed};
  std::int64_t side = 56, channels = 64;
  auto x = t.layer("stem", t.input(side, 16), channels, side);
  for (int i = 0; i < blocks; ++i) {
    const std::string at = "b" + std::to_string(i);
    if (i != 0 && i % 4 == 0 && side > 7) {
      side /= 2;
      channels *= 2;
      x = t.layer(at + ".down", x, channels, side);
    }
    const auto inner = t.layer(at + ".1", x, w(channels), side);
    x = t.linear(at + ".sum", {x, t.layer(at + ".2", inner, channels, side)}, side, channels);
  }
  return t.finish(x);
}

inline step transformer(int blocks, std::uint32_t seed, const setting& s = {}) {
  tape t{s};
  widths w{seed};
  const std::int64_t side = 16, channels = 256;  // 256 tokens
  auto x = t.layer("embed", t.input(side, 32), channels, side);
  for (int i = 0; i < blocks; ++i) {
    const std::string at = "b" + std::to_string(i);
    const auto q = t.layer(at + ".q", x, channels, side), k = t.layer(at + ".k", x, channels, side);
    const auto v = t.layer(at + ".v", x, channels, side);
    const auto scores = t.pointwise(at + ".softmax", t.product(at + ".qk", q, k, side, 4 * 256));  // of four heads
    const auto mixed = t.product(at + ".mix", scores, v, side, channels);
    x = t.linear(at + ".sum1", {x, t.layer(at + ".proj", mixed, channels, side)}, side, channels);
    const auto wide = t.layer(at + ".up", x, w(4 * channels), side);
    x = t.linear(at + ".sum2", {x, t.layer(at + ".down", wide, channels, side)}, side, channels);
  }
  return t.finish(x);
}

inline step u_net(int depth, std::uint32_t seed, const setting& s = {}) {
  tape t{s};
  widths w{seed};
  std::int64_t side = 64, channels = 16;
  auto x = t.input(side, 4);
  std::vector<tape::map> skips;
  for (int i = 0; i < depth; ++i) {
    const std::string at = "down" + std::to_string(i);
    x = t.layer(at + ".2", t.layer(at + ".1", x, w(channels), side), channels, side);
    skips.push_back(x);
    side /= 2;
    x = t.linear(at + ".pool", {x}, side, channels);
    channels *= 2;
  }
  x = t.layer("bottom", x, channels, side);
  for (int i = depth; i-- > 0;) {
    const std::string at = "up" + std::to_string(i);
    side *= 2;
    channels /= 2;
    const auto& skip = skips[static_cast<std::size_t>(i)];
    const auto larger = t.linear(at + ".up", {x}, side, x.channels);
    const auto joined = t.linear(at + ".join", {larger, skip}, side, larger.channels + skip.channels);
    x = t.layer(at + ".2", t.layer(at + ".1", joined, w(channels), side), channels, side);
  }
  return t.finish(x);
}

}  // namespace berth::training

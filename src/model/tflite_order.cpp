#include "model/tflite_order.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "model/tflite.hpp"

namespace berth::model {
namespace {

// BuiltinOperator of the schema: CALL, custom operators, IF, WHILE, CALL_ONCE, hash tables, variables, random numbers.
constexpr std::int32_t in_file_order[] = {31, 32, 118, 119, 129, 136, 137, 138, 139, 142, 143, 144, 146, 148, 149};

class graph_maker {
 public:
  explicit graph_maker(tflite_graph& g)
      : g_{g}, first_{g.subgraphs.front()}, value_of_(first_.tensors.size()), last_user_(first_.tensors.size()) {}

  shapes_graph make() {
    for (const std::int32_t t : g_.file.numbers(first_.at, tflite_field::subgraph::inputs)) {
      if (t >= 0 && is_new(at(t))) value_of_[at(t)] = out_.graph.input(g_.key_of(0, at(t)), type_of(at(t)));
    }
    for (std::size_t t = 0; t < first_.tensors.size(); ++t) {
      const tflite_tensor& it = first_.tensors[t];
      const bool shared = it.scratch && it.upper - it.lower > 1;
      if ((it.variable || shared) && is_new(t)) value_of_[t] = out_.graph.state(g_.key_of(0, t), type_of(t));
    }
    for (std::size_t op = 0; op < first_.operators.size(); ++op) add_operator(static_cast<std::uint32_t>(op));
    for (const std::int32_t t : g_.file.numbers(first_.at, tflite_field::subgraph::outputs)) {
      if (t >= 0 && value_of_[at(t)]) out_.graph.output(*value_of_[at(t)]);
    }
    for (const value& v : out_.graph.values()) out_.names.push_back(v.name);
    return std::move(out_);
  }

 private:
  static std::size_t at(std::int32_t t) { return static_cast<std::size_t>(t); }
  [[nodiscard]] bool is_new(std::size_t t) const { return !first_.tensors[t].constant && !value_of_[t]; }
  tensor_type type_of(std::size_t t) {
    const bytes size = g_.size_of(0, t, tflite_sizes::lite);
    if (size > static_cast<bytes>(INT64_MAX)) g_.file.fail(g_.called(0, t) + ": its size exceeds 63 bits");
    return {.shape = {static_cast<std::int64_t>(size)}, .type = element::u8};
  }

  void add_operator(std::uint32_t op) {
    const flatbuffer::place table = first_.operators[op];
    std::vector<value_id> reads;
    node_options options{.op = std::to_string(g_.code_of(table))};
    bool ordered = std::ranges::count(in_file_order, g_.code_of(table)) != 0;
    if (ordered) keep_order(last_ordered_, op);
    for (const std::int32_t t : g_.file.numbers(table, tflite_field::operation::inputs)) {
      if (t < 0) continue;
      const tflite_tensor& it = first_.tensors[at(t)];
      if (it.variable || it.scratch) keep_order(last_user_[at(t)], op);
      ordered |= it.variable;
      if (value_of_[at(t)]) {
        reads.push_back(*value_of_[at(t)]);
      } else if (it.scratch && !std::exchange(counted_[at(t)], true)) {
        const auto size = checked_align_up(static_cast<bytes>(type_of(at(t)).shape.front()), 16);
        const auto sum = size ? checked_add(options.workspace, *size) : std::nullopt;
        if (!sum) g_.file.fail(g_.called(0, at(t)) + ": the scratch exceeds 64 bits");
        options.workspace = *sum;
      }
    }
    std::vector<std::size_t> makes;
    for (const std::int32_t t : g_.file.numbers(table, tflite_field::operation::outputs)) {
      if (t < 0 || first_.tensors[at(t)].constant) continue;
      if (!is_new(at(t)) || std::exchange(counted_[at(t)], true)) {
        g_.file.fail(tflite_graph::operator_called(0, op) + " writes " + g_.called(0, at(t)) +
                     ", which is written before: no order is searched");
      }
      makes.push_back(at(t));
    }
    if (ordered) out_.once.push_back(op);
    std::vector<tensor_type> types;
    for (const std::size_t t : makes) types.push_back(type_of(t));
    const auto made = out_.graph.node_n(tflite_graph::operator_called(0, op), reads, types, options);
    for (std::size_t i = 0; i < makes.size(); ++i) value_of_[makes[i]] = made[i];
  }

  void keep_order(std::optional<std::uint32_t>& last, std::uint32_t op) {
    if (last && *last != op) out_.before.emplace_back(*last, op);
    last = op;
  }

  tflite_graph& g_;
  const tflite_subgraph& first_;
  shapes_graph out_;
  std::vector<std::optional<value_id>> value_of_;                         // by tensor
  std::vector<char> counted_ = std::vector<char>(first_.tensors.size());  // as scratch, or as a result
  std::vector<std::optional<std::uint32_t>> last_user_;                   // by variable and shared scratch
  std::optional<std::uint32_t> last_ordered_;
};

}  // namespace

bool is_tflite(std::string_view text) noexcept {
  return text.size() >= 8 && text.substr(4, 4) == "TFL3";
}

shapes_graph read_tflite_shapes(const std::string& path, std::string_view text,
                                const std::map<std::string, std::int64_t>& said) {
  tflite_graph g = read_tflite_graph(path, text, tflite_reads::first, said);
  shapes_graph made = graph_maker{g}.make();
  made.notes = g.notes();
  return made;
}

std::string tflite_in_order(const std::string& path, std::string_view text, std::span<const std::uint32_t> steps) {
  tflite_graph g = read_tflite_graph(path, text, tflite_reads::first);
  if (!g.offline_plan().empty()) {
    g.file.fail(std::string{offline_plan_name} + " is a plan for the file's order: no other order is written");
  }
  const tflite_subgraph& first = g.subgraphs.front();
  const std::size_t count = first.operators.size();
  if (steps.size() != count) g.file.fail("an operator runs twice: such an order cannot be written");
  const flatbuffer::place list = g.file.reference(first.at, tflite_field::subgraph::operators);
  std::string out{text};
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t place = list + 4 + 4 * i, target = first.operators[steps[i]];
    if (target <= place) g.file.fail("a list of operators behind them: another order cannot be written");
    for (unsigned k = 0; k < 4; ++k) out[place + k] = static_cast<char>((target - place) >> (8 * k) & 0xff);
  }
  return out;
}

}  // namespace berth::model

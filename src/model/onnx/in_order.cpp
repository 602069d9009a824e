// A file of ONNX with its nodes in another order: the bytes of its nodes change places, no other byte moves.

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <set>

#include "berth/core/contract.hpp"
#include "berth/model/input_error.hpp"
#include "berth/model/onnx.hpp"
#include "model/onnx/proto.hpp"

namespace berth::model {
namespace {

using std::string_view;

// A field of a message of protobuf: a tag, and what it is of.
struct field {
  std::uint64_t number = 0;
  string_view whole;
  string_view body;  // of one with a length: a message, among others
};

std::optional<std::uint64_t> varint(string_view& text) {
  std::uint64_t n = 0;
  for (unsigned shift = 0; shift < 64 && !text.empty(); shift += 7) {
    const auto b = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    n |= std::uint64_t{b & 127u} << shift;
    if (b < 128) return n;
  }
  return std::nullopt;
}

// The first field of `text`, which is cut off it; nothing where it is none (the parser has said so before).
std::optional<field> next_field(string_view& text) {
  const string_view from = text;
  const auto tag = varint(text);
  if (!tag) return std::nullopt;
  field f{*tag >> 3, {}, {}};
  std::uint64_t length = 0;
  switch (*tag & 7) {
    case 0:
      if (!varint(text)) return std::nullopt;
      break;
    case 1: length = 8; break;
    case 5: length = 4; break;
    case 2: {
      const auto said = varint(text);
      if (!said || *said > text.size()) return std::nullopt;
      length = *said;
      f.body = text.substr(0, static_cast<std::size_t>(length));
      break;
    }
    default: return std::nullopt;
  }
  if (length > text.size()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(length));
  f.whole = from.substr(0, from.size() - text.size());
  return f;
}

// The fields of a message with this number, which are messages themselves.
std::vector<field> fields_of(string_view text, int number) {
  std::vector<field> found;
  while (!text.empty()) {
    const auto f = next_field(text);
    if (!f) return {};
    if (f->number == static_cast<std::uint64_t>(number)) found.push_back(*f);
  }
  return found;
}

// All nodes of the file in an order that has `planned` in this one.
class merger {
 public:
  merger(const std::string& path, const onnx::GraphProto& g, const std::vector<std::uint32_t>& planned)
      : path_{path},
        g_{g},
        before_{makers_of(g)},
        after_(before_.size()),
        waits_(before_.size()),
        state_(before_.size()) {
    for (const std::uint32_t v : planned) state_[v] = planned_later;
    for (std::uint32_t v = 0; v < before_.size(); ++v) {
      waits_[v] = before_[v].size();
      for (const std::uint32_t p : before_[v]) after_[p].push_back(v);
      if (waits_[v] == 0 && state_[v] == free) ready_.push(v);
    }
  }

  std::vector<std::uint32_t> run(const std::vector<std::uint32_t>& planned) {
    for (const std::uint32_t v : planned) {
      place_ready_below(v);
      for (const std::uint32_t p : needed_by(v)) place(p);
      place(v);
    }
    place_ready_below(UINT32_MAX);
    return std::move(order_);
  }

 private:
  enum state : std::uint8_t { free, planned_later, placed };

  void place(std::uint32_t v) {
    state_[v] = placed;
    order_.push_back(v);
    for (const std::uint32_t u : after_[v]) {
      if (--waits_[u] == 0 && state_[u] == free) ready_.push(u);
    }
  }
  void place_ready_below(std::uint32_t v) {
    while (!ready_.empty() && ready_.top() < v) {
      const std::uint32_t at = ready_.top();
      ready_.pop();
      if (state_[at] == free) place(at);
    }
  }
  // By rising number, so that each comes behind what it needs.
  [[nodiscard]] std::set<std::uint32_t> needed_by(std::uint32_t v) const {
    std::set<std::uint32_t> all;
    std::vector<std::uint32_t> open{v};
    while (!open.empty()) {
      const std::uint32_t at = open.back();
      open.pop_back();
      for (const std::uint32_t p : before_[at]) {
        if (state_[p] == placed || !all.insert(p).second) continue;
        if (state_[p] == planned_later) fail(v, p);
        open.push_back(p);
      }
    }
    return all;
  }
  [[noreturn]] void fail(std::uint32_t v, std::uint32_t p) const {
    const auto name = [&](std::uint32_t n) {
      const auto& node = g_.node(static_cast<int>(n));
      return node.name().empty() && node.output_size() != 0 ? node.output(0) : node.name();
    };
    throw input_error(path_, one_line("node '" + name(v) + "' would run before '" + name(p) +
                                      "', which it needs by a value that takes no memory"));
  }

  const std::string& path_;
  const onnx::GraphProto& g_;
  std::vector<std::vector<std::uint32_t>> before_, after_;
  std::vector<std::size_t> waits_;
  std::vector<state> state_;
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready_;
  std::vector<std::uint32_t> order_;
};

}  // namespace

std::string onnx_in_order(const std::string& path, string_view file, const shapes_graph& read,
                          std::span<const std::uint32_t> steps, source_location where) {
  const onnx::ModelProto proto = parse_onnx(path, file);
  const auto graphs = fields_of(file, onnx::ModelProto::kGraphFieldNumber);
  const auto count = static_cast<std::size_t>(proto.graph().node_size());
  const string_view graph = graphs.size() == 1 ? graphs[0].body : string_view{};
  const std::vector<field> nodes = fields_of(graph, onnx::GraphProto::kNodeFieldNumber);
  if (nodes.size() != count) throw input_error(path, "its graph is written in pieces, which cannot be ordered anew");
  std::vector<std::uint32_t> planned;
  std::vector<bool> seen(read.node_of.size(), false);
  for (const std::uint32_t n : steps) {
    expects(n < seen.size() && !seen[n] && read.node_of[n] < count, "onnx_in_order: each node stands there once",
            where);
    seen[n] = true;
    planned.push_back(read.node_of[n]);
  }
  expects(planned.size() == seen.size(), "onnx_in_order: each node stands there once", where);
  const std::vector<std::uint32_t> order = merger{path, proto.graph(), planned}.run(planned);
  if (order.size() != count) throw input_error(path, "a node of its graph needs what a later one makes");

  std::string made;
  made.reserve(file.size());
  std::size_t next = 0;
  const char* done = file.data();
  for (const field& slot : nodes) {
    made.append(done, slot.whole.data());
    made.append(nodes[order[next++]].whole);
    done = slot.whole.data() + slot.whole.size();
  }
  made.append(done, file.data() + file.size());
  return made;
}

}  // namespace berth::model

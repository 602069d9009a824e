#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "berth/graph/graph_plan.hpp"

namespace berth {
namespace {

struct range {
  bytes begin = 0;
  bytes end = 0;
  [[nodiscard]] bool overlaps(const range& other) const noexcept { return begin < other.end && other.begin < end; }
};

std::string in_words(const range& r) {
  return "[" + std::to_string(r.begin) + ", " + std::to_string(r.end) + ")";
}

// The owner of each byte of the arena: the start of a run of bytes -> its owner, up to the next start.
class shadow_memory {
 public:
  using owner = std::int64_t;
  static constexpr owner nobody = -1;
  static constexpr owner workspace = -2;

  explicit shadow_memory(bytes size) : runs_{{0, nobody}, {size, nobody}} {}

  void write(const range& r, owner by) {
    if (r.begin == r.end) return;
    const auto last = cut(r.end);
    const auto first = cut(r.begin);
    first->second = by;
    runs_.erase(std::next(first), last);
  }
  // Returns the first byte of r whose owner `wrong` rejects, and the owner.
  template <class Wrong>
  [[nodiscard]] std::pair<bytes, owner> first(const range& r, Wrong wrong) const {
    auto run = std::prev(runs_.upper_bound(r.begin));
    for (bytes at = r.begin; at < r.end; at = run->first) {
      if (wrong(run->second)) return {at, run->second};
      ++run;
    }
    return {no_offset, nobody};
  }
  // Returns the first byte of r that `by` does not own, and its owner.
  [[nodiscard]] std::pair<bytes, owner> foreign(const range& r, owner by) const {
    return first(r, [by](owner o) { return o != by; });
  }

 private:
  std::map<bytes, owner>::iterator cut(bytes at) {
    auto run = std::prev(runs_.upper_bound(at));
    return run->first == at ? run : runs_.emplace_hint(std::next(run), at, run->second);
  }

  std::map<bytes, owner> runs_;
};

// The order of nodes under every schedule, as vector clocks.
class running_order {
 public:
  explicit running_order(const graph& g) : lane_(g.nodes().size()), position_(g.nodes().size()) {
    std::map<std::uint32_t, std::uint32_t> lane_of;
    for (std::uint32_t n = 0; n < g.nodes().size(); ++n) {
      lane_[n] = lane_of.try_emplace(g.nodes()[n].stream, static_cast<std::uint32_t>(lane_of.size())).first->second;
    }
    lanes_ = lane_of.size();
    clocks_.assign(g.nodes().size() * lanes_, 0);
    std::vector<std::uint32_t> written_before(g.nodes().size(), UINT32_MAX), last(lanes_, UINT32_MAX);
    for (const view_record& v : g.structure().views) {
      if (v.before != 0 && v.writer != 0) written_before[v.writer - 1] = v.before - 1;
    }
    for (std::uint32_t n = 0; n < g.nodes().size(); ++n) {
      const node& it = g.nodes()[n];
      behind(n, last[lane_[n]]);
      last[lane_[n]] = n;
      for (const value_id v : it.inputs) {
        behind(n, g[v].producer.index);
        behind(n, g[g[v].root].producer.index);
      }
      for (const value_id v : it.outputs) behind(n, g[g[v].root].producer.index);
      behind(n, written_before[n]);
      position_[n] = ++clocks_[n * lanes_ + lane_[n]];
    }
  }

  [[nodiscard]] std::uint32_t lane(std::uint32_t n) const { return lane_[n]; }
  // Returns true if node n runs before the other one, or is it.
  [[nodiscard]] bool no_later(std::uint32_t n, std::uint32_t other) const {
    return position_[n] <= clocks_[other * lanes_ + lane_[n]];
  }

 private:
  void behind(std::uint32_t n, std::uint32_t other) {
    if (other >= n) return;
    for (std::size_t l = 0; l < lanes_; ++l) {
      clocks_[n * lanes_ + l] = std::max(clocks_[n * lanes_ + l], clocks_[other * lanes_ + l]);
    }
  }

  std::size_t lanes_ = 0;
  std::vector<std::uint32_t> lane_, position_;  // a node is number `position` of its lane, from 1
  std::vector<std::uint32_t> clocks_;           // by node and lane: the lane's nodes that run before it or are it
};

class replay {
 public:
  replay(const graph& g, const graph_plan& p) : g_{g}, p_{p} {}

  graph_fault run() {
    if (graph_fault fault = places(); !fault.ok()) return fault;
    for (std::uint32_t n = 0; n < g_.nodes().size(); ++n) {
      if (graph_fault fault = apart(n); !fault.ok()) return fault;
    }
    if (graph_fault fault = separated(); !fault.ok()) return fault;
    const auto& nodes = g_.nodes();
    const bool one_lane =
        std::all_of(nodes.begin(), nodes.end(), [&](const node& n) { return n.stream == nodes.front().stream; });
    return one_lane ? in_order() : in_any_order();
  }

 private:
  [[nodiscard]] bool placed(value_id v) const { return p_.offset_of[v.index] != no_offset && g_[v].size != 0; }
  [[nodiscard]] bytes footprint(bytes size) const { return align_up(size, p_.granularity) + p_.tail_pad; }
  // Returns the range that the rules give a value: hardware may touch all of it.
  [[nodiscard]] range of(value_id v) const {
    const bytes at = p_.offset_of[v.index];
    return {at, at + (g_[v].kind == value_kind::view ? g_[v].size : footprint(g_[v].size))};
  }
  [[nodiscard]] range workspace(std::uint32_t n) const {
    return {p_.workspace_of[n], p_.workspace_of[n] + footprint(g_.nodes()[n].workspace)};
  }
  static graph_fault fault(value_id v, node_id n, bytes at, std::string text) {
    return {fault_kind::clobbered, v, n, at, std::move(text)};
  }
  [[nodiscard]] std::string describe(value_id v) const {
    return "value '" + g_[v].name + "' (" + std::to_string(g_[v].size) + " bytes) at " + in_words(of(v));
  }

  // Checks that every place is inside the arena and aligned, views lie in their roots, and values outside the arena
  // have no offset.
  graph_fault places() const {
    const auto fits = [&](bytes at, bytes size) { return at <= p_.arena_bytes && size <= p_.arena_bytes - at; };
    for (std::uint32_t i = 0; i < g_.values().size(); ++i) {
      const value& v = g_.values()[i];
      const bool inside = graph_structure::in_arena(g_[v.root].kind);
      const bytes at = p_.offset_of[i];
      if (inside != (at != no_offset)) {
        return fault({i}, v.producer, at, "value '" + v.name + "' has a place where it should have none, or none");
      }
      if (!inside) continue;
      if (v.kind != value_kind::view && v.size != 0 ? !fits(at, footprint(v.size)) : !fits(at, v.size)) {
        return fault({i}, v.producer, at,
                     "value '" + v.name + "' (" + std::to_string(v.size) + " bytes) at " + std::to_string(at) +
                         " is outside the arena of " + std::to_string(p_.arena_bytes));
      }
      if (v.kind == value_kind::view ? at != p_.offset_of[v.root.index] + v.root_offset
                                     : !is_aligned(at, p_.alignment)) {
        return fault({i}, v.producer, at,
                     "value '" + v.name + "' at " + std::to_string(at) +
                         (v.kind == value_kind::view ? " is not in its root" : " is not aligned"));
      }
    }
    for (std::uint32_t n = 0; n < g_.nodes().size(); ++n) {
      const bytes size = g_.nodes()[n].workspace;
      const bytes at = p_.workspace_of[n];
      if ((size != 0) != (at != no_offset) ||
          (size != 0 && (!fits(at, footprint(size)) || !is_aligned(at, p_.alignment)))) {
        return fault({}, {n}, at,
                     "the workspace of node '" + g_.nodes()[n].name + "' (" + std::to_string(size) +
                         " bytes) has no place in the arena");
      }
    }
    return {};
  }

  // Returns true if result v of a node may lie on operand i. It must be declared so, have the same layout, and both
  // must be exactly the same bytes.
  [[nodiscard]] bool in_place(std::uint32_t index, value_id v, std::uint32_t i) const {
    const node& n = g_.nodes()[index];
    const graph_structure& s = g_.structure();
    const auto allowed = s.in_place(s.nodes[index]);
    if (n.outputs[0] != v || std::find(allowed.begin(), allowed.end(), i) == allowed.end()) return false;
    const value& operand = g_[n.inputs[i]];
    return of(v).begin == of(operand.root).begin && g_[v].size == g_[operand.root].size && g_[v].size == operand.size &&
           operand.root_offset == 0;
  }

  // Checks that the outputs of node n are clear of its inputs, and of each other.
  graph_fault apart(std::uint32_t index) const {
    const node& n = g_.nodes()[index];
    const bool works = n.workspace != 0;
    for (std::size_t o = 0; o < n.outputs.size(); ++o) {
      const value_id v = n.outputs[o];
      if (!placed(v)) continue;
      if (works && of(v).overlaps(workspace(index))) {
        return fault(v, {index}, of(v).begin, describe(v) + " overlaps the workspace of node '" + n.name + "'");
      }
      if (g_[v].kind == value_kind::view) continue;  // written through on purpose
      for (std::size_t other = 0; other < o; ++other) {
        if (placed(n.outputs[other]) && of(v).overlaps(of(n.outputs[other]))) {
          return fault(v, {index}, of(v).begin,
                       describe(v) + " overlaps another result, " + describe(n.outputs[other]));
        }
      }
      for (std::uint32_t i = 0; i < n.inputs.size(); ++i) {
        if (placed(n.inputs[i]) && of(v).overlaps(of(n.inputs[i])) && !in_place(index, v, i)) {
          return fault(v, {index}, of(v).begin, describe(v) + " overlaps its operand, " + describe(n.inputs[i]));
        }
      }
    }
    for (const value_id v : n.inputs) {
      if (works && placed(v) && of(v).overlaps(workspace(index))) {
        return fault(v, {index}, of(v).begin, describe(v) + " overlaps the workspace of its reader '" + n.name + "'");
      }
    }
    return {};
  }

  graph_fault separated() const {
    const auto& pairs = g_.structure().separations;
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const value_id a{pairs[i]};
      const value_id b{pairs[i + 1]};
      if (a != b && placed(a) && placed(b) && of(a).overlaps(of(b))) {
        return fault(b, {}, of(b).begin, describe(b) + " is to be kept apart from " + describe(a));
      }
    }
    return {};
  }

  graph_fault owned(const shadow_memory& memory, value_id v, node_id reader) const {
    if (!placed(v)) return {};
    const auto [at, owner] = memory.foreign(of(v), g_[v].root.index);
    if (at == no_offset) return {};
    std::string by = "nobody";
    if (owner == shadow_memory::workspace) by = "a workspace";
    if (owner >= 0) by = "value '" + g_.values()[static_cast<std::size_t>(owner)].name + "'";
    return fault(v, reader, at,
                 (reader == node_id{} ? "at the end " : "node '" + g_[reader].name + "' reads ") + describe(v) +
                     (reader == node_id{} ? " is lost" : "") + ": byte " + std::to_string(at) + " belongs to " + by);
  }

  graph_fault in_order() const {
    shadow_memory memory{std::max<bytes>(p_.arena_bytes, 1)};
    for (std::uint32_t i = 0; i < g_.values().size(); ++i) {
      const value_kind kind = g_.values()[i].kind;
      if ((kind != value_kind::input && kind != value_kind::state) || !placed({i})) continue;
      if (memory.foreign(of({i}), shadow_memory::nobody).first != no_offset) {
        return fault({i}, {}, of({i}).begin, describe({i}) + " overlaps another value that is there from the start");
      }
      memory.write(of({i}), i);
    }
    for (std::uint32_t index = 0; index < g_.nodes().size(); ++index) {
      const node& n = g_.nodes()[index];
      for (const value_id v : n.inputs) {
        if (graph_fault f = owned(memory, v, {index}); !f.ok()) return f;
      }
      if (n.workspace != 0) memory.write(workspace(index), shadow_memory::workspace);
      for (const value_id v : n.outputs) {
        if (!placed(v)) continue;
        if (g_[v].kind == value_kind::view) {  // the bytes must still be the root's before they are its again
          if (graph_fault f = owned(memory, v, {index}); !f.ok()) return f;
        }
        memory.write(of(v), g_[v].root.index);
      }
    }
    for (std::uint32_t i = 0; i < g_.values().size(); ++i) {
      const value& v = g_.values()[i];
      if (v.kind == value_kind::view || (!v.output && v.kind != value_kind::state)) continue;
      if (graph_fault f = owned(memory, {i}, {}); !f.ok()) return f;
    }
    return {};
  }

  // All values and workspaces in memory, with the nodes that touch them.
  struct tenant {
    value_id value;
    range place;
    std::uint32_t first = 0;               // the node that creates it, or touches it first
    std::vector<std::uint32_t> last_ones;  // by lane: the last node that touches it
    bool from_the_start = false;
    bool to_the_end = false;

    [[nodiscard]] auto in_time() const {
      const std::uint32_t last = last_ones.empty() ? 0 : *std::max_element(last_ones.begin(), last_ones.end());
      return std::tuple{!from_the_start, first, last, to_the_end};
    }
  };

  [[nodiscard]] std::vector<tenant> tenants(const running_order& order) const {
    std::vector<tenant> all(g_.values().size());
    for (std::uint32_t n = 0; n < g_.nodes().size(); ++n) {
      const auto touch = [&](value_id v) {
        tenant& t = all[g_[v].root.index];
        if (t.last_ones.empty()) t.first = n;
        const auto same_lane = [&](std::uint32_t other) { return order.lane(other) == order.lane(n); };
        const auto known = std::find_if(t.last_ones.begin(), t.last_ones.end(), same_lane);
        if (known == t.last_ones.end()) {
          t.last_ones.push_back(n);
        } else {
          *known = n;
        }
      };
      for (const value_id v : g_.nodes()[n].outputs) touch(v);
      for (const value_id v : g_.nodes()[n].inputs) touch(v);
    }
    for (std::uint32_t i = 0; i < g_.values().size(); ++i) {
      const value& v = g_.values()[i];
      const bool state = v.kind == value_kind::state;
      all[i].value = {i};
      all[i].from_the_start = state || v.kind == value_kind::input;
      all[i].to_the_end = state || v.output;
      if (placed({i})) all[i].place = of({i});
    }
    std::erase_if(all, [&](const tenant& t) { return g_[t.value].kind == value_kind::view || !placed(t.value); });
    for (std::uint32_t n = 0; n < g_.nodes().size(); ++n) {
      if (g_.nodes()[n].workspace != 0) all.push_back({{}, workspace(n), n, {n}});
    }
    return all;
  }

  // The relation "gone before" is transitive. So on every byte only neighbours in the order must be compared.
  graph_fault in_any_order() const {
    const running_order order{g_};
    std::vector<tenant> all = tenants(order);
    std::stable_sort(all.begin(), all.end(),
                     [](const tenant& a, const tenant& b) { return a.in_time() < b.in_time(); });
    // Returns true if a is gone before b begins. Every node that touches a runs before b's first, or passes a's memory
    // to b in place (checked by apart()).
    const auto gone = [&](const tenant& a, const tenant& b) {
      if (a.to_the_end || b.from_the_start) return false;
      return std::all_of(a.last_ones.begin(), a.last_ones.end(),
                         [&](std::uint32_t n) { return order.no_later(n, b.first); });
    };
    shadow_memory memory{std::max<bytes>(p_.arena_bytes, 1)};
    for (std::size_t j = 0; j < all.size(); ++j) {
      const tenant& next = all[j];
      const auto [at, owner] = memory.first(next.place, [&](shadow_memory::owner i) {
        return i != shadow_memory::nobody && !gone(all[static_cast<std::size_t>(i)], next);
      });
      if (at != no_offset) return no_order(all[static_cast<std::size_t>(owner)], next);
      memory.write(next.place, static_cast<shadow_memory::owner>(j));
    }
    return {};
  }

  graph_fault no_order(const tenant& a, const tenant& b) const {
    const bool named = b.value != value_id{};
    const value_id v = named ? b.value : a.value;
    const value_id other = named ? a.value : b.value;
    return fault(v, {}, b.place.begin,
                 (v == value_id{} ? "a workspace" : describe(v)) + " shares bytes with " +
                     (other == value_id{} ? "a workspace" : describe(other)) + ", and no order keeps them apart");
  }

  const graph& g_;
  const graph_plan& p_;
};

}  // namespace

graph_fault verify_bytes(const graph& g, const graph_plan& p) {
  return replay{g, p}.run();
}

}  // namespace berth

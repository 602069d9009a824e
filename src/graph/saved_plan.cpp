#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "berth/graph/fingerprint.hpp"
#include "berth/graph/graph_plan.hpp"
#include "graph/fail.hpp"

namespace berth {
namespace {

constexpr std::string_view magic = "berthgp\n";
constexpr std::uint64_t format_version = 1;
constexpr std::size_t checked_from = 20;  // behind magic, version and checksum

// FNV-1a. Every step is a bijection of the state, so one changed byte always shows.
std::uint64_t checksum(std::span<const std::byte> all) noexcept {
  std::uint64_t h = 0xCBF29CE484222325u;
  for (const std::byte b : all) h = (h ^ std::to_integer<std::uint64_t>(b)) * 0x100000001B3u;
  return h;
}

class writer {
 public:
  void fixed(std::uint64_t n, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) out_.push_back(static_cast<std::byte>(n >> 8 * i));
  }
  void number(std::uint64_t n) {
    for (; n >= 128; n >>= 7) out_.push_back(static_cast<std::byte>(n | 128));
    out_.push_back(static_cast<std::byte>(n));
  }
  void text(std::string_view t) {
    number(t.size());
    for (const char c : t) out_.push_back(static_cast<std::byte>(c));
  }
  // Stores the checksum and returns the bytes.
  [[nodiscard]] std::vector<std::byte> take() {
    const std::uint64_t sum = checksum(std::span{out_}.subspan(checked_from));
    for (std::size_t i = 0; i < 8; ++i) out_[checked_from - 8 + i] = static_cast<std::byte>(sum >> 8 * i);
    return std::move(out_);
  }

 private:
  std::vector<std::byte> out_;
};

// Reads past the end or of invalid data return 0 and are remembered: the first of them is bad_at().
class reader {
 public:
  explicit reader(std::span<const std::byte> in) : in_{in} {}

  std::uint64_t fixed(std::size_t width) noexcept {
    if (in_.size() - at_ < width) return fail();
    std::uint64_t n = 0;
    for (std::size_t i = 0; i < width; ++i) n |= std::to_integer<std::uint64_t>(in_[at_ + i]) << 8 * i;
    at_ += width;
    return n;
  }
  std::uint64_t number(std::uint64_t most = max_bytes) noexcept {
    std::uint64_t n = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == in_.size()) return fail();
      const auto b = std::to_integer<std::uint64_t>(in_[at_++]);
      const std::uint64_t bits = b & 127;
      if (shift == 63 && bits > 1) return fail();
      n |= bits << shift;
      if (b < 128) return n <= most ? n : fail();
    }
    return fail();
  }
  std::uint32_t number32() noexcept { return static_cast<std::uint32_t>(number(UINT32_MAX)); }
  // Reads a count of records of `least` bytes each: at most as many as the rest can hold.
  std::uint32_t count(std::size_t least) noexcept {
    return static_cast<std::uint32_t>(number(std::min<std::size_t>((in_.size() - at_) / least, UINT32_MAX)));
  }
  // Reads a name, which messages show: one short line.
  std::string text() {
    constexpr std::size_t longest = 256;
    const std::size_t length = count(1);
    if (length > longest || length > in_.size() - at_) return fail(), std::string{};
    const auto* first = reinterpret_cast<const char*>(in_.data() + at_);
    const bool plain = std::none_of(first, first + length, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (!plain) return fail(), std::string{};
    at_ += length;
    return {first, first + length};
  }
  [[nodiscard]] bool good() const noexcept { return !bad_at_; }
  [[nodiscard]] bool at_end() const noexcept { return at_ == in_.size(); }
  [[nodiscard]] std::size_t bad_at() const noexcept { return bad_at_.value_or(at_); }

 private:
  std::uint64_t fail() noexcept {
    if (!bad_at_) bad_at_ = at_;
    at_ = in_.size();
    return 0;
  }
  std::span<const std::byte> in_;
  std::size_t at_ = 0;
  std::optional<std::size_t> bad_at_;
};

void write(writer& out, const graph_plan& p) {
  const graph_structure& s = p.structure;
  out.text(p.provenance.made_by);
  out.text(p.provenance.rules);
  out.text(p.provenance.solver);
  for (const bytes n : {p.alignment, p.granularity, p.tail_pad, p.lower_bound_bytes}) out.number(n);
  out.number(s.values.size());
  for (std::uint32_t v = 0; v < s.values.size(); ++v) {
    const value_record& value = s.values[v];
    out.fixed(static_cast<std::uint64_t>(value.kind) * 2 + value.output, 1);
    out.number(value.size);
    if (value.kind == value_kind::view) out.number(value.root);
    if (graph_structure::in_arena(value.kind)) out.number(p.offset_of[v]);
  }
  out.number(s.nodes.size());
  for (std::uint32_t n = 0; n < s.nodes.size(); ++n) {
    const node_record& node = s.nodes[n];
    out.fixed(node.op, 4);
    out.number(node.stream);
    out.number(node.workspace);
    if (node.workspace != 0) out.number(p.workspace_of[n]);
    for (const auto edges : {s.inputs(node), s.outputs(node), s.in_place(node)}) {
      out.number(edges.size());
      for (const auto e : edges) out.number(e);
    }
  }
  out.number(s.views.size());
  for (const view_record& view : s.views) {
    for (const std::uint64_t n : {view.offset, bytes{view.value}, bytes{view.writer}, bytes{view.before}}) {
      out.number(n);
    }
  }
  out.number(s.separations.size());
  for (const auto v : s.separations) out.number(v);
}

// Reads the stored fields. They are not trusted yet, except that the edges of a node are within bounds.
void read(reader& in, graph_plan& p) {
  graph_structure& s = p.structure;
  p.provenance.made_by = in.text();
  p.provenance.rules = in.text();
  p.provenance.solver = in.text();
  for (bytes* n : {&p.alignment, &p.granularity, &p.tail_pad, &p.lower_bound_bytes}) *n = in.number();
  const std::uint32_t values = in.count(2);
  s.values.reserve(values);
  p.offset_of.assign(values, no_offset);
  for (std::uint32_t v = 0; v < values && in.good(); ++v) {
    const auto flags = in.fixed(1);
    value_record& value = s.values.emplace_back();
    value.kind = static_cast<value_kind>(flags / 2);
    value.output = flags % 2;
    value.size = in.number();
    value.root = value.kind == value_kind::view ? in.number32() : v;
    if (graph_structure::in_arena(value.kind)) p.offset_of[v] = in.number();
  }
  const std::uint32_t nodes = in.count(9);
  s.nodes.reserve(nodes);
  p.workspace_of.assign(nodes, no_offset);
  for (std::uint32_t n = 0; n < nodes && in.good(); ++n) {
    node_record& node = s.nodes.emplace_back();
    node.op = static_cast<std::uint32_t>(in.fixed(4));
    node.stream = in.number32();
    node.workspace = in.number();
    if (node.workspace != 0) p.workspace_of[n] = in.number();
    node.first_edge = static_cast<std::uint32_t>(s.edges.size());
    for (std::uint32_t* edges : {&node.inputs, &node.outputs, &node.in_place}) {
      *edges = in.count(1);
      for (std::uint32_t e = 0; e < *edges && in.good(); ++e) s.edges.push_back(in.number32());
    }
  }
  const std::uint32_t views = in.count(4);
  s.views.reserve(views);
  for (std::uint32_t i = 0; i < views && in.good(); ++i) {
    view_record& view = s.views.emplace_back();
    view.offset = in.number();
    view.value = in.number32();
    view.writer = in.number32();
    view.before = in.number32();
  }
  const std::uint32_t separations = in.count(1);
  s.separations.reserve(separations);
  for (std::uint32_t i = 0; i < separations && in.good(); ++i) s.separations.push_back(in.number32());
}

graph_fault bad(bytes at, std::string text) {
  return {fault_kind::bad_plan, {}, {}, at, "the saved plan " + std::move(text)};
}

// Returns the end of a place; nothing beyond 64 bits.
std::optional<bytes> end_of(const graph_plan& p, bytes at, bytes size) noexcept {
  const auto rounded = checked_align_up(size, p.granularity);
  const auto taken = rounded ? checked_add(*rounded, p.tail_pad) : std::nullopt;
  return size == 0 ? at : taken ? checked_add(at, *taken) : std::nullopt;
}

// Computes the derived fields from the structure, which is g's by now, and from the places. Fault: an impossible place.
graph_fault complete(graph_plan& p, const graph& g) {
  const graph_structure& s = p.structure;
  std::optional<bytes> side_by_side = 0;
  const auto count = [&](bytes at, bytes size) {
    const auto end = end_of(p, at, size);
    const auto taken = end_of(p, 0, size);
    if (!end || !taken) return false;
    p.arena_bytes = std::max(p.arena_bytes, *end);
    side_by_side = side_by_side ? checked_add(*side_by_side, *taken) : side_by_side;
    return true;
  };
  const auto beyond = [](const char* what, const std::string& name, bytes at, bytes size) {
    return std::string{what} + " '" + name + "' (" + std::to_string(size) + " bytes) at " + std::to_string(at) +
           ", beyond 2^64 bytes";
  };
  for (std::uint32_t v = 0; v < s.values.size(); ++v) {
    const value_record& value = s.values[v];
    if (!graph_structure::in_arena(value.kind)) continue;
    if (!count(p.offset_of[v], value.size)) {
      graph_fault fault = bad(p.offset_of[v], beyond("places value", g[value_id{v}].name, p.offset_of[v], value.size));
      fault.value = {v};
      return fault;
    }
    if (value.kind == value_kind::state) {
      p.state_bytes = std::max(p.state_bytes, align_up(*end_of(p, p.offset_of[v], value.size), p.alignment));
    }
  }
  for (std::uint32_t n = 0; n < s.nodes.size(); ++n) {
    if (s.nodes[n].workspace == 0 || count(p.workspace_of[n], s.nodes[n].workspace)) continue;
    graph_fault fault = bad(p.workspace_of[n], beyond("places the workspace of node", g[node_id{n}].name,
                                                      p.workspace_of[n], s.nodes[n].workspace));
    fault.node = {n};
    return fault;
  }
  for (const view_record& view : s.views) {
    const bytes root = p.offset_of[s.values[view.value].root];
    if (root != no_offset) p.offset_of[view.value] = root + view.offset;  // ends where the root ends, or before
  }
  p.arena_bytes = std::max(p.arena_bytes, p.state_bytes);
  p.no_reuse_bytes = side_by_side.value_or(max_bytes);
  for (std::uint32_t n = 0; n < s.nodes.size(); ++n) {
    const node_record& node = s.nodes[n];
    for (const auto k : s.in_place(node)) {
      const std::uint32_t taken = s.inputs(node)[k];
      const std::uint32_t made = s.outputs(node)[0];
      if (p.offset_of[made] == no_offset || p.offset_of[made] != p.offset_of[taken] || s.values[made].size == 0)
        continue;
      p.in_place.push_back({n, k});
      break;
    }
  }
  return {};
}

}  // namespace

std::vector<std::byte> save_plan(const graph_plan& p) {
  writer out;
  for (const char c : magic) out.fixed(static_cast<unsigned char>(c), 1);
  out.fixed(format_version, 4);
  out.fixed(0, 8);
  out.fixed(digest(p.structure), 8);
  write(out, p);
  return out.take();
}

result<graph_plan> load_plan(std::span<const std::byte> saved, const graph& g, const rules::placement& rules,
                             graph_fault* why) {
  const auto refuse = [why](graph_fault fault) { return fail(std::move(fault), why); };
  if (!g.fault().ok()) return refuse(g.fault());
  if (saved.size() < magic.size() || std::memcmp(saved.data(), magic.data(), magic.size()) != 0) {
    return refuse(bad(0, "is none: it does not begin as one"));
  }
  reader in{saved};
  (void)in.fixed(magic.size());
  if (const auto version = in.fixed(4); !in.good() || version != format_version) {
    return refuse(bad(magic.size(), "is of version " + std::to_string(version) + "; version 1 is known"));
  }
  const auto sum = in.fixed(8);
  if (!in.good() || sum != checksum(saved.subspan(checked_from))) {
    return refuse(bad(saved.size(), "of " + std::to_string(saved.size()) + " bytes is cut off or damaged"));
  }
  graph_plan p;
  const auto fingerprint = in.fixed(8);
  read(in, p);
  if (!in.good() || !in.at_end()) {
    return refuse(bad(in.bad_at(), "cannot be read from byte " + std::to_string(in.bad_at()) + " on"));
  }
  // Compared as a whole, so that the code below works on the graph's own structure.
  if (const difference d = first_difference(p.structure, g.structure()); d.what != change::none) {
    return refuse({fault_kind::changed, d.value, d.node, 0, describe(d, p.structure, g)});
  }
  if (fingerprint != digest(p.structure)) return refuse(bad(checked_from, "has another fingerprint than its graph"));
  if (p.alignment != rules.start_alignment || p.granularity != rules.size_granularity || p.tail_pad != rules.tail_pad) {
    return refuse(bad(p.alignment, "was made under other placement rules ('" + p.provenance.rules + "')"));
  }
  if (graph_fault fault = complete(p, g); !fault.ok()) return refuse(std::move(fault));
  if (graph_fault fault = verify_plan(g, p, rules); !fault.ok()) return refuse(std::move(fault));
  return p;
}

}  // namespace berth

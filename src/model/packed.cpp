#include "model/packed.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <type_traits>

#include "berth/plan/evaluate.hpp"
#include "core/json.hpp"

namespace berth::model {

namespace {

constexpr char problem_mark = 'P', plan_mark = 'A';
constexpr std::uint64_t plain = 0, with_more = 2;  // what follows the fields of a plain problem; 1 was another layout

// The bytes of a plain problem are those of version 1, so that stored plans keep their keys.
constexpr std::uint64_t version_of(char mark) {
  return mark == problem_mark ? 1 : 2;
}

// The writer and the reader take the same calls: fields() below says which fields a type has, for both directions.
class packed_writer {
 public:
  template <class T>
  using field = const T&;

  explicit packed_writer(char mark, bool names = true) : names_{names} {
    out += mark;
    one(version_of(mark));
  }
  template <class... Fields>
  void operator()(const Fields&... all) {
    (one(all), ...);
  }
  void path(const std::string& s) { one(s); }
  template <class Kind>
  void kind(const Kind& k, Kind, const char*) {
    one(static_cast<std::uint64_t>(k));
  }

  void require(bool, const char*) {}

  std::string out;

 private:
  void one(std::uint64_t n) {
    for (; n >= 0x80; n >>= 7) out += static_cast<char>(n | 0x80);
    out += static_cast<char>(n);
  }
  void one(index n) { one(std::uint64_t{n}); }
  void one(bool f) { one(std::uint64_t{f}); }
  void one(plan::tick t) { one((static_cast<std::uint64_t>(t) << 1) ^ static_cast<std::uint64_t>(t >> 63)); }
  void one(double d) { one(std::bit_cast<std::uint64_t>(d)); }
  void one(const std::string& s) {
    const std::string_view text = names_ ? std::string_view{s} : std::string_view{};
    one(std::uint64_t{text.size()});
    out += text;
  }
  template <class T>
  void one(const std::optional<T>& o) {
    one(o.has_value());
    if (o) one(*o);
  }
  template <class T>
  void one(const std::vector<T>& all) {
    one(std::uint64_t{all.size()});
    for (const T& each : all) one(each);
  }
  template <class T>
  requires std::is_class_v<T>
  void one(const T& all) { fields(*this, all); }

  bool names_;
};

class packed_reader {
 public:
  template <class T>
  using field = T&;

  packed_reader(std::string_view from, char mark, const char* what) : left_{from}, what_{what} {
    if (left_.empty() || left_.front() != mark) fail("not one");
    left_.remove_prefix(1);
    if (number() != version_of(mark)) fail("of another version of berth");
  }
  template <class... Fields>
  void operator()(Fields&... all) {
    (one(all), ...);
  }
  void path(std::string& s) {
    s = left_.substr(0, count(s));
    left_.remove_prefix(s.size());
  }
  template <class Kind>
  void kind(Kind& k, Kind last, const char* none) {
    const std::uint64_t n = number();
    if (n > static_cast<std::uint64_t>(last)) fail(none);
    k = static_cast<Kind>(n);
  }
  void require(bool right, const char* why) {
    if (!right) fail(why);
  }
  void end() {
    if (!left_.empty()) fail("longer than it says");
  }
  [[noreturn]] void fail(const char* why) const { throw packed_error{std::string{"packed "} + what_ + ": " + why}; }

 private:
  [[nodiscard]] std::uint64_t number() {
    std::uint64_t n = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (left_.empty()) fail("cut off");
      const auto byte = static_cast<unsigned char>(left_.front());
      left_.remove_prefix(1);
      if (shift == 63 && byte > 1) fail("a number above 64 bits");
      n |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return n;
    }
    fail("a number above 64 bits");
  }
  // Items are a byte long at least, so a length cannot claim more items than bytes are left.
  template <class List>
  [[nodiscard]] std::size_t count(const List&) {
    const std::uint64_t n = number();
    if (n > left_.size()) fail("cut off");
    return static_cast<std::size_t>(n);
  }
  void one(std::uint64_t& n) { n = number(); }
  void one(index& i) {
    const std::uint64_t n = number();
    if (n > ~index{0}) fail("an index above 32 bits");
    i = static_cast<index>(n);
  }
  void one(bool& f) {
    const std::uint64_t n = number();
    if (n > 1) fail("neither yes nor no");
    f = n == 1;
  }
  void one(plan::tick& t) {
    const std::uint64_t n = number();
    t = static_cast<plan::tick>((n >> 1) ^ (~(n & 1) + 1));
  }
  void one(double& d) { d = std::bit_cast<double>(number()); }
  // A text that Python has as a str.
  void one(std::string& s) {
    path(s);
    if (as_utf8(s) != s) fail("a text that is not UTF-8");
  }
  template <class T>
  void one(std::optional<T>& o) {
    bool there = false;
    one(there);
    if (there) one(o.emplace());
  }
  template <class T>
  void one(std::vector<T>& all) {
    const std::size_t n = count(all);
    all.reserve(n);
    for (std::size_t i = 0; i < n; ++i) one(all.emplace_back());
  }
  template <class T>
  requires std::is_class_v<T>
  void one(T& all) { fields(*this, all); }

  std::string_view left_;
  const char* what_;
};

template <class A>
void fields(A& a, typename A::template field<plan::interval> i) {
  a(i.lower, i.upper);
}
template <class A>
void fields(A& a, typename A::template field<std::pair<bytes, bytes>> range) {
  a(range.first, range.second);
}
template <class A>
void fields(A& a, typename A::template field<plan::pair> p) {
  a(p.a, p.b);
}
template <class A>
void fields(A& a, typename A::template field<plan::reuse_penalty> p) {
  a(p.a, p.b, p.weight);
}
template <class A>
void fields(A& a, typename A::template field<plan::memory> m) {
  a(m.name, m.capacity, m.alignment, m.reserved, m.cost);
}
template <class A>
void fields(A& a, typename A::template field<plan::size_term> t) {
  a(t.factor, t.dimensions);
}
template <class A>
void fields(A& a, typename A::template field<plan::dimension> d) {
  a(d.name, d.least, d.most);
}
template <class A>
void fields(A& a, typename A::template field<plan::use> u) {
  a(u.at, u.touched, u.write, u.memory);
}
template <class A>
void fields(A& a, typename A::template field<plan::step> s) {
  a(s.at, s.duration);
}
template <class A>
void fields(A& a, typename A::template field<plan::link> l) {
  a(l.from, l.to, l.bandwidth, l.latency);
}
template <class A>
void fields(A& a, typename A::template field<plan::stay> s) {
  a(s.buffer, s.memory, s.live, s.ready);
}
template <class A>
void fields(A& a, typename A::template field<plan::move> m) {
  a(m.buffer, m.from, m.to, m.during, m.begin, m.done);
}

// Flags of the rarer fields of a buffer that follow.
constexpr std::uint64_t has_lifetimes = 1, has_alignment = 2, has_granularity = 4, has_tail_pad = 8, has_offset = 16,
                        has_hint = 32, has_group = 64, has_memories = 128, has_terms = 256, has_uses = 512;

// Takes the value of a field whose flag says that it is there.
template <class A, class Optional>
void flagged(A& a, Optional& field) {
  if constexpr (std::is_const_v<Optional>)
    a(*field);
  else
    a(field.emplace());
}
template <class A>
void fields(A& a, typename A::template field<plan::buffer> b) {
  std::uint64_t has = (b.lifetimes.empty() ? 0 : has_lifetimes) | (b.alignment != 0 ? has_alignment : 0) |
                      (b.granularity != 0 ? has_granularity : 0) | (b.tail_pad ? has_tail_pad : 0) |
                      (b.offset ? has_offset : 0) | (b.hint ? has_hint : 0) | (b.alias_group ? has_group : 0) |
                      (b.memories.empty() ? 0 : has_memories) | (b.terms.empty() ? 0 : has_terms) |
                      (b.uses.empty() ? 0 : has_uses);
  a(b.name, b.size, has, b.live);
  if (has & has_lifetimes) a(b.lifetimes);
  if (has & has_alignment) a(b.alignment);
  if (has & has_granularity) a(b.granularity);
  if (has & has_tail_pad) flagged(a, b.tail_pad);
  if (has & has_offset) flagged(a, b.offset);
  if (has & has_hint) flagged(a, b.hint);
  if (has & has_group) flagged(a, b.alias_group);
  if (has & has_memories) a(b.memories);
  if (has & has_terms) a(b.terms);
  if (has & has_uses) a(b.uses);
}

template <class A>
void fields(A& a, typename A::template field<problem_file> file) {
  auto& p = file.problem;
  a.path(file.path);
  a(file.rules, file.numeric_ids, p.alignment, p.granularity, p.tail_pad, p.capacity, p.max_slab);
  a(p.buffers, p.memories, p.conflicts, p.separations, p.reuse_penalties);
  std::uint64_t more = p.dimensions.empty() && !p.has_traffic() ? plain : with_more;
  a(more);
  a.require(more == plain || more == with_more, "of another version of berth");
  if (more == with_more) a(p.dimensions, p.steps, p.links);
  a(file.lines, file.taken_over);
}

template <class A>
void fields(A& a, typename A::template field<plan::argument> g) {
  a.kind(g.kind, plan::argument::kind::search, "there is no such argument");
  a(g.bound, g.memory, g.at, g.buffers, g.step);
}
template <class A>
void plan_fields(A& a, typename A::template field<plan::plan> p, typename A::template field<plan_texts> texts) {
  a.kind(p.status, plan::status::unknown, "there is no such status");
  a(p.arena_bytes, p.lower_bound_bytes, p.work, p.deadline_hit, p.reuse_penalty, p.cost, p.cost_bound, texts.solver,
    texts.reason);
  a(p.culprit, p.number, p.offsets, p.memory_of, p.slab_of, p.proof);
  bool more = !p.order.empty() || !p.stays.empty();
  a(more);
  if (more) {
    a(p.order, p.first_support, p.supports, p.stays, p.moves, p.access, p.stall, p.copied, p.unmoved);
  }
}

// Checks what readers of files ensure: names stand behind every index, also in errors of an invalid problem.
void require_indices(const packed_reader& r, const problem_file& file) {
  const plan::problem& p = file.problem;
  const auto there = [&r](index i, std::size_t count) {
    if (i >= count) r.fail("an index of nothing");
  };
  const auto pair = [&](const auto& each) {
    there(each.a, p.buffers.size());
    there(each.b, p.buffers.size());
  };
  for (const plan::pair& each : p.conflicts.value_or(std::vector<plan::pair>{})) pair(each);
  for (const plan::pair& each : p.separations) pair(each);
  for (const plan::reuse_penalty& each : p.reuse_penalties) pair(each);
  for (const plan::link& l : p.links) {
    there(l.from, p.memories.size());
    there(l.to, p.memories.size());
  }
  for (const plan::buffer& b : p.buffers) {
    for (const index m : b.memories) there(m, p.memories.size());
    for (const plan::use& u : b.uses) there(u.memory.value_or(0), p.memories.size());
  }
  if (!file.lines.empty() && file.lines.size() != p.buffers.size()) r.fail("not a line for each buffer");
}

// The sizes in the buffers are those at the largest values.
void require_sizes(const packed_reader& r, const problem_file& file) {
  if (file.problem.dimensions.empty()) return;
  const auto most = plan::at_most(file.problem);
  if (!most) r.fail(most.error().what);
  if (!std::ranges::equal(most->buffers, file.problem.buffers, {}, &plan::buffer::size, &plan::buffer::size)) {
    r.fail("a size that its dimensions do not give");
  }
}

}  // namespace

namespace {

// Requires one place in the order for each buffer, and supports for each place.
void require_order(const packed_reader& r, const plan::plan& a, std::size_t buffers) {
  std::vector<bool> seen(buffers, false);
  const bool fits = a.order.size() == buffers && a.first_support.size() == buffers + 1 &&
                    std::ranges::is_sorted(a.first_support) && a.first_support.front() == 0 &&
                    a.first_support.back() == a.supports.size();
  if (!fits) r.fail("an order of other buffers");
  for (const index b : a.order) {
    if (b >= buffers || seen[b]) r.fail("an order of other buffers");
    seen[b] = true;
  }
}

}  // namespace

std::string pack(const problem_file& file, bool names) {
  packed_writer w{problem_mark, names};
  if (names) {
    w(file);
  } else {
    problem_file bare = file;
    bare.numeric_ids = false;
    bare.lines.clear();
    bare.taken_over.clear();
    w(bare);
  }
  return std::move(w.out);
}

std::vector<index> inverse(const std::vector<index>& order) {
  std::vector<index> of(order.size());
  for (index i = 0; i < order.size(); ++i) of[order[i]] = i;
  return of;
}

ordered in_its_own_order(const problem_file& file) {
  const plan::problem& from = file.problem;
  std::vector<std::string> what;
  what.reserve(from.buffers.size());
  for (index b = 0; b < from.buffers.size(); ++b) {
    packed_writer w{problem_mark, false};
    w(from.buffers[b]);
    what.push_back(std::move(w.out));
  }
  std::vector<index> order(from.buffers.size());
  std::iota(order.begin(), order.end(), index{0});
  std::stable_sort(order.begin(), order.end(), [&what](index a, index b) { return what[a] < what[b]; });
  const std::vector<index> to = inverse(order);

  problem_file sorted = file;
  plan::problem& p = sorted.problem;
  for (index i = 0; i < order.size(); ++i) {
    p.buffers[i] = from.buffers[order[i]];
  }
  const auto renumber = [&to](auto& pairs) {
    for (auto& each : pairs) {
      each.a = to[each.a];
      each.b = to[each.b];
      if (each.b < each.a) std::swap(each.a, each.b);
    }
    std::ranges::stable_sort(pairs, [](const auto& x, const auto& y) {
      return std::pair{x.a, x.b} < std::pair{y.a, y.b};
    });
  };
  if (p.conflicts) renumber(*p.conflicts);
  renumber(p.separations);
  renumber(p.reuse_penalties);
  return {pack(sorted, false), std::move(order)};
}

namespace {

// Sorts the stays by their buffers' new numbers, and what goes with them.
void renumber_stays(const plan::plan& from, const std::vector<index>& to, plan::plan& into) {
  const auto number_of = [&](index stay) { return to[from.stays[stay].buffer]; };
  std::vector<index> order(from.stays.size());
  std::iota(order.begin(), order.end(), index{0});
  std::ranges::stable_sort(order, {}, number_of);
  const std::vector<index> place = inverse(order);
  for (index k = 0; k < order.size(); ++k) {
    into.stays[k] = from.stays[order[k]];
    into.stays[k].buffer = number_of(order[k]);
    into.offsets[k] = from.offsets[order[k]];
    into.memory_of[k] = from.memory_of[order[k]];
    if (!from.slab_of.empty()) into.slab_of[k] = from.slab_of[order[k]];
  }
  for (plan::move& m : into.moves) {
    m.buffer = to[m.buffer];
    m.from = place[m.from];
    m.to = place[m.to];
  }
}

}  // namespace

plan::plan renumbered(const plan::plan& answer, const std::vector<index>& to) {
  plan::plan a = answer;
  const auto moved = [&to](const auto& from, auto& into) {
    for (index b = 0; b < from.size() && b < to.size(); ++b) into[to[b]] = from[b];
  };
  if (answer.stays.empty()) {
    moved(answer.offsets, a.offsets);
    moved(answer.memory_of, a.memory_of);
    moved(answer.slab_of, a.slab_of);
  } else {
    renumber_stays(answer, to, a);
  }
  const auto rename = [&to](index& b) {
    if (b < to.size()) b = to[b];
  };
  std::ranges::for_each(a.order, rename);
  std::ranges::for_each(a.supports, rename);
  if (!a.has_offsets()) rename(a.culprit);
  if (!a.stays.empty()) a.proof.clear();  // its buffers are stays
  for (plan::argument& g : a.proof) {
    std::ranges::for_each(g.buffers, rename);
    std::ranges::sort(g.buffers);
  }
  return a;
}

problem_file unpack_problem(std::string_view packed) {
  packed_reader r{packed, problem_mark, "problem"};
  problem_file file;
  r(file);
  r.end();
  require_indices(r, file);
  require_sizes(r, file);
  return file;
}

std::string pack(const plan::plan& a) {
  packed_writer w{plan_mark};
  plan_fields(w, a, {std::string{a.solver}, std::string{a.reason}});
  return std::move(w.out);
}

plan::plan unpack_plan(const problem_file& file, std::string_view packed, plan_texts& texts) {
  packed_reader r{packed, plan_mark, "plan"};
  plan::plan a;
  plan_fields(r, a, texts);
  a.solver = texts.solver;
  a.reason = texts.reason;
  r.end();
  const std::size_t buffers = file.problem.buffers.size();
  const std::size_t places = a.stays.empty() ? buffers : a.stays.size();
  const auto fits = [places](const auto& list) { return list.empty() || list.size() == places; };
  if (!fits(a.offsets) || !fits(a.memory_of) || !fits(a.slab_of) || (a.has_offsets() && a.offsets.size() != places) ||
      (!a.stays.empty() && (a.offsets.empty() || a.memory_of.empty()))) {
    r.fail("of another problem");
  }
  const auto is_none = [buffers](index b) { return b >= buffers; };
  if (!a.order.empty() || !a.first_support.empty() || !a.supports.empty()) require_order(r, a, buffers);
  if (std::ranges::any_of(a.order, is_none) || std::ranges::any_of(a.supports, is_none) ||
      std::ranges::any_of(a.stays, is_none, &plan::stay::buffer) ||
      std::ranges::any_of(a.moves, is_none, &plan::move::buffer)) {
    r.fail("about a buffer that is not there");
  }
  if (std::ranges::any_of(a.moves,
                          [&a](const plan::move& m) { return m.from >= a.stays.size() || m.to >= a.stays.size(); })) {
    r.fail("a move between stays that are not there");
  }
  for (const bytes at : a.offsets) {
    if (at > plan::max_address) r.fail("an offset above 2^62");
  }
  const auto is_no_pool = [&file](index m) { return m >= file.problem.memories.size(); };
  if (std::ranges::any_of(a.memory_of, is_no_pool) || std::ranges::any_of(a.stays, is_no_pool, &plan::stay::memory)) {
    r.fail("in a pool that is not there");
  }
  for (const plan::argument& g : a.proof) {
    if (g.memory && *g.memory >= std::max<std::size_t>(1, file.problem.memories.size())) {
      r.fail("an argument about a pool that is not there");
    }
    if (std::ranges::any_of(g.buffers, [places](index b) { return b >= places; })) {
      r.fail("an argument about a buffer that is not there");
    }
  }
  return a;
}

}  // namespace berth::model

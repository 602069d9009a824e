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
constexpr std::uint64_t packed_version = 2;  // of plans; problems without dimensions and moves are those of version 1
constexpr std::uint64_t plain = 0, with_more = 2;  // what follows the fields of a plain problem; 1 was another layout

constexpr std::uint64_t version_of(char mark) {
  return mark == problem_mark ? 1 : packed_version;
}

class packed_writer {
 public:
  explicit packed_writer(char mark, bool names = true) : names_{names} {
    out += mark;
    number(version_of(mark));
  }
  void number(std::uint64_t n) {
    for (; n >= 0x80; n >>= 7) out += static_cast<char>(n | 0x80);
    out += static_cast<char>(n);
  }
  void time(plan::tick t) { number((static_cast<std::uint64_t>(t) << 1) ^ static_cast<std::uint64_t>(t >> 63)); }
  void real(double d) { number(std::bit_cast<std::uint64_t>(d)); }
  void text(std::string_view s) {
    number(s.size());
    out += s;
  }
  void name(std::string_view s) { text(names_ ? s : std::string_view{}); }
  void flag(bool f) { number(f ? 1 : 0); }
  template <class T>
  void maybe(const std::optional<T>& n) {
    flag(n.has_value());
    if (n) number(*n);
  }
  template <class List, class Each>
  void list(const List& items, Each each) {
    number(items.size());
    for (const auto& item : items) each(item);
  }
  void pairs(const std::vector<plan::pair>& all) {
    list(all, [this](const plan::pair& p) { number(p.a), number(p.b); });
  }

  std::string out;

 private:
  bool names_;
};

class packed_reader {
 public:
  packed_reader(std::string_view from, char mark, const char* what) : left_{from}, what_{what} {
    if (left_.empty() || left_.front() != mark) fail("not one");
    left_.remove_prefix(1);
    if (number() != version_of(mark)) fail("of another version of berth");
  }
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
  [[nodiscard]] index place() {
    const std::uint64_t n = number();
    if (n > ~index{0}) fail("an index above 32 bits");
    return static_cast<index>(n);
  }
  [[nodiscard]] plan::tick time() {
    const std::uint64_t n = number();
    return static_cast<plan::tick>((n >> 1) ^ (~(n & 1) + 1));
  }
  [[nodiscard]] double real() { return std::bit_cast<double>(number()); }
  [[nodiscard]] std::string text() {
    const std::size_t length = count();
    std::string s{left_.substr(0, length)};
    left_.remove_prefix(length);
    return s;
  }
  // Reads a text that Python has as a str.
  [[nodiscard]] std::string name() {
    std::string s = text();
    if (as_utf8(s) != s) fail("a text that is not UTF-8");
    return s;
  }
  [[nodiscard]] bool flag() {
    const std::uint64_t n = number();
    if (n > 1) fail("neither yes nor no");
    return n == 1;
  }
  [[nodiscard]] std::optional<bytes> maybe() { return flag() ? std::optional{number()} : std::nullopt; }
  // Items are a byte long at least, so a length cannot claim more items than bytes are left.
  [[nodiscard]] std::size_t count() {
    const std::uint64_t n = number();
    if (n > left_.size()) fail("cut off");
    return static_cast<std::size_t>(n);
  }
  template <class Each>
  [[nodiscard]] auto list(Each each) {
    std::vector<std::invoke_result_t<Each>> items;
    const std::size_t n = count();
    items.reserve(n);
    for (std::size_t i = 0; i < n; ++i) items.push_back(each());
    return items;
  }
  [[nodiscard]] std::vector<plan::pair> pairs() {
    return list([this] {
      const index a = place();
      return plan::pair{a, place()};
    });
  }
  [[nodiscard]] std::vector<index> places() {
    return list([this] { return place(); });
  }
  void end() {
    if (!left_.empty()) fail("longer than it says");
  }
  [[noreturn]] void fail(const char* why) const { throw packed_error{std::string{"packed "} + what_ + ": " + why}; }

 private:
  std::string_view left_;
  const char* what_;
};

// Flags of the rarer fields of a buffer that follow.
constexpr std::uint64_t has_lifetimes = 1, has_alignment = 2, has_granularity = 4, has_tail_pad = 8, has_offset = 16,
                        has_hint = 32, has_group = 64, has_memories = 128, has_terms = 256, has_uses = 512;

void put(packed_writer& w, const std::vector<plan::size_term>& sum) {
  w.list(sum, [&w](const plan::size_term& t) {
    w.number(t.factor);
    w.list(t.dimensions, [&w](index d) { w.number(d); });
  });
}

void put(packed_writer& w, const plan::buffer& b) {
  w.name(b.name);
  w.number(b.size);
  w.number((b.lifetimes.empty() ? 0 : has_lifetimes) | (b.alignment != 0 ? has_alignment : 0) |
           (b.granularity != 0 ? has_granularity : 0) | (b.tail_pad ? has_tail_pad : 0) | (b.offset ? has_offset : 0) |
           (b.hint ? has_hint : 0) | (b.alias_group ? has_group : 0) | (b.memories.empty() ? 0 : has_memories) |
           (b.terms.empty() ? 0 : has_terms) | (b.uses.empty() ? 0 : has_uses));
  w.time(b.live.lower);
  w.time(b.live.upper);
  if (!b.lifetimes.empty()) {
    w.list(b.lifetimes, [&w](const plan::interval& i) { w.time(i.lower), w.time(i.upper); });
  }
  if (b.alignment != 0) w.number(b.alignment);
  if (b.granularity != 0) w.number(b.granularity);
  if (b.tail_pad) w.number(*b.tail_pad);
  if (b.offset) w.number(*b.offset);
  if (b.hint) w.number(*b.hint);
  if (b.alias_group) w.number(*b.alias_group);
  if (!b.memories.empty()) w.list(b.memories, [&w](index m) { w.number(m); });
  if (!b.terms.empty()) put(w, b.terms);
  if (!b.uses.empty()) {
    w.list(b.uses, [&w](const plan::use& u) {
      w.time(u.at);
      w.real(u.touched);
      w.flag(u.write);
      w.maybe(u.memory);
    });
  }
}

plan::interval read_interval(packed_reader& r) {
  const plan::tick lower = r.time();
  return {lower, r.time()};
}

plan::size_term read_term(packed_reader& r) {
  plan::size_term t;
  t.factor = r.number();
  t.dimensions = r.places();
  return t;
}

plan::use read_use(packed_reader& r) {
  plan::use u;
  u.at = r.time();
  u.touched = r.real();
  u.write = r.flag();
  if (r.flag()) u.memory = r.place();
  return u;
}

plan::buffer read_buffer(packed_reader& r) {
  plan::buffer b;
  b.name = r.name();
  b.size = r.number();
  const std::uint64_t has = r.number();
  b.live = read_interval(r);
  if (has & has_lifetimes) b.lifetimes = r.list([&r] { return read_interval(r); });
  if (has & has_alignment) b.alignment = r.number();
  if (has & has_granularity) b.granularity = r.number();
  if (has & has_tail_pad) b.tail_pad = r.number();
  if (has & has_offset) b.offset = r.number();
  if (has & has_hint) b.hint = r.number();
  if (has & has_group) b.alias_group = r.place();
  if (has & has_memories) b.memories = r.places();
  if (has & has_terms) b.terms = r.list([&r] { return read_term(r); });
  if (has & has_uses) b.uses = r.list([&r] { return read_use(r); });
  return b;
}

void put(packed_writer& w, const plan::memory& m) {
  w.name(m.name);
  w.maybe(m.capacity);
  w.number(m.alignment);
  w.list(m.reserved, [&w](const auto& range) { w.number(range.first), w.number(range.second); });
  w.real(m.cost);
}

plan::memory read_memory(packed_reader& r) {
  plan::memory m;
  m.name = r.name();
  m.capacity = r.maybe();
  m.alignment = r.number();
  m.reserved = r.list([&r] {
    const bytes low = r.number();
    return std::pair{low, r.number()};
  });
  m.cost = r.real();
  return m;
}

// Reads what a plain problem does not have.
void read_more(packed_reader& r, plan::problem& p) {
  p.dimensions = r.list([&r] {
    plan::dimension d;
    d.name = r.name();
    d.least = r.number();
    d.most = r.number();
    return d;
  });
  p.steps = r.list([&r] {
    const plan::tick at = r.time();
    return plan::step{at, r.real()};
  });
  p.links = r.list([&r] {
    plan::link l;
    l.from = r.place();
    l.to = r.place();
    l.bandwidth = r.real();
    l.latency = r.real();
    return l;
  });
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

std::string pack(const problem_file& file, bool names) {
  const plan::problem& p = file.problem;
  packed_writer w{problem_mark, names};
  w.name(file.path);
  w.name(file.rules);
  w.flag(names && file.numeric_ids);
  w.number(p.alignment);
  w.number(p.granularity);
  w.number(p.tail_pad);
  w.maybe(p.capacity);
  w.maybe(p.max_slab);
  w.list(p.buffers, [&w](const plan::buffer& b) { put(w, b); });
  w.list(p.memories, [&w](const plan::memory& m) { put(w, m); });
  w.flag(p.conflicts.has_value());
  if (p.conflicts) w.pairs(*p.conflicts);
  w.pairs(p.separations);
  w.list(p.reuse_penalties, [&w](const plan::reuse_penalty& e) { w.number(e.a), w.number(e.b), w.real(e.weight); });
  const bool more = !p.dimensions.empty() || p.has_traffic();
  w.number(more ? with_more : plain);
  if (more) {
    w.list(p.dimensions, [&w](const plan::dimension& d) { w.name(d.name), w.number(d.least), w.number(d.most); });
    w.list(p.steps, [&w](const plan::step& s) { w.time(s.at), w.real(s.duration); });
    w.list(p.links, [&w](const plan::link& l) {
      w.number(l.from);
      w.number(l.to);
      w.real(l.bandwidth);
      w.real(l.latency);
    });
  }
  w.list(names ? file.lines : std::vector<std::uint32_t>{}, [&w](std::uint32_t line) { w.number(line); });
  w.list(names ? file.taken_over : std::vector<bytes>{}, [&w](bytes size) { w.number(size); });
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
    put(w, from.buffers[b]);
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
  plan::problem& p = file.problem;
  file.path = r.text();
  file.rules = r.name();
  file.numeric_ids = r.flag();
  p.alignment = r.number();
  p.granularity = r.number();
  p.tail_pad = r.number();
  p.capacity = r.maybe();
  p.max_slab = r.maybe();
  p.buffers = r.list([&r] { return read_buffer(r); });
  p.memories = r.list([&r] { return read_memory(r); });
  if (r.flag()) p.conflicts = r.pairs();
  p.separations = r.pairs();
  p.reuse_penalties = r.list([&r] {
    plan::reuse_penalty e;
    e.a = r.place();
    e.b = r.place();
    e.weight = r.real();
    return e;
  });
  const std::uint64_t kind = r.number();
  if (kind != plain && kind != with_more) r.fail("of another version of berth");
  if (kind == with_more) read_more(r, p);
  file.lines = r.places();
  file.taken_over = r.list([&r] { return r.number(); });
  r.end();
  require_indices(r, file);
  require_sizes(r, file);
  return file;
}

namespace {

void put_more(packed_writer& w, const plan::plan& a) {
  const auto number = [&w](std::uint32_t n) { w.number(n); };
  w.list(a.order, number);
  w.list(a.first_support, number);
  w.list(a.supports, number);
  w.list(a.stays, [&w](const plan::stay& s) {
    w.number(s.buffer);
    w.number(s.memory);
    w.time(s.live.lower);
    w.time(s.live.upper);
    w.time(s.ready);
  });
  w.list(a.moves, [&w](const plan::move& m) {
    w.number(m.buffer);
    w.number(m.from);
    w.number(m.to);
    w.time(m.during.lower);
    w.time(m.during.upper);
    w.real(m.begin);
    w.real(m.done);
  });
  w.real(a.access);
  w.real(a.stall);
  w.number(a.copied);
  w.flag(a.unmoved.has_value());
  if (a.unmoved) w.real(*a.unmoved);
}

void read_more(packed_reader& r, plan::plan& a) {
  a.order = r.places();
  a.first_support = r.places();
  a.supports = r.places();
  a.stays = r.list([&r] {
    plan::stay s;
    s.buffer = r.place();
    s.memory = r.place();
    s.live = read_interval(r);
    s.ready = r.time();
    return s;
  });
  a.moves = r.list([&r] {
    plan::move m;
    m.buffer = r.place();
    m.from = r.place();
    m.to = r.place();
    m.during = read_interval(r);
    m.begin = r.real();
    m.done = r.real();
    return m;
  });
  a.access = r.real();
  a.stall = r.real();
  a.copied = r.number();
  if (r.flag()) a.unmoved = r.real();
}

}  // namespace

std::string pack(const plan::plan& a) {
  packed_writer w{plan_mark};
  w.number(static_cast<std::uint64_t>(a.status));
  w.number(a.arena_bytes);
  w.number(a.lower_bound_bytes);
  w.number(a.work);
  w.flag(a.deadline_hit);
  w.real(a.reuse_penalty);
  w.real(a.cost);
  w.real(a.cost_bound);
  w.text(a.solver);
  w.text(a.reason);
  w.number(a.culprit);
  w.number(a.number);
  w.list(a.offsets, [&w](bytes o) { w.number(o); });
  w.list(a.memory_of, [&w](index m) { w.number(m); });
  w.list(a.slab_of, [&w](index s) { w.number(s); });
  w.list(a.proof, [&w](const plan::argument& g) {
    w.number(static_cast<std::uint64_t>(g.kind));
    w.number(g.bound);
    w.maybe(g.memory);
    w.flag(g.at.has_value());
    if (g.at) w.time(*g.at);
    w.list(g.buffers, [&w](index b) { w.number(b); });
    w.number(g.step);
  });
  const bool more = !a.order.empty() || !a.stays.empty();
  w.flag(more);
  if (more) put_more(w, a);
  return std::move(w.out);
}

plan::plan unpack_plan(const problem_file& file, std::string_view packed, plan_texts& texts) {
  packed_reader r{packed, plan_mark, "plan"};
  plan::plan a;
  const std::uint64_t status = r.number();
  if (status > static_cast<std::uint64_t>(plan::status::unknown)) r.fail("there is no such status");
  a.status = static_cast<enum plan::status>(status);
  a.arena_bytes = r.number();
  a.lower_bound_bytes = r.number();
  a.work = r.number();
  a.deadline_hit = r.flag();
  a.reuse_penalty = r.real();
  a.cost = r.real();
  a.cost_bound = r.real();
  a.solver = texts.solver = r.name();
  a.reason = texts.reason = r.name();
  a.culprit = r.place();
  a.number = r.number();
  a.offsets = r.list([&r] { return r.number(); });
  a.memory_of = r.places();
  a.slab_of = r.places();
  a.proof = r.list([&r] {
    plan::argument g;
    const std::uint64_t kind = r.number();
    if (kind > static_cast<std::uint64_t>(plan::argument::kind::search)) r.fail("there is no such argument");
    g.kind = static_cast<enum plan::argument::kind>(kind);
    g.bound = r.number();
    if (r.flag()) g.memory = r.place();
    if (r.flag()) g.at = r.time();
    g.buffers = r.places();
    g.step = r.number();
    return g;
  });
  if (r.flag()) read_more(r, a);
  r.end();
  const std::size_t buffers = file.problem.buffers.size();
  const std::size_t places = a.stays.empty() ? buffers : a.stays.size();
  const auto fits = [places](const auto& list) { return list.empty() || list.size() == places; };
  if (!fits(a.offsets) || !fits(a.memory_of) || !fits(a.slab_of) || (a.has_offsets() && a.offsets.size() != places) ||
      (!a.stays.empty() && (a.offsets.empty() || a.memory_of.empty()))) {
    r.fail("of another problem");
  }
  const auto is_none = [buffers](index b) { return b >= buffers; };
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

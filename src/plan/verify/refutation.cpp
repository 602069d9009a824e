// Kept apart from every solver, as certificate.cpp.
#include "berth/plan/refutation.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <span>

#include "plan/verify/bodies.hpp"

namespace berth::plan {
namespace {

constexpr bytes no_hole = ~bytes{0};
constexpr std::size_t most_cells = std::size_t{1} << 25;      // of lemmas, and of cliques: half a gigabyte
constexpr std::uint64_t most_pairs = std::uint64_t{1} << 30;  // of members of cliques: some seconds

// The state of one block: the open bodies, and the facts known of them.
class block_state {
 public:
  block_state(const bodies& of, bytes bound) : of_{of}, capacity_{(bound - 1) / of.unit * of.unit} {
    const std::size_t n = of.all.size();
    least_.resize(n);
    open_.resize(n);
    hole_.assign(n, no_hole);
    for (std::uint32_t i = 0; i < n; ++i) {
      open_[i] = of.all[i].pin ? fixed : open;
      least_[i] = of.all[i].pin ? *of.all[i].pin : capped(of.clear(i, 0));
    }
    support_ = least_;
  }

  [[nodiscard]] std::size_t mark() const { return undo_.size(); }
  [[nodiscard]] bool is_open(std::uint32_t i) const { return open_[i] == open; }
  [[nodiscard]] bytes support(std::uint32_t i) const { return support_[i]; }
  [[nodiscard]] bool ends_above(std::uint32_t i) const {
    return open_[i] != placed && least_[i] + of_.all[i].size > capacity_;
  }

  void restore(std::size_t mark) {
    for (; undo_.size() > mark; undo_.pop_back()) {
      const saved& s = undo_.back();
      least_[s.body] = s.least;
      support_[s.body] = s.support;
      hole_[s.body] = s.hole;
      open_[s.body] = s.open;
    }
  }

  // Places body i at its least offset. Returns why it cannot lie there, or null.
  const char* place(std::uint32_t i) {
    const bytes at = least_[i];
    if (ends_above(i)) return "a buffer is placed where it ends above the bound";
    for (const neighbour& n : of_.neighbours[i]) {
      if (is_open(n.other) && least_[n.other] + n.theirs <= at) return "an open buffer may lie below what is placed";
    }
    save(i);
    open_[i] = placed;
    raised_.assign(1, i);
    for (const neighbour& n : of_.neighbours[i]) {
      const std::uint32_t j = n.other;
      if (!is_open(j)) continue;
      const bytes above = capped(of_.clear(j, std::max(support_[j], at + n.mine)));
      const bool entered = hole_[j] != no_hole && at < hole_[j] + n.theirs;
      if (!entered && above == support_[j]) continue;
      save(j);
      if (entered) hole_[j] = no_hole;
      support_[j] = above;
      raise(j, above);
    }
    settle();
    return nullptr;
  }

  // Notes that body i lies above its least offset.
  void postpone(std::uint32_t i) {
    raised_.clear();
    save(i);
    hole_[i] = least_[i];
    block(i);
    settle();
  }

  // Returns whether an open neighbour may enter the hole of body i, which has one.
  [[nodiscard]] bool can_be_entered(std::uint32_t i) const {
    return std::any_of(of_.neighbours[i].begin(), of_.neighbours[i].end(),
                       [&](const neighbour& n) { return is_open(n.other) && least_[n.other] < hole_[i] + n.mine; });
  }
  [[nodiscard]] bool has_hole(std::uint32_t i) const { return is_open(i) && hole_[i] != no_hole; }

  struct member {
    std::uint32_t body;
    bytes height;
  };

  // Returns whether the unplaced members of a clique end above the capacity, counted in multiples of `step`.
  [[nodiscard]] bool clique_ends_above(std::span<const member> clique, bytes step) {
    taken_.clear();
    for (const member& m : clique) {
      const body& b = of_.all[m.body];
      if (open_[m.body] == placed || m.height == 0) continue;
      const bytes from = (least_[m.body] + step - 1) / step;
      if (open_[m.body] == fixed) {
        taken_.push_back({from, (*b.pin + m.height + step - 1) / step - from});
      } else {
        const bytes share = std::gcd(std::max(b.alignment, of_.unit), step);
        taken_.push_back({from, (m.height + share - 1) / step});
      }
    }
    for (const auto& [lo, hi] : of_.reserved) {
      if (lo >= capacity_) break;
      const bytes from = (lo + step - 1) / step;
      taken_.push_back({from, (std::min(hi, capacity_) + step - 1) / step - from});
    }
    std::sort(taken_.begin(), taken_.end());
    bytes end = 0;
    for (const auto& [from, length] : taken_) end = std::max(end, from) + length;
    return end > (capacity_ + step - 1) / step;
  }

 private:
  enum kind : char { open, fixed, placed };
  struct saved {
    std::uint32_t body;
    kind open;
    bytes least, support, hole;
  };

  // Caps an offset: all offsets above the capacity are refuted alike.
  [[nodiscard]] bytes capped(bytes x) const { return std::min(x, capacity_ + 1); }
  void save(std::uint32_t i) { undo_.push_back({i, open_[i], least_[i], support_[i], hole_[i]}); }

  void raise(std::uint32_t i, bytes to) {
    if (to <= least_[i]) return;
    least_[i] = to;
    raised_.push_back(i);
  }

  // Raises body i onto the lowest neighbour that may enter its hole.
  void block(std::uint32_t i) {
    bytes lowest = capacity_ + 1;
    for (const neighbour& n : of_.neighbours[i]) {
      if (!is_open(n.other) || least_[n.other] >= hole_[i] + n.mine) continue;
      lowest = std::min(lowest, std::max(least_[n.other] + n.theirs, hole_[i] + 1));
    }
    if (lowest <= least_[i]) return;
    const bytes to = lowest > capacity_ ? capacity_ + 1 : capped(of_.clear(i, lowest));
    save(i);
    raise(i, to);
  }

  void settle() {
    for (std::size_t k = 0; k < raised_.size(); ++k) {
      for (const neighbour& n : of_.neighbours[raised_[k]]) {
        if (has_hole(n.other)) block(n.other);
      }
    }
  }

  const bodies& of_;
  const bytes capacity_;
  std::vector<bytes> least_, support_, hole_;
  std::vector<kind> open_;
  std::vector<saved> undo_;
  std::vector<std::uint32_t> raised_;
  std::vector<std::pair<bytes, bytes>> taken_;
};

struct lemma {
  std::vector<std::pair<std::uint32_t, bytes>> supports;  // of what is open
  std::uint64_t uses = 0;
  bool holds = false;
};

struct open_case {
  std::uint32_t body;
  bool first;
  std::size_t mark;
  std::optional<std::size_t> lemma;
};

class log_checker {
 public:
  log_checker(const problem& p, std::string_view log) : p_{p}, rest_{log} {}

  std::optional<log_fault> run(std::vector<refutation>& proved) {
    std::vector<refutation> found;
    header();
    while (wrong_ == nullptr && next_line()) block(found);
    if (wrong_ != nullptr) return log_fault{wrong_, line_};
    proved.insert(proved.end(), found.begin(), found.end());
    return {};
  }

 private:
  void fail(const char* why) {
    if (wrong_ == nullptr) wrong_ = why;
  }

  // Goes to the next line. False: there is none. A last line without its end is cut off.
  bool next_line() {
    if (rest_.empty()) return false;
    ++line_;
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) {
      fail("the log ends within a line");
      return false;
    }
    text_ = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }

  std::string_view word() {
    const std::size_t end = std::min(text_.find(' '), text_.size());
    const std::string_view out = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    return out;
  }

  std::uint64_t number(std::uint64_t most) {
    const std::string_view digits = word();
    std::uint64_t n = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size()) fail("not a number");
    if (n > most) fail("a number is too large");
    return n > most ? 0 : n;
  }

  void header() {
    if (!next_line() || word() != "berth-refutation/1") return fail("not a berth-refutation/1 log");
    std::uint64_t n = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), n, 16);
    if (text_.size() != 16 || error != std::errc{} || end != text_.data() + 16) return fail("not a fingerprint");
    if (n != fingerprint_of(p_)) return fail("the log is of another problem");
    if (p_.buffers.empty()) fail("a problem without buffers has no refutations");
    if (p_.max_slab) fail("a problem that is cut into slabs has no refutations");
  }

  // The line at hand begins a block.
  void block(std::vector<refutation>& found) {
    if (word() != "bound") return fail("the refutation has ended, and this line begins no other");
    refutation r{.bound = number(max_address)};
    if (r.bound == 0) fail("a bound of 0");
    index m = 0;
    if (p_.memories.size() > 1) {
      if (word() != "memory") return fail("the block names no memory of its problem");
      r.memory = m = static_cast<index>(number(p_.memories.size() - 1));
    }
    line_ends();
    if (wrong_ != nullptr || !read_buffers(m)) return;
    cliques_.clear();
    lemmas_.clear();
    cells_ = 0;
    block_state now{*of_, r.bound};
    const std::uint64_t begin = line_;
    steps(now);
    of_.reset();
    r.steps = line_ - begin;
    if (wrong_ == nullptr) found.push_back(r);
  }

  void line_ends() {
    if (!text_.empty()) fail("the line goes on behind its end");
  }

  bool read_buffers(index m) {
    if (!next_line() || word() != "of") {
      fail("the block does not say which buffers it is of");
      return false;
    }
    std::vector<index> wanted;
    if (text_ == "all" && p_.memories.size() <= 1) {
      text_ = {};
    } else {
      while (!text_.empty() && wrong_ == nullptr) wanted.push_back(static_cast<index>(number(p_.buffers.size() - 1)));
      if (wanted.empty()) fail("the block is of no buffers");
      pairs_ += wanted.size() * p_.buffers.size();
      if (wanted.size() > 2 * bodies::most || pairs_ > most_pairs)
        fail("the block is of more buffers than can be checked");
      if (wrong_ != nullptr) return false;
      for (const index i : wanted) {
        if (!lives_only_in(p_, i, m)) fail("a buffer of the block may live in another memory");
      }
    }
    if (wrong_ != nullptr) return false;
    of_ = bodies_of(p_, m, wanted);
    if (of_) pairs_ += of_->all.size() * of_->all.size();  // over all blocks: a block may have few lines
    if (!of_ || pairs_ > most_pairs) fail("the block is of more buffers than can be checked");
    return wrong_ == nullptr;
  }

  std::uint32_t body_of(index i) {
    const std::uint32_t b = of_->of_buffer[i];
    if (b == bodies::no_body) fail("a buffer is none of its block's");
    return b == bodies::no_body ? 0 : b;
  }
  std::uint32_t body_named() {
    if (p_.buffers.empty() || of_->all.empty()) fail("a buffer is none of its block's");
    return wrong_ != nullptr ? 0 : body_of(static_cast<index>(number(p_.buffers.size() - 1)));
  }

  // A member counts as the part of it that conflicts with every other one.
  void read_clique() {
    std::vector<std::uint32_t> members;
    while (!text_.empty() && wrong_ == nullptr) members.push_back(body_named());
    cells_ += members.size();
    pairs_ += members.size() * members.size();
    if (cells_ > most_cells || pairs_ > most_pairs) fail("the log has more cliques than can be checked");
    std::vector<block_state::member>& clique = cliques_.emplace_back();
    for (std::size_t k = 0; k < members.size() && wrong_ == nullptr; ++k) {
      bytes height = of_->all[members[k]].size;
      for (std::size_t j = 0; j < members.size(); ++j) {
        if (j == k) continue;
        const neighbour* const n = of_->find(members[k], members[j]);
        if (n == nullptr) return fail("two buffers of a clique do not conflict");
        height = std::min(height, n->mine);
      }
      clique.push_back({members[k], height});
    }
  }

  void begin_case(block_state& now, bool keeps) {
    const std::uint32_t i = body_named();
    const std::uint64_t uses = keeps ? number(max_address) : 0;
    line_ends();
    if (wrong_ != nullptr) return;
    if (!now.is_open(i)) return fail("a buffer is placed that is not open");
    cases_.push_back({.body = i, .first = true, .mark = now.mark(), .lemma = {}});
    if (const char* const why = now.place(i)) return fail(why);
    if (!keeps) return;
    cases_.back().lemma = lemmas_.size();
    lemma& l = lemmas_.emplace_back();
    l.uses = uses;
    for (std::uint32_t j = 0; j < of_->all.size(); ++j) {
      if (now.is_open(j)) l.supports.emplace_back(j, now.support(j));
    }
    cells_ += l.supports.size();
    if (cells_ > most_cells) fail("the log keeps more lemmas than can be checked");
  }

  void apply_lemma(const block_state& now) {
    const std::uint64_t k = number(max_address);
    line_ends();
    if (wrong_ != nullptr) return;
    if (k >= lemmas_.size() || !lemmas_[k].holds) return fail("a lemma is used that does not hold there");
    lemma& l = lemmas_[k];
    if (l.uses == 0) return fail("a lemma is used more often than was said");
    const bool applies = std::all_of(l.supports.begin(), l.supports.end(), [&](const auto& s) {
      return now.is_open(s.first) && now.support(s.first) >= s.second;
    });
    if (!applies) return fail("a lemma does not apply");
    if (--l.uses == 0) {
      cells_ -= l.supports.size();
      l.supports = {};
    }
  }

  // Reads the reason that refutes the case at hand.
  void refute_case(std::string_view what, block_state& now) {
    if (what == "l") return apply_lemma(now);
    if (what == "e" || what == "h") {
      const std::uint32_t i = body_named();
      line_ends();
      if (wrong_ != nullptr) return;
      if (what == "e") {
        if (!now.ends_above(i)) fail("a buffer ends within the bound");
      } else if (!now.has_hole(i) || now.can_be_entered(i)) {
        fail("a hole can be entered, or there is none");
      }
      return;
    }
    if (what != "s" && what != "m") return fail("not a step");
    if (cliques_.empty()) return fail("a clique is not known");
    const std::uint64_t c = number(cliques_.size() - 1);
    const bytes step = what == "m" ? number(max_address) : 1;
    line_ends();
    if (step == 0) fail("a step of zero");
    if (wrong_ == nullptr && !now.clique_ends_above(cliques_[c], step)) fail("a clique ends within the bound");
  }

  void steps(block_state& now) {
    cases_.clear();
    bool begun = false;
    for (;;) {
      if (wrong_ != nullptr) return;
      if (!next_line()) return fail("the log ends before the refutation does");
      const std::string_view what = word();
      if (what == "clique" && !begun) {
        read_clique();
        continue;
      }
      begun = true;
      if (what == "p" || what == "k") {
        begin_case(now, what == "k");
        continue;
      }
      refute_case(what, now);
      if (wrong_ == nullptr && is_refuted(now)) return;
    }
  }

  // The case at hand is refuted: goes on to the one that is left. True: none is.
  bool is_refuted(block_state& now) {
    for (; !cases_.empty() && !cases_.back().first; cases_.pop_back()) now.restore(cases_.back().mark);
    if (cases_.empty()) return true;
    open_case& c = cases_.back();
    now.restore(c.mark);
    if (c.lemma) lemmas_[*c.lemma].holds = true;
    c.first = false;
    now.postpone(c.body);
    return false;
  }

  const problem& p_;
  std::string_view rest_, text_;
  std::uint64_t line_ = 0;
  const char* wrong_ = nullptr;
  std::optional<bodies> of_;
  std::vector<std::vector<block_state::member>> cliques_;
  std::vector<lemma> lemmas_;
  std::vector<open_case> cases_;
  std::size_t cells_ = 0;
  std::uint64_t pairs_ = 0;
};

// FNV-1a over whole numbers.
class hash {
 public:
  void add(std::uint64_t n) {
    for (int k = 0; k < 8; ++k, n >>= 8) {
      value_ ^= n & 255;
      value_ *= 0x100000001b3U;
    }
  }
  void add(const std::optional<index>& n) { add(n ? std::uint64_t{*n} + 1 : 0); }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace

std::uint64_t fingerprint_of(const problem& p) {
  hash h;
  h.add(p.buffers.size());
  for (index i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    h.add(p.footprint(i));
    h.add(p.alignment_of(i));
    h.add(b.alias_group);
    h.add(b.offset ? *b.offset + 1 : 0);
    const std::span lives = b.lifetimes.empty() ? std::span{&b.live, 1} : std::span{b.lifetimes};
    h.add(p.conflicts ? 0 : lives.size());
    for (std::size_t k = 0; !p.conflicts && k < lives.size(); ++k) {
      h.add(static_cast<std::uint64_t>(lives[k].lower));
      h.add(static_cast<std::uint64_t>(lives[k].upper));
    }
    h.add(b.memories.size());
    for (const index m : b.memories) h.add(std::uint64_t{m});
  }
  const auto add_pairs = [&h](const std::vector<pair>& pairs) {
    h.add(pairs.size());
    for (const pair& c : pairs) {
      h.add(std::uint64_t{c.a});
      h.add(std::uint64_t{c.b});
    }
  };
  add_pairs(p.separations);
  h.add(std::uint64_t{p.conflicts.has_value()});
  if (p.conflicts) add_pairs(*p.conflicts);
  h.add(p.memories.size());
  for (const memory& m : p.memories) {
    h.add(m.alignment);
    h.add(m.reserved.size());
    for (const auto& [lo, hi] : m.reserved) {
      h.add(lo);
      h.add(hi);
    }
  }
  h.add(p.max_slab.value_or(0));
  return h.value();
}

std::optional<log_fault> check_refutations(const problem& p, std::string_view log, std::vector<refutation>& proved) {
  return log_checker{p, log}.run(proved);
}

}  // namespace berth::plan

// Writes berth-problem/1.
#include <algorithm>

#include "berth/model/input_error.hpp"
#include "berth/model/problem_file.hpp"
#include "model/files/plan_text.hpp"
#include "model/files/size_expression.hpp"
#include "model/files/text.hpp"

namespace berth::model {
namespace {

class problem_writer {
 public:
  explicit problem_writer(const problem_file& file) : file_{file}, p_{file.problem} {}

  std::string write() {
    out_ = "{\"format\":\"berth-problem/1\"";
    key("alignment", p_.alignment);
    key("size_granularity", p_.granularity);
    key("tail_pad", p_.tail_pad);
    if (p_.capacity) key("capacity", *p_.capacity);
    if (p_.max_slab) key("max_slab", *p_.max_slab);
    list("dimensions", p_.dimensions.size(), [&](std::size_t d) {
      const plan::dimension& it = p_.dimensions[d];
      append_string(out_ += "{\"name\":", it.name);
      key("least", it.least);
      key("most", it.most);
      out_ += '}';
    });
    list("pools", p_.memories.size(), [&](std::size_t m) { add(p_.memories[m]); });
    list(
        "buffers", p_.buffers.size(), [&](std::size_t i) { add_buffer(static_cast<plan::index>(i)); }, true);
    if (p_.conflicts)
      list(
          "conflicts", p_.conflicts->size(), [&](std::size_t k) { add((*p_.conflicts)[k]); }, true);
    list("separations", p_.separations.size(), [&](std::size_t k) { add(p_.separations[k]); });
    list("reuse_penalties", p_.reuse_penalties.size(), [&](std::size_t k) {
      const plan::reuse_penalty& r = p_.reuse_penalties[k];
      add(plan::pair{r.a, r.b});
      out_.back() = ',';
      number(r.weight);
      out_ += ']';
    });
    add_traffic();
    return out_ + "}\n";
  }

 private:
  void number(double n) { out_ += json(n).dump(); }  // the shortest text that is read as the same number

  void key(const char* name, bytes n) { append(((out_ += ",\"") += name) += "\":", n); }

  template <class Element>
  void list(const char* name, std::size_t count, Element element, bool always = false) {
    if (count == 0 && !always) return;
    ((out_ += ",\"") += name) += "\":[";
    for (std::size_t k = 0; k < count; ++k) {
      if (k != 0) out_ += ',';
      out_ += '\n';
      element(k);
    }
    out_ += ']';
  }

  void add_pool_name(plan::index m) { append_string(out_, p_.memories[m].name); }

  void add(const plan::memory& m) {
    append_string(out_ += "{\"id\":", m.name);
    if (m.capacity) key("capacity", *m.capacity);
    key("alignment", m.alignment);
    list("reserved", m.reserved.size(), [&](std::size_t k) {
      append(out_ += '[', m.reserved[k].first);
      append(out_ += ',', m.reserved[k].second);
      out_ += ']';
    });
    out_ += ",\"cost\":";
    number(m.cost);
    out_ += '}';
  }

  void add(const plan::pair& of) {
    append_id(out_ += '[', file_, p_.buffers[of.a].name);
    append_id(out_ += ',', file_, p_.buffers[of.b].name);
    out_ += ']';
  }

  // A buffer's own rounding stands in the file as the rules that ask for it.
  void add_rounding(const plan::buffer& b) {
    if (b.alignment != 0) key("alignment", b.alignment);
    if (b.granularity == 0 && !b.tail_pad) return;
    const bytes granularity = b.granularity == 0 ? p_.granularity : b.granularity;
    const bytes pad = b.tail_pad.value_or(p_.tail_pad);
    const auto rules = std::ranges::find_if(rules::all(), [&](const rules::placement& r) {
      return r.size_granularity == granularity && r.tail_pad == pad && b.alignment != 0 &&
             b.alignment % r.start_alignment == 0;
    });
    if (rules == rules::all().end()) {
      throw input_error(file_.path, "buffer " + quote(b.name) + ": no rules describe how its size is rounded");
    }
    append_string(out_ += ",\"rules\":", rules->name);
  }

  void add_buffer(plan::index i) {
    const plan::buffer& b = p_.buffers[i];
    append_id(out_ += "{\"id\":", file_, b.name);
    if (!p_.dimensions.empty()) {
      append_string(out_ += ",\"size\":", size_text(terms_of(b), p_.dimensions));
    } else {
      key("size", b.size);
    }
    if (b.lifetimes.empty()) {
      append(out_ += ",\"lower\":", b.live.lower);
      append(out_ += ",\"upper\":", b.live.upper);
    } else {
      list("lifetimes", b.lifetimes.size(), [&](std::size_t k) {
        append(out_ += '[', b.lifetimes[k].lower);
        append(out_ += ',', b.lifetimes[k].upper);
        out_ += ']';
      });
    }
    add_rounding(b);
    if (b.offset) key("offset", *b.offset);
    if (b.hint) key("hint", *b.hint);
    if (b.alias_group) key("alias_group", *b.alias_group);
    list("pools", b.memories.size(), [&](std::size_t k) { add_pool_name(b.memories[k]); });
    list("uses", b.uses.size(), [&](std::size_t k) { add(b.uses[k]); });
    out_ += '}';
  }

  void add(const plan::use& u) {
    append(out_ += "{\"at\":", u.at);
    out_ += ",\"bytes\":";
    number(u.touched);
    if (u.write) out_ += ",\"write\":true";
    if (u.memory) {
      out_ += ",\"pool\":";
      add_pool_name(*u.memory);
    }
    out_ += '}';
  }

  void add_traffic() {
    list("transfers", p_.links.size(), [&](std::size_t k) {
      const plan::link& l = p_.links[k];
      out_ += "{\"from\":";
      add_pool_name(l.from);
      out_ += ",\"to\":";
      add_pool_name(l.to);
      out_ += ",\"bandwidth\":";
      number(l.bandwidth);
      out_ += ",\"latency\":";
      number(l.latency);
      out_ += '}';
    });
    list("steps", p_.steps.size(), [&](std::size_t k) {
      append(out_ += '[', p_.steps[k].at);
      out_ += ',';
      number(p_.steps[k].duration);
      out_ += ']';
    });
  }

  const problem_file& file_;
  const plan::problem& p_;
  std::string out_;
};

}  // namespace

std::string problem_json(const problem_file& file) {
  return problem_writer{file}.write();
}

}  // namespace berth::model

// Writes the plan of a problem with dimensions as a C header.
#include <algorithm>

#include "model/files/plan_text.hpp"
#include "model/files/size_expression.hpp"

namespace berth::model {
namespace {

constexpr const char* head =
    R"(/* Written by `berth plan`: the place of every buffer, for all values of the dimensions. Do not edit.
 *
 * An order of the buffers, from below: each starts at the highest end of those that it rests on. berth_evaluate()
 * computes the offsets at given values; at no values within the bounds can two buffers that live at the same time
 * overlap, and the arena is never above BERTH_ARENA_MOST_BYTES. */
#ifndef BERTH_PLAN_H
#define BERTH_PLAN_H

#include <stdint.h>

#if defined(__cplusplus)
#define BERTH_PLAN_ASSERT(what, text) static_assert(what, text)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define BERTH_PLAN_ASSERT(what, text) _Static_assert(what, text)
#else
#define BERTH_PLAN_ASSERT_AT_(what, line) typedef char berth_plan_assert_##line[(what) ? 1 : -1]
#define BERTH_PLAN_ASSERT_AT(what, line) BERTH_PLAN_ASSERT_AT_(what, line)
#define BERTH_PLAN_ASSERT(what, text) BERTH_PLAN_ASSERT_AT(what, __LINE__)
#endif

)";

class header_writer {
 public:
  header_writer(const problem_file& file, const plan::plan& answer, std::string_view prefix)
      : p_{file.problem}, answer_{answer}, alignment_{base_alignment(file)}, named_{prefix} {
    for (const std::string& name : macro_names(names_of(p_.dimensions))) dimensions_.push_back(named_("BERTH_") + name);
    for (const std::string& name : macro_names(names_of(p_.buffers))) buffers_.push_back(named_("BERTH_") + name);
    for (const plan::dimension& d : p_.dimensions) parameters_ += (parameters_.empty() ? "" : ", ") + d.name + '_';
    for (const std::string& d : dimensions_) most_ += (most_.empty() ? "" : ", ") + d + "_MOST";
  }

  std::string write() {
    out_ = named_(head);
    constants();
    dimensions();
    const std::vector<bool> fixed = fixed_offsets();
    for (plan::index i = 0; i < buffers_.size(); ++i) buffer(i, fixed[i]);
    evaluate();
    return std::move(out_) + "\n#endif\n";
  }

 private:
  void define(const std::string& macro, bytes n) {
    append(out_ += "#define " + macro + ' ', n);
    out_ += "ull\n";
  }
  void claim(const std::string& what, const std::string& text) {
    out_ += named_("BERTH_PLAN_ASSERT(") + what + ", \"" + text + "\");\n";
  }

  void constants() {
    define(named_("BERTH_ARENA_MOST_BYTES"), answer_.arena());
    define(named_("BERTH_ARENA_ALIGNMENT"), alignment_);
    append(out_ += named_("#define BERTH_DIMENSION_COUNT "), p_.dimensions.size());
    append(out_ += named_("\n#define BERTH_BUFFER_COUNT "), p_.buffers.size());
    const std::string granularity = std::to_string(p_.granularity) + "ull";
    out_ += "\n\n/* What a buffer of a size takes, and the next multiple of a step. */\n";
    out_ += named_("#define BERTH_FOOTPRINT(size) (BERTH_ALIGN_UP(size, ") + granularity + ") + " +
            std::to_string(p_.tail_pad) + "ull)\n";
    out_ += named_("#define BERTH_ALIGN_UP(n, step) (((n) + ((step)-1ull)) / (step) * (step))\n\n");
    claim(named_("BERTH_ARENA_MOST_BYTES <= SIZE_MAX"), "the arena fits the address space");
  }

  void dimensions() {
    for (std::size_t d = 0; d < dimensions_.size(); ++d) {
      append(out_ += "\n#define " + dimensions_[d] + "_DIMENSION ", d);
      out_ += '\n';
      define(dimensions_[d] + "_LEAST", p_.dimensions[d].least);
      define(dimensions_[d] + "_MOST", p_.dimensions[d].most);
    }
  }

  // Returns the buffers with one offset for all values: they rest, through any chain, on fixed sizes only.
  [[nodiscard]] std::vector<bool> fixed_offsets() const {
    std::vector<bool> fixed(buffers_.size(), true);
    for (std::size_t k = 0; k < answer_.order.size(); ++k) {
      for (std::uint32_t s = answer_.first_support[k]; s < answer_.first_support[k + 1]; ++s) {
        const plan::index below = answer_.supports[s];
        const bool fixed_size =
            std::ranges::all_of(p_.buffers[below].terms, [](const plan::size_term& t) { return t.dimensions.empty(); });
        if (!fixed[below] || !fixed_size) fixed[answer_.order[k]] = false;
      }
    }
    return fixed;
  }

  void buffer(plan::index i, bool fixed) {
    const std::string& name = buffers_[i];
    out_ += "\n" + macro_comment(p_.buffers[i].name, std::string_view{name}.substr(named_("BERTH_").size()));
    append(out_ += "#define " + name + "_INDEX ", i);
    out_ += "\n#define " + name + "_SIZE(" + parameters_ + ") (";
    bool first = true;
    for (const plan::size_term& t : terms_of(p_.buffers[i])) {
      append(out_ += first ? "" : " + ", t.factor);
      out_ += "ull";
      for (const plan::index d : t.dimensions) out_ += " * (" + p_.dimensions[d].name + "_)";
      first = false;
    }
    out_ += ")\n";
    const std::string largest = name + "_SIZE(" + most_ + ")";
    if (!fixed) {
      claim(largest + named_(" <= BERTH_ARENA_MOST_BYTES"), name + " fits the arena");
      return;
    }
    define(name + "_OFFSET", answer_.offset(i));
    claim(name + "_OFFSET + " + largest + named_(" <= BERTH_ARENA_MOST_BYTES"), name + " ends in the arena");
    claim(name + "_OFFSET % " + std::to_string(p_.alignment_of(i)) + "ull == 0", name + " is aligned");
  }

  void evaluate() {
    out_ += named_(
        "\nstatic inline uint64_t berth_plan_higher(uint64_t a, uint64_t b) { return a > b ? a : b; }\n\n"
        "/* Writes every buffer's offset (BERTH_BUFFER_COUNT of them, at its _INDEX) and the arena that these values\n"
        " * need. `dimensions` are BERTH_DIMENSION_COUNT values, each at its _DIMENSION. Returns 1; or 0, with "
        "nothing\n"
        " * written, where a value is outside its bounds. */\n"
        "static inline int berth_evaluate(const uint64_t *dimensions, uint64_t *offsets, uint64_t *arena_bytes) {\n");
    for (std::size_t d = 0; d < dimensions_.size(); ++d) {
      out_ += "  const uint64_t " + p_.dimensions[d].name + "_ = dimensions[" + dimensions_[d] + "_DIMENSION];\n";
    }
    out_ += answer_.supports.empty() ? "  uint64_t arena = 0;\n" : "  uint64_t at, arena = 0;\n";
    if (dimensions_.empty()) out_ += "  (void)dimensions;\n";
    if (buffers_.empty()) out_ += "  (void)offsets;\n";
    for (std::size_t d = 0; d < dimensions_.size(); ++d) {
      const std::string value = p_.dimensions[d].name + '_';
      // Compilers warn of comparisons that are never true.
      if (p_.dimensions[d].least != 0) out_ += "  if (" + value + " < " + dimensions_[d] + "_LEAST) return 0;\n";
      if (p_.dimensions[d].most != max_bytes) {
        out_ += "  if (" + value + " > " + dimensions_[d] + "_MOST) return 0;\n";
      }
    }
    const auto end_of = [&](plan::index i) {
      const std::string size = buffers_[i] + "_SIZE(" + parameters_ + ")";
      const plan::buffer& b = p_.buffers[i];
      const bool own = b.granularity != 0 || b.tail_pad;
      return "offsets[" + buffers_[i] + "_INDEX] + " +
             (own ? named_("BERTH_ALIGN_UP(") + size + ", " + std::to_string(p_.granularity_of(i)) + "ull) + " +
                        std::to_string(p_.tail_pad_of(i)) + "ull"
                  : named_("BERTH_FOOTPRINT(") + size + ")");
    };
    for (std::size_t k = 0; k < answer_.order.size(); ++k) {
      const plan::index i = answer_.order[k];
      const std::uint32_t lowest = answer_.first_support[k], end = answer_.first_support[k + 1];
      out_ += '\n';
      for (std::uint32_t s = lowest; s < end; ++s) {
        const std::string below = end_of(answer_.supports[s]);
        out_ += "  at = " + (s == lowest ? below : named_("berth_plan_higher(at, ") + below + ")") + ";\n";
      }
      const std::string at = named_("BERTH_ALIGN_UP(at, ") + std::to_string(p_.alignment_of(i)) + "ull)";
      out_ += "  offsets[" + buffers_[i] + "_INDEX] = " + (lowest == end ? "0" : at) + ";\n";
      out_ += named_("  arena = berth_plan_higher(arena, ") + end_of(i) + ");\n";
    }
    out_ += "\n  *arena_bytes = arena;\n  return 1;\n}\n";
  }

  const plan::problem& p_;
  const plan::plan& answer_;
  bytes alignment_;
  c_names named_;
  std::vector<std::string> dimensions_, buffers_;  // the macros' common part
  std::string parameters_, most_;                  // of the sizes' macros
  std::string out_;
};

}  // namespace

std::string order_header(const problem_file& file, const plan::plan& answer, std::string_view prefix) {
  return header_writer{file, answer, prefix}.write();
}

}  // namespace berth::model

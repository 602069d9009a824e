// Writes a plan as a C header of constants.
#include "berth/model/plan_file.hpp"
#include "model/files/plan_text.hpp"

namespace berth::model {

std::string plan_header(const problem_file& file, const plan::plan& answer, std::string_view prefix) {
  if (!answer.stays.empty()) {
    const stays_as_buffers stays = as_buffers(file, answer);
    return plan_header(stays.file, stays.answer, prefix);
  }
  if (!file.problem.dimensions.empty()) return order_header(file, answer, prefix);
  const plan::problem& p = file.problem;
  const c_names named{prefix};
  std::string out = named(
      "/* Written by `berth plan`: the place of every buffer. Do not edit. */\n"
      "#ifndef BERTH_PLAN_H\n#define BERTH_PLAN_H\n\n"
      "#ifdef __cplusplus\n#define BERTH_PLAN_ASSERT(what, text) static_assert(what, text)\n"
      "#else\n#define BERTH_PLAN_ASSERT(what, text) _Static_assert(what, text)\n#endif\n\n");
  const auto define = [&out](const std::string& macro, bytes n) {
    append(out += "#define " + macro + ' ', n);
    out += "ull\n";
  };
  define(named("BERTH_ARENA_BYTES"), answer.arena());
  define(named("BERTH_ARENA_ALIGNMENT"), base_alignment(file));
  const auto arenas = arena_by_memory(p, answer);
  const std::vector<std::string> pools = macro_names(names_of(p.memories)), buffers = macro_names(names_of(p.buffers));
  for (std::size_t m = 0; m < p.memories.size(); ++m) {
    out += macro_comment(p.memories[m].name, pools[m]);
    define(named("BERTH_POOL_") + pools[m] + "_BYTES", arenas[m]);
  }
  for (plan::index i = 0; i < p.buffers.size(); ++i) {
    const std::string macro = named("BERTH_") + buffers[i];
    (out += '\n') += macro_comment(p.buffers[i].name, buffers[i]);
    define(macro + "_OFFSET", answer.offset(i));
    define(macro + "_SIZE", p.buffers[i].size);
    if (!p.memories.empty()) define(macro + "_POOL", memory_of(answer, i));
    if (!answer.slab_of.empty()) define(macro + "_SLAB", answer.slab_of[i]);
    const std::string arena =
        p.memories.empty() ? named("BERTH_ARENA_BYTES") : named("BERTH_POOL_") + pools[memory_of(answer, i)] + "_BYTES";
    out += named("BERTH_PLAN_ASSERT(") + macro + "_OFFSET + " + macro + "_SIZE <= " + arena + ", \"" + macro +
           " ends in the arena\");\n";
    append(out += named("BERTH_PLAN_ASSERT(") + macro + "_OFFSET % ", p.alignment_of(i));
    out += "ull == 0, \"" + macro + " is aligned\");\n";
  }
  return out + "\n#endif\n";
}

}  // namespace berth::model

#include "model/plan_picture.hpp"

#include "berth/model/plan_file.hpp"
#include "model/files/plan_text.hpp"

namespace berth::model {

std::vector<trace::rectangle> rectangles_of(const problem_file& file, const plan::plan& answer) {
  if (!answer.stays.empty()) {
    const stays_as_buffers stays = as_buffers(file, answer);
    return rectangles_of(stays.file, stays.answer);
  }
  const plan::problem& p = file.problem;
  std::vector<trace::rectangle> all;
  all.reserve(p.buffers.size());
  for (plan::index i = 0; i < p.buffers.size(); ++i) {
    const plan::buffer& b = p.buffers[i];
    const plan::interval life = whole_life(p, i);
    std::string memory = p.memories.empty() ? "" : p.memories[answer.memory_of.empty() ? 0 : answer.memory_of[i]].name;
    if (!answer.slab_of.empty()) {
      memory += (memory.empty() ? "slab " : ", slab ") + std::to_string(answer.slab_of[i]);
    }
    all.push_back({.name = b.name,
                   .offset = answer.offset(i),
                   .size = b.size,
                   .lower = life.lower,
                   .upper = life.upper,
                   .memory = std::move(memory)});
  }
  return all;
}

trace::picture picture_of(const problem_file& file, const plan::plan& answer) {
  trace::picture p;
  p.lower_bound = answer.lower_bound();
  p.rectangles = rectangles_of(file, answer);
  p.facts = {{"arena", std::to_string(answer.arena()) + " B"},
             {"lower bound", std::to_string(answer.lower_bound()) + " B"},
             {"optimal", answer.optimal() ? "proved" : "not proved"},
             {"buffers", std::to_string(p.rectangles.size())},
             {"solver", std::string{answer.solver}}};
  return p;
}

}  // namespace berth::model

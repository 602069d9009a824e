#include "plan/search/search_record.hpp"

namespace berth::plan {

void search_record::place(std::uint32_t i) {
  first_cases_.push_back(static_cast<std::uint32_t>(steps_.size()));
  steps_.push_back({placed, {}, i, 1});
}

void search_record::refute(const refuted_by& why) {
  steps_.push_back({refuted, why.what, why.which, why.step});
}

void search_record::end_first_case(state_key k) {
  failed_.emplace(k, first_cases_.back());
  first_cases_.pop_back();
}

std::optional<std::uint32_t> search_record::find(state_key k) const {
  const auto known = failed_.find(k);
  return known == failed_.end() ? std::nullopt : std::optional{known->second};
}

std::string search_record::text(const instance& in, const conflict_graph& graph, std::span<const index> buffers) const {
  std::vector<std::uint32_t> uses(steps_.size(), 0), lemma_of(steps_.size(), 0);
  std::vector<std::uint32_t> clique_of(graph.cliques(), no_item);
  std::string out;
  std::uint32_t cliques = 0, lemmas = 0;
  for (const step& s : steps_) {
    if (s.what != refuted) continue;
    if (s.why == refuted_by::known_state) ++uses[s.which];
    if (s.why != refuted_by::clique_ends || clique_of[s.which] != no_item) continue;
    clique_of[s.which] = cliques++;
    out += "clique";
    for (const member& m : graph.clique(s.which)) {
      if (m.item < in.own_items) out += ' ' + std::to_string(buffers[m.item]);
    }
    out += '\n';
  }
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    const step& s = steps_[k];
    const bool counts_multiples = s.in != 1;
    if (s.what == placed) {
      out += uses[k] == 0 ? "p " : "k ";
      out += std::to_string(buffers[s.which]);
      if (uses[k] != 0) {
        out += ' ' + std::to_string(uses[k]);
        lemma_of[k] = lemmas++;
      }
    } else if (s.why == refuted_by::item_ends || s.why == refuted_by::hole) {
      out += s.why == refuted_by::hole ? "h " : "e ";
      out += std::to_string(buffers[s.which]);
    } else if (s.why == refuted_by::known_state) {
      out += "l " + std::to_string(lemma_of[s.which]);
    } else {
      out += counts_multiples ? "m " : "s ";
      out += std::to_string(clique_of[s.which]);
      if (counts_multiples) out += ' ' + std::to_string(static_cast<bytes>(s.in) * in.unit);
    }
    out += '\n';
  }
  return out;
}

}  // namespace berth::plan

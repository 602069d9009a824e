#include "graph/links.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace berth {
namespace {

// Returns by value whether it is still in the arena after g has run. Reading a view is reading its root.
std::vector<bool> left_behind(const graph& g) {
  std::vector<bool> read(g.values().size(), false), stays(g.values().size());
  for (const node& n : g.nodes()) {
    for (const value_id v : n.inputs) read[g[v].root.index] = true;
  }
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    const value& it = g.values()[v];
    stays[v] = it.output ? graph_structure::in_arena(g[it.root].kind) : it.kind == value_kind::result && !read[v];
  }
  return stays;
}

// A type without a shape describes bytes, not elements.
bool says_elements(const tensor_type& t) noexcept {
  return t.type != element::other && (!t.shape.empty() || t.size == 0);
}

bool same_elements(const tensor_type& a, const tensor_type& b) noexcept {
  return a.type == b.type || !says_elements(a) || !says_elements(b);
}

// Returns the number of characters that two names share at their begin and at their end.
std::size_t similarity(std::string_view a, std::string_view b) noexcept {
  const auto shared = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto begin = static_cast<std::size_t>(shared.first - a.begin());
  a.remove_prefix(begin);
  b.remove_prefix(begin);
  return begin + static_cast<std::size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin());
}

std::string in_words(std::uint32_t graph_of_it, const char* does, const value& it) {
  return "; graph " + std::to_string(graph_of_it) + does + it.name + "'";
}

// Describes the value `it` of graph i that has the name of `wanted`, which is of graph `reader`.
near_miss same_name(const value& it, std::uint32_t i, bool left, const value& wanted, std::uint32_t reader) {
  const std::string size = " of " + std::to_string(it.size) + " bytes";
  if (it.kind == value_kind::state) {
    return {in_words(i, " keeps the state '", it) + size + ", which other graphs have as a state only", false};
  }
  if (!left) {
    return {in_words(i, " has '", it) + size + ", but does not leave it: it is no output, and a node reads it", false};
  }
  std::string text = in_words(i, " leaves '", it) + size;
  const bool fits = it.size == wanted.size && same_elements(it.type, wanted.type);
  if (i > reader) {
    text += ", but runs later";
  } else if (fits) {
    text += ", but no link leads here";
  } else if (it.size == wanted.size) {
    text += " with another element type";
  }
  return {std::move(text), wanted.kind == value_kind::external && (i > reader || !fits)};
}

}  // namespace

std::vector<pipeline_link> links_by_name(std::span<const graph* const> graphs) {
  struct place {
    std::uint32_t graph = 0;
    std::uint32_t value = 0;
  };
  std::vector<pipeline_link> links;
  std::unordered_map<std::string_view, std::vector<place>> left;  // by name, the latest last
  for (std::uint32_t i = 0; i < graphs.size(); ++i) {
    const graph& g = *graphs[i];
    if (!g.fault().ok()) continue;  // its ids may be invalid
    for (std::uint32_t v = 0; v < g.values().size(); ++v) {
      const value& it = g.values()[v];
      if (it.kind != value_kind::external || it.name.empty()) continue;
      const auto found = left.find(it.name);
      if (found == left.end()) continue;
      const auto fits = [&](const place& p) {
        const value& from = graphs[p.graph]->values()[p.value];
        return from.size == it.size && same_elements(from.type, it.type);
      };
      const auto from = std::find_if(found->second.rbegin(), found->second.rend(), fits);
      if (from != found->second.rend()) links.push_back({from->graph, {from->value}, i, {v}});
    }
    const std::vector<bool> stays = left_behind(g);
    for (std::uint32_t v = 0; v < g.values().size(); ++v) {
      const value& it = g.values()[v];
      if (stays[v] && !it.name.empty()) left[it.name].push_back({i, v});
    }
  }
  return links;
}

near_miss find_near_miss(std::span<const graph* const> graphs, std::uint32_t reader, value_id v) {
  const value& wanted = (*graphs[reader])[v];
  near_miss named, similar;
  std::size_t most = 0;
  for (std::uint32_t i = 0; i < graphs.size(); ++i) {
    if (i == reader) continue;
    const graph& g = *graphs[i];
    const std::vector<bool> stays = left_behind(g);
    for (std::uint32_t k = 0; k < g.values().size(); ++k) {
      const value& it = g.values()[k];
      if (it.name.empty() || !graph_structure::in_arena(g[it.root].kind)) continue;
      if (it.name == wanted.name) {
        near_miss found = same_name(it, i, stays[k], wanted, reader);
        // Prefers earlier graphs to later ones, and values left behind to others.
        if (named.text.empty() || (found.certain && (!named.certain || i < reader))) named = std::move(found);
      } else if (i < reader && stays[k] && it.size == wanted.size && wanted.kind == value_kind::external) {
        const std::size_t shared = similarity(it.name, wanted.name);
        if (!similar.text.empty() && shared < most) continue;
        most = shared;
        similar.text = in_words(i, " leaves '", it) + " of the same size";
      }
    }
  }
  return named.text.empty() ? similar : named;
}

}  // namespace berth

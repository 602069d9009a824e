#include "berth/schedule/verify.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "berth/schedule/steps.hpp"

namespace berth::schedule {
namespace {

constexpr std::uint32_t nobody = UINT32_MAX;       // no node has written it: it does not exist
constexpr std::uint32_t outside = UINT32_MAX - 1;  // it was there before the first node

// Who wrote which bytes of a range: the bytes up to `end`, from the end of the one before.
struct written {
  bytes end = 0;
  std::uint32_t by = nobody;
  friend bool operator==(const written&, const written&) = default;
};
using contents = std::vector<written>;

// The contents of every root.
class replay {
 public:
  explicit replay(const graph& g) : g_{g}, runs_(g.values().size()) {
    for (std::uint32_t v = 0; v < g.values().size(); ++v) {
      const value_kind kind = g.values()[v].kind;
      runs_[v] = {{0, kind == value_kind::result || kind == value_kind::view ? nobody : outside}};
    }
  }

  // The copy steps; what is wrong with them, or nothing.
  const char* copy(step_meaning it) {
    const value_kind kind = g_.values()[it.index].kind;
    if (kind != value_kind::input && kind != value_kind::result) return "a copy of what cannot move";
    if (it.kind == step_kind::in) {
      const auto there = slow_.find(it.index);
      if (there == slow_.end()) return "a value comes in that has not gone out";
      runs_[it.index] = there->second;
      return nullptr;
    }
    for (const auto& [begin, by] : runs_[it.index]) {
      if (by == nobody) return "a value goes out that is not there";
    }
    slow_[it.index] = runs_[it.index];
    return nullptr;
  }

  [[nodiscard]] contents of(value_id v) const {
    const value& it = g_[v];
    const auto& runs = runs_[it.root.index];
    const bytes end = it.root_offset + it.size;
    // No bytes were written by nobody: only the root has to be there.
    if (it.size == 0 && it.kind == value_kind::view) {
      return {{end, runs.begin()->second == nobody ? nobody : outside}};
    }
    contents found;
    for (auto run = std::prev(runs.upper_bound(it.root_offset));
         run != runs.end() && (run->first < end || found.empty()); ++run) {
      const auto next = std::next(run);
      const bytes upto = next == runs.end() ? end : std::min(end, next->first);
      if (!found.empty() && found.back().by == run->second) {
        found.back().end = upto;
      } else {
        found.push_back({upto, run->second});
      }
    }
    return found;
  }

  void run(std::uint32_t n) {
    for (const value_id v : g_.nodes()[n].outputs) {
      const value& it = g_[v];
      auto& runs = runs_[it.root.index];
      if (it.kind != value_kind::view) {
        runs = {{0, n}};
        continue;
      }
      if (it.size == 0) continue;
      const bytes end = it.root_offset + it.size;
      const auto cut = [&](bytes at) {
        const auto run = std::prev(runs.upper_bound(at));
        return run->first == at ? run : runs.emplace_hint(std::next(run), at, run->second);
      };
      const auto last = cut(end);
      const auto first = cut(it.root_offset);
      first->second = n;
      runs.erase(std::next(first), last);
    }
  }

 private:
  using fragments = std::map<bytes, std::uint32_t>;  // where a run of bytes begins, and who wrote it
  const graph& g_;
  std::vector<fragments> runs_;              // by root
  std::map<std::uint32_t, fragments> slow_;  // of what has gone out
};

// What node n reads: its operands, and where it writes through a view the bytes of that as they were.
std::vector<value_id> read_by(const graph& g, std::uint32_t n) {
  std::vector<value_id> all = g.nodes()[n].inputs;
  for (const value_id v : g.nodes()[n].outputs) {
    if (g[v].kind == value_kind::view) all.push_back(v);
  }
  return all;
}

bool wanted_in_the_end(const value& v) {
  return v.kind != value_kind::view && (v.output || v.kind == value_kind::state || v.kind == value_kind::external);
}

bool exists(const contents& found) {
  return std::ranges::none_of(found, [](const written& w) { return w.by == nobody; });
}

}  // namespace

std::optional<step_violation> verify_steps(const graph& g, std::span<const std::uint32_t> steps,
                                           std::span<const std::uint32_t> keep, std::span<const node_pair> before,
                                           std::span<const std::uint32_t> once) {
  const auto count = static_cast<std::uint32_t>(g.nodes().size());
  const auto at_end = static_cast<std::uint32_t>(steps.size());
  std::vector<std::uint8_t> kept(count, 0);
  std::vector<std::uint8_t> single(count, 0);
  for (const std::uint32_t n : keep) {
    if (n >= count) return step_violation{"a node to be kept in order is none of the graph", at_end, n};
    kept[n] = single[n] = 1;
  }
  for (const std::uint32_t n : once) {
    if (n >= count) return step_violation{"a node that may run once only is none of the graph", at_end, n};
    single[n] = 1;
  }
  std::vector<std::vector<std::uint32_t>> waits_for(count);
  for (const auto& [first, second] : before) {
    if (std::max(first, second) >= count) return step_violation{"a node of a pair is none of the graph", at_end, first};
    waits_for[second].push_back(first);
  }
  std::vector<std::vector<contents>> saw(count);
  replay given{g};
  for (std::uint32_t n = 0; n < count; ++n) {
    const node& it = g.nodes()[n];
    if (it.outputs.empty()) kept[n] = single[n] = 1;
    for (const value_id v : it.outputs) single[n] = single[n] | (g[v].kind == value_kind::view ? 1 : 0);
    for (const value_id v : read_by(g, n)) saw[n].push_back(given.of(v));
    given.run(n);
  }
  std::vector<std::uint32_t> ran(count, 0);
  std::uint32_t last_kept = 0;
  replay now{g};
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    const step_meaning it = meaning_of(g, steps[i]);
    if (it.kind == step_kind::none) return step_violation{"a step is no node of the graph", i, steps[i]};
    if (it.kind != step_kind::node) {
      if (const char* wrong = now.copy(it)) return step_violation{wrong, i, nobody, it.index};
      continue;
    }
    const std::uint32_t n = it.index;
    if (ran[n]++ != 0 && single[n] != 0) return step_violation{"a node runs again that may run once only", i, n};
    if (kept[n] != 0) {
      if (n < last_kept) return step_violation{"nodes that keep their order run in another one", i, n};
      last_kept = n;
    }
    for (const std::uint32_t first : waits_for[n]) {
      if (ran[first] == 0) return step_violation{"a node runs before one that comes first", i, n};
    }
    const std::vector<value_id> reads = read_by(g, n);
    for (std::size_t k = 0; k < reads.size(); ++k) {
      const contents found = now.of(reads[k]);
      if (!exists(found) && exists(saw[n][k])) {
        return step_violation{"a node reads what is not there yet", i, n, reads[k].index};
      }
      if (found != saw[n][k]) return step_violation{"a node reads other contents", i, n, reads[k].index};
    }
    now.run(n);
  }
  for (std::uint32_t n = 0; n < count; ++n) {
    if (ran[n] == 0) return step_violation{"a node does not run", at_end, n};
  }
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    if (wanted_in_the_end(g.values()[v]) && now.of({v}) != given.of({v})) {
      return step_violation{"an output, a state or an external has other contents in the end", at_end, nobody, v};
    }
  }
  return std::nullopt;
}

}  // namespace berth::schedule

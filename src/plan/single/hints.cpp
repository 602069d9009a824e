#include "plan/single/hints.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "plan/model/conflicts.hpp"
#include "plan/policy.hpp"
#include "plan/search/narrow.hpp"
#include "plan/single/start.hpp"
#include "plan/trial.hpp"

namespace berth::plan {
namespace {

using item_list = std::vector<std::uint32_t>;

enum class verdict : std::uint8_t { fits, never, unknown };

class keeper {
 public:
  keeper(const instance& in, layout& found, bool thorough, std::uint64_t nodes, const patience& wait)
      : in_{in},
        with_pins_{in},
        found_{found},
        wait_{wait},
        limit_{found.arena},
        nodes_{nodes},
        most_nodes_a_try_{nodes / policy::share_of_a_hint_try} {
    if (thorough) left_ = policy::most_items_placed_for_hints;
    all_orders_ = thorough && in.items.size() <= policy::few_hinted_items;
    const conflict_count conflicts = count_conflicts(in);
    searches_ = uses(technique::hint_searches) && thorough && nodes != 0 &&
                conflicts.members <= policy::most_hint_graph_members && conflicts.fits_memory(in);
  }

  // Looks for a layout within the arena that keeps `kept` at their hints; such a layout becomes the one found.
  verdict try_keeping(const item_list& kept) {
    for (std::uint32_t i = 0; i < in_.items.size(); ++i) with_pins_.items[i].pin = in_.items[i].pin;
    for (const std::uint32_t i : kept) with_pins_.items[i].pin = in_.items[i].hint;
    if (pins_clash()) return verdict::never;
    left_ -= std::min<std::uint64_t>(left_, in_.items.size() * (all_orders_ ? policy::passes_of_all_orders : 1));
    layout got = best_start(with_pins_, limit_, {.work = all_orders_ ? effort::normal : effort::fast}, wait_, spent_);
    if (got.arena > limit_ && searches_ && nodes_ != 0 && !wait_.over()) {
      if (!graph_) graph_ = make_conflicts(in_);
      got.arena = limit_ + 1;  // of what has not been found: nothing above the limit is of use
      narrowed c = find_least_arena(with_pins_, *graph_, std::move(got), limit_,
                                    {.nodes = std::min(nodes_, most_nodes_a_try_)}, wait_);
      nodes_ -= std::min(nodes_, c.nodes);
      spent_ += c.nodes;
      got = std::move(c.best);
      if (c.bound > limit_) return verdict::never;
    }
    if (got.arena > limit_) return verdict::unknown;
    got.solver = found_.solver;
    found_ = std::move(got);
    return verdict::fits;
  }

  // Adds to `kept`, which fits, as much of candidates [first, last) as it finds room for.
  void grow(item_list& kept, const item_list& candidates, std::size_t first, std::size_t last) {
    if (first == last || spent()) return;
    item_list more = kept;
    more.insert(more.end(), candidates.begin() + static_cast<std::ptrdiff_t>(first),
                candidates.begin() + static_cast<std::ptrdiff_t>(last));
    if (try_keeping(more) == verdict::fits) {
      kept = std::move(more);
      return;
    }
    if (last - first == 1) return;
    const std::size_t middle = first + (last - first) / 2;
    grow(kept, candidates, first, middle);
    grow(kept, candidates, middle, last);
  }

  // Tries every set that leaves out `less` of the candidates; whether one fits, or none ever does.
  verdict try_leaving_out(const item_list& candidates, std::size_t less) {
    std::vector<std::size_t> out(less);
    for (std::size_t k = 0; k < less; ++k) out[k] = k;
    verdict all = verdict::never;
    while (true) {
      item_list kept;
      for (std::size_t k = 0, o = 0; k < candidates.size(); ++k) {
        if (o < less && out[o] == k) {
          ++o;
        } else {
          kept.push_back(candidates[k]);
        }
      }
      const verdict got = try_keeping(kept);
      if (got == verdict::fits) return got;
      if (got == verdict::unknown) all = got;
      if (spent()) return verdict::unknown;
      // The next combination.
      std::size_t k = less;
      while (k > 0 && out[k - 1] == candidates.size() - less + k - 1) --k;
      if (k == 0) return all;
      ++out[k - 1];
      for (; k < less; ++k) out[k] = out[k - 1] + 1;
    }
  }

  [[nodiscard]] bool spent() const { return left_ == 0 || wait_.over(); }
  [[nodiscard]] std::uint64_t nodes_spent() const { return spent_; }
  [[nodiscard]] bool pays_to_combine(std::size_t n, std::size_t less) const {
    double sets = 1;
    for (std::size_t k = 0; k < less; ++k) sets = sets * static_cast<double>(n - k) / static_cast<double>(k + 1);
    return sets * static_cast<double>(in_.items.size() * (all_orders_ ? policy::passes_of_all_orders : 1)) <=
           static_cast<double>(left_);
  }

 private:
  bool pins_clash() const {
    occupancy taken{with_pins_};
    for (std::uint32_t i = 0; i < with_pins_.items.size(); ++i) {
      if (with_pins_.items[i].pin == no_offset) continue;
      if (!taken.is_free(i, with_pins_.items[i].pin)) return true;
      taken.insert(i, with_pins_.items[i].pin);
    }
    return false;
  }

  const instance& in_;
  instance with_pins_;
  layout& found_;
  const patience& wait_;
  units limit_;
  std::uint64_t left_ = 0;  // items that may still be placed
  std::uint64_t nodes_;
  std::uint64_t most_nodes_a_try_;
  std::uint64_t spent_ = 0;
  bool all_orders_ = false;
  bool searches_ = false;
  std::optional<conflict_graph> graph_;
};

// The items that might be kept, smallest first; and those of them that agree with the pins and with each other.
struct wishes {
  item_list possible;
  item_list agreeing;
};

wishes wishes_of(const instance& in, units limit) {
  wishes out;
  occupancy taken{in};
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    const item& it = in.items[i];
    if (it.pin != no_offset) {
      taken.insert(i, it.pin);
    } else if (it.hint != no_offset && it.hint % it.alignment == 0 && it.hint + it.size <= limit) {
      out.possible.push_back(i);
    }
  }
  std::erase_if(out.possible, [&](std::uint32_t i) { return !taken.is_free(i, in.items[i].hint); });
  item_list by_size = out.possible;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return in.items[a].size < in.items[b].size; });
  for (const std::uint32_t i : by_size) {
    if (!taken.is_free(i, in.items[i].hint)) continue;
    taken.insert(i, in.items[i].hint);
    out.agreeing.push_back(i);
  }
  // Sorts by birth, so that a half is a stretch of time. The half may be kept as a whole if the arena is not tight
  // there.
  const auto birth = [&](std::uint32_t i) {
    const auto ranges = in.ranges_of(in.items[i]);
    return ranges.empty() ? 0 : ranges.front().first;
  };
  std::sort(out.agreeing.begin(), out.agreeing.end(),
            [&](std::uint32_t a, std::uint32_t b) { return birth(a) != birth(b) ? birth(a) < birth(b) : a < b; });
  return out;
}

}  // namespace

kept_hints keep_hints(const instance& in, layout& found, bool thorough, std::uint64_t nodes, const patience& wait) {
  kept_hints answer{.most = true};
  const bool any_missed = [&] {
    for (std::uint32_t i = 0; i < in.items.size(); ++i) {
      if (in.items[i].hint != no_offset && found.offsets[i] != in.items[i].hint) return true;
    }
    return false;
  }();
  if (!any_missed) return answer;
  if (wait.over()) return {};
  const wishes all = wishes_of(in, found.arena);
  const auto kept_by = [&](const layout& l) {
    return static_cast<std::size_t>(std::count_if(all.possible.begin(), all.possible.end(),
                                                  [&](std::uint32_t i) { return l.offsets[i] == in.items[i].hint; }));
  };
  const std::size_t at_first = kept_by(found);
  if (at_first == all.possible.size()) return answer;
  layout best = found;
  keeper k{in, found, thorough, nodes, wait};
  const auto take = [&] {
    if (kept_by(found) > kept_by(best)) best = found;
  };
  if (k.try_keeping(all.agreeing) == verdict::fits) take();
  if (thorough) {
    if (uses(technique::hint_halves) && kept_by(best) < all.agreeing.size()) {
      item_list kept;
      k.grow(kept, all.agreeing, 0, all.agreeing.size());
      take();
    }
    // One fewer missing each time, from the side where the sets are few.
    answer.most = false;
    for (std::size_t less = 0; uses(technique::hint_proof); ++less) {
      if (less + kept_by(best) >= all.possible.size()) {
        answer.most = true;
        break;
      }
      if (!k.pays_to_combine(all.possible.size(), less)) break;
      const verdict got = k.try_leaving_out(all.possible, less);
      take();
      if (got == verdict::unknown) break;
    }
  } else {
    answer.most = kept_by(best) == all.possible.size();
  }
  found = std::move(best);
  answer.nodes = k.nodes_spent();
  return answer;
}

}  // namespace berth::plan

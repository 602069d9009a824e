// A complete search for a layout within a given capacity, resumable after any number of search nodes.
//
// The search looks for plans in *least* form: the feasible layout with the smallest sum of offsets. No item of it can
// be moved down alone, so every item rests on the bottom, on another item, or right above a pinned one. The search
// keeps a proved least offset for every item, and decides one item at a time:
//
//   place     an item whose least offset is supported by placed items, and below which no open neighbour fits,
//             lies there;
//   postpone  or it does not. Then its hole must be blocked: some open neighbour has to enter [hole, hole + size),
//             and the item lies above it. The least offset rises to the least such support, at once and ever after.
//
// The two cases are exhaustive, so an exhausted search proves that no layout fits. Placements of items that are no
// neighbours commute and are never tried in both orders. The form is that of Le Pape's schedule-or-postpone search for
// resource-constrained scheduling, with the hole as the reason to postpone.
//
// Rules, each a switch. A rule may cut off a layout only if another is left; the gains are in 0020 and 0027.
//   R1 sections       in every clique the open items, taken by rising least offset, must end within the capacity
//                     (Jackson's preemptive bound with heads only).
//   R2 holes          a postponed item's hole must still be blockable by something that lies low enough.
//   R3 decomposition  islands that share no conflict are solved one after the other; one that fails fails them all.
//   R4 memory         a state (open items of an island, their supports) that failed is not entered again.
//   R5 multiples      R1 again, in multiples of frequent alignments (model/multiples.hpp): it sees what they waste.
//
// The memory of R4. A *state* is the set of open items of one island and their supports. A *completion* is a layout of
// these items on their supports, within the capacity and clear of pins. An island *inherits* a hole if one of its open
// items had a hole when the island was split off. The memory holds states of islands that inherit no hole.
//
//   Claim. A state S in the memory has no completion at all, so that its key needs no holes.
//
// Proof, by induction over the order in which states enter the memory. Suppose S has a completion. Let C be one with
// the least sum of offsets.
//   1. Every hole that an open item i has in S is blocked in C. Its island inherits none, so i was postponed at some
//      offset a in a state T of the same island. The state T with i placed at a failed before and is in the memory, so
//      it has no completion. If nothing blocked the hole in C, then C with i moved to a, together with the items that
//      were placed between T and S, would be a completion of it.
//   2. The search below S follows C, through islands too. It places an item that lies at its least offset in C, and
//      postpones one that lies higher. Then C blocks the new hole, or else the item could be moved down alone.
//   3. No rule stops it: R1, R2 and R5 refute only states in which C is impossible, and a state of the memory on the
//      way has no completion by induction. So the search finds C, and S did not fail.
// Step 1 needs the island: T with i at a may have failed because of another island, which says nothing about this one.
// The verdict of a search needs steps 2 and 3 alone, with S as the root, where there are no holes.
// A new rule keeps this proof if it only refutes states that have no completion at all. A rule that compares an open
// item with a placed one (dominance by swapping) does not.
//
// Invariants, whenever run() is about to decide (check() tests them; costs in brackets, m = members of cliques):
//   I1  Placed and pinned items overlap nowhere. [conflicts]
//   I2  support_[i] of an open item is the lowest offset, aligned and clear of pins, on all its placed neighbours.
//       [conflicts]
//   I3  support_[i] <= least_[i]; least_[i] is aligned, clear of pins, and i ends within the capacity there. [n]
//   I4  An open item with a hole waits for an open neighbour that, at its least offset, ends above the hole (under R2:
//       and begins below its end), and its own least offset is that end or more. [n]
//   I5  waiting_[w] is the number of items whose witness is w. [n]
//   I6  Of each clique's members, those that are not placed come first, and there are counted_ of them; open_members_,
//       starts_ and ends_ count what their names say. [m]
//   I7  Under R1 (and R5) no clique ends higher than most_end_ says, and none above the capacity. [m log m]
//   I8  The list of the current island holds every open item that conflicts with one of its own. [conflicts]
//   I9  current_.key is the sum of the words of the current island's open items at their supports. [n]
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "plan/model/conflicts.hpp"
#include "plan/model/instance.hpp"
#include "plan/search/failed_states.hpp"
#include "plan/search/search_record.hpp"
#include "plan/search/seeker.hpp"

namespace berth::plan {

struct switches {
  bool sections = true;
  bool holes = true;
  bool decomposition = true;
  bool memory = true;
  bool multiples = true;
  bool folding = true;   // of narrowing: full sections fold items into clumps (plan/search/fold.hpp),
  bool skylines = true;  // and beams look for layouts beside the searches (plan/search/skyline.hpp)
};

// The place at which the search goes on: an open item that lies lowest among its neighbours, in ...
enum class focus : std::uint8_t {
  lowest,  // the lowest place of all
  slack,   // the clique whose open items leave the least room, as last checked: also where one just failed
  fewest,  // the clique on whose floor the fewest open items can lie
};

// The rule that chooses the next item. Every choice is complete.
struct strategy {
  std::vector<std::int64_t> priority;  // by item: of two at one least offset the greater comes first
  focus where = focus::lowest;
  // Decides first, among the items at one least offset, the one that fills its place. No open item beside either end of
  // its lifetime reaches as low (the best fit of strip packing: Burke, Kendall, Whitwell 2004).
  bool corners = false;
  std::uint64_t restart = 0;  // nodes of the first run before a restart, then by Luby's sequence; 0: never
  std::int64_t noise = 0;     // every restart blurs the priorities by up to this; the first run takes them as they are
  std::uint64_t seed = 0;
};

// A state of the memory (R4).
struct failed_state {
  std::vector<std::uint32_t> items;
  std::vector<units> supports;  // of these
};

class search final : public seeker {
 public:
  // All references outlive the search. `known` has states that failed before; it may change between runs only.
  search(const instance& in, const conflict_graph& graph, units capacity, strategy how, const switches& rules,
         const failed_states& known);

  [[nodiscard]] search_status run(std::uint64_t nodes) override;
  // Moves the states that failed since the last call.
  void tell(failed_states& known) { fresh_.move_to(known, capacity_); }

  [[nodiscard]] const std::vector<units>& offsets() const noexcept override { return least_; }
  [[nodiscard]] std::uint64_t nodes() const noexcept override { return nodes_; }
  [[nodiscard]] units capacity() const noexcept { return capacity_; }

  // Appends every state that enters the memory from now on to `all`, which outlives the search. For tests of the claim.
  void list_failed(std::vector<failed_state>& all) { listed_ = &all; }

  // Writes every step into `to`, which outlives the search. Contract: it has not run, and has no decomposition and no
  // restarts.
  void record(search_record& to) { record_ = &to; }

  // Returns the first violated invariant, as "I4"; empty if there is none. Between runs. O(conflicts + m log m). In
  // debug builds run() asks itself: at every decision of small instances, at every 1,024th of others.
  [[nodiscard]] std::string_view check() const;

 private:
  enum class state : std::uint8_t { open, placed, pinned };
  struct undo {
    std::uint32_t item;
    std::uint32_t witness;
    units support;
    units least;
    units hole;
  };
  struct rise {
    std::uint32_t item;
    units from;
  };
  struct end_undo {
    std::uint32_t clique;
    units end;
  };
  struct island {  // open items that no conflict leads out of, and what was placed of them: lists_[begin, end)
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::uint32_t cliques_begin = 0;  // its cliques: island_cliques_[cliques_begin, cliques_end)
    std::uint32_t cliques_end = 0;
    state_key key;               // of its open items
    bool inherits_hole = false;  // what fails in it may fail because of that hole only
  };
  enum class kind : std::uint8_t { place, postpone, split };
  struct frame {
    kind what;
    std::uint32_t item;  // place, postpone; split: how many islands
    std::uint32_t undo_mark;
    std::uint32_t ends_mark;
    std::uint32_t holes_mark;
    std::uint32_t lists_mark;
    std::uint32_t islands_mark;  // split: its islands begin here
    std::uint32_t cliques_mark;
    std::uint32_t outer_split;  // the innermost split when this frame was made
    std::uint32_t next_island;  // split: the island being solved
    std::uint32_t frozen_end;   // split: frames up to here belong to solved islands
    island current;             // the island being solved when this frame was made
  };

  void reset();
  [[nodiscard]] bool root();
  [[nodiscard]] bool place(std::uint32_t i);
  [[nodiscard]] bool postpone(std::uint32_t i);
  [[nodiscard]] bool raise(std::uint32_t i, units least, bool saved = false);
  [[nodiscard]] bool settle(std::uint32_t beside = no_item);
  void note_rise(const rise& r, bool neighbour);
  [[nodiscard]] bool still_fits(std::uint32_t c);
  void set_most_end(std::uint32_t c, units end);
  void wait_for(std::uint32_t i, std::uint32_t witness);
  [[nodiscard]] bool block_hole(std::uint32_t i);
  [[nodiscard]] bool clique_fits(std::uint32_t c);
  [[nodiscard]] units multiples_of(const member& m, std::size_t step) const;
  [[nodiscard]] bool wastes_multiples(std::uint32_t i, units at) const;
  void find_steps();
  [[nodiscard]] units clear_of_pins(std::uint32_t i, units x) const;
  [[nodiscard]] bool lower(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] std::uint32_t choose() const;
  [[nodiscard]] std::uint32_t start_of_choice() const;
  void count_on_floors() const;
  [[nodiscard]] std::uint32_t scarcest() const;
  [[nodiscard]] std::uint32_t lowest_around(std::uint32_t i) const;
  [[nodiscard]] std::uint32_t corner_near(std::uint32_t i) const;
  [[nodiscard]] int closed_sides(std::uint32_t i) const;
  // Returns the members of clique c that are not placed.
  [[nodiscard]] std::span<const member> counted(std::uint32_t c) const {
    return {members_.data() + graph_.clique_first[c], counted_[c]};
  }
  [[nodiscard]] bool is_covered(std::uint32_t c) const;
  [[nodiscard]] bool has_failed(state_key k);
  [[nodiscard]] bool refuted(const refuted_by& why);
  void note_failed(const island& p);
  void leave_cliques(std::uint32_t i);
  void enter_cliques(std::uint32_t i);
  void rank_items();
  void add_cliques(island& p);
  [[nodiscard]] bool lifetimes_touch() const;
  [[nodiscard]] bool neighbours_are_joined(std::uint32_t i);
  [[nodiscard]] bool split(std::uint32_t placed = no_item);
  [[nodiscard]] bool next_island();
  void restart();
  [[nodiscard]] bool placed_are_apart() const;
  [[nodiscard]] bool supports_are_right() const;
  [[nodiscard]] bool least_offsets_are_possible() const;
  [[nodiscard]] bool holes_can_be_blocked() const;
  [[nodiscard]] bool waiting_is_counted() const;
  [[nodiscard]] bool cliques_are_counted() const;
  [[nodiscard]] bool sections_are_counted() const;
  [[nodiscard]] bool cliques_end_below() const;
  [[nodiscard]] bool island_is_closed() const;
  void find_islands(std::vector<std::vector<std::uint32_t>>& islands) const;
  [[nodiscard]] bool backtrack();
  void save(std::uint32_t i);
  void restore(const frame& f);
  void push(kind what, std::uint32_t i);

  const instance& in_;
  const conflict_graph& graph_;
  const units capacity_;
  const strategy strategy_;
  std::vector<std::uint32_t> rank_;  // by item: its place in the order of blurred priorities
  const switches rules_;
  std::vector<char> plain_;     // by item: one range and no links
  bool intervals_only_ = true;  // all items are plain: islands are found by a sweep
  std::vector<units> steps_;    // of R5; where they do not divide each other, a check may be left out
  units coarsest_step_ = 1;
  std::vector<units> fewest_multiples_;  // by step, then by item, of its whole size
  const failed_states& known_;
  fresh_failures fresh_;
  std::vector<failed_state>* listed_ = nullptr;
  search_record* record_ = nullptr;
  refuted_by why_;  // the last case, if record_ is set

  std::vector<state> state_;
  std::vector<units> support_;               // least offset that placed items allow
  std::vector<units> least_;                 // proved least offset; the offset, once placed
  std::vector<units> hole_;                  // refused offset that has to be blocked, or no_offset
  std::vector<std::uint32_t> witness_;       // the open item that can block the hole with the least lift
  std::vector<std::uint32_t> waiting_;       // by item: how many have it as their witness
  std::vector<std::vector<conflict>> pins_;  // by item: pinned neighbours by rising offset
  // The cliques' members. Each clique has first those that count, open or pinned, nearly sorted by falling least
  // offset. The placed ones follow, the last placed first.
  std::vector<member> members_;
  std::vector<std::uint32_t> counted_;                  // by clique: how many count
  std::vector<std::pair<units, member>> out_of_order_;  // clique_fits() only
  std::vector<std::uint32_t> starts_;                   // by section: how many ranges that count begin there,
  std::vector<std::uint32_t> ends_;                     // and for how many it is the last
  std::vector<units> slack_;                            // by clique: what its open items left when last checked
  std::vector<units> most_end_;                         // by clique: its open items end no higher
  std::vector<std::uint32_t> open_members_;             // by clique
  mutable std::vector<units> floor_;                    // count_on_floors(): by clique
  mutable std::vector<std::uint32_t> on_floor_;         // by clique
  std::vector<std::uint32_t> clique_stamp_;
  std::uint32_t stamp_ = 0;
  std::vector<std::uint32_t> reached_;  // neighbours_are_joined(): by item, the wave it was in
  std::uint32_t wave_ = 0;

  std::vector<undo> undo_;
  std::vector<std::uint32_t> holes_;  // items with a hole, oldest first; some are stale
  std::vector<end_undo> end_undo_;
  std::vector<rise> raised_;            // since the last settle()
  std::vector<std::uint32_t> changed_;  // settle() only: cliques in which something rose,
  std::vector<units> rise_;             // by clique: and how much at most
  std::vector<std::uint32_t> lists_;
  std::vector<std::uint32_t> island_cliques_;
  std::vector<island> islands_;
  std::vector<frame> frames_;
  island current_;
  std::uint32_t split_ = no_item;  // innermost split frame
  std::uint64_t nodes_ = 0;
  std::uint64_t next_restart_ = 0;
  std::uint64_t restarts_ = 0;
  bool done_ = false;
  search_status result_ = search_status::paused;
};

}  // namespace berth::plan

// Every number that the planner was given by measurement rather than by proof: budgets, thresholds, shares, rounds.
// Change one here, run `bench_plan_corpus --baseline FILE`, and write down what it gained (docs/plan-rules.md).
//
// Not here: limits of what can be counted (2^61 units), and the numbers of verify/, which shares nothing with the
// planner. Tables of techniques stand with what they choose from (`recipes` in search/recipes.hpp, `portfolio` in
// greedy/greedy.cpp). A value without a source is the first one tried that kept the stage short. No other value is
// known to be better for it. The word "measured" names the page under docs/decisions with the figures.
//
// Effort is counted, not timed, so that plans are the same on every machine. The search counts nodes (decisions), all
// else counts looks, steps of some ten nanoseconds (patience.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace berth::plan::policy {

// ---- Costs, in looks ----

inline constexpr std::uint64_t looks_between_readings = 4096;  // of the clock: 40 us
inline constexpr std::uint64_t best_looks_factor = 10;  // what a stage may look at: so many times that at effort best
inline constexpr std::uint64_t looks_a_node = 64;       // a node takes 0.5 to 100 us
inline constexpr std::uint64_t looks_an_assigned_state = 4;  // choosing and copying it at each change ...
inline constexpr std::size_t state_bytes_a_look = 128;       // ... which takes the longer, the more it says
inline constexpr std::uint64_t looks_a_swept_item = 50;      // by all orders of effort fast
inline constexpr std::uint64_t looks_a_routed_item = 64;     // of problems with moves
inline constexpr std::uint64_t intervals_moved_a_look = 16;  // moving one on in its list costs less than looking at it

// ---- Work finished after a stop (single/verified.hpp) ----

// Buffers of which a first plan is made and verified within a tenth of a second, however soon the wait ends.
inline constexpr std::size_t most_at_once = std::size_t{1} << 17;
// Buffers of plain lifetimes whose sweeps are finished, and verified: half a second for a million.
inline constexpr std::size_t most_swept_at_once = std::size_t{1} << 20;

// ---- The sweep over time (greedy/sweep.hpp) ----

// Up to so many ticks a buffer are counted as they are; sparser ones as steps, which have to be sorted.
inline constexpr std::uint64_t dense_ticks_per_buffer = 4;
// Holes are looked through one by one up to here, and sorted from then on.
inline constexpr std::size_t most_unsorted_holes = 64;
// A sweep is given up after so many holes a buffer, and so many in advance: best fit seldom needs more.
inline constexpr std::uint64_t most_holes_per_rectangle = 64;
inline constexpr std::uint64_t holes_in_advance = 65'536;
// Effort fast with more than most_at_once buffers: a first sweep within the first share of the bound needs no second
// one. Sweeps within the second share end the work.
inline constexpr double near_enough_for_one_sweep = 1.0 / 64;
inline constexpr std::int64_t good_enough_share_of_many = 8;

// The looks that a stage may take: so many, and so many an item.
struct looks_budget {
  std::uint64_t base, an_item;
};

// ---- First fit by neighbours (greedy/first_fit.hpp) ----

// The limit of the first pass: some microseconds an item.
inline constexpr looks_budget first_pass{100'000, 256};
// Looks of a pass: for an item, and for a neighbour that is collected. A list of all is gone through up to so many
// items, a look for so many.
inline constexpr std::uint64_t looks_a_fitted_item = 12, looks_a_neighbour = 1, listed_a_look = 8;
inline constexpr std::size_t most_listed_items = 2048;

// ---- Sweeps outwards with particles (greedy/outward.hpp; 0036) ----

// The weights that a particle draws (parts of 256: a tenth of the value of one pass to ten times it). Chance raises a
// score by up to so much (parts of 256).
inline constexpr std::array<std::int64_t, 9> outward_wastes{77, 137, 243, 432, 768, 1366, 2429, 4319, 7680};
inline constexpr std::int64_t outward_noise = 77;
// Looks of the passes: half a microsecond an item; a tenth of a second for 10,000 items, and one for 100,000; ten.
inline constexpr looks_budget fast_outward{0, 40}, normal_outward{2'000'000, 500}, best_outward{20'000'000, 5000};
inline constexpr std::uint64_t looks_a_stacked_item = 4;
// Particles are compared so many times in the length of a stack, after so many items at least. A single one asks the
// wait after so many items.
inline constexpr std::size_t parts_of_a_stack = 6, fewest_in_a_part = 16, outward_part_alone = 4096;
// Particles, and their items (64 MiB of offsets).
inline constexpr std::size_t most_particles = 64, most_particle_items = 8'000'000;

// ---- Cuts and refills (greedy/cuts.hpp; 0036) ----

// Items up to which a beam refills them, and tops below which 32 bits do.
inline constexpr std::size_t most_cut_items = 2000;
inline constexpr std::int64_t highest_refilled = std::int64_t{1} << 28;
// States that go on; one move in so many is wide.
inline constexpr std::size_t narrow_refill = 10, wide_refill = 80, wide_refill_share = 8;
// The weights of a move are drawn below these (of scores in 2^-20).
inline constexpr std::uint64_t most_refill_squarings = 4, most_refill_steps = 52'000, most_refill_area = 10'500'000,
                               most_refill_noise = 21'000;
// Looks of all moves: some tens of milliseconds; five seconds, in place of so much of the search's nodes.
inline constexpr std::uint64_t normal_cut_looks = 3'000'000, best_cut_looks = 300'000'000;
inline constexpr double share_of_cuts = 0.5;

// ---- Greedy passes (greedy/greedy.hpp) ----

// Above so many items no search is likely, and ejections take its place (0024).
inline constexpr std::size_t few_items = 4000;
// Near: within this share of the target.
inline constexpr std::int64_t near_share = 2048;
// Looks of all passes of one problem: a microsecond an item; about a second; ten.
inline constexpr looks_budget fast_passes{300'000, 100};
inline constexpr looks_budget normal_passes{100'000'000, 1000};
inline constexpr looks_budget best_passes{1'000'000'000, 10'000};
// The same for more than few_items at normal and best: by breadth, as networks reward it.
inline constexpr looks_budget passes_of_many{10'000'000, 100};
// Looks of first fit of items left when the passes end: so many an item or link, and in all a tenth of a second.
inline constexpr std::uint64_t looks_above = 64, most_looks_above = 2'000'000;
// Rounds in which items that ended above the target move to the front. The first few repair most that can be (0020).
inline constexpr int squeaky_rounds = 6;

// ---- Ejection chains (greedy/ejection.hpp; 0024) ----

// Items looked at for a layout that does not end near the target: about a second; of many items so many each (0027).
inline constexpr std::uint64_t ejection_looks = 20'000'000, ejection_looks_an_item = 200;
// Chains find less after sweeps with particles: this share of it.
inline constexpr std::uint64_t plain_ejection_share = 4;
// Ranges passed in a look: one that does not meet an item takes a nanosecond or two.
inline constexpr std::uint64_t ranges_passed_a_look = 16;
// The same for few items after the search, as long as that is less than a quarter of a second.
inline constexpr std::uint64_t ejection_looks_an_item_of_few = 10'000;
// At effort fast, for each item: some microseconds, where one pass ends far above the bound ...
inline constexpr std::uint64_t fast_ejections = 64;
// ... until within this share of it.
inline constexpr std::int64_t fast_near_share = 16;
// The share of these for each target that is tried.
inline constexpr std::uint64_t share_of_an_ejection_try = 6;

// ---- Peaks (single/peaks.hpp; 0034) ----

// From so many items on, with so many alive together in the mean at most. Fewer are searched as a whole.
inline constexpr std::size_t fewest_for_peaks = 1000;
inline constexpr std::uint64_t most_alive_for_peaks = 256;
// Sections are peaks that lack no more than such a share of the target. Groups of more items are taken as the higher
// peaks in them, and so are those that are not solved.
inline constexpr std::array<std::int64_t, 4> peak_shares{7, 14, 28, 56};
inline constexpr std::size_t most_peak_items = 800;
// The limit of the search of one group (most take one node an item), and of all groups at normal and at best.
inline constexpr std::uint64_t peak_nodes_an_item = 40;
inline constexpr double peak_seconds = 0.4, best_peak_seconds = 1;
// The rest is fitted in around the peaks, whose items cost so many times their price. An attempt aims so many eighths
// of the way from the goal to the layout before. It looks at so many items: a seventh of a second.
struct peak_attempt {
  std::int64_t price, eighths;
};
inline constexpr std::array<peak_attempt, 5> peak_attempts{{{16, 0}, {4, 0}, {16, 1}, {16, 2}, {16, 4}}};
inline constexpr std::uint64_t peak_ejections = 3'000'000;
// The groups are searched if all of that ends further above the target than this share of it (at effort fast, that
// one). Their time: at fast for each item of the whole; at normal; at best. D alone is solved in 1.2 s.
inline constexpr std::int64_t far_share = 16, fast_far_share = 8;
inline constexpr double fast_core_seconds_an_item = 1e-6, core_seconds = 0.1, best_core_seconds = 2;
// Small are items that together take no more than such a share of the target.
inline constexpr std::int64_t small_share = 32;

// ---- Bounds (bound/) ----

// Alignments that are counted in multiples (model/multiples.hpp), the most frequent ones.
inline constexpr std::size_t most_steps = 4;
// Cells of the table that counts which sums of lengths there are; above that the sum is rounded up instead.
inline constexpr std::int64_t most_sum_cells = 1 << 12;
// Holes between reserved ranges and pins after which no further pair is tried in them: some tenths of a second.
inline constexpr std::uint64_t most_holes = 10'000'000;
// Clique members up to which every section is considered, and pinned items times ranges for heads: some milliseconds.
inline constexpr std::uint64_t most_section_members = 2'000'000;
inline constexpr std::size_t most_head_pairs = 2'000'000;
// Buffers up to which cliques of conflicts are looked for, the words of bit sets looked at, and the nodes for each: ten
// milliseconds.
inline constexpr std::uint32_t most_clique_buffers = 2048;
inline constexpr std::uint64_t clique_words = 20'000'000, fewest_clique_nodes = 50, most_clique_nodes = 20'000;
// Limits for more buffers: cliques of explicit conflicts are looked for among the neighbours of one at a time. All take
// a tenth of a second.
inline constexpr std::uint64_t neighbourhood_nodes = 200, neighbourhood_looks = 20'000'000;

// ---- Budgets of the search (single/single.cpp) ----

// Clique members above which no conflict graph is built, and the pairs it may have: 200 MB, and 2 KB an item. A pair
// takes some 100 bytes. A file of a megabyte can ask for billions.
inline constexpr std::uint64_t most_graph_members = 2'000'000;
inline constexpr std::uint64_t most_graph_pairs = 2'000'000, graph_pairs_an_item = 20;
// Links looked at for cliques that no section shows: a second. Then every further link is a clique of two.
inline constexpr std::uint64_t most_link_looks = 30'000'000;
// Effort normal: this share of a second's nodes; effort best: so many seconds' worth.
inline constexpr std::uint64_t normal_share_of_second = 10, best_seconds = 10;
// A node's cost in nanoseconds, fitted on A-K (0020): so much, for every conflict of an item, for every clique.
inline constexpr std::uint64_t node_ns = 500, node_ns_a_conflict = 75, node_ns_a_clique = 2;

// ---- The search (search/search.hpp) ----

// Entries of failed states: 16 MiB. A sixteenth of it serves a search of fewer nodes than that, and no more than twice
// to four times these.
inline constexpr unsigned log2_failed_states = 20;
inline constexpr unsigned log2_failed_states_less = 4;
// Failed states that one search notes before it tells the others: it begins with so many, and ends at 16 MiB.
inline constexpr std::size_t fewest_fresh_states = std::size_t{1} << 8;
inline constexpr std::size_t most_fresh_states = std::size_t{1} << 20;
// A restart blurs priorities by up to so many quarters of an octave either way: a factor of 1.7.
inline constexpr std::int64_t noise_in_quarters = 3;
// A first run before a restart has so many nodes an item at least.
inline constexpr std::uint64_t restart_nodes_an_item = 2;
// How often a thread looks whether it may go on.
inline constexpr std::uint64_t nodes_between_looks = 64;

// ---- Narrowing (search/narrow.cpp; 0020) ----

// The first slice of each recipe: so many nodes, and so many halves of one an item, enough for a descent with few
// failures. Each round's is a quarter longer.
inline constexpr std::uint64_t first_slice = 200, slice_half_nodes_an_item = 3, slice_growth_share = 4;
// So many recipes have their slice before any learns from the others' failures, so that many threads are of use. A
// proof costs a tenth more nodes than if each told the next (with all recipes: a third more).
inline constexpr std::size_t side_by_side = 4;
// At first so many recipes try the bound; then so many go down in steps of so many sixteenths of the gap.
inline constexpr std::size_t quick_recipes = 1, descending_recipes = 5;
inline constexpr std::int64_t descending_sixteenths = 10;
// Targets of later rounds, in sixteenths of the gap above the bound.
inline constexpr std::array<std::int64_t, 5> tried_sixteenths{0, 10, 12, 14, 15};
// Rounds at the bound with full slices; then half slices, since it will not soon be met.
inline constexpr std::uint64_t full_slices_at_bound = 3;

// ---- Folding (search/fold.cpp; 0020) ----

// Clumps of one lifetime whose sets are all looked at.
inline constexpr std::uint32_t most_alike = 8;
// Folding is not tried again if it once leaves more than so many tenths of the items.
inline constexpr std::size_t rigid_tenths = 9;
// The share of possible folds left out where chance chooses.
inline constexpr std::uint64_t left_out_share = 8;

// ---- Beams over skylines (search/skyline.hpp; 0026) ----

// Below so many items a complete search is better; above so many beams find nothing.
inline constexpr std::size_t fewest_for_beams = 48, most_for_beams = 4000;
// Slices of a beam at the bound, from the second round on: beams more often find what search does not find there at
// once. Above the bound one slice.
inline constexpr std::uint64_t beam_slices = 8;
// The one beam in the first round: states an item, for four narrow tries; and a quarter of all nodes at most.
inline constexpr std::uint64_t first_tries = 96, first_tries_share = 4;
// A state costs so many nanoseconds and, for every section, so many; and as much again for so many rises of its floor.
// Measured: 1 to 3 us, 11 us on J, where the floor of a state rises thirty times.
inline constexpr std::uint64_t state_ns = 300, state_ns_a_section = 12, raises_a_state = 4;
// Steps of the share of a section's room that is wasted, between which its cost is constant.
inline constexpr std::int64_t beam_cost_steps = 256;
// Ranges of a score's weights, in hundredths, and of the exponent of waste, in quarters. They held the weights that
// succeeded on D and its variants.
struct drawn_from {
  std::int64_t least, most;
};
inline constexpr drawn_from beam_waste{70, 300}, beam_rough{100, 400}, beam_area{0, 500}, beam_tall{10, 40},
    beam_noise{2, 6}, beam_exponent{2, 6};
// Costs of a step of the skyline that one open item can level, two, three, or more.
inline constexpr std::array<std::int32_t, 4> beam_step_costs{4, 6, 8, 11};
// Such costs that are kept: 1 MiB, a power of two.
inline constexpr std::size_t kept_step_costs = std::size_t{1} << 16;
// States that go on, by try; then those behind the first few again and again. Narrow tries first: they are cheap, and
// many of them find more than few wide ones, until the problem is hard.
inline constexpr std::array<std::size_t, 10> beam_widths{16, 16, 32, 32, 50, 50, 100, 100, 400, 400};
inline constexpr std::size_t beam_narrow = 4;
// As many states as have so many sections together, or so few: some megabytes.
inline constexpr std::size_t most_beam_words = 100'000, least_beam_width = 100;

// ---- Hints (single/hints.hpp) ----

// Nodes where the caller gave no limit: some tens of milliseconds; of them this share for one set of hints.
inline constexpr std::uint64_t hint_nodes = 40'000, share_of_a_hint_try = 16;
// Clique members above which sets are not searched for, and items placed after which no further set is tried.
inline constexpr std::uint64_t most_hint_graph_members = 200'000, most_items_placed_for_hints = 300'000;
// Up to so many items every greedy order is tried for a set, which costs about so many passes; one order else.
inline constexpr std::size_t few_hinted_items = 200;
inline constexpr std::uint64_t passes_of_all_orders = 8;

// Looks of ejection chains that repair the former plan (wishes/replan.cpp).
inline constexpr std::uint64_t repair_ejections = 2'000'000;

// ---- Reuse penalties (wishes/reuse.hpp) ----

// Rounds of moving one buffer at a time, and the looks of all: some tenths of a second.
inline constexpr int reuse_rounds = 4;
inline constexpr looks_budget fast_reuse{1'000'000, 200}, normal_reuse{30'000'000, 200}, best_reuse{300'000'000, 2'000};
// Buffers taken out at once around a pair that pays.
inline constexpr std::uint64_t most_refilled = 8;

// ---- Prices of limits (subgradient.hpp) ----

// A step of prices is that much shorter after so many rounds without gain, until it is the shortest.
struct price_steps {
  int rounds, before_shorter;
  double shorter, shortest, deflection;
};
// A limit of visits allows some tens of rounds for residences.
inline constexpr price_steps residence_prices{200, 5, 0.5, 1e-3, 0}, memory_prices{300, 10, 0.7, 1e-4, 1.5};

// ---- Several memories (several/, single/parts.cpp; 0025) ----

// Choices of buffers that name no memory: so many in all, and so many a buffer at least.
inline constexpr std::size_t most_choices = 500'000, fewest_choices = 16;
// Assignment by live bytes: states times bundles, and states. Explicit conflicts and more memories than this are
// assigned one by one. The fill of the fullest memory is cut into so many parts; one state in so many is the best of
// its part. A share of all goes first. A double tells whole numbers apart up to most_exact.
inline constexpr std::size_t fast_state_bundles = 50'000, fast_most_states = 2048;
inline constexpr std::size_t state_bundles = 1'000'000, most_states = 16384;
inline constexpr std::size_t most_assigned_memories = 200;
inline constexpr std::size_t roomy_share = 2, parts_of_room = 32, few_states_share = 16;
inline constexpr double most_exact = 0x1p52;
// Attempts at an assignment that also fits by address: so many divided by the bundles, within these limits. With slabs
// an attempt takes four times as long.
inline constexpr std::size_t attempt_bundles = 6000, attempt_slab_bundles = 1500, fewest_attempts = 2,
                             most_attempts = 16;
// Assignments up to which each is tried.
inline constexpr std::size_t most_listed_assignments = 512;
// How often what found no room in a memory goes to the front, in each order.
inline constexpr int mended_rounds = 16;
// Looks of all choices of memories for one problem, and of all attempts to repair one: each some seconds. Prices for
// one choice may take so many of the former: a tenth of a second. The last number is for a wait that ended before there
// was a plan: some tenths.
inline constexpr std::uint64_t assign_looks = 150'000'000, repair_looks = 300'000'000, price_looks = 50'000'000;
inline constexpr std::uint64_t late_repair_looks = 30'000'000;
// How many items and sections all slabs of all memories may have together there: some hundred megabytes.
inline constexpr std::uint64_t most_mended_places = std::uint64_t{1} << 22;
inline constexpr std::uint64_t looks_a_mended_item = 64, looks_a_mended_choice = 8;
// Looks of the memories of all assignments that are tried, together: some seconds.
inline constexpr std::uint64_t memories_looks = 500'000'000;

// ---- Slabs (several/slabs.hpp) ----

// Bundles up to which every split into slabs is tried (2^10 sets), and up to which single ones are moved into others.
// Each is planned some times if memories are chosen. Moves are planned with effort normal only up to the last number.
inline constexpr std::size_t most_split_bundles = 10, most_moved_bundles = 400, most_well_moved_bundles = 60;
// Moves that are tried: tens of milliseconds. Looks of these, or of layouts without pins that clash: about a second.
inline constexpr std::size_t slab_moves = 1000;
inline constexpr std::uint64_t slab_looks = 100'000'000;
// Looks of all slabs of one memory that are laid, or planned, one after the other.
inline constexpr std::uint64_t all_slabs_looks = 200'000'000;

// ---- Moves (moves/; 0023) and symbolic sizes (symbolic/) ----

// Numbers by memory or link and period, of which there are some ten tables: a gigabyte and a half. Real problems have
// few memories; a file of a megabyte can ask for terabytes.
inline constexpr std::uint64_t most_move_cells = std::uint64_t{1} << 24;
// Periods that one copy takes at most: what is not done by then would be waited for as well.
inline constexpr std::uint32_t longest_copy = 64;
// Looks of all attempts together, and of each search for residences: some seconds.
inline constexpr std::uint64_t moves_looks = 500'000'000, moves_looks_an_item = 2'500, residence_looks = 250'000'000;
// Looks of placing stays with effort fast, which takes all effort if memories are nearly full: a tenth of a second.
inline constexpr std::uint64_t quick_placing_looks = 10'000'000, quick_placing_looks_a_stay = 256;
// Stays up to which those that are above a capacity are looked for with all effort: of more that is no better.
inline constexpr std::size_t most_stays_searched = 32'768;
inline constexpr std::uint64_t looks_a_visit = 2, numbers_cleared_a_look = 16, periods_passed_a_look = 1024;
// Finding out how busy the links are takes at most so many times what finding ways does, while items are inserted one
// by one.
inline constexpr std::uint64_t replays_share = 1;
// Visits, of periods routed or played: so much, and so much an item; so many times that with effort best.
inline constexpr std::uint64_t move_visits = 4'000'000, move_visits_an_item = 50'000, best_move_factor = 30;
// Chains tried: so many, divided by the buffers and so many more.
inline constexpr std::uint64_t normal_chain_budget = 200'000, best_chain_budget = 2'000'000, chain_buffers = 100;

}  // namespace berth::plan::policy

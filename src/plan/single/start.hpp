// The layout that a search starts from; of many items mostly the last one.
#pragma once

#include <cstdint>
#include <functional>

#include "berth/plan/solve.hpp"
#include "plan/greedy/greedy.hpp"
#include "plan/model/instance.hpp"

namespace berth::plan {

// The best of the orders (greedy/greedy.hpp); stops early at `target`. No more than some hundred looks an item (effort
// fast), or a second or so (normal), are spent on passes. At effort fast ejection chains lower it; before a search they
// only lead to the wrong capacities (0027).
//
// Above 1,000 items peaks are searched (single/peaks.hpp), and above 4,000 ejection chains mend what then ends more
// than 1/2048 above the target, a second or so of them. Above 20,000 small items are put in boxes and all are swept;
// effort fast places in order where that ends 1/16 above; effort best, and normal where few are alive, go on with the
// orders, and mend again what one of them lowered.
//
// Of `o` the effort, the node limit and the threads are read. `nodes` grows by the search nodes spent; `show`, if any,
// is shown what was best on the way. Where sweeps ended at `swept`, which fits and is at most a quarter above the
// target, effort fast makes of 1,000 items and more one pass in order of size, searches the peaks where that ends more
// than an eighth above, and no more.
[[nodiscard]] layout best_start(const instance& in, units target, const options& o, const patience& wait,
                                std::uint64_t& nodes, const std::function<void(const layout&)>& show = {},
                                units swept = unbounded);

}  // namespace berth::plan

// Checks that every reader of planning problems makes.
#pragma once

#include <optional>
#include <vector>

#include "berth/model/problem_file.hpp"

namespace berth::model {

// Throws input_error at an id that is empty, that is not UTF-8 (no plan in JSON could name it) or that another buffer
// has.
void require_good_ids(const problem_file& file);

// Makes ids of names that were not made to be ids, so that require_good_ids() passes. Bytes that are not UTF-8 become
// U+FFFD. An empty name, and one that another buffer has, gets its number.
void make_good_ids(problem_file& file);

// Returns [lower, upper) without the gaps, in order. Returns nothing if a gap is empty, reversed or outside, or if the
// whole interval is cut out.
[[nodiscard]] std::optional<std::vector<plan::interval>> without_gaps(plan::interval live,
                                                                      std::vector<plan::interval> gaps);

}  // namespace berth::model

// What every reader of planning problems holds a file to.
#pragma once

#include <optional>
#include <vector>

#include "berth/model/problem_file.hpp"

namespace berth::model {

// Throws input_error at an id that is empty, that is not UTF-8 (no plan in JSON could name it) or that another buffer
// has.
void require_good_ids(const problem_file& file);

// For names that were not made to be ids: what is not UTF-8 becomes U+FFFD, nothing and what another buffer has gets
// its number, so that require_good_ids() passes.
void make_good_ids(problem_file& file);

// The gaps cut out of [lower, upper): what remains, in order. Nothing where a gap is empty, reversed or outside, or
// where nothing remains.
[[nodiscard]] std::optional<std::vector<plan::interval>> without_gaps(plan::interval live,
                                                                      std::vector<plan::interval> gaps);

}  // namespace berth::model

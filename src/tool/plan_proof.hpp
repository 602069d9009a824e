// Logs of what a search proved, for `berth plan --proof` and `berth verify --proof`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "berth/model/problem_file.hpp"
#include "berth/plan/refutation.hpp"

namespace berth::tool {

// Searches again below the plan's bound, checks the log of it and writes it to `path`. Returns its steps, 0 if the
// certificate proves the bound alone. Throws input_error, and writes nothing, if that search does not end.
std::uint64_t write_proof(const std::string& path, const model::problem_file& file, const plan::plan& answer,
                          const plan::options& o);

// Returns the bounds that the log proves. Throws input_error with the line that is wrong.
std::vector<plan::refutation> read_proof(const std::string& path, const plan::problem& p);

}  // namespace berth::tool

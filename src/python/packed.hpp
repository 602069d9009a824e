// Problems and plans as bytes: what pickle carries, what a plan cache keeps and what its keys are hashed from.
//
// Numbers are LEB128 (7 bits a byte, the lowest first), signed ones zigzag; texts and lists have their length before
// them. What is unpacked may come from anywhere: lengths are held to the bytes that are left, and the problem has still
// to pass validate(), the plan verify() and check_bound().
#pragma once

#include <string>
#include <string_view>

#include "berth/model/problem_file.hpp"
#include "python/solved.hpp"

namespace berth::python {

// `names`: with the path, ids and names of pools and dimensions; without them, what decides the plan and nothing else.
// Contract: no traffic, which the module does not read.
[[nodiscard]] std::string pack(const model::problem_file& file, bool names = true);
[[nodiscard]] std::string pack(const plan::plan& answer);

// Throw refusal: cut off, too long, or of another version.
[[nodiscard]] model::problem_file unpack_problem(std::string_view packed);
[[nodiscard]] solved_pointer unpack_plan(file_pointer file, std::string_view packed);

// Of a plan from anywhere: throws refusal where its offsets do not pass verify(), or the problem is not valid. True
// where what it says of itself is proved besides: it fills its bound, or the bound exceeds the capacity, and its
// certificate proves the bound, so that solve() would have nothing better. What a plan says of several memories' costs
// and of reuse penalties is proved by none. Without `prove` it is not asked for, and the answer is false.
[[nodiscard]] bool judge(const solved& plan, bool prove);

}  // namespace berth::python

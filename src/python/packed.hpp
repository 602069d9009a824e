// Problems and plans as bytes: what pickle carries, what a plan cache keeps and what its keys are hashed from.
//
// Numbers are LEB128 (7 bits a byte, the lowest first), signed ones zigzag; texts and lists have their length before
// them. What is unpacked may come from anywhere: lengths are held to the bytes that are left, indices to what is there,
// sizes to what their dimensions give, and the problem has still to pass validate(), the plan require_whole() or
// judge().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "berth/model/problem_file.hpp"
#include "python/solved.hpp"

namespace berth::python {

// `names`: with the path, ids and names of pools and dimensions; without them, what decides the plan and nothing else.
// Contract: no traffic, which the module does not read.
[[nodiscard]] std::string pack(const model::problem_file& file, bool names = true);
[[nodiscard]] std::string pack(const plan::plan& answer);

// Without names, and the buffers in an order of their own, by what they are: problems that differ in the order of their
// buffers only are the same bytes. Buffers that are equal but for their pairs keep the caller's order: there, and where
// alias groups have other numbers, two orders may stay two. order[i] is the caller's buffer that stands at i.
struct ordered {
  std::string packed;
  std::vector<index> order;
};
[[nodiscard]] ordered in_its_own_order(const model::problem_file& file);
// The plan for the problem in which buffer b is buffer to[b]. What it names beyond them stays as it is.
[[nodiscard]] plan::plan renumbered(const plan::plan& answer, const std::vector<index>& to);
[[nodiscard]] std::vector<index> inverse(const std::vector<index>& order);

// Throw refusal: cut off, too long, or of another version.
[[nodiscard]] model::problem_file unpack_problem(std::string_view packed);
[[nodiscard]] solved_pointer unpack_plan(file_pointer file, std::string_view packed);

// Of a plan from anywhere: throws refusal where the problem is not valid, or the arena is not what the offsets take.
// All that a berth.Plan is used for stands on these; whether it keeps to the problem's rules is left to verify().
void require_whole(const solved& plan);

// Judges a plan from anywhere. Throws refusal if its offsets do not pass verify(), or the problem is not valid. Returns
// whether the plan proves besides that solve() would have nothing better:
//   with offsets     it fills its bound, which its certificate proves; each buffer lies in the cheapest of its
//   memories;
//                    it pays no reuse penalty; no buffer has a hint
//   infeasible       the certificate proves that a memory, or all of them together, are too small
// Without `prove` it is not asked for, and the answer is false.
[[nodiscard]] bool judge(const solved& plan, bool prove);

}  // namespace berth::python

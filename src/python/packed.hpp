// Problems and plans as bytes: for pickle, for plan caches and for the hashes of their keys.
//
// Numbers are LEB128 (7 bits a byte, the lowest first), signed ones zigzag; texts and lists have their length before
// them. Unpacking trusts nothing: it checks lengths against the bytes that are left, indices, and sizes against their
// dimensions. The problem has still to pass validate(), the plan require_whole() or judge().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "berth/model/problem_file.hpp"
#include "python/solved.hpp"

namespace berth::python {

// Packs the problem: with `names` also the path, ids and names of pools and dimensions; else only the fields that
// decide the plan. Contract: no traffic, which the module does not read.
[[nodiscard]] std::string pack(const model::problem_file& file, bool names = true);
[[nodiscard]] std::string pack(const plan::plan& answer);

// Packs without names, and with the buffers in an order of their own, by their fields. Problems that differ in the
// order of their buffers only are the same bytes. Buffers that are equal but for their pairs keep the caller's order.
// Two orders may stay two there, and if alias groups have other numbers. order[i] is the caller's buffer that stands at
// i.
struct ordered {
  std::string packed;
  std::vector<index> order;
};
[[nodiscard]] ordered in_its_own_order(const model::problem_file& file);
// Returns the plan for the problem in which buffer b is buffer to[b]. Its other numbers stay.
[[nodiscard]] plan::plan renumbered(const plan::plan& answer, const std::vector<index>& to);
[[nodiscard]] std::vector<index> inverse(const std::vector<index>& order);

// Throw refusal if the bytes are cut off, too long, or of another version.
[[nodiscard]] model::problem_file unpack_problem(std::string_view packed);
[[nodiscard]] solved_pointer unpack_plan(file_pointer file, std::string_view packed);

// Checks a plan from anywhere. Throws refusal if the problem is not valid, or the arena differs from the one that the
// offsets take. All uses of a berth.Plan rely on these; verify() checks the problem's rules.
void require_whole(const solved& plan);

// Judges a plan from anywhere. Throws refusal if its offsets do not pass verify(), or the problem is not valid. Returns
// whether the plan proves that solve() would find nothing better (false without `prove`):
//   with offsets     it fills its bound, which its certificate proves; each buffer lies in the cheapest of its
//                    memories; it pays no reuse penalty; no buffer has a hint
//   infeasible       the certificate proves that a memory, or all of them together, are too small
[[nodiscard]] bool judge(const solved& plan, bool prove);

}  // namespace berth::python

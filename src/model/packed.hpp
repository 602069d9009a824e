// Problems and plans as bytes: for pickle, for plan caches and for the hashes of their keys.
//
// Numbers are LEB128 (7 bits a byte, the lowest first), signed ones zigzag; texts and lists have their length before
// them. Unpacking trusts nothing: it checks lengths against the bytes that are left, indices, and sizes against their
// dimensions. The problem has still to pass validate(), the plan judge().
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "berth/model/problem_file.hpp"
#include "berth/plan/plan.hpp"

#pragma GCC visibility push(default)  // for the Python module
namespace berth::model {

using plan::index;

// The bytes are none of these, or do not belong together.
class packed_error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// Packs the problem: with `names` also the path, ids and names of pools and dimensions; else only the fields that
// decide the plan.
[[nodiscard]] std::string pack(const problem_file& file, bool names = true);
[[nodiscard]] std::string pack(const plan::plan& answer);

// Packs only the fields that decide the plan, without names, and with the buffers in an order of their own, by their
// fields. Problems that differ in the order of their buffers only are the same bytes. Buffers that are equal but for
// their pairs keep the caller's order. Two orders may stay two there, and if alias groups have other numbers. order[i]
// is the caller's buffer that stands at i.
struct ordered {
  std::string packed;
  std::vector<index> order;
};
[[nodiscard]] ordered in_its_own_order(const problem_file& file);
// Returns the plan for the problem in which buffer b is buffer to[b]. Its other numbers stay.
[[nodiscard]] plan::plan renumbered(const plan::plan& answer, const std::vector<index>& to);
[[nodiscard]] std::vector<index> inverse(const std::vector<index>& order);

// Texts that a plan's views show.
struct plan_texts {
  std::string solver, reason;
};

// Throw packed_error if the bytes are cut off, too long, or of another version. The plan's texts lie in `texts`.
[[nodiscard]] problem_file unpack_problem(std::string_view packed);
[[nodiscard]] plan::plan unpack_plan(const problem_file& file, std::string_view packed, plan_texts& texts);

// Returns whether the certificate proves that a memory, or all of them together, are too small. Contract: the problem
// is valid.
[[nodiscard]] bool is_refuted(const plan::problem& p, const plan::plan& answer);

// Judges a plan from anywhere. Throws packed_error if its offsets do not pass verify(), or the problem is not valid.
// Returns whether the plan proves that solve() would find nothing better (false without `prove`):
//   with offsets     it fills its bound, which its certificate proves; each buffer lies in the cheapest of its
//                    memories; it pays no reuse penalty; no buffer has a hint
//   infeasible       is_refuted()
[[nodiscard]] bool judge(const problem_file& file, const plan::plan& answer, bool prove);

}  // namespace berth::model
#pragma GCC visibility pop

// Helpers shared by the writers and the readers of plans.
#pragma once

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "berth/model/problem_file.hpp"
#include "berth/plan/plan.hpp"
#include "model/files/json_fields.hpp"

namespace berth::model {

inline void append(std::string& out, std::integral auto n) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, n).ptr);
}

void append(std::string& out, double n);

// Appends a string of JSON.
void append_string(std::string& out, std::string_view text);

// Appends the id as the file has it: a number or a string.
void append_id(std::string& out, const problem_file& file, std::string_view id);

// Returns the alignment that the base of every memory needs, so that its buffers' addresses are aligned as their
// offsets are. Throws input_error if there is no such number.
[[nodiscard]] bytes base_alignment(const problem_file& file);

// Reads a plan as read_plan() does, from a text. `path` is what errors name.
[[nodiscard]] plan::plan read_plan_text(const std::string& path, std::string_view text, problem_file& file);

// Return the memory and the slab of buffer i. Contract: the plan has offsets.
[[nodiscard]] plan::index memory_of(const plan::plan& answer, plan::index i);
[[nodiscard]] plan::index slab_of(const plan::plan& answer, plan::index i);

// Returns the fault of a plan with this size of buffer i.
[[nodiscard]] std::string other_size(const problem_file& file, plan::index i, bytes said);

template <class Named>
[[nodiscard]] std::vector<std::string> names_of(const std::vector<Named>& all) {
  std::vector<std::string> names;
  for (const Named& one : all) names.push_back(one.name);
  return names;
}

// Returns for each id the part of a C identifier that tells it from the others. It has the id's letters and digits in
// capitals and one underscore for every run of others in between; UNNAMED if there are none. The first of several ids
// that look the same keeps that name. The others follow as NAME_2, NAME_3, ... without names of other ids.
[[nodiscard]] std::vector<std::string> macro_names(const std::vector<std::string>& ids);

// The names of a C header: our text, in which BERTH_ and berth_ stand for the prefix, in capitals and small letters.
class c_names {
 public:
  // `prefix`: its letters and digits as in macro_names(), with BERTH_ before them if they do not begin with a letter.
  explicit c_names(std::string_view prefix);
  [[nodiscard]] std::string operator()(std::string_view fixed) const;

 private:
  std::string macro_, function_;
};

// Returns the time from a buffer's first tick to its last. Lifetimes are no rule of a problem with explicit conflicts
// and may be reversed there; the result is not.
[[nodiscard]] plan::interval whole_life(const plan::problem& p, plan::index i);

// Returns by memory the sum over its slabs of the highest end. Contract: the plan has offsets.
[[nodiscard]] std::vector<bytes> arena_by_memory(const plan::problem& p, const plan::plan& answer);

// Returns a comment of C with the id, on a line of its own; empty if the id in capitals is the name.
[[nodiscard]] std::string macro_comment(const std::string& id, std::string_view name);

// Returns plan_header() of a problem with dimensions.
[[nodiscard]] std::string order_header(const problem_file& file, const plan::plan& answer, std::string_view prefix);

}  // namespace berth::model

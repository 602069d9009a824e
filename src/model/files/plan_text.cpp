#include "model/files/plan_text.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <unordered_map>

#include "berth/model/input_error.hpp"
#include "berth/model/plan_file.hpp"
#include "model/files/text.hpp"

namespace berth::model {

plan::index memory_of(const plan::plan& answer, plan::index i) {
  return answer.memory_of.empty() ? 0 : answer.memory_of[i];
}

plan::index slab_of(const plan::plan& answer, plan::index i) {
  return answer.slab_of.empty() ? 0 : answer.slab_of[i];
}

plan::interval whole_life(const plan::problem& p, plan::index i) {
  const plan::buffer& b = p.buffers[i];
  if (!b.lifetimes.empty()) return {b.lifetimes.front().lower, b.lifetimes.back().upper};
  return {b.live.lower, std::max(b.live.lower, b.live.upper)};
}

std::vector<bytes> arena_by_memory(const plan::problem& p, const plan::plan& answer) {
  std::map<std::pair<plan::index, plan::index>, bytes> tops;  // by memory and slab
  for (plan::index i = 0; i < p.buffers.size(); ++i) {
    bytes& top = tops[{memory_of(answer, i), slab_of(answer, i)}];
    top = std::max(top, answer.offset(i) + p.footprint(i));
  }
  std::vector<bytes> arena(std::max<std::size_t>(1, p.memories.size()), 0);
  for (const auto& [place, top] : tops) arena[place.first] += top;
  return arena;
}

void append(std::string& out, double n) {
  char digits[40];
  out.append(digits, static_cast<std::size_t>(std::snprintf(digits, sizeof digits, "%.6g", n)));
}

void append_string(std::string& out, std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(),
                                 [](unsigned char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  if (plain) {
    ((out += '"') += text) += '"';
  } else {
    out += json(text).dump(-1, ' ', true, json::error_handler_t::replace);
  }
}

void append_id(std::string& out, const problem_file& file, std::string_view id) {
  if (file.numeric_ids && parse_number<std::int64_t>(id)) {
    out += id;
  } else {
    append_string(out, id);
  }
}

std::string other_size(const problem_file& file, plan::index i, bytes said) {
  const plan::buffer& b = file.problem.buffers[i];
  return "buffer " + quote(b.name) + " has " + std::to_string(said) + " bytes here, in the problem " +
         std::to_string(b.size);
}

namespace {

char capital(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

std::string plain_macro_name(std::string_view id) {
  std::string name;
  bool apart = false;  // something else stands before the next letter
  for (const char c : id) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter && apart && !name.empty()) name += '_';
    if (letter) name += capital(c);
    apart = !letter;
  }
  return name.empty() ? "UNNAMED" : name;
}

}  // namespace

c_names::c_names(std::string_view prefix) : macro_{plain_macro_name(prefix)} {
  if (prefix.empty() || macro_ == "UNNAMED") macro_ = "BERTH";
  if (macro_.front() >= '0' && macro_.front() <= '9') macro_.insert(0, "BERTH_");
  macro_ += '_';
  for (const char c : macro_) function_ += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string c_names::operator()(std::string_view fixed) const {
  constexpr std::string_view macro = "BERTH_", function = "berth_";
  std::string out;
  while (!fixed.empty()) {
    const bool is_macro = fixed.starts_with(macro), is_function = fixed.starts_with(function);
    out += is_macro ? macro_ : is_function ? function_ : std::string{fixed.front()};
    fixed.remove_prefix(is_macro || is_function ? macro.size() : 1);
  }
  return out;
}

std::vector<std::string> macro_names(const std::vector<std::string>& ids) {
  std::unordered_map<std::string, std::size_t> taken;  // how often it was asked for
  taken.reserve(ids.size());
  std::vector<std::string> names;
  names.reserve(ids.size());
  std::vector<std::size_t> later;
  for (const std::string& id : ids) {
    names.push_back(plain_macro_name(id));
    if (++taken[names.back()] > 1) later.push_back(names.size() - 1);
  }
  // All plain names are known now, so that no numbered one takes that of an id that comes after it.
  for (auto& [name, count] : taken) count = 1;
  for (const std::size_t i : later) {
    std::size_t& last = taken[names[i]];  // a reference that growth leaves valid
    std::string numbered;
    do {
      numbered = names[i] + "_" + std::to_string(++last);
    } while (!taken.emplace(numbered, 1).second);
    names[i] = std::move(numbered);
  }
  return names;
}

bytes base_alignment(const problem_file& file) {
  const plan::problem& p = file.problem;
  std::optional<rules::placement> all = rules::unconstrained();
  const auto join = [&](bytes alignment) {
    all = rules::strictest(*all, {.start_alignment = alignment});
    if (!all) throw input_error(file.path, "no alignment of 64 bits is a multiple of all alignments: no header");
  };
  for (plan::index i = 0; i < p.buffers.size(); ++i) join(p.alignment_of(i));
  for (const plan::memory& m : p.memories) join(m.alignment);
  return all->start_alignment;
}

std::string macro_comment(const std::string& id, std::string_view name) {
  if (std::equal(id.begin(), id.end(), name.begin(), name.end(), [](char a, char b) { return capital(a) == b; })) {
    return {};
  }
  std::string text = quote(id);
  std::replace(text.begin(), text.end(), '*', '?');  // no end of a comment, nor a second beginning
  return "/* " + text + " */\n";
}

stays_as_buffers as_buffers(const problem_file& file, const plan::plan& answer) {
  stays_as_buffers made{.file = file, .answer = answer};
  made.file.problem = plan::problem_of_stays(file.problem, answer.stays);
  made.file.lines.clear();
  made.file.weights.clear();
  made.file.taken_over.clear();
  made.answer.stays.clear();
  return made;
}

}  // namespace berth::model

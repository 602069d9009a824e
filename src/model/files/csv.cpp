// MiniMalloc's CSV (google/minimalloc, README and src/converter.cc). Written by hand, since a million rows must be
// read in a fraction of a second.
#include <algorithm>
#include <array>
#include <limits>

#include "berth/model/input_error.hpp"
#include "model/file.hpp"
#include "model/files/checks.hpp"
#include "model/files/readers.hpp"
#include "model/files/text.hpp"

namespace berth::model {
namespace {

enum class column : std::uint8_t { id, lower, upper, size, alignment, offset, hint, gaps, column_count };

struct header {
  std::vector<column> columns;
  bool closed = false;  // a column `end`: the last tick itself
};

[[noreturn]] void refuse_column(const std::string& path, std::size_t line, std::string_view name) {
  if (name == "ev")
    throw input_error(path, line, "an allocation log, not a problem: berth replay, report and view take it");
  if (name == "pool" || name == "slab")
    throw input_error(path, line, "a plan, not a problem: berth report and view take it");
  throw input_error(
      path, line,
      "header row: " + quote(name) +
          " is none of its columns: id, lower, upper, size, and where wanted alignment, offset, hint, gaps");
}

header read_header(const std::string& path, std::size_t line, std::string_view row) {
  using enum column;
  struct entry {
    std::string_view name;
    column which;
  };
  static constexpr entry names[] = {{"id", id},        {"buffer", id},   {"buffer_id", id}, {"lower", lower},
                                    {"start", lower},  {"begin", lower}, {"upper", upper},  {"end", upper},
                                    {"size", size},    {"hint", hint},   {"gaps", gaps},    {"alignment", alignment},
                                    {"offset", offset}};
  header h;
  std::array<bool, static_cast<std::size_t>(column_count)> seen{};
  for (bool more = true; more;) {
    more = row.find(',') != std::string_view::npos;
    const std::string_view name = trim(cut(row, ','));
    const auto* known =
        std::find_if(std::begin(names), std::end(names), [&](const entry& e) { return e.name == name; });
    if (known == std::end(names)) refuse_column(path, line, name);
    bool& is_there = seen[static_cast<std::size_t>(known->which)];
    if (is_there) throw input_error(path, line, "header row: a second column for " + quote(name));
    is_there = true;
    h.columns.push_back(known->which);
    h.closed |= name == "end";
  }
  static constexpr std::array<const char*, 4> required = {"id", "lower", "upper", "size"};
  for (std::size_t c = 0; c < required.size(); ++c) {
    if (!seen[c]) throw input_error(path, line, std::string{"header row: no column "} + required[c]);
  }
  return h;
}

class row_reader {
 public:
  row_reader(const std::string& path, const header& h) : path_{path}, header_{h} {}

  plan::buffer read(std::string_view row, std::size_t line) {
    line_ = line;
    plan::buffer b;
    std::string_view gap_list;
    for (std::size_t c = 0; c < header_.columns.size(); ++c) {
      if (c > 0 && row.data() == nullptr) fail("fewer fields than the header row");
      const bool last = row.find(',') == std::string_view::npos;
      const std::string_view field = trim(cut(row, ','));
      if (last) row = {};
      if (header_.columns[c] == column::gaps) {
        gap_list = field;
      } else {
        set(b, header_.columns[c], field);
      }
    }
    if (row.data() != nullptr) fail("more fields than the header row");
    if (b.live.lower >= b.live.upper) fail("buffer " + quote(b.name) + ": lifetime is empty or reversed");
    if (!gap_list.empty()) cut_gaps(b, gap_list);
    return b;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw input_error(path_, line_, what); }

  template <class Number>
  Number number(std::string_view text, const char* what) const {
    const auto n = parse_number<Number>(text);
    if (n) return *n;
    if (!text.empty() && text.front() == '-' && std::is_unsigned_v<Number> && parse_number<std::int64_t>(text)) {
      fail(std::string{what} + " is negative: " + quote(text));
    }
    fail(std::string{what} + " is not a whole number of 64 bits: " + quote(text));
  }

  plan::tick end_tick(std::string_view text, const char* what) const {
    const auto t = number<plan::tick>(text, what);
    if (!header_.closed) return t;
    if (t == std::numeric_limits<plan::tick>::max()) fail(std::string{what} + " is too large: " + quote(text));
    return t + 1;
  }

  void set(plan::buffer& b, column which, std::string_view field) const {
    using enum column;
    switch (which) {
      case id: b.name = unguarded(field); return;
      case lower: b.live.lower = number<plan::tick>(field, "lower"); return;
      case upper: b.live.upper = end_tick(field, "upper"); return;
      case size: b.size = number<bytes>(field, "size"); return;
      case alignment:
        if (field.empty()) return;
        b.alignment = number<bytes>(field, "alignment");
        if (b.alignment == 0) fail("alignment is zero");
        return;
      case offset:
        if (!field.empty()) b.offset = number<bytes>(field, "offset");
        return;
      case hint:
        if (!field.empty() && field != "-1") b.hint = number<bytes>(field, "hint");
        return;
      case gaps:
      case column_count: return;
    }
  }

  // "2-4 7-9"
  void cut_gaps(plan::buffer& b, std::string_view list) const {
    std::vector<plan::interval> found;
    while (!list.empty()) {
      std::string_view gap = cut(list, ' ');
      if (gap.empty()) continue;
      const std::string text = quote(gap);
      if (gap.find('@') != std::string_view::npos) fail("gap " + text + ": windows inside a gap are not supported");
      const std::size_t dash = gap.find('-', 1);  // the first tick may be negative
      if (dash == std::string_view::npos) fail("gap " + text + " is not of the form FIRST-LAST");
      found.push_back({number<plan::tick>(gap.substr(0, dash), "gap"), end_tick(gap.substr(dash + 1), "gap")});
    }
    auto left = without_gaps(b.live, std::move(found));
    if (!left) fail("buffer " + quote(b.name) + ": its gaps are not inside its lifetime, or leave nothing of it");
    if (left->size() == 1) {
      b.live = left->front();
    } else {
      b.lifetimes = std::move(*left);
    }
  }

  const std::string& path_;
  const header& header_;
  std::size_t line_ = 0;
};

}  // namespace

problem_file read_problem_csv(const std::string& path, std::string_view text) {
  problem_file file;
  file.path = path;
  std::size_t line = 1;
  const std::string_view first = cut_header(text, line);
  const header h = read_header(path, line, first);
  row_reader reader{path, h};
  const auto rows = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  if (rows > most_buffers) throw input_error(path, "more than 2^24 rows");
  file.problem.buffers.reserve(rows);
  file.lines.reserve(rows);
  for (++line; !text.empty(); ++line) {
    const std::string_view row = trim(cut(text, '\n'));
    if (row.empty()) continue;
    file.problem.buffers.push_back(reader.read(row, line));
    file.lines.push_back(static_cast<std::uint32_t>(line));
  }
  require_good_ids(file);
  return file;
}

}  // namespace berth::model

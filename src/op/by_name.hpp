// Tables of operators whose rows are for one or several names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace berth::op {

template <class Row>
using rows_by_name = std::map<std::string, const Row*, std::less<>>;

// Adds the rows by each of the names in their texts `names`: "Sin Cos".
template <class Row>
void add_rows(rows_by_name<Row>& to, std::span<const Row> rows) {
  for (const Row& row : rows) {
    const std::string_view text = row.names;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(' ', at), text.size());
      to.emplace(text.substr(at, end - at), &row);
      at = end + 1;
    }
  }
}
template <class Row, std::size_t N>
[[nodiscard]] rows_by_name<Row> by_name(const Row (&rows)[N]) {
  rows_by_name<Row> made;
  add_rows<Row>(made, rows);
  return made;
}

// Returns the row of this name, or null.
template <class Row>
[[nodiscard]] const Row* find_row(const rows_by_name<Row>& all, std::string_view name) {
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace berth::op

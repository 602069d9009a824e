// TfIdfVectorizer: counts given sequences of words, here numbers, in a row.
#include <algorithm>
#include <map>

#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

using words = std::vector<std::int64_t>;

struct by_words {
  using is_transparent = void;
  bool operator()(std::span<const std::int64_t> a, std::span<const std::int64_t> b) const noexcept {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }
};

struct grams {
  std::int64_t shortest, longest, skips, columns;
  std::map<words, std::size_t, by_words> known;  // to its place in the lists below
  std::vector<std::int64_t> column;
  std::vector<float> weight;
  bool counted, weighted;  // what a column holds: the count (TF), the weight of what is there (IDF), their product
};

grams grams_of(const request& q) {
  const auto whole = [&](const char* name) { return attribute_or<std::int64_t>(q, name, 0); };
  grams g{whole("min_gram_length"), whole("max_gram_length"), whole("max_skip_count"), 0, {}, {}, {}, false, false};
  const auto mode = attribute_or<std::string>(q, "mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") refuse("mode '" + mode + "' is none");
  g.counted = mode != "IDF";
  g.weighted = mode != "TF";
  if (q.attributes.contains("pool_strings")) refuse("strings are not supported");
  if (g.shortest < 1 || g.longest < g.shortest || g.longest > 64 || g.skips < 0 || g.skips > most_extent) {
    refuse("lengths of grams or max_skip_count are out of range");
  }
  g.column = attribute_or(q, "ngram_indexes", shape{});
  g.weight = attribute_or(q, "weights", std::vector<float>{});
  if (!g.weight.empty() && g.weight.size() != g.column.size()) refuse("weights are not as many as ngram_indexes");
  g.weight.resize(g.column.size(), 1.0f);
  for (const std::int64_t c : g.column) {
    if (c < 0 || c >= most_extent) refuse("an entry of ngram_indexes is out of range");
    g.columns = std::max(g.columns, c + 1);
  }
  const auto pool = attribute_or(q, "pool_int64s", shape{}), starts = attribute_or(q, "ngram_counts", shape{});
  std::size_t next = 0;
  for (std::size_t n = 0; n < starts.size(); ++n) {
    const std::int64_t end = n + 1 < starts.size() ? starts[n + 1] : std::ssize(pool),
                       length = static_cast<std::int64_t>(n) + 1;
    if (starts[n] < 0 || end < starts[n] || end > std::ssize(pool) || (end - starts[n]) % length != 0) {
      refuse("ngram_counts do not cut pool_int64s into whole grams");
    }
    for (auto at = pool.begin() + starts[n]; at != pool.begin() + end; at += length) {
      if (next == g.column.size()) refuse("ngram_indexes are less than the grams");
      g.known.emplace(words(at, at + length), next++);
    }
  }
  return g;
}

types counts_type(const request& q) {
  const shape& s = shape_of(q, 0);
  if (input(q, 0).type != element::i32 && input(q, 0).type != element::i64) refuse("input 0: expected i32 or i64");
  if (s.size() != 1 && s.size() != 2) refuse("the input has neither one nor two dimensions");
  const grams g = grams_of(q);
  // By row: every length of a gram, every distance between its words, every place, every word.
  const std::int64_t distances = g.longest == 1 ? 1 : std::min(g.skips + 1, s.back());
  limit_steps({s.size() == 1 ? 1 : s[0], g.longest - g.shortest + 1, distances, s.back(), g.longest});
  shape to = s;
  to.back() = g.columns;
  return {dense(element::f32, to)};
}
made counts(const request& q, const types& outputs) {
  const tensor_type x = input(q, 0);
  const bool single = x.shape.size() == 1;
  const strides x_by = strides_of(x), y_by = strides_of(outputs[0]);
  const auto run = [=, g = grams_of(q), rows = single ? 1 : x.shape[0], row_by = single ? 0 : x_by[0],
                    to_by = single ? 0 : y_by[0]](std::span<std::byte* const> at, void* workspace) {
    const std::int64_t length = x.shape.back();
    auto* gram = static_cast<std::int64_t*>(workspace);
    for (std::int64_t r = 0; r < rows; ++r) {
      std::byte* to = at[1] + r * to_by;
      for (std::int64_t c = 0; c < g.columns; ++c) write(element::f32, to + c * y_by.back(), 0);
      // A gram of one word has no words to skip between.
      for (std::int64_t n = g.shortest; n <= g.longest; ++n) {
        for (std::int64_t apart = 1; apart <= (n == 1 ? 1 : g.skips + 1) && apart * (n - 1) < length; ++apart) {
          for (std::int64_t first = 0; first + apart * (n - 1) < length; ++first) {
            for (std::int64_t k = 0; k < n; ++k) {
              gram[k] = read_integer(x.type, at[0] + r * row_by + (first + k * apart) * x_by.back());
            }
            const auto found = g.known.find(std::span<const std::int64_t>{gram, static_cast<std::size_t>(n)});
            if (found == g.known.end()) continue;
            std::byte* cell = to + g.column[found->second] * y_by.back();
            const double weight = g.weighted ? g.weight[found->second] : 1;
            write(element::f32, cell, g.counted ? read(element::f32, cell) + weight : weight);
          }
        }
      }
    }
  };
  return function(q, outputs, run, 64 * sizeof(std::int64_t), "one sequence of words");
}

constexpr definition counting_table[] = {
    {"TfIdfVectorizer", 1, 0, false, counts_type, counts, "4x16"},
};

}  // namespace

extern const rows counting_rows;
const rows counting_rows{counting_table};

}  // namespace berth::op

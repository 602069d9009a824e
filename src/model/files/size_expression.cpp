#include "model/files/size_expression.hpp"

#include <algorithm>

#include "model/files/text.hpp"

namespace berth::model {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

struct size_parser {
  std::string_view text;
  const dimension_numbers& dimensions;
  std::size_t at = 0;
  std::string wrong;

  bool fail(std::size_t place, const std::string& what) {
    wrong = "character " + std::to_string(place + 1) + " of " + quote(text) + ": " + what;
    return false;
  }

  void skip_blanks() {
    while (at < text.size() && text[at] == ' ') ++at;
  }

  bool read_operator(char c) {
    skip_blanks();
    if (at == text.size() || text[at] != c) return false;
    ++at;
    return true;
  }

  bool read_factor(plan::size_term& term) {
    skip_blanks();
    const std::size_t start = at;
    while (at < text.size() && (is_digit(text[at]) || is_letter(text[at]))) ++at;
    const std::string_view word = text.substr(start, at - start);
    if (word.empty()) return fail(start, "a number or a dimension is missing");
    if (is_digit(word.front())) {
      const auto n = parse_number<bytes>(word);
      if (!n) return fail(start, "not a whole number of 64 bits: " + quote(word));
      const auto product = checked_mul(term.factor, *n);
      if (!product) return fail(start, "the product exceeds 64 bits");
      term.factor = *product;
      return true;
    }
    const auto known = dimensions.find(word);
    if (known == dimensions.end()) return fail(start, "no dimension is called " + quote(word));
    term.dimensions.push_back(known->second);
    return true;
  }

  bool read_sum(std::vector<plan::size_term>& terms) {
    do {
      plan::size_term& term = terms.emplace_back();
      do {
        if (!read_factor(term)) return false;
      } while (read_operator('*'));
    } while (read_operator('+'));
    return at == text.size() || fail(at, "neither '+' nor '*': sizes are sums of products");
  }
};

}  // namespace

bool is_dimension_name(std::string_view name) {
  return !name.empty() && is_letter(name.front()) && name.front() != '_' &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

dimension_numbers numbers_of(std::span<const plan::dimension> dimensions) {
  dimension_numbers numbers;
  for (plan::index i = 0; i < dimensions.size(); ++i) numbers.emplace(dimensions[i].name, i);
  return numbers;
}

std::variant<std::vector<plan::size_term>, std::string> parse_size(std::string_view text,
                                                                   const dimension_numbers& dimensions) {
  size_parser parser{text, dimensions};
  std::vector<plan::size_term> terms;
  if (!parser.read_sum(terms)) return std::move(parser.wrong);
  return terms;
}

std::string size_text(const std::vector<plan::size_term>& terms, std::span<const plan::dimension> dimensions) {
  std::string out;
  for (const plan::size_term& t : terms) {
    if (!out.empty()) out += " + ";
    if (t.factor != 1 || t.dimensions.empty()) out += std::to_string(t.factor);
    for (const plan::index d : t.dimensions) {
      if (!out.empty() && out.back() != ' ') out += '*';
      out += dimensions[d].name;
    }
  }
  return out.empty() ? "0" : out;
}

std::vector<plan::size_term> terms_of(const plan::buffer& b) {
  return b.terms.empty() ? std::vector<plan::size_term>{{.factor = b.size}} : b.terms;
}

}  // namespace berth::model

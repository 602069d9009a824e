#include "berth/model/description.hpp"

#include <algorithm>

#include "berth/model/input_error.hpp"

namespace berth::model {

std::int64_t element_count(const description& m, const std::string& what, const shape& s) {
  constexpr bytes most = bytes{1} << 59;  // elements of eight bytes, the widest
  if (s.size() > most_rank) throw input_error(m.source, what + ": has more than 32 dimensions");
  bytes count = 1;
  for (const std::int64_t d : s) {
    if (d < 0) throw input_error(m.source, what + ": a dimension is negative: " + std::to_string(d));
    if (d > most_extent) throw input_error(m.source, what + ": a dimension exceeds 2^30: " + std::to_string(d));
    // An empty dimension does not excuse the others.
    const auto next = checked_mul(count, static_cast<bytes>(std::max<std::int64_t>(d, 1)));
    if (!next || *next > most || !fits_size_t(*next * 8)) {
      throw input_error(m.source, what + ": the product of its dimensions exceeds 2^59: " + text_of(s));
    }
    count = *next;
  }
  return std::find(s.begin(), s.end(), 0) == s.end() ? static_cast<std::int64_t>(count) : 0;
}

std::string text_of(const shape& s) {
  if (s.empty()) return "scalar";
  std::string text;
  for (const std::int64_t d : s) {
    if (!text.empty()) text += 'x';
    text += std::to_string(d);
  }
  return text;
}

std::string called(const node& n) {
  return "node '" + n.name + "' (" + n.op + ")";
}

template <class T>
T attribute_or(const description& m, const node& n, const std::string& name, T fallback) {
  const auto found = n.attributes.find(name);
  if (found == n.attributes.end()) return fallback;
  if (const T* value = std::get_if<T>(&found->second)) return *value;
  throw input_error(m.source, called(n) + ": attribute '" + name + "' has the wrong type");
}

template std::int64_t attribute_or(const description&, const node&, const std::string&, std::int64_t);
template float attribute_or(const description&, const node&, const std::string&, float);
template std::string attribute_or(const description&, const node&, const std::string&, std::string);
template std::vector<std::int64_t> attribute_or(const description&, const node&, const std::string&,
                                                std::vector<std::int64_t>);
template std::vector<float> attribute_or(const description&, const node&, const std::string&, std::vector<float>);
template tensor attribute_or(const description&, const node&, const std::string&, tensor);

}  // namespace berth::model

#include "berth/model/description.hpp"

#include <utility>

#include "berth/model/input_error.hpp"
#include "op/request.hpp"

namespace berth::model {

std::int64_t element_count(const description& m, const std::string& what, const shape& s) try {
  return op::count_of(s);
} catch (const op::refusal& why) {
  throw input_error(m.source, what + ": " + why.what());
}

std::string text_of(const shape& s) {
  return op::text_of(s);
}

std::string called(const node& n) {
  return "node '" + n.name + "' (" + n.op + ")";
}

template <class T>
T attribute_or(const description& m, const node& n, const std::string& name, T fallback) try {
  return op::attribute_or(n.attributes, name, std::move(fallback));
} catch (const op::refusal& why) {
  throw input_error(m.source, called(n) + ": " + why.what());
}

template std::int64_t attribute_or(const description&, const node&, const std::string&, std::int64_t);
template float attribute_or(const description&, const node&, const std::string&, float);
template std::string attribute_or(const description&, const node&, const std::string&, std::string);
template std::vector<std::int64_t> attribute_or(const description&, const node&, const std::string&,
                                                std::vector<std::int64_t>);
template std::vector<float> attribute_or(const description&, const node&, const std::string&, std::vector<float>);
template tensor attribute_or(const description&, const node&, const std::string&, tensor);

}  // namespace berth::model

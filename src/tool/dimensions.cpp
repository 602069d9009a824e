#include "tool/dimensions.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "berth/model/input_error.hpp"
#include "berth/plan/evaluate.hpp"
#include "tool/command_line.hpp"

namespace berth::tool {

void add_at_option(CLI::App& app, std::vector<std::string>& at, const char* what) {
  app.add_option("--at", at, what)->type_name("NAME=N,...")->delimiter(',')->allow_extra_args(false);
}

std::vector<bytes> values_of(const model::problem_file& file, const std::vector<std::string>& at) {
  if (file.problem.dimensions.empty()) throw usage_error("--at: " + file.path + " has no dimensions");
  const auto& dimensions = file.problem.dimensions;
  std::vector<std::optional<bytes>> found(dimensions.size());
  for (const std::string& text : at) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) throw usage_error("--at " + text + ": expected NAME=N");
    const std::string name = text.substr(0, equals);
    const auto d =
        std::find_if(dimensions.begin(), dimensions.end(), [&](const auto& each) { return each.name == name; });
    if (d == dimensions.end()) throw usage_error("--at " + text + ": no dimension is called '" + name + "'");
    auto& value = found[static_cast<std::size_t>(d - dimensions.begin())];
    if (value) throw usage_error("--at " + text + ": '" + name + "' has a value already");
    bytes n = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data() + equals + 1, end, n);
    if (code != std::errc{} || stop != end || n < d->least || n > d->most) {
      throw usage_error("--at " + text + ": not a whole number from " + std::to_string(d->least) + " to " +
                        std::to_string(d->most));
    }
    value = n;
  }
  std::vector<bytes> values;
  for (std::size_t d = 0; d < found.size(); ++d) {
    if (!found[d]) throw usage_error("--at: no value for '" + dimensions[d].name + "'");
    values.push_back(*found[d]);
  }
  return values;
}

model::problem_file problem_at(const model::problem_file& file, const std::vector<bytes>& values) {
  model::problem_file out = file;
  auto there = plan::at_values(file.problem, values);
  if (!there) throw model::input_error(file.path, there.error().what);
  out.problem = std::move(*there);
  return out;
}

}  // namespace berth::tool

#include "model/onnx/said_dimensions.hpp"

namespace berth::model {

namespace {

std::string name_for(const std::string& value, int d, const std::string& name) {
  return name.empty() ? value + "." + std::to_string(d) : name;
}

// A file may have thousands: the line names the first of them.
constexpr int most_named = 16;

}  // namespace

said_dimensions::said_dimensions(const dimensions& said) : said_{said} {
  for (const auto& [name, size] : said) unused_.insert(name);
}

std::optional<std::int64_t> said_dimensions::find(const std::string& value, int d, const wire::dimension* dim) {
  if (dim != nullptr && dim->value && *dim->value != -1) return dim->value;
  if (const auto size = find(value + "." + std::to_string(d))) return size;
  return dim == nullptr || dim->name.empty() ? std::nullopt : find(dim->name);
}

std::optional<std::int64_t> said_dimensions::find(const std::string& name) {
  const auto found = said_.find(name);
  if (found == said_.end()) return std::nullopt;
  unused_.erase(name);
  return found->second;
}

std::int64_t said_dimensions::find_or_note(const std::string& input, int d, const wire::dimension& dim) {
  if (const auto size = find(input, d, &dim)) return *size;
  const std::string called = dim.name.empty() ? "" : " ('" + dim.name + "')";
  note("input '" + input + "': dimension " + std::to_string(d) + called, name_for(input, d, dim.name));
  return 1;
}

void said_dimensions::note(const std::string& what, const std::string& name) {
  if (++opened_ > most_named) return;
  open_ += (open_.empty() ? "" : ", ") + what;
  if (asked_.insert(name).second) to_say_ += " --dim " + name + "=N";
}

std::string said_dimensions::complaint() const {
  if (opened_ == 0) return "";
  const std::string more = opened_ > most_named ? " and " + std::to_string(opened_ - most_named) + " more" : "";
  return open_ + more + (opened_ == 1 ? " is" : " are") + " unknown; say " + (asked_.size() == 1 ? "it" : "them") +
         " with" + to_say_;
}

std::string said_dimensions::how_to_say(const std::string& value, int d, const std::string& name) {
  return "say it with --dim " + name_for(value, d, name) + "=N";
}

}  // namespace berth::model

#include "berth/trace/picture.hpp"

#include <string_view>

#include "trace/json.hpp"
#include "trace/page.hpp"

namespace berth::trace {
namespace {

std::string data_of(const picture& p) {
  std::string out = "{\"title\":";
  append_string(out, p.title);
  out += ",\"facts\":[";
  for (const auto& [name, value] : p.facts) {
    if (out.back() != '[') out += ',';
    out += '[';
    append_string(out, name);
    out += ',';
    append_string(out, value);
    out += ']';
  }
  out += "],\"lower_bound\":" + std::to_string(p.lower_bound) + ",\"buffers\":[";
  for (const rectangle& r : p.rectangles) {
    if (out.back() != '[') out += ',';
    out += '[';
    append_string(out, r.name);
    for (const bytes n : {r.offset, r.size}) out += ',' + std::to_string(n);
    for (const std::int64_t t : {r.lower, r.upper}) out += ',' + std::to_string(t);
    out += ',';
    append_string(out, r.memory);
    out += ']';
  }
  return out + "]}";
}

}  // namespace

std::string to_html(const picture& p) {
  constexpr std::string_view mark = "BERTH_DATA</script>";
  const std::string_view whole = page;
  const std::size_t at = whole.find(mark);
  std::string html{whole.substr(0, at)};
  html += data_of(p);
  html += whole.substr(at + mark.size() - std::string_view{"</script>"}.size());
  return html;
}

}  // namespace berth::trace

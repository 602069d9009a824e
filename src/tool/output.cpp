#include "tool/output.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "model/file.hpp"
#include "tool/command_line.hpp"
#include "tool/printable.hpp"

namespace berth::tool {

std::string not_empty(const std::string& text) {
  return text.empty() ? "is empty" : "";
}

CLI::Option* add_out_option(CLI::App& app, std::string& out, const std::string& what, const std::string& also) {
  return app.add_option("-o,--out" + (also.empty() ? "" : "," + also), out, what)->check(not_empty)->type_name("FILE");
}

static std::string begins_names(const std::string& text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const bool good = !text.empty() && letter(text.front()) &&
                    std::ranges::all_of(text, [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; });
  return good ? std::string{} : "'" + text + "' is not a letter, then letters, digits and underscores";
}

CLI::Option* add_prefix_option(CLI::App& app, std::string& prefix) {
  return app.add_option("--prefix", prefix, "What the names in FILE.h begin with, instead of FILE")
      ->check(CLI::Validator{begins_names, ""})
      ->type_name("NAME");
}

void refuse_input_as_output(const std::string& out, const std::vector<std::string>& inputs, const char* option) {
  std::error_code absent;
  if (out == "-" || !std::filesystem::is_regular_file(out, absent)) return;
  for (const std::string& in : inputs) {
    if (std::filesystem::equivalent(in == "-" ? "/dev/stdin" : in, out, absent))
      throw usage_error(option + (": '" + out) + "' is what was read");
  }
}

void write_both(const std::string& first, std::string_view first_text, const std::string& second,
                std::string_view second_text) {
  std::error_code absent;
  std::optional<std::string> before;
  if (std::filesystem::is_regular_file(first, absent)) {
    std::ifstream file{first, std::ios::binary};  // as it is: read_file() would unpack it
    before.emplace(std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{});
  }
  const bool is_new = !std::filesystem::exists(first, absent);
  model::write_file(first, first_text);
  try {
    model::write_file(second, second_text);
  } catch (...) {
    if (before) model::write_file(first, *before);
    if (is_new) std::filesystem::remove(first, absent);
    throw;
  }
}

void print_json(const nlohmann::json& answer) {
  std::puts(answer.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
}

void print_json(const nlohmann::ordered_json& answer) {
  std::puts(answer.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
}

int say_no(const std::string& why, bool as_json) {
  if (as_json) print_json(nlohmann::json{{"ok", false}, {"reason", why}});
  if (!as_json) std::puts(printable(why).c_str());
  return answer_is_no;
}

std::vector<std::string> file_names(const std::vector<std::string>& names) {
  constexpr std::size_t longest = 200;
  const auto in_small = [](std::string text) {
    std::ranges::transform(text, text.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return text;
  };
  std::unordered_set<std::string> taken;
  std::unordered_map<std::string, std::size_t> last;  // number that a name got: those below it are taken
  std::vector<std::string> out;
  for (std::string name : names) {
    std::ranges::replace_if(
        name,
        [](unsigned char c) {
          return c < ' ' || c == 0x7f || std::string_view{"/\\:"}.find(static_cast<char>(c)) != std::string_view::npos;
        },
        '_');
    std::size_t end = std::min(name.size(), longest);
    while (end > 0 && end < name.size() && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80)
      --end;  // no half character
    name.resize(end);
    std::string made = name;
    if (!taken.insert(in_small(name)).second) {
      std::size_t& k = last.try_emplace(in_small(name), 1).first->second;
      do {
        made = name + "_" + std::to_string(++k);
      } while (!taken.insert(in_small(made)).second);
    }
    out.push_back(std::move(made));
  }
  return out;
}

}  // namespace berth::tool

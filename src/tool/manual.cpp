// berth manual: the manual page and the completions of shells, made from the options as they are declared.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/file.hpp"
#include "tool/command_line.hpp"
#include "tool/output.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

struct option_facts {
  std::vector<std::string> names;  // with dashes; empty: a positional argument
  std::string takes;               // "FILE", "N", ...; empty: a flag
  std::string what;
  std::vector<std::string> values;  // where only these are taken
  std::string standard;             // what holds where nothing is said, or empty
  bool file = false;                // takes the name of a file or folder
};

struct verb_facts {
  std::string name;
  std::string what;
  std::string footer;
  std::vector<option_facts> options;
};

// "TEXT:{a,b}" in "TEXT" and its values, as CLI11 writes what IsMember checks.
void split_values(option_facts& o) {
  const std::size_t open = o.takes.find(":{"), close = o.takes.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return;
  std::string list = o.takes.substr(open + 2, close - open - 2) + ",";
  for (std::size_t comma; (comma = list.find(',')) != std::string::npos; list.erase(0, comma + 1)) {
    o.values.push_back(list.substr(0, comma));
  }
  o.takes.erase(open);
}

option_facts option_facts_of(const CLI::Option& option) {
  option_facts o{.takes = option.get_items_expected_max() == 0 ? "" : option.get_type_name(),
                 .what = option.get_description(),
                 .standard = option.get_default_str()};
  for (const std::string& name : option.get_snames()) o.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) o.names.push_back("--" + name);
  split_values(o);
  std::ranges::replace(o.what, '\n', ' ');
  if (o.names.empty()) o.takes = option.get_name();
  const std::string named = o.names.empty() ? option.get_name() : o.takes;
  o.file = named.find("FILE") != std::string::npos || named == "DIR" || named == "PROBLEM" || named == "TRACE" ||
           named == "MODEL";
  return o;
}

std::vector<verb_facts> verb_facts_of(const CLI::App& root) {
  std::vector<verb_facts> verbs;
  for (const CLI::App* app : root.get_subcommands([](const CLI::App*) { return true; })) {
    verb_facts v{.name = app->get_name(), .what = app->get_description(), .footer = app->get_footer(), .options = {}};
    for (const CLI::Option* option : app->get_options([](const CLI::Option*) { return true; })) {
      v.options.push_back(option_facts_of(*option));
    }
    verbs.push_back(std::move(v));
  }
  return verbs;
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string all;
  for (const std::string& part : parts) (all += all.empty() ? "" : between) += part;
  return all;
}

std::vector<std::string> names_of_all(const verb_facts& v) {
  std::vector<std::string> names;
  for (const option_facts& o : v.options) names.insert(names.end(), o.names.begin(), o.names.end());
  return names;
}

// " (one of a, b; a where nothing is said)"
std::string option_values(const option_facts& o) {
  std::vector<std::string> said;
  if (!o.values.empty()) said.push_back("one of " + joined(o.values, ", "));
  if (!o.standard.empty()) said.push_back(o.standard + " where nothing is said");
  return said.empty() ? "" : " (" + joined(said, "; ") + ")";
}

// Text that roff takes as it is.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string{c};
  if (out.starts_with('.') || out.starts_with('\'')) out.insert(0, "\\&");
  return out;
}

std::string manual_page(const CLI::App& root, const std::vector<verb_facts>& verbs) {
  std::string out =
      ".TH BERTH 1 \"\" \"berth " BERTH_VERSION "\" \"User Commands\"\n.SH NAME\nberth \\- " +
      roff(root.get_description().substr(root.get_description().find(": ") + 2)) +
      "\n.SH SYNOPSIS\n.B berth\n.I VERB\n[\\fIoptions\\fR] [\\fIarguments\\fR]\n"
      ".SH DESCRIPTION\nEvery verb takes \\fB\\-\\-json\\fR, one JSON object on standard output and nothing "
      "else there. \\- as a file is standard input, as output standard output. Numbers of bytes are taken "
      "as 1048576 or 1MiB.\n.SH VERBS\n";
  for (const verb_facts& v : verbs) {
    out += ".SS \"berth " + v.name + "\"\n" + roff(v.what) + "\n";
    for (const option_facts& o : v.options) {
      out += ".TP\n";
      if (!o.names.empty()) out += "\\fB" + roff(joined(o.names, ", ")) + "\\fR";
      if (!o.takes.empty()) out += (o.names.empty() ? "\\fI" : " \\fI") + roff(o.takes) + "\\fR";
      out += "\n" + roff(o.what + option_values(o)) + "\n";
    }
    if (!v.footer.empty()) out += ".PP\n" + roff(v.footer) + "\n";
  }
  return out +
         ".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nthe answer is no: not feasible, verification failed, a limit "
         "exceeded\n"
         ".TP\n2\nthe input or the call is wrong: one line on standard error\n";
}

std::string bash_completion(const std::vector<verb_facts>& verbs) {
  std::vector<std::string> names;
  std::string cases;
  for (const verb_facts& v : verbs) {
    names.push_back(v.name);
    cases += "    " + v.name + ")\n      case \"$before\" in\n";
    for (const option_facts& o : v.options) {
      if (o.names.empty() || o.takes.empty()) continue;
      cases += "        " + joined(o.names, "|") + ") ";
      if (!o.values.empty()) cases += "COMPREPLY=($(compgen -W \"" + joined(o.values, " ") + "\" -- \"$word\")); ";
      if (o.file) cases += "COMPREPLY=($(compgen -f -- \"$word\")); ";
      cases += "return ;;\n";
    }
    cases += "      esac\n      options=\"" + joined(names_of_all(v), " ") + "\" ;;\n";
  }
  return "# bash completion for berth, made by `berth manual --form bash`\n_berth() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options=\n  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W \"" +
         joined(names, " ") + " --help --version\" -- \"$word\"))\n    return\n  fi\n  case \"${COMP_WORDS[1]}\" in\n" +
         cases +
         "  esac\n  case \"$word\" in\n    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
         "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n  esac\n}\ncomplete -o filenames -F _berth berth\n";
}

// Single quotes of a shell around the text.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return out + "'";
}

std::string zsh_completion(const std::vector<verb_facts>& verbs) {
  // Brackets and colons mean something in a specification.
  const auto plain = [](std::string text) {
    std::ranges::replace_if(
        text, [](char c) { return c == '[' || c == ']' || c == ':'; }, ' ');
    return text;
  };
  std::string list, cases;
  for (const verb_facts& v : verbs) {
    list += "    " + quoted(v.name + ":" + plain(v.what)) + "\n";
    cases += "    " + v.name + ")\n      _arguments -S";
    for (const option_facts& o : v.options) {
      const std::string action = !o.values.empty() ? "(" + joined(o.values, " ") + ")" : o.file ? "_files" : " ";
      if (o.names.empty()) {
        cases += " \\\n        " + quoted("*:" + plain(o.takes) + ":_files");
        continue;
      }
      for (const std::string& name : o.names) {
        cases += " \\\n        " + quoted(name + "[" + plain(o.what) + "]" +
                                          (o.takes.empty() ? "" : ":" + plain(o.takes) + ":" + action));
      }
    }
    cases += " ;;\n";
  }
  return "#compdef berth\n# zsh completion for berth, made by `berth manual --form zsh`\n_berth() {\n  local -a verbs\n"
         "  verbs=(\n" +
         list +
         "  )\n  if (( CURRENT == 2 )); then\n    _describe verb verbs\n    return\n  fi\n  local verb=${words[2]}\n"
         "  shift words\n  (( CURRENT-- ))\n  case $verb in\n" +
         cases + "  esac\n}\n_berth \"$@\"\n";
}

std::string fish_completion(const std::vector<verb_facts>& verbs) {
  std::string out = "# fish completion for berth, made by `berth manual --form fish`\n";
  for (const verb_facts& v : verbs) {
    out += "complete -c berth -n __fish_use_subcommand -f -a " + v.name + " -d " + quoted(v.what) + "\n";
  }
  for (const verb_facts& v : verbs) {
    for (const option_facts& o : v.options) {
      if (o.names.empty()) continue;
      out += "complete -c berth -n '__fish_seen_subcommand_from " + v.name + "'";
      for (const std::string& name : o.names) {
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!o.takes.empty()) out += o.file ? " -r" : " -x";
      if (!o.values.empty()) out += " -a " + quoted(joined(o.values, " "));
      out += " -d " + quoted(o.what) + "\n";
    }
  }
  return out;
}

nlohmann::ordered_json to_json(const std::vector<verb_facts>& verbs) {
  auto list = nlohmann::ordered_json::array();
  for (const verb_facts& v : verbs) {
    auto options = nlohmann::ordered_json::array();
    for (const option_facts& o : v.options) {
      options.push_back(
          {{"names", o.names}, {"takes", o.takes}, {"values", o.values}, {"default", o.standard}, {"what", o.what}});
    }
    list.push_back({{"name", v.name}, {"what", v.what}, {"options", std::move(options)}});
  }
  return {{"version", BERTH_VERSION}, {"verbs", std::move(list)}};
}

}  // namespace

std::function<int()> declare_manual(CLI::App& app) {
  struct call {
    std::string form = "man";
    std::string out = "-";
    bool json = false;
  };
  auto c = std::make_shared<call>();
  app.add_option("--form", c->form, "The manual page, or what completes this command in a shell")
      ->check(CLI::IsMember(std::vector<std::string>{"man", "bash", "zsh", "fish"}))
      ->capture_default_str();
  add_out_option(app, c->out, "Where to; - is standard output")->capture_default_str();
  app.add_flag("--json", c->json, "One JSON object on standard output: the verbs and their options");
  return [c, &app] {
    const CLI::App& root = *app.get_parent();
    const std::vector<verb_facts> verbs = verb_facts_of(root);
    if (c->json) {
      if (c->out != "-") throw usage_error("--out: not with --json");
      print_json(to_json(verbs));
      return static_cast<int>(done);
    }
    model::write_file(c->out, c->form == "bash"   ? bash_completion(verbs)
                              : c->form == "zsh"  ? zsh_completion(verbs)
                              : c->form == "fish" ? fish_completion(verbs)
                                                  : manual_page(root, verbs));
    return static_cast<int>(done);
  };
}

}  // namespace berth::tool

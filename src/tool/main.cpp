// The `berth` command: one file per verb.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "berth/model/input_error.hpp"
#include "tool/command_line.hpp"
#include "tool/printable.hpp"
#include "tool/verb.hpp"

namespace {

using namespace berth::tool;

struct verb {
  const char* name;
  const char* summary;
  declare_verb declare;
};

// In the order `berth --help` shows them. A verb is added here and in verb.hpp.
constexpr verb verbs[] = {
    {"plan", "Offsets for the buffers of a problem, with a proven bound", declare_plan},
    {"media", "Decoding, resizing and inference of an NPU in one block; `berth plan media` is the same", declare_media},
    {"verify", "Checks a plan against its problem", declare_verify},
    {"fit", "The largest value of a model's dimension that a memory holds, and what takes it", declare_fit},
    {"run", "A model's memory planned, the model run in it, and what came of it", declare_run},
    {"op", "An operator on made-up data: right, how fast, what it takes", declare_op},
    {"bench", "The published table: memory taken one by one, pooled, without copies, all together", declare_bench},
    {"devices", "Every device that can be opened here, and why the others cannot", declare_devices},
    {"memories", "The memories of known targets, for `berth plan --memories`, and where each figure is from",
     declare_memories},
    {"calibrate", "From which size on scratch, the arena and malloc win, built as this is", declare_calibrate},
    {"replay", "An allocation log through a pool: what it needs, how fast it is", declare_replay},
    {"report", "The health of a plan, a log or a snapshot; who holds the memory at its peak; leaks", declare_report},
    {"view", "A plan, a log or a snapshot as one self-contained page", declare_view},
    {"who", "Whose memory an address is, or was, in a snapshot", declare_who},
    {"manual", "The manual page, and completions for shells", declare_manual},
};

// Returns the line without the middle of very long names in it: the file is at the front, the reason at the end.
std::string shortened(const std::string& line) {
  constexpr std::size_t front = 3072, end = 1024;
  if (line.size() <= front + end) return line;
  const auto in_character = [&line](std::size_t at) { return (static_cast<unsigned char>(line[at]) & 0xC0) == 0x80; };
  std::size_t first = front, last = line.size() - end;
  while (first > 0 && in_character(first)) --first;
  while (last < line.size() && in_character(last)) ++last;
  return line.substr(0, first) + " ... " + line.substr(last);
}

// Prints one line, whatever the names and texts of files contain.
int complain(const std::string& why) {
  std::fprintf(stderr, "berth: %s\n", shortened(printable(why)).c_str());
  return wrong_input;
}

// Returns how many letters must be changed, left out or put in to make one word of the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t k = 0; k < row.size(); ++k) row[k] = k;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t corner = std::exchange(row[0], i + 1);
    for (std::size_t k = 0; k < b.size(); ++k) {
      const std::size_t changed = corner + (a[i] == b[k] ? 0 : 1);
      corner = row[k + 1];
      row[k + 1] = std::min({changed, corner + 1, row[k] + 1});
    }
  }
  return row.back();
}

// Returns "; did you mean --effort?", or nothing if no name is near.
std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  const auto far = [word](const std::string& name) { return distance(word.substr(0, 64), name); };
  const auto best = std::ranges::min_element(names, {}, far);
  return best != names.end() && far(*best) <= 2 ? "; did you mean " + *best + "?" : "";
}

// Names unknown options before missing ones: they are the usual reason.
std::string what_is_wrong(const CLI::App& verb, const CLI::ParseError& error) {
  for (const std::string& word : verb.remaining()) {
    if (word.size() < 2 || word.front() != '-') continue;
    const std::string option = word.substr(0, word.find('='));
    std::vector<std::string> names;
    for (const CLI::Option* o : verb.get_options()) {
      for (const std::string& name : o->get_lnames()) names.push_back("--" + name);
    }
    return "no option is called '" + option + "'" + nearest(option, names);
  }
  return error.what();
}

// Holds a standard stream that the caller closed. Otherwise the next open file or device's memory would take its number
// and the printed text. Holds it for reading only: writing to it stays an error.
void hold_standard_streams() {
  int held = open("/dev/null", O_RDONLY | O_CLOEXEC);
  while (held >= 0 && held <= STDERR_FILENO) held = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (held >= 0) close(held);
}

// Fails if output failed: a full disk or a closed pipe must not look like an answer.
int after_writing(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  return complain("standard output cannot be written");
}

int run(int argc, char** argv) {
  CLI::App app{"Berth: plans where tensors live, gives out device memory, says where every byte went", "berth"};
  app.require_subcommand(1);
  if (argc > 2 && std::string_view{argv[1]} == "plan" && std::string_view{argv[2]} == "media") {  // FILE is ./media
    argv[1] = argv[0];
    ++argv;
    --argc;
  }
  if (argc < 2) throw usage_error("a verb is required; see berth --help");
  app.set_version_flag("--version", BERTH_VERSION);
  std::function<int()> chosen[std::size(verbs)];
  for (std::size_t i = 0; i < std::size(verbs); ++i) {
    chosen[i] = verbs[i].declare(*app.add_subcommand(verbs[i].name, verbs[i].summary));
  }
  const auto is_a_verb = [](const char* word) {
    return std::ranges::any_of(verbs, [word](const verb& v) { return std::string_view{v.name} == word; });
  };
  if (argc > 1 && argv[1][0] != '-' && !is_a_verb(argv[1])) {
    std::vector<std::string> names;
    for (const verb& v : verbs) names.emplace_back(v.name);
    throw usage_error(std::string{"no verb is called '"} + argv[1] + "'" + nearest(argv[1], names) +
                      "; see berth --help");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& wrong) {
    if (argc < 2 || !is_a_verb(argv[1])) return complain(wrong.what() + std::string{"; see berth --help"});
    return complain(what_is_wrong(*app.get_subcommand(argv[1]), wrong) + "; see berth " + argv[1] + " --help");
  }
  for (std::size_t i = 0; i < std::size(verbs); ++i) {
    if (app.got_subcommand(verbs[i].name)) return chosen[i]();
  }
  return wrong_input;
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_streams();
  try {
    return after_writing(run(argc, argv));
  } catch (const berth::model::input_error& e) {
    return complain(e.what());
  } catch (const usage_error& e) {
    return complain(e.what());
  } catch (const std::bad_alloc&) {
    return complain("out of memory");
  } catch (const std::exception& e) {
    return complain(e.what());
  }
}

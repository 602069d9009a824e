// The `berth` command: one file per verb.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <iterator>
#include <new>
#include <string>
#include <string_view>

#include "berth/model/input_error.hpp"
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
    {"verify", "Checks a plan against its problem", declare_verify},
#ifdef BERTH_TOOL_RUN
    {"run", "A model's memory planned, the model run in it, and what came of it", declare_run},
#endif
    {"devices", "Every device that can be opened here, and why the others cannot", declare_devices},
    {"calibrate", "From which size on scratch, the arena and malloc win, built as this is", declare_calibrate},
    {"replay", "An allocation log through a pool: what it needs, how fast it is", declare_replay},
    {"report", "The health of a plan, a log or a snapshot; who holds the memory at its peak; leaks", declare_report},
    {"view", "A plan as one self-contained page", declare_view},
};

// One line, whatever stands in the names of files and in what they say.
int complain(std::string why) {
  std::replace_if(
      why.begin(), why.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  std::fprintf(stderr, "berth: %s\n", why.c_str());
  return wrong_input;
}

// A disk that is full or a pipe that is closed must not look like an answer.
int after_writing(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  return complain("standard output cannot be written");
}

int run(int argc, char** argv) {
  CLI::App app{"Berth: plans where tensors live, gives out device memory, says where every byte went", "berth"};
  app.require_subcommand(1);
  app.set_version_flag("--version", BERTH_VERSION);
  std::function<int()> chosen[std::size(verbs)];
  for (std::size_t i = 0; i < std::size(verbs); ++i) {
    chosen[i] = verbs[i].declare(*app.add_subcommand(verbs[i].name, verbs[i].summary));
  }
  const auto is_a_verb = [](const char* word) {
    return std::ranges::any_of(verbs, [word](const verb& v) { return std::string_view{v.name} == word; });
  };
  if (argc > 1 && argv[1][0] != '-' && !is_a_verb(argv[1])) {
    throw usage_error(std::string{"no verb is called '"} + argv[1] + "'; see berth --help");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& wrong) {
    const std::string verb = argc > 1 && is_a_verb(argv[1]) ? std::string{" "} + argv[1] : "";
    return complain(wrong.what() + ("; see berth" + verb) + " --help");
  }
  for (std::size_t i = 0; i < std::size(verbs); ++i) {
    if (app.got_subcommand(verbs[i].name)) return chosen[i]();
  }
  return wrong_input;
}

}  // namespace

int main(int argc, char** argv) {
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

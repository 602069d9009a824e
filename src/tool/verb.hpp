// The declaration and the end of every verb of the `berth` command.
//
// A verb declares its options on its own CLI::App and hands back the function that does it. The function prints its
// answer to standard output (with --json: one JSON object and nothing else) and returns the exit status.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace berth::tool {

enum exit_status : int {
  done = 0,
  answer_is_no = 1,  // not feasible, verification failed, limit exceeded
  wrong_input = 2,   // the input or the call is wrong: one line on standard error
};

// Thrown for a wrong call that the option parser cannot see. model::input_error is the same for files.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Declares the verb's options and returns its function.
using declare_verb = std::function<int()> (*)(CLI::App& app);

std::function<int()> declare_plan(CLI::App& app);
std::function<int()> declare_media(CLI::App& app);  // `berth plan media`
std::function<int()> declare_verify(CLI::App& app);
std::function<int()> declare_fit(CLI::App& app);  // where built with kernels
std::function<int()> declare_run(CLI::App& app);  // where built with kernels
std::function<int()> declare_op(CLI::App& app);   // where built with kernels
std::function<int()> declare_bench(CLI::App& app);
std::function<int()> declare_devices(CLI::App& app);
std::function<int()> declare_memories(CLI::App& app);
std::function<int()> declare_calibrate(CLI::App& app);
std::function<int()> declare_replay(CLI::App& app);
std::function<int()> declare_report(CLI::App& app);
std::function<int()> declare_view(CLI::App& app);
std::function<int()> declare_who(CLI::App& app);
std::function<int()> declare_manual(CLI::App& app);

}  // namespace berth::tool

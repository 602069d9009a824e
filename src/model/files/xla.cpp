// The layout of XLA's compiler (berth/trace/engine_log.hpp): each event of its heap simulator is a tick.
#include <unordered_map>

#include "berth/model/input_error.hpp"
#include "berth/trace/engine_log.hpp"
#include "model/file.hpp"
#include "model/files/checks.hpp"
#include "model/files/readers.hpp"

namespace berth::model {

problem_file read_xla(const std::string& path, std::string_view text) {
  const bool binary = trace::is_xla_proto(text);
  const auto log = binary ? trace::parse_xla_proto(text) : trace::parse_xla_text(text);
  if (!log) {
    const auto [code, what, number] = log.error();
    if (number == 0) throw input_error(path, what);
    if (binary) throw input_error(path, "byte " + std::to_string(number) + ": " + what);
    throw input_error(path, number, what);
  }
  problem_file file;
  file.path = path;
  std::unordered_map<std::uint64_t, plan::index> alive;
  const auto end = static_cast<plan::tick>(log->history.events.size());
  for (plan::tick now = 0; now < end; ++now) {
    const trace::event& e = log->history.events[static_cast<std::size_t>(now)];
    if (file.problem.buffers.size() == most_buffers) throw input_error(path, "more than 2^24 buffers");
    if (!e.allocate) {
      file.problem.buffers[alive.at(e.address)].live.upper = now;
      continue;
    }
    plan::buffer b;
    if (e.site != 0) b.name = log->history.sites[e.site - 1].file;
    b.size = e.size;
    b.live = {now, end};
    alive[e.address] = file.problem.add(std::move(b));
  }
  make_good_ids(file);  // instructions with several results
  return file;
}

}  // namespace berth::model

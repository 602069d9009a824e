// Glow's lists of activations (pytorch/glow, tests/unittests/MemoryAllocatorTestModels.txt): each event is a tick.
#include <unordered_map>

#include "berth/model/input_error.hpp"
#include "model/file.hpp"
#include "model/files/checks.hpp"
#include "model/files/readers.hpp"
#include "model/files/text.hpp"

namespace berth::model {
namespace {

struct list_reader {
  problem_file file;
  std::unordered_map<std::string_view, plan::index> by_id;
  std::size_t line = 0;
  plan::tick now = 0;
  bool named = false;

  [[noreturn]] void fail(const std::string& what) const { throw input_error(file.path, line, what); }

  void allocate(std::string_view id, std::string_view size) {
    const auto n = parse_number<bytes>(size);
    if (by_id.size() == most_buffers) fail("more than 2^24 buffers");
    if (id.empty() || !n) fail("ALLOC wants an id and a size in bytes");
    const auto i = static_cast<plan::index>(file.problem.buffers.size());
    if (!by_id.emplace(id, i).second) fail("buffer " + quote(id) + " is allocated twice");
    file.problem.add({.name = std::string{id}, .size = *n, .live = {now++, 0}});
    file.lines.push_back(static_cast<std::uint32_t>(line));
  }

  void free(std::string_view id) {
    const auto it = by_id.find(id);
    if (it == by_id.end()) fail("FREE of " + quote(id) + ", which is not allocated");
    plan::interval& live = file.problem.buffers[it->second].live;
    if (live.upper != 0) fail("buffer " + quote(id) + " is freed twice");
    live.upper = now++;
  }

  void read(std::string_view row) {
    const std::string_view key = cut(row, ' ');
    row = trim(row);
    if (key == "ALLOC") {
      const std::string_view id = cut(row, ' ');
      allocate(id, trim(row));
    } else if (key == "FREE") {
      free(row);
    } else if (key == "ALIGN") {
      const auto n = parse_number<bytes>(row);
      if (!n || *n == 0) fail("ALIGN wants a number of bytes above zero");
      file.problem.alignment = file.problem.granularity = *n;
    } else if (key == "MODEL") {
      if (named) fail("a second MODEL: plan one model at a time");
      named = true;
    } else if (key != "MEM" && key != "EFF") {  // those two are Glow's own results
      fail("no event is called " + quote(key));
    }
  }
};

}  // namespace

problem_file read_allocation_list(const std::string& path, std::string_view text) {
  list_reader reader;
  reader.file.path = path;
  while (!text.empty()) {
    ++reader.line;
    const std::string_view row = trim(cut(text, '\n'));
    if (!row.empty() && row.front() != '#') reader.read(row);
  }
  for (std::size_t i = 0; i < reader.file.problem.buffers.size(); ++i) {
    const plan::buffer& b = reader.file.problem.buffers[i];
    if (b.live.upper == 0) {
      throw input_error(path, reader.file.lines[i], "buffer " + quote(b.name) + " is never freed");
    }
  }
  require_good_ids(reader.file);
  return std::move(reader.file);
}

}  // namespace berth::model

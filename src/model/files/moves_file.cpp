#include "berth/model/moves_file.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "berth/model/memories.hpp"
#include "berth/model/plan_file.hpp"
#include "model/file.hpp"
#include "model/files/json_fields.hpp"
#include "model/files/plan_text.hpp"
#include "model/files/text.hpp"

namespace berth::model {
namespace {

json id_of(const problem_file& file, plan::index buffer) {
  const std::string& name = file.problem.buffers[buffer].name;
  if (const auto number = parse_number<std::int64_t>(name); file.numeric_ids && number) return *number;
  return name;
}

template <class List>
std::unordered_map<std::string, plan::index> numbers_by_name(const List& named) {
  std::unordered_map<std::string, plan::index> numbers;
  for (const auto& one : named) numbers.emplace(one.name, static_cast<plan::index>(numbers.size()));
  return numbers;
}

class moves_reader {
 public:
  moves_reader(const std::string& path, problem_file& file)
      : path_{path},
        file_{file},
        buffers_{numbers_by_name(file.problem.buffers)},
        pools_{numbers_by_name(file.problem.memories)} {}

  plan::moves_plan read(std::string_view text) {
    const json document = parse_json(path_, text);
    const json_value root{document, "", path_, 0};
    require_plan(root);
    add_rules_of_plan(root, file_);
    const auto lines = lines_of_elements(text, "buffers", 1);
    const json_value list = root.at("buffers");
    for (std::size_t k = 0; k < list.size(); ++k) read_stay(list.at(k, lines.size() == list.size() ? lines[k] : 0));
    sort_stays();
    const json_value moves = root.at("moves");
    for (std::size_t k = 0; k < moves.size(); ++k) read_move(moves.at(k));
    plan::plan& layout = answer_.layout;
    layout.status = plan::status::feasible;
    if (root.at("optimal").as_bool()) layout.status = plan::status::optimal;
    layout.arena_bytes = root.at("arena_bytes").as_bytes();
    layout.lower_bound_bytes = root.at("lower_bound").as_bytes();
    if (const auto f = root.find("reuse_penalty")) layout.reuse_penalty = f->as_number();
    answer_.access = root.at("access_time").as_number();
    answer_.stall = root.at("stall_time").as_number();
    answer_.copied = root.at("copied_bytes").as_bytes();
    answer_.bound = root.at("cost_bound").as_number();
    return std::move(answer_);
  }

 private:
  using names = std::unordered_map<std::string, plan::index>;

  static plan::index named(const names& all, const json_value& v, const char* what) {
    const auto it = all.find(v.as_id());
    if (it == all.end()) v.fail(std::string{"the problem has no "} + what + ' ' + quote(v.as_id()));
    return it->second;
  }

  void read_stay(const json_value& v) {
    plan::stay s{.buffer = named(buffers_, v.at("id"), "buffer"), .memory = named(pools_, v.at("pool"), "pool")};
    if (const auto size = v.find("size"); size && size->as_bytes() != file_.problem.buffers[s.buffer].size) {
      v.fail(other_size(file_, s.buffer, size->as_bytes()));
    }
    s.live = {v.at("lower").as_tick(), v.at("upper").as_tick()};
    s.ready = s.live.lower;
    answer_.stays.push_back(s);
    answer_.layout.offsets.push_back(v.at("offset").as_bytes());
    answer_.layout.memory_of.push_back(s.memory);
    const auto slab = v.find("slab");
    const bytes number = slab ? slab->as_bytes() : 0;
    if (number > answer_.stays.size() + buffers_.size()) slab->fail("is not below the number of stays");
    if (slab) answer_.layout.slab_of.resize(answer_.stays.size(), 0);
    if (slab) answer_.layout.slab_of.back() = static_cast<plan::index>(number);
  }

  // By buffer, pool and first tick; `furthest` is the stay of the same buffer and pool, up to here, that ends last.
  struct sorted_stay {
    plan::index buffer, memory;
    plan::tick lower;
    plan::index furthest;
    [[nodiscard]] auto key() const { return std::tuple{buffer, memory, lower}; }
  };

  void sort_stays() {
    for (plan::index s = 0; s < answer_.stays.size(); ++s) {
      const plan::stay& one = answer_.stays[s];
      sorted_.push_back({one.buffer, one.memory, one.live.lower, s});
    }
    std::stable_sort(sorted_.begin(), sorted_.end(), [](const auto& a, const auto& b) { return a.key() < b.key(); });
    const auto end_of = [&](const sorted_stay& s) { return answer_.stays[s.furthest].live.upper; };
    for (std::size_t k = 1; k < sorted_.size(); ++k) {
      const sorted_stay& before = sorted_[k - 1];
      sorted_stay& me = sorted_[k];
      if (before.buffer == me.buffer && before.memory == me.memory && end_of(before) >= end_of(me)) {
        me.furthest = before.furthest;
      }
    }
  }

  // Returns the stay of a buffer in a pool over some ticks; it is there once at a time.
  plan::index stay_at(const json_value& v, plan::index buffer, plan::index pool, plan::tick at) const {
    const auto behind = std::upper_bound(sorted_.begin(), sorted_.end(), std::tuple{buffer, pool, at},
                                         [](const auto& key, const sorted_stay& s) { return key < s.key(); });
    if (behind != sorted_.begin()) {
      const sorted_stay& s = *std::prev(behind);
      if (s.buffer == buffer && s.memory == pool && at < answer_.stays[s.furthest].live.upper) return s.furthest;
    }
    v.fail("its buffer is not in this pool at " + std::to_string(at));
  }

  void read_move(const json_value& v) {
    v.only_keys({"id", "from", "to", "start", "end", "begin_time", "done_time"});
    plan::move m{.buffer = named(buffers_, v.at("id"), "buffer")};
    m.during = {v.at("start").as_tick(), v.at("end").as_tick()};
    m.from = stay_at(v.at("from"), m.buffer, named(pools_, v.at("from"), "pool"), m.during.lower);
    m.to = stay_at(v.at("to"), m.buffer, named(pools_, v.at("to"), "pool"), m.during.lower);
    m.begin = v.at("begin_time").as_number();
    m.done = v.at("done_time").as_number();
    answer_.stays[m.to].ready = m.during.upper;
    answer_.moves.push_back(m);
  }

  const std::string& path_;
  problem_file& file_;
  names buffers_, pools_;
  plan::moves_plan answer_;
  std::vector<sorted_stay> sorted_;
};

}  // namespace

problem_file file_of_stays(const problem_file& file, const plan::moves_plan& answer) {
  problem_file made{.path = file.path, .problem = {}, .lines = {}, .numeric_ids = file.numeric_ids};
  made.rules = file.rules;
  made.problem = plan::problem_of_stays(file.problem, answer.stays);
  return made;
}

std::string moves_json(const problem_file& file, const plan::moves_plan& answer, double elapsed_ms) {
  json moves = json::array();
  for (const plan::move& m : answer.moves) {
    const auto pool = [&](plan::index stay) { return file.problem.memories[answer.stays[stay].memory].name; };
    moves.push_back({{"id", id_of(file, m.buffer)},
                     {"from", pool(m.from)},
                     {"to", pool(m.to)},
                     {"start", m.during.lower},
                     {"end", m.during.upper},
                     {"begin_time", m.begin},
                     {"done_time", m.done}});
  }
  json more{{"access_time", answer.access},
            {"stall_time", answer.stall},
            {"slowest_time", slowest_access(file)},
            {"unmoved_time", answer.unmoved ? json(*answer.unmoved) : json(nullptr)},
            {"cost_bound", answer.bound},
            {"copied_bytes", answer.copied},
            {"moves", std::move(moves)}};
  if (!file.notes.empty()) more["notes"] = file.notes;
  plan::plan layout = answer.layout;
  layout.proof.clear();  // ids do not tell one stay of a buffer from another
  const std::string keys = more.dump(-1, ' ', true, json::error_handler_t::replace);
  return plan_json(file_of_stays(file, answer), layout, elapsed_ms, "," + keys.substr(1, keys.size() - 2), {});
}

plan::moves_plan read_moves_plan(const std::string& path, problem_file& file) {
  return read_moves_text(path, read_text_file(path), file);
}

plan::moves_plan read_moves_text(const std::string& path, std::string_view text, problem_file& file) {
  return moves_reader{path, file}.read(text);
}

}  // namespace berth::model

#include "model/files/dsa_json.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "model/files/checks.hpp"
#include "model/files/text.hpp"

namespace berth::model {
namespace {

struct dsa_reader {
  static constexpr std::size_t most_pairs = std::size_t{1} << 22;  // an exclusive pin makes one with every buffer

  problem_file file;
  std::unordered_map<std::string, plan::index> buffers;
  std::unordered_map<std::string, plan::index> pools;
  std::unordered_set<std::string> pool_names;

  static plan::index named(const std::unordered_map<std::string, plan::index>& table, const json_value& v) {
    const auto it = table.find(v.as_id());
    if (it == table.end()) v.fail("names nothing: " + quote(v.as_id()));
    return it->second;
  }

  void read_pool(const json_value& v) {
    v.only_keys({"id", "name", "capacity", "reserved_ranges", "bank_geometry"});
    plan::memory m;
    const std::string id = v.at("id").as_id();
    m.name = v.find("name") ? v.at("name").as_id() : id;
    if (!pool_names.insert(m.name).second && !pool_names.insert(m.name += "#" + id).second) {
      v.fail("a second pool called " + quote(m.name));
    }
    if (const auto f = v.find("capacity")) m.capacity = f->as_bytes();
    if (v.find("bank_geometry")) v.fail("bank geometries are not supported");
    const json_value reserved = v.at("reserved_ranges");
    for (std::size_t k = 0; k < reserved.size(); ++k) {
      m.reserved.emplace_back(reserved.at(k).at("begin").as_bytes(), reserved.at(k).at("end").as_bytes());
    }
    if (!pools.emplace(id, static_cast<plan::index>(file.problem.memories.size())).second) {
      v.fail("a second pool with this id");
    }
    file.problem.memories.push_back(std::move(m));
  }

  void read_buffer(const json_value& v) {
    v.only_keys({"id", "name", "size", "alignment", "live_intervals", "allowed_pools"});
    plan::buffer b;
    b.name = v.at("id").as_id();
    file.numeric_ids = file.numeric_ids && v.at("id").is_number();
    b.size = v.at("size").as_bytes();
    b.alignment = v.at("alignment").as_bytes();
    const json_value live = v.at("live_intervals");
    for (std::size_t k = 0; k < live.size(); ++k) {
      b.lifetimes.push_back({live.at(k).at("lower").as_tick(), live.at(k).at("upper").as_tick()});
    }
    std::sort(b.lifetimes.begin(), b.lifetimes.end(), [](const auto& x, const auto& y) { return x.lower < y.lower; });
    if (b.lifetimes.empty()) live.fail("is empty");
    const json_value allowed = v.at("allowed_pools");
    if (allowed.size() == 0) allowed.fail("is empty");
    for (std::size_t k = 0; k < allowed.size(); ++k) b.memories.push_back(named(pools, allowed.at(k)));
    buffers.emplace(b.name, static_cast<plan::index>(file.problem.buffers.size()));
    file.problem.add(std::move(b));
  }

  // Colocated buffers share one base: the groups are the connected parts, called after one of their buffers.
  void read_colocations(const json_value& list) {
    auto& all = file.problem.buffers;
    std::vector<plan::index> towards(all.size());
    std::iota(towards.begin(), towards.end(), plan::index{0});
    const auto group_of = [&towards](plan::index i) {
      for (; towards[i] != i; i = towards[i]) towards[i] = towards[towards[i]];
      return i;
    };
    for (std::size_t k = 0; k < list.size(); ++k) {
      const plan::index a = named(buffers, list.at(k).at("first")), b = named(buffers, list.at(k).at("second"));
      all[a].alias_group = all[b].alias_group = 0;
      towards[group_of(b)] = group_of(a);
    }
    for (plan::index i = 0; i < all.size(); ++i) {
      if (all[i].alias_group) all[i].alias_group = group_of(i);
    }
  }

  void read_pin(const json_value& v) {
    v.only_keys({"buffer", "offset", "pool", "exclusive_for_all_time"});
    const plan::index pinned = named(buffers, v.at("buffer")), pool = named(pools, v.at("pool"));
    plan::buffer& b = file.problem.buffers[pinned];
    if (b.offset) v.fail("a second pin of buffer " + quote(b.name));
    if (std::ranges::count(b.memories, pool) == 0) v.at("pool").fail("is none of the buffer's allowed_pools");
    b.offset = v.at("offset").as_bytes();
    b.memories = {pool};
    const auto exclusive = v.find("exclusive_for_all_time");
    if (!exclusive || !exclusive->as_bool()) return;
    if (file.problem.separations.size() + file.problem.buffers.size() > most_pairs) {
      exclusive->fail("exclusive pins and buffers make more than 2^22 pairs");
    }
    for (plan::index other = 0; other < file.problem.buffers.size(); ++other) {
      if (other != pinned) file.problem.separations.push_back({pinned, other});
    }
  }

  void read(const json_value& problem, const std::vector<std::uint32_t>& lines) {
    problem.only_keys({"pools", "buffers", "constraints", "cost_model", "pypto_structure", "objective"});
    if (const auto target = problem.find("pypto_structure")) {
      const auto whole = target->find("whole_slot_reuse");
      if (whole && whole->as_bool())
        whole->fail("is not supported: two buffers on bytes of one another must be one slot");
    }
    const json_value memories = problem.at("pools");
    for (std::size_t k = 0; k < memories.size(); ++k) read_pool(memories.at(k));
    const json_value list = problem.at("buffers");
    const bool located = lines.size() == list.size();
    for (std::size_t k = 0; k < list.size(); ++k) read_buffer(list.at(k, located ? lines[k] : 0));
    if (located) file.lines = lines;
    require_good_ids(file);
    const json_value constraints = problem.at("constraints");
    constraints.only_keys({"colocations", "separations", "temporal_exclusions", "pinned_allocations"});
    if (const auto f = constraints.find("temporal_exclusions"); f && f->size() > 0) f->fail("not supported");
    if (const auto f = constraints.find("colocations")) read_colocations(*f);
    if (const auto f = constraints.find("pinned_allocations")) {
      for (std::size_t k = 0; k < f->size(); ++k) read_pin(f->at(k));
    }
    if (const auto f = constraints.find("separations")) {
      for (std::size_t k = 0; k < f->size(); ++k) {
        file.problem.separations.push_back(
            {named(buffers, f->at(k).at("first")), named(buffers, f->at(k).at("second"))});
      }
    }
    if (const auto costs = problem.find("cost_model")) {
      const json_value f = costs->at("reuse_penalties");
      for (std::size_t k = 0; k < f.size(); ++k) {
        file.problem.reuse_penalties.push_back({named(buffers, f.at(k).at("first")),
                                                named(buffers, f.at(k).at("second")), f.at(k).at("cost").as_number()});
      }
    }
  }
};

}  // namespace

problem_file read_dsa_problem(const std::string& path, const json_value& problem,
                              const std::vector<std::uint32_t>& lines) {
  dsa_reader reader;
  reader.file.path = path;
  reader.file.numeric_ids = true;
  reader.read(problem, lines);
  return std::move(reader.file);
}

}  // namespace berth::model

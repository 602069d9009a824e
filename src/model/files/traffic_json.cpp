// The members of a berth-problem/1 that moves need: transfers, steps and uses (docs/plan.md).
#include "model/files/traffic_json.hpp"

#include <algorithm>
#include <unordered_map>

#include "model/files/text.hpp"

namespace berth::model {
namespace {

using pool_names = std::unordered_map<std::string, plan::index>;

plan::index pool_named(const pool_names& pools, const json_value& v) {
  const auto it = pools.find(v.as_id());
  if (it == pools.end()) v.fail("no pool has the id " + quote(v.as_id()));
  return it->second;
}

plan::link read_transfer(const pool_names& pools, const json_value& v) {
  v.only_keys({"from", "to", "bandwidth", "latency"});
  plan::link l{.from = pool_named(pools, v.at("from")), .to = pool_named(pools, v.at("to"))};
  l.bandwidth = v.at("bandwidth").as_number();
  if (const auto f = v.find("latency")) l.latency = f->as_number();
  return l;
}

plan::step read_step(const json_value& v) {
  if (v.size() != 2) v.fail("is not a tick and a duration");
  return {v.at(std::size_t{0}).as_tick(), v.at(1).as_number()};
}

std::vector<plan::use> read_uses(const pool_names& pools, const json_value& list, bytes size) {
  std::vector<plan::use> uses;
  for (std::size_t k = 0; k < list.size(); ++k) {
    const json_value v = list.at(k);
    v.only_keys({"at", "bytes", "write", "pool"});
    plan::use u{.at = v.at("at").as_tick(), .touched = static_cast<double>(size)};
    if (const auto f = v.find("bytes")) u.touched = f->as_number();
    if (const auto f = v.find("write")) u.write = f->as_bool();
    if (const auto f = v.find("pool")) u.memory = pool_named(pools, *f);
    uses.push_back(u);
  }
  std::stable_sort(uses.begin(), uses.end(), [](const plan::use& a, const plan::use& b) { return a.at < b.at; });
  return uses;
}

}  // namespace

void read_traffic(const json_value& root, problem_file& file) {
  plan::problem& p = file.problem;
  pool_names pools;
  for (plan::index m = 0; m < p.memories.size(); ++m) pools.emplace(p.memories[m].name, m);
  if (const auto f = root.find("transfers")) {
    for (std::size_t k = 0; k < f->size(); ++k) p.links.push_back(read_transfer(pools, f->at(k)));
  }
  if (const auto f = root.find("steps")) {
    for (std::size_t k = 0; k < f->size(); ++k) p.steps.push_back(read_step(f->at(k)));
    std::stable_sort(p.steps.begin(), p.steps.end(),
                     [](const plan::step& a, const plan::step& b) { return a.at < b.at; });
  }
  const json_value list = root.at("buffers");
  for (std::size_t k = 0; k < list.size(); ++k) {
    const auto f = list.at(k, file.lines.empty() ? 0 : file.lines[k]).find("uses");
    if (f) p.buffers[k].uses = read_uses(pools, *f, p.buffers[k].size);
  }
}

}  // namespace berth::model

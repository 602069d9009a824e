#include "schedule/dependencies.hpp"

#include <algorithm>

#include "berth/core/bytes.hpp"

namespace berth::schedule {
namespace {

constexpr std::uint32_t none = UINT32_MAX;

struct access {
  std::uint32_t node = 0;
  bool writes = false;
  bytes begin = 0;
  bytes end = 0;
};

using lists = std::vector<std::vector<std::uint32_t>>;

void order_all(const std::vector<access>& all, lists& before) {
  std::uint32_t written = none;
  std::vector<std::uint32_t> since;  // accesses behind the last writing
  for (const access& a : all) {
    if (written != none && written != a.node) before[a.node].push_back(written);
    if (a.writes) {
      for (const std::uint32_t n : since) {
        if (n != a.node) before[a.node].push_back(n);
      }
      since.clear();
      written = a.node;
    } else {
      since.push_back(a.node);
    }
  }
}

void order_overlapping(const std::vector<access>& all, lists& before) {
  std::vector<const access*> writings;
  for (std::size_t j = 0; j < all.size(); ++j) {
    const access& a = all[j];
    const auto behind = [&](const access& b) {
      if (b.node != a.node && b.begin < a.end && a.begin < b.end) before[a.node].push_back(b.node);
    };
    if (a.writes) {
      for (std::size_t i = 0; i < j; ++i) behind(all[i]);
      writings.push_back(&a);
    } else {
      for (const access* w : writings) behind(*w);
    }
  }
}

}  // namespace

lists dependencies(const graph_structure& g, std::span<const std::uint32_t> keep, std::span<const node_pair> pairs) {
  lists before(g.nodes.size());
  for (const auto& [first, second] : pairs) before[second].push_back(first);
  std::vector<std::uint32_t> producer(g.values.size(), none);
  std::vector<std::uint8_t> written(g.values.size(), 0);  // by root
  for (std::uint32_t n = 0; n < g.nodes.size(); ++n) {
    for (const std::uint32_t v : g.outputs(g.nodes[n])) {
      if (g.values[v].kind == value_kind::result)
        producer[v] = n;
      else
        written[g.values[v].root] = 1;
    }
  }
  std::vector<bytes> offset(g.values.size(), 0);
  std::vector<std::uint32_t> shown(g.values.size(), none);  // by view: the node whose writing it shows
  std::vector<std::uint32_t> over(g.values.size(), none);   // and, if it writes, the writing it covers
  for (const view_record& v : g.views) {
    offset[v.value] = v.offset;
    shown[v.value] = v.writer - 1;
    over[v.value] = v.before - 1;
  }
  std::vector<std::vector<access>> accesses(g.values.size());  // by root, of those that are written
  std::vector<std::uint8_t> kept(g.nodes.size(), 0);
  for (const std::uint32_t n : keep) kept[n] = 1;
  std::uint32_t last_kept = none;
  for (std::uint32_t n = 0; n < g.nodes.size(); ++n) {
    const auto after = [&](std::uint32_t other) {
      if (other != none && other != n) before[n].push_back(other);
    };
    const auto touch = [&](std::uint32_t v, bool writes) {
      const std::uint32_t root = g.values[v].root;
      after(producer[root]);
      if (written[root] != 0) accesses[root].push_back({n, writes, offset[v], offset[v] + g.values[v].size});
    };
    for (const std::uint32_t v : g.inputs(g.nodes[n])) {
      touch(v, false);
      after(shown[v]);
    }
    for (const std::uint32_t v : g.outputs(g.nodes[n])) {
      if (g.values[v].kind == value_kind::result) continue;
      touch(v, true);
      after(over[v]);
    }
    if (kept[n] != 0 || g.nodes[n].outputs == 0) {
      after(last_kept);
      last_kept = n;
    }
  }
  for (const std::vector<access>& all : accesses) {
    const auto writings =
        static_cast<std::size_t>(std::ranges::count_if(all, [](const access& a) { return a.writes; }));
    if (all.size() > (std::size_t{1} << 24) / std::max<std::size_t>(writings, 1)) {
      order_all(all, before);
    } else {
      order_overlapping(all, before);
    }
  }
  for (auto& row : before) {
    std::ranges::sort(row);
    row.erase(std::unique(row.begin(), row.end()), row.end());
  }
  return before;
}

}  // namespace berth::schedule

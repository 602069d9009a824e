#include "plan/single/components.hpp"

#include <algorithm>
#include <numeric>

namespace berth::plan {
namespace {

// Chooses the unit as for the whole (model/instance.cpp), of these items alone.
void scale(component& c) {
  units unit = 0;
  for (const section_range& r : c.in.ranges) unit = std::gcd(unit, r.height);
  for (const item& it : c.in.items) unit = std::gcd(unit, std::gcd(it.size, it.pin == no_offset ? 0 : it.pin));
  for (units before = 0; before != unit;) {
    before = unit;
    for (const item& it : c.in.items) {
      if (unit % it.alignment != 0) unit = std::gcd(unit, it.alignment);
    }
  }
  if (unit <= 1) return;
  c.scale = unit;
  c.in.unit *= static_cast<bytes>(unit);
  if (c.in.capacity != unbounded) c.in.capacity /= unit;
  for (section_range& r : c.in.ranges) r.height /= unit;
  for (item& it : c.in.items) {
    it.size /= unit;
    it.alignment = unit % it.alignment == 0 ? 1 : it.alignment / unit;
    if (it.pin != no_offset) it.pin /= unit;
    if (it.hint != no_offset) it.hint = it.hint % unit == 0 ? it.hint / unit : no_offset;
  }
}

}  // namespace

std::vector<component> components_of(const instance& in) {
  if (!in.links.empty() || in.own_items != in.items.size() || in.sections == 0) return {};
  // By section: the reach of items that are live there, or were before.
  std::vector<std::uint32_t> reach(in.sections, 0);
  for (const item& it : in.items) {
    const auto ranges = in.ranges_of(it);
    if (ranges.empty()) return {};
    reach[ranges.front().first] = std::max(reach[ranges.front().first], ranges.back().last);
  }
  std::vector<std::uint32_t> component_at(in.sections, 0), first_of{0};
  for (std::uint32_t s = 1, so_far = reach[0]; s < in.sections; ++s) {
    if (so_far <= s) first_of.push_back(s);
    component_at[s] = static_cast<std::uint32_t>(first_of.size() - 1);
    so_far = std::max(so_far, reach[s]);
  }
  std::vector<component> out(first_of.size());
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    const auto ranges = in.ranges_of(in.items[i]);
    const std::uint32_t k = component_at[ranges.front().first];
    instance& own = out[k].in;
    item it = in.items[i];
    it.ranges_first = static_cast<std::uint32_t>(own.ranges.size());
    for (const section_range& r : ranges) own.ranges.push_back({r.first - first_of[k], r.last - first_of[k], r.height});
    it.ranges_last = static_cast<std::uint32_t>(own.ranges.size());
    own.items.push_back(it);
    out[k].items.push_back(i);
  }
  for (std::size_t k = 0; k < out.size(); ++k) {
    instance& own = out[k].in;
    own.unit = in.unit;
    own.capacity = in.capacity;
    own.own_items = static_cast<std::uint32_t>(own.items.size());
    own.sections = (k + 1 < out.size() ? first_of[k + 1] : in.sections) - first_of[k];
    scale(out[k]);
  }
  return out;
}

layout layout_of(const component& c, const layout& whole) {
  layout out{.solver = whole.solver};
  for (const std::uint32_t i : c.items) out.offsets.push_back(whole.offsets[i]);
  out.arena = arena_of(c.in, out.offsets);
  return out;
}

}  // namespace berth::plan

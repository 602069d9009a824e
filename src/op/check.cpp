#include "berth/op/check.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "berth/op/device_operators.hpp"
#include "op/oracle.hpp"
#include "op/plain/plain.hpp"
#include "op/trial.hpp"
#include "op/trial_memory.hpp"

namespace berth::op {

namespace {

// Returns the operand's type with gaps (each stride doubled), and every other dimension reversed.
tensor_type spread_out(tensor_type t, std::int64_t& first) {
  t.strides = row_major(t.shape, t.type);
  first = 0;
  if (count_of(t.shape) == 0) return t;
  for (std::size_t d = 0; d < t.strides.size(); ++d) {
    t.strides[d] *= 2;
    if (d % 2 == 0) {
      first += (t.shape[d] - 1) * t.strides[d];
      t.strides[d] = -t.strides[d];
    }
  }
  return t;
}

// Puts row-major values at the places of the type's strides.
void lay_out_values(const tensor_type& t, const std::vector<double>& values, std::byte* first) {
  const nest both{t.shape, {row_major(t.shape, element::f64), strides_of(t)}};
  auto* const from = reinterpret_cast<std::byte*>(const_cast<double*>(values.data()));
  both.each(std::array<std::byte*, 2>{from, first},
            [&](const nest::point& here) { write(t.type, here[1], read(element::f64, here[0])); });
}

struct judged {
  served run;
  std::vector<trial_memory> memory;
  trial_memory workspace;
  std::vector<memory_range> ranges;  // as the device knows them
  std::vector<std::byte*> seen;      // as the host does
  [[nodiscard]] memory_range room() const noexcept {
    return {workspace.on_device(workspace.data()), run.run == nullptr ? 0 : run.run->workspace()};
  }
};

// Runs once, at addresses on the device, between copies from and to the host.
result<void> run_once(judged& j, const memory_range& workspace, stream& s) {
  for (const trial_memory& m : j.memory) m.upload(s);
  j.workspace.upload(s);
  const auto ran = j.run.run->run_checked(j.ranges, workspace, s);
  s.synchronize().value();
  for (const trial_memory& m : j.memory) m.download(s);
  j.workspace.download(s);
  s.synchronize().value();
  return ran;
}

// Makes operation and memory for the request, inputs filled.
judged set_up(const request& q, const prepared& p, bool strided, const device& on) {
  request mine = q;
  judged j;
  std::vector<std::int64_t> first(p.operands.size(), 0);
  for (std::size_t k = 0; strided && k < p.operands.size(); k += 2) {
    mine.inputs[p.operands[k]] = spread_out(*mine.inputs[p.operands[k]], first[k]);
  }
  j.run = serve_on(on, mine);
  const auto add = [&](const tensor_type& t, std::int64_t at, bool doubled) {
    const bytes size = static_cast<bytes>(count_of(t.shape)) * element_size(t.type);
    // Gaps double every dimension's stride, so that the whole is at most twice as long.
    const bytes room = std::max<bytes>(doubled ? 2 * size : size, 1);
    j.memory.emplace_back(on, room, std::max<bytes>(element_size(t.type), 1));
    const trial_memory& last = j.memory.back();
    j.seen.push_back(last.data() + at);
    j.ranges.push_back({last.on_device(j.seen.back()), last.size() - static_cast<bytes>(at)});
  };
  for (std::size_t k = 0; k < p.operands.size(); ++k) {
    const tensor_type& t = *mine.inputs[p.operands[k]];
    add(t, first[k], strided && k % 2 == 0);
    lay_out_values(t, p.values[k], j.seen.back());
  }
  for (const tensor_type& t : j.run.outputs) add(t, 0, false);
  if (j.run.run != nullptr && j.run.run->workspace() != 0) {
    j.workspace = trial_memory{on, j.run.run->workspace(), workspace_alignment};
  }
  return j;
}

std::vector<double> results_of(const judged& j, std::size_t inputs, std::size_t output) {
  const tensor_type& t = j.run.outputs[output];
  std::vector<double> values(static_cast<std::size_t>(count_of(t.shape)));
  const auto size = static_cast<std::int64_t>(element_size(t.type));
  load_as<double>(t.type)(j.seen[inputs + output], size, static_cast<std::int64_t>(values.size()), values.data());
  return values;
}

request in_f64(request q) {
  for (auto& input : q.inputs) {
    if (input && is_real(input->type)) input->type = element::f64;
  }
  return q;
}

// Keeps the first fault.
void blame(check_result& r, std::string why) {
  if (r.why.empty()) r.why = std::move(why);
}

// Compares with the wanted values, `expected`, by result.
void compare(check_result& r, const judged& got, const std::vector<std::vector<double>>& expected, std::size_t inputs,
             std::optional<double> allowed) {
  double total = 0;
  std::uint64_t count = 0;
  for (std::size_t o = 0; o < got.run.outputs.size(); ++o) {
    const auto a = results_of(got, inputs, o);
    const auto& b = expected[o];
    const element type = got.run.outputs[o].type;
    r.tolerance = std::max(r.tolerance, allowed.value_or(tolerance_of(type)));
    for (std::size_t i = 0; i < a.size(); ++i) {
      double reference = b[i];
      std::byte rounded[8] = {};
      write(type, rounded, reference);  // an overflow of the type is no difference
      reference = std::isinf(read(type, rounded)) ? read(type, rounded) : reference;
      const bool same = a[i] == reference || (std::isnan(a[i]) && std::isnan(reference));
      const double difference = same ? 0 : std::abs(a[i] - reference) / std::max(1.0, std::abs(reference));
      total += difference;
      ++count;
      if (difference > r.largest_difference || std::isnan(difference)) {
        r.largest_difference = difference;
        r.worst_output = o;
        r.worst_element = i;
      }
    }
  }
  r.mean_difference = count == 0 ? 0 : total / static_cast<double>(count);
  if (!(r.largest_difference <= r.tolerance)) {
    blame(r, "result " + std::to_string(r.worst_output) + ", element " + std::to_string(r.worst_element) +
                 " differs by " + std::to_string(r.largest_difference) + " (allowed: " + std::to_string(r.tolerance) +
                 ")");
  }
}

// Returns the values that the results are compared with. The oracle's loops make them if the kernel in f64 would be
// this very kernel.
std::vector<std::vector<double>> reference(check_result& r, const prepared& p, std::size_t results, bool on_host) {
  const request wide = in_f64(p.q);
  const auto same_type = [&](std::size_t i) { return wide.inputs[i]->type == p.q.inputs[i]->type; };
  const bool same = std::all_of(p.operands.begin(), p.operands.end(), same_type);
  r.reference = "the kernel in f64";
  if (same) {
    if (auto expected = expected_of(p.q, p.values)) {
      r.reference = "other loops";
      return {*std::move(expected)};
    }
    if (on_host) r.reference = "this kernel: layouts, memory and heap are judged, not what it computes";
  }
  stream s{device::host()};
  judged want = set_up(wide, p, false, device::host());
  run_once(want, want.room(), s).value();
  std::vector<std::vector<double>> expected;
  for (std::size_t o = 0; o < results; ++o) expected.push_back(results_of(want, p.operands.size(), o));
  return expected;
}

void time_it(check_result& r, const check_options& o, judged& j, stream& s) {
  std::vector<void*> addresses;
  for (const memory_range& m : j.ranges) addresses.push_back(m.address);
  const auto once = [&] {
    j.run.run->run(addresses, j.room().address, s).value();
    s.synchronize().value();
  };
  for (std::uint32_t i = 0; i < o.warm_up; ++i) once();
  std::vector<double> us(o.runs);
  const std::uint64_t before = o.heap_calls == nullptr ? 0 : o.heap_calls();
  for (double& each : us) {
    const auto begin = std::chrono::steady_clock::now();
    once();
    each = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  }
  if (o.heap_calls != nullptr) r.heap_calls_second = static_cast<std::int64_t>(o.heap_calls() - before);
  std::sort(us.begin(), us.end());
  if (us.empty()) return;
  for (const double each : us) r.mean_us += each / static_cast<double>(us.size());
  r.median_us = us[us.size() / 2];
  r.fastest_us = us.front();
  r.slowest_us = us.back();
}

}  // namespace

double tolerance_of(element type) noexcept {
  switch (type) {
    case element::f64: return 0x1p-40;
    case element::f32: return 0x1p-18;
    case element::f16: return 0x1p-10;
    case element::bf16: return 0x1p-7;
    default: return 0;
  }
}

element element_named(std::string_view wanted) noexcept {
  for (int e = 0; e < static_cast<int>(element::other); ++e) {
    if (wanted == name(static_cast<element>(e))) return static_cast<element>(e);
  }
  return element::other;
}

std::vector<shape> shapes_of(std::string_view text) {
  std::vector<shape> shapes;
  while (true) {
    const std::string_view one = text.substr(0, text.find(','));
    shape s;
    if (one != "scalar") {
      for (const char* at = one.data();; ++at) {
        std::int64_t d = 0;
        const auto [end, wrong] = std::from_chars(at, one.data() + one.size(), d);
        if (wrong != std::errc{} || d < 0)
          refuse("'" + std::string{one} + "' is no shape: numbers with x between them, or scalar");
        s.push_back(d);
        at = end;
        if (at == one.data() + one.size()) break;
        if (*at != 'x') refuse("'" + std::string{one} + "' is no shape: numbers with x between them, or scalar");
      }
    }
    shapes.push_back(std::move(s));
    if (one.size() == text.size()) return shapes;
    text.remove_prefix(one.size() + 1);
  }
}

namespace {

void describe(check_result& r, const prepared& p, const judged& j) {
  for (const std::size_t i : p.operands) r.inputs.push_back(*p.q.inputs[i]);
  r.outputs = j.run.outputs;
  for (const trial_memory& m : j.memory) r.memory += m.size();
  if (j.run.run == nullptr) return;  // empty results
  const operation& run = *j.run.run;
  r.kernel = run.kernel();
  r.workspace = run.workspace();
  r.parts.assign(run.workspace_parts().begin(), run.workspace_parts().end());
  r.memory += r.workspace;
}

}  // namespace

check_result check(std::string_view name, const check_options& o) {
  check_result r;
  const device on = o.on.value_or(device::host());
  r.device = on.properties().name;
  const prepared p = prepare(name, o);
  const std::uint64_t before = o.heap_calls == nullptr ? 0 : o.heap_calls();
  (void)serve_on(on, p.q);
  if (o.heap_calls != nullptr) r.heap_calls_first = static_cast<std::int64_t>(o.heap_calls() - before);
  stream s{on};
  judged got = set_up(p.q, p, o.strided, on);
  describe(r, p, got);
  if (got.run.run == nullptr) {
    r.ok = true;
    return r;
  }
  if (r.workspace != 0 && run_once(got, {got.room().address, r.workspace - 1}, s)) {
    blame(r, "a workspace one byte short is taken");
  }
  const auto ran = run_once(got, got.room(), s);
  if (!ran) {
    r.why = std::string{ran.error().what} + " (" + std::to_string(ran.error().number) + ")";
    return r;
  }
  const bool on_host = !got.memory.front().is_mirror();
  compare(r, got, reference(r, p, got.run.outputs.size(), on_host), p.operands.size(), o.tolerance);
  for (const trial_memory& m : got.memory) {
    if (!m.untouched_before()) blame(r, "bytes before an operand were written");
  }
  if (r.workspace != 0 && !got.workspace.untouched_before()) blame(r, "bytes before the workspace were written");
  time_it(r, o, got, s);
  if (on_host && r.heap_calls_second > 0) {
    blame(r, std::to_string(r.heap_calls_second) + " calls of the heap in phase two");
  }
  r.ok = r.why.empty();
  return r;
}

}  // namespace berth::op

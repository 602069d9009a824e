#include "tool/settings.hpp"

#include <functional>
#include <memory>
#include <utility>

#include "tool/units.hpp"

namespace berth::tool {
namespace {

struct setting {
  std::string name;
  std::function<std::unique_ptr<policy>(bytes capacity, std::uint32_t streams)> make;
};

setting pytorch(const std::string& option, const pytorch_settings& how) {
  return {"PYTORCH_CUDA_ALLOC_CONF=" + option,
          [how](bytes capacity, std::uint32_t streams) { return make_pytorch_policy(how, capacity, streams); }};
}

setting onnxruntime(const char* option, bool doubles) {
  return {option, [doubles](bytes capacity, std::uint32_t) { return make_bfc_policy(doubles, capacity); }};
}

// Returns the defaults first, then the alternatives by group: of one group only the best is named.
std::vector<std::vector<setting>> settings_of(std::string_view engine) {
  if (engine == "PyTorch") {
    std::vector<setting> splits;
    for (const bytes mib : {20, 64, 128, 256, 512}) {
      splits.push_back(pytorch("max_split_size_mb:" + std::to_string(mib), {.max_split_size = mib << 20}));
    }
    return {{pytorch("", {})},
            {pytorch("expandable_segments:True", {.expandable_segments = true})},
            splits,
            {pytorch("garbage_collection_threshold:0.8", {.garbage_collection_threshold = 0.8})}};
  }
  if (engine == "ONNX Runtime") {
    return {{onnxruntime("", true)}, {onnxruntime("arena_extend_strategy=kSameAsRequested", false)}};
  }
  return {};
}

// Returns the option without the variable, as "max_split_size_mb:20 to 512" for a group of several.
std::string name_of(const std::vector<setting>& group) {
  const auto option = [](const setting& s) { return s.name.substr(s.name.find('=') + 1); };
  const std::string last = option(group.back());
  return option(group.front()) + (group.size() > 1 ? " to " + last.substr(last.rfind(':') + 1) : "");
}

// RMM's pool takes its memory once: the size that suffices is what best fit reaches.
std::vector<std::string> pool_sizes_of_rmm(const playback& p, std::optional<bytes> available, bytes peak_live) {
  const replayed r = replay_once(p, *make_policy("best-fit-like", ample_room(peak_live), p.streams));
  if (r.failed_at) return {};
  const std::string fits = !available                                ? ""
                           : r.of_policy.peak_reserved <= *available ? ", which there were"
                                                                     : ", more than there were";
  return {"rmm::mr::pool_memory_resource of " + human_exactly(r.of_policy.peak_reserved) +
          " (initial and maximum size): best fit serves all of it in a replay" + fits + "; at most " +
          human(peak_live) + " are alive"};
}

std::string line_of(const std::string& name, const replayed& r, const replayed& defaults,
                    std::optional<bytes> available) {
  std::string line = name + ": a replay holds at most " + human(r.of_policy.peak_reserved);
  if (available) line += " of the " + human(*available) + " there were, and serves the request";
  return line + (defaults.failed_at ? "; with the defaults it fails"
                                    : "; with the defaults " + human(defaults.of_policy.peak_reserved));
}

}  // namespace

std::vector<std::string> tried_settings(std::string_view engine, const playback& p, std::optional<bytes> available,
                                        bytes peak_live) {
  if (engine == "RMM") return pool_sizes_of_rmm(p, available, peak_live);
  std::vector<std::vector<setting>> groups = settings_of(engine);
  if (groups.empty()) return {};
  const bytes capacity = available.value_or(ample_room(peak_live));
  const auto through = groups.front().front().make(capacity, p.streams);
  const replayed defaults = replay_once(p, *through);
  std::vector<std::string> lines;
  if (const bytes back = engine == "ONNX Runtime" ? through->shrink() : 0; back != 0) {
    lines.push_back("memory.enable_memory_arena_shrinkage: at the end of a replay " + human(back) + " of " +
                    human(*defaults.at_end.reserved) + " go back to the device");
  }
  std::string names;
  for (std::size_t g = 1; g < groups.size(); ++g) {
    std::optional<std::pair<const setting*, replayed>> best;
    for (const setting& s : groups[g]) {
      const replayed r = replay_once(p, *s.make(capacity, p.streams));
      const bool better = !best || r.of_policy.peak_reserved < best->second.of_policy.peak_reserved;
      if (!r.failed_at && better) best = {&s, r};
    }
    names += (g == 1 ? "" : ", ") + name_of(groups[g]);
    const bytes before = defaults.of_policy.peak_reserved;
    if (best && (defaults.failed_at || best->second.of_policy.peak_reserved < before - before / 50)) {
      lines.push_back(line_of(best->first->name, best->second, defaults, available));
    }
  }
  if (lines.empty()) {
    const std::string holds = human(defaults.of_policy.peak_reserved);
    lines.push_back(defaults.failed_at ? "no setting that was tried (" + names + ") serves the request in a replay"
                                       : "a replay with the defaults of " + std::string{engine} +
                                             (available ? " serves the request and" : "") + " holds " + holds +
                                             "; no setting that was tried (" + names + ") needs less");
  }
  return lines;
}

}  // namespace berth::tool

// berth view: a plan as one self-contained page.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "berth/model/input_error.hpp"
#include "berth/trace/picture.hpp"
#include "model/file.hpp"
#include "tool/units.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

using nlohmann::json;

// A plan as `berth plan --out FILE.json` writes it. Throws input_error, naming the key at fault.
trace::picture picture_of_plan(const std::string& path) {
  const std::string text = model::read_file(path);
  trace::picture picture;
  picture.title = std::filesystem::path{path}.filename().string();
  try {
    const json plan = json::parse(text);
    const auto arena = plan.at("arena_bytes").get<bytes>();
    picture.lower_bound = plan.at("lower_bound").get<bytes>();
    for (const json& b : plan.at("buffers")) {
      const json& id = b.at("id");
      const std::string memory = b.contains("pool") && b.at("pool").is_string() ? b.at("pool").get<std::string>() : "";
      picture.rectangles.push_back({.name = id.is_string() ? id.get<std::string>() : id.dump(),
                                    .offset = b.at("offset").get<bytes>(),
                                    .size = b.at("size").get<bytes>(),
                                    .lower = b.at("lower").get<std::int64_t>(),
                                    .upper = b.at("upper").get<std::int64_t>(),
                                    .memory = memory});
    }
    picture.facts = {{"arena", human(arena)},
                     {"lower bound", human(picture.lower_bound)},
                     {"optimal", plan.at("optimal").get<bool>() ? "proved" : "not proved"},
                     {"buffers", std::to_string(picture.rectangles.size())},
                     {"solver", plan.at("solver").get<std::string>()}};
  } catch (const json::exception& e) {
    throw model::input_error(path, std::string{"not a plan: "} + e.what());
  }
  return picture;
}

}  // namespace

std::function<int()> declare_view(CLI::App& app) {
  struct call {
    std::string file;
    std::string page;
    bool json = false;
  };
  auto c = std::make_shared<call>();
  app.add_option("FILE", c->file, "A plan (JSON, as `berth plan --out FILE.json` writes it)")->required();
  app.add_option("-o,--output", c->page, "The page to write (.html)")->required();
  app.add_flag("--json", c->json, "One JSON object on standard output");
  return [c] {
    const trace::picture picture = picture_of_plan(c->file);
    model::write_file(c->page, trace::to_html(picture));
    const json answer{{"page", c->page}, {"buffers", picture.rectangles.size()}};
    std::puts(c->json ? answer.dump().c_str() : c->page.c_str());
    return static_cast<int>(done);
  };
}

}  // namespace berth::tool

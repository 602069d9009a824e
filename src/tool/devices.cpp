// berth devices
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tool/verb.hpp"

namespace berth::tool {

std::function<int()> declare_devices(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "One JSON object on standard output");
  return [json] {
    if (*json) {
      std::puts(nlohmann::json{{"devices", nlohmann::json::array()}}.dump().c_str());
    } else {
      std::puts("No device has been built yet.");
    }
    return static_cast<int>(done);
  };
}

}  // namespace berth::tool

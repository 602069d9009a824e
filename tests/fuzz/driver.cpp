// The target over the files and folders named, without libFuzzer: what was found before stays found. Options, which
// libFuzzer takes, are passed over.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "support/memory_limit.hpp"

int main(int argc, char** argv) {
  berth::support::limit_memory(rlim_t{2} << 30);
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::filesystem::path given = argv[i];
    if (std::filesystem::is_directory(given)) {
      for (const auto& entry : std::filesystem::directory_iterator{given}) files.push_back(entry.path());
    } else if (argv[i][0] != '-') {
      files.push_back(given);
    }
  }
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);  // the last one named is the one that crashed
    std::ifstream in{path, std::ios::binary};
    const std::string bytes{std::istreambuf_iterator<char>{in}, {}};
    berth::fuzz::require(in.good(), "cannot be read");
    (void)LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  berth::fuzz::require(!files.empty(), "no files");
}

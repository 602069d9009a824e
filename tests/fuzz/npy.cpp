#include "berth/model/npy.hpp"

#include "fuzz/fuzz.hpp"

using namespace berth;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string& path = fuzz::path_of({reinterpret_cast<const char*>(data), size});
  fuzz::reading(path, [&] {
    const model::tensor made = model::read_npy(path);
    std::size_t count = 1;
    for (const std::int64_t d : made.shape) count *= static_cast<std::size_t>(d);
    fuzz::require(made.data.size() == count * element_size(made.type), "the data is what the shape says");
  });
  return 0;
}

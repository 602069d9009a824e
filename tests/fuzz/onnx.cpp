// Files of ONNX as they come, through reading and lowering.
#include "berth/model/onnx.hpp"

#include "berth/model/program.hpp"
#include "fuzz/fuzz.hpp"

using namespace berth;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string& path = fuzz::path_of({reinterpret_cast<const char*>(data), size});
  fuzz::reading(path, [&] {
    const model::program p = model::lower(model::read_onnx(path));
    fuzz::require(p.graph.fault().ok(), p.graph.fault().text);
  });
  return 0;
}

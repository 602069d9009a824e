#define _FILE_OFFSET_BITS 64  // files beyond 2 GiB on 32-bit hosts

#include "model/onnx/external.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "berth/core/bytes.hpp"
#include "berth/model/description.hpp"
#include "berth/model/input_error.hpp"
#include "model/files/text.hpp"
#include "op/request.hpp"

// https://github.com/onnx/onnx/blob/main/docs/ExternalData.md
namespace berth::model {

namespace {

namespace fs = std::filesystem;

bool is_external(const wire::tensor& t) {
  return t.external || !t.external_data.empty();
}

// Calls f(tensor) for every tensor of the graph, its nodes' attributes and their sub-graphs.
using visitor = std::function<void(wire::tensor&)>;
void each_tensor(wire::graph& g, const visitor& f);
void each_tensor(wire::sparse_tensor& t, const visitor& f) {
  f(t.values);
  f(t.indices);
}
void each_tensor(wire::attribute& a, const visitor& f) {
  for (auto& t : a.tensors) f(t);
  for (auto& t : a.sparse_tensors) each_tensor(t, f);
  for (auto& g : a.graphs) each_tensor(g, f);
}
void each_tensor(wire::graph& g, const visitor& f) {
  for (auto& t : g.initializers) f(t);
  for (auto& t : g.sparse_initializers) each_tensor(t, f);
  for (auto& n : g.nodes) {
    for (auto& a : n.attributes) each_tensor(a, f);
  }
}
void each_tensor(wire::model& m, const visitor& f) {
  each_tensor(*m.graph, f);
  for (auto& function : m.functions) {
    for (auto& a : function.defaults) each_tensor(a, f);
    for (auto& n : function.nodes) {
      for (auto& a : n.attributes) each_tensor(a, f);
    }
  }
}

class external_reader {
 public:
  explicit external_reader(const std::string& path) : path_{path}, folder_{fs::path{path}.parent_path()} {
    if (folder_.empty()) folder_ = ".";
  }

  // Returns the elements, and lets the tensor name no file any more.
  std::string read(wire::tensor& t) {
    const place p = place_of(t);
    const fs::path file = file_of(t, p.location);
    const bytes size = size_of(t, file), needed = needed_by(t);
    if (p.length && *p.length != needed) {
      fail(t, "says " + std::to_string(*p.length) + " bytes where its shape takes " + std::to_string(needed));
    }
    if (p.offset > size || needed > size - p.offset) {
      fail(t, "ends beyond the " + std::to_string(size) + " bytes of '" + p.location + "'");
    }
    read_ += needed;
    if (read_ > 4 * in_files_) fail(t, "with it, the tensors take more than four times the files they lie in");
    std::string data(static_cast<std::size_t>(needed), '\0');
    std::ifstream in{file, std::ios::binary};
    in.seekg(static_cast<std::streamoff>(p.offset));
    if (!in.read(data.data(), static_cast<std::streamsize>(needed))) fail(t, "cannot read '" + p.location + "'");
    t.external_data.clear();
    t.external = false;
    return data;
  }

 private:
  struct place {
    std::string location;
    bytes offset = 0;
    std::optional<bytes> length;
  };

  [[noreturn]] void fail(const wire::tensor& t, const std::string& what) const {
    throw input_error(path_, one_line("tensor '" + t.name + "', external data: " + what));
  }

  place place_of(const wire::tensor& t) const {
    place p;
    for (const auto& [key, value] : t.external_data) {
      if (key == "location") p.location = value;
      if (key != "offset" && key != "length") continue;
      bytes number = 0;
      const char *first = value.data(), *last = first + value.size();
      const auto [end, wrong] = std::from_chars(first, last, number);
      if (wrong != std::errc{} || end != last) fail(t, key + " '" + value + "' is no number");
      if (key == "offset") p.offset = number;
      if (key == "length") p.length = number;
    }
    return p;
  }

  // The maker of a model must not choose a file anywhere, which may become an output, nor learn whether it exists.
  fs::path file_of(const wire::tensor& t, const std::string& location) const {
    const fs::path said{location};
    const bool plain = !location.empty() && location.find('\0') == std::string::npos && said.is_relative();
    bool below = plain && std::ranges::none_of(said, [](const fs::path& part) { return part == ".."; });
    fs::path file = folder_;
    std::error_code failed;
    // A path may say "./" a thousand times, and every tensor may have such a path.
    const fs::path in_short = below ? said.lexically_normal() : fs::path{};
    for (auto part = in_short.begin(); below && part != in_short.end(); ++part) {
      file /= *part;
      const fs::file_type is = fs::symlink_status(file, failed).type();
      if (is == fs::file_type::not_found) break;
      below = is != fs::file_type::symlink;
    }
    if (!below) fail(t, "'" + location + "' is no path below the model's folder, or passes a link");
    if (!fs::is_regular_file(file, failed)) fail(t, "there is no file '" + location + "' beside the model");
    return file;
  }

  // A file counts once, however its path is written.
  bytes size_of(const wire::tensor& t, const fs::path& file) {
    struct stat found {};
    if (::stat(file.c_str(), &found) != 0) fail(t, "cannot read its file: " + std::generic_category().message(errno));
    const auto size = static_cast<bytes>(found.st_size);
    if (seen_.emplace(found.st_dev, found.st_ino).second) in_files_ += size;
    return size;
  }

  bytes needed_by(const wire::tensor& t) const {
    description named;
    named.source = path_;
    const auto count = static_cast<bytes>(element_count(named, "tensor '" + one_line(t.name) + "'", t.dims));
    const bytes each = element_size(op::element_of_onnx(t.type));
    if (each == 0) fail(t, "its element type is not supported");
    return count * each;
  }

  const std::string& path_;
  fs::path folder_;
  std::set<std::pair<dev_t, ino_t>> seen_;
  bytes in_files_ = 0, read_ = 0;
};

}  // namespace

void read_external_data(wire::model& model, const std::string& path) {
  external_reader reader{path};
  each_tensor(model, [&](wire::tensor& t) {
    if (is_external(t)) t.raw = model.read_elsewhere.emplace_back(reader.read(t));
  });
}

void refuse_external_data(wire::model& model, const std::string& path) {
  each_tensor(model, [&](const wire::tensor& t) {
    if (is_external(t)) throw input_error(path, one_line("tensor '" + t.name + "': external data is not read here"));
  });
}

}  // namespace berth::model

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
#include "model/onnx/proto.hpp"
#include "op/request.hpp"

// https://github.com/onnx/onnx/blob/main/docs/ExternalData.md
namespace berth::model {

namespace {

namespace fs = std::filesystem;

bool is_external(const onnx::TensorProto& t) {
  return t.data_location() == onnx::TensorProto::EXTERNAL || t.external_data_size() != 0;
}

// f(tensor) for every tensor of the graph, its nodes' attributes and their sub-graphs.
using visitor = std::function<void(onnx::TensorProto&)>;
void each_tensor(onnx::GraphProto& g, const visitor& f);
void each_tensor(onnx::SparseTensorProto& t, const visitor& f) {
  if (t.has_values()) f(*t.mutable_values());
  if (t.has_indices()) f(*t.mutable_indices());
}
void each_tensor(onnx::NodeProto& n, const visitor& f) {
  for (auto& a : *n.mutable_attribute()) {
    if (a.has_t()) f(*a.mutable_t());
    if (a.has_sparse_tensor()) each_tensor(*a.mutable_sparse_tensor(), f);
    if (a.has_g()) each_tensor(*a.mutable_g(), f);
    for (auto& t : *a.mutable_tensors()) f(t);
    for (auto& t : *a.mutable_sparse_tensors()) each_tensor(t, f);
    for (auto& g : *a.mutable_graphs()) each_tensor(g, f);
  }
}
void each_tensor(onnx::GraphProto& g, const visitor& f) {
  for (auto& t : *g.mutable_initializer()) f(t);
  for (auto& t : *g.mutable_sparse_initializer()) each_tensor(t, f);
  for (auto& n : *g.mutable_node()) each_tensor(n, f);
}
void each_tensor(onnx::ModelProto& m, const visitor& f) {
  each_tensor(*m.mutable_graph(), f);
  for (auto& function : *m.mutable_functions()) {
    for (auto& n : *function.mutable_node()) each_tensor(n, f);
  }
}

class external_reader {
 public:
  explicit external_reader(const std::string& path) : path_{path}, folder_{fs::path{path}.parent_path()} {
    if (folder_.empty()) folder_ = ".";
  }

  void read(onnx::TensorProto& t) {
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
    t.clear_external_data();
    t.clear_data_location();
    t.set_raw_data(std::move(data));
  }

 private:
  struct place {
    std::string location;
    bytes offset = 0;
    std::optional<bytes> length;
  };

  [[noreturn]] void fail(const onnx::TensorProto& t, const std::string& what) const {
    throw input_error(path_, one_line("tensor '" + t.name() + "', external data: " + what));
  }

  place place_of(const onnx::TensorProto& t) const {
    place p;
    for (const auto& entry : t.external_data()) {
      if (entry.key() == "location") p.location = entry.value();
      if (entry.key() != "offset" && entry.key() != "length") continue;
      bytes number = 0;
      const char *first = entry.value().data(), *last = first + entry.value().size();
      const auto [end, wrong] = std::from_chars(first, last, number);
      if (wrong != std::errc{} || end != last) fail(t, entry.key() + " '" + entry.value() + "' is no number");
      if (entry.key() == "offset") p.offset = number;
      if (entry.key() == "length") p.length = number;
    }
    return p;
  }

  // Whoever made the model must not choose a file anywhere, which may become an output, nor learn whether it is there.
  fs::path file_of(const onnx::TensorProto& t, const std::string& location) const {
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
  bytes size_of(const onnx::TensorProto& t, const fs::path& file) {
    struct stat found {};
    if (::stat(file.c_str(), &found) != 0) fail(t, "cannot read its file: " + std::generic_category().message(errno));
    const auto size = static_cast<bytes>(found.st_size);
    if (seen_.emplace(found.st_dev, found.st_ino).second) in_files_ += size;
    return size;
  }

  bytes needed_by(const onnx::TensorProto& t) const {
    description named;
    named.source = path_;
    const shape s{t.dims().begin(), t.dims().end()};
    const auto count = static_cast<bytes>(element_count(named, "tensor '" + one_line(t.name()) + "'", s));
    const bytes each = element_size(op::element_of_onnx(t.data_type()));
    if (each == 0) fail(t, "its element type is not supported");
    return count * each;
  }

  const std::string& path_;
  fs::path folder_;
  std::set<std::pair<dev_t, ino_t>> seen_;
  bytes in_files_ = 0, read_ = 0;
};

}  // namespace

void read_external_data(onnx::ModelProto& model, const std::string& path) {
  external_reader reader{path};
  each_tensor(model, [&](onnx::TensorProto& t) {
    if (is_external(t)) reader.read(t);
  });
}

void refuse_external_data(onnx::ModelProto& model, const std::string& path) {
  each_tensor(model, [&](const onnx::TensorProto& t) {
    if (is_external(t)) throw input_error(path, one_line("tensor '" + t.name() + "': external data is not read here"));
  });
}

}  // namespace berth::model

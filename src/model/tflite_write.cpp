// Writes a model with an OfflineMemoryAllocation entry. References in a FlatBuffer only point forward. So a new root
// table stands in front, with lists of buffers and metadata that have one entry more. All else moves up by a multiple
// of 16. The few positions that are counted from the start of the file are adjusted.
#include "model/tflite_write.hpp"

#include <algorithm>
#include <set>

namespace berth::model {
namespace {

constexpr std::string_view entry_name = "OfflineMemoryAllocation";

class front {
 public:
  [[nodiscard]] std::size_t size() const { return out_.size(); }
  [[nodiscard]] std::string take() { return std::move(out_); }

  void number(std::uint64_t n, unsigned width) {
    for (unsigned i = 0; i < width; ++i) out_ += static_cast<char>(n >> (8 * i) & 0xff);
  }
  void raw(std::string_view text) { out_ += text; }
  // Pads until `ahead` bytes further on is such a multiple.
  void align(std::size_t multiple, std::size_t ahead = 0) {
    while ((out_.size() + ahead) % multiple != 0) out_ += '\0';
  }
  // A reference that stands here, to a place that is not known yet. Places in what follows the front are known only
  // when the front is whole.
  void refer(std::size_t to, bool behind) {
    references_.push_back({out_.size(), to, behind});
    number(0, 4);
  }
  [[nodiscard]] std::size_t refer_later() {
    references_.push_back({out_.size(), 0, false});
    number(0, 4);
    return references_.size() - 1;
  }
  void here_is(std::size_t reference) { references_[reference].to = out_.size(); }
  void resolve() {
    for (const pending& r : references_) {
      const std::uint64_t distance = r.to + (r.behind ? out_.size() : 0) - r.at;
      for (unsigned i = 0; i < 4; ++i) out_[r.at + i] = static_cast<char>(distance >> (8 * i) & 0xff);
    }
  }

 private:
  struct pending {
    std::size_t at;
    std::size_t to;
    bool behind;
  };
  std::string out_;
  std::vector<pending> references_;
};

// A table of the new front, whose fields are references or plain 32-bit numbers: its vtable, and its begin up to where
// the fields go.
void begin_table(front& f, std::size_t reference, const std::vector<bool>& present) {
  const std::size_t vtable_size = 4 + 2 * present.size();
  f.align(4, vtable_size);  // the table begins where the vtable ends
  f.number(vtable_size, 2);
  f.number(4 + 4 * static_cast<std::size_t>(std::ranges::count(present, true)), 2);
  std::size_t at = 4;
  for (const bool there : present) {
    f.number(there ? at : 0, 2);
    if (there) at += 4;
  }
  f.here_is(reference);
  f.number(vtable_size, 4);
}

void add_to_position(std::string& text, std::size_t at, std::uint64_t by) {
  std::uint64_t n = 0;
  for (unsigned i = 8; i-- != 0;) n = n << 8 | static_cast<unsigned char>(text[at + i]);
  if (n <= 1) return;  // nothing there
  n += by;
  for (unsigned i = 0; i < 8; ++i) text[at + i] = static_cast<char>(n >> (8 * i) & 0xff);
}

// Positions that are counted from the start of the file.
void mend_positions(flatbuffer& old, std::string& text, std::uint64_t by) {
  using f = tflite_field;
  std::set<std::size_t> mended;  // tables may be shared
  const auto mend = [&](flatbuffer::place table, unsigned field) {
    if (old.find(table, field) != 0) (void)old.number<std::uint64_t>(table, field, 0);  // throws where it is outside
    if (const auto at = old.find(table, field); at != 0 && mended.insert(at).second) add_to_position(text, at, by);
  };
  for (const auto buffer : old.tables(old.root(), f::model::buffers)) mend(buffer, f::buffer::offset);
  for (const auto subgraph : old.tables(old.root(), f::model::subgraphs)) {
    for (const auto op : old.tables(subgraph, f::subgraph::operators)) mend(op, f::operation::large_custom_options);
  }
}

}  // namespace

std::string with_offline_plan(const std::string& path, std::string_view text,
                              const std::vector<std::int32_t>& offsets) {
  using fields = tflite_field::model;
  flatbuffer old{path, text};
  const auto root = old.root();
  if (old.fields(root) > fields::count) old.fail("a newer schema's model: its root has fields that are not known");
  const auto buffers = old.tables(root, fields::buffers);
  std::vector<flatbuffer::place> entries = old.tables(root, fields::metadata);
  std::erase_if(entries, [&](auto e) { return old.text(e, tflite_field::metadata::name) == entry_name; });

  front f;
  const std::size_t to_root = f.refer_later();
  f.raw(text.substr(4, 4));  // the file's identifier
  std::vector<bool> present(fields::count);
  for (unsigned i = 0; i < fields::count; ++i) present[i] = old.find(root, i) != 0;
  present[fields::buffers] = present[fields::metadata] = true;
  begin_table(f, to_root, present);
  std::size_t to_buffers = 0, to_metadata = 0;
  for (unsigned i = 0; i < fields::count; ++i) {
    if (!present[i]) continue;
    if (i == fields::version) {
      f.number(old.number<std::uint32_t>(root, i, 0), 4);
    } else if (i == fields::buffers) {
      to_buffers = f.refer_later();
    } else if (i == fields::metadata) {
      to_metadata = f.refer_later();
    } else {
      f.refer(old.reference(root, i), true);
    }
  }
  f.here_is(to_buffers);
  f.number(buffers.size() + 1, 4);
  for (const auto b : buffers) f.refer(b, true);
  const std::size_t to_buffer = f.refer_later();
  f.here_is(to_metadata);
  f.number(entries.size() + 1, 4);
  for (const auto e : entries) f.refer(e, true);
  const std::size_t to_entry = f.refer_later();
  begin_table(f, to_entry, {true, true});
  const std::size_t to_name = f.refer_later();
  f.number(buffers.size(), 4);
  f.here_is(to_name);
  f.number(entry_name.size(), 4);
  f.raw(entry_name);
  f.number(0, 1);
  begin_table(f, to_buffer, {true});
  const std::size_t to_data = f.refer_later();
  f.align(16, 4);
  f.here_is(to_data);
  f.number(4 * (3 + offsets.size()), 4);
  f.number(0, 4);  // version and subgraphs: TFLM reads neither
  f.number(old.tables(root, fields::subgraphs).size(), 4);
  f.number(offsets.size(), 4);
  for (const std::int32_t o : offsets) f.number(static_cast<std::uint32_t>(o), 4);
  f.align(16);
  f.resolve();
  if (f.size() + text.size() > std::uint64_t{1} << 31) old.fail("longer than 2 GiB with a plan in it");
  std::string behind{text};
  mend_positions(old, behind, f.size());
  return f.take() + behind;
}

}  // namespace berth::model

// The factories of berth/op/kernels.hpp: a module of kernels is opened at first need, and its kernels become
// operations. Loops of Berth's own do what oneDNN's kernels do not: copy an addend, fill a padding, pass on NaN.
#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "berth/core/contract.hpp"
#include "berth/op/kernels.hpp"
#include "berth/op/operator.hpp"
#include "core/environment.hpp"
#include "op/library_kernel.hpp"
#include "op/plain/plain.hpp"

namespace berth::op {

namespace {

constexpr const char* module_name = "berth_onednn.so";

struct opened : kernel_library {
  const kernel_table* table = nullptr;
};

// Tells the heap meter where the library's code lies.
int note_code(dl_phdr_info* object, std::size_t, void*) {
  if (std::strstr(object->dlpi_name, "libdnnl") == nullptr) return 0;
  std::uintptr_t end = object->dlpi_addr;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type == PT_LOAD) end = std::max<std::uintptr_t>(end, object->dlpi_addr + part.p_vaddr + part.p_memsz);
  }
  detail::library_code.store(object->dlpi_addr, std::memory_order_relaxed);
  detail::library_code_size.store(end - object->dlpi_addr, std::memory_order_release);
  return 1;
}

// It stays open: kernels, their names and the library's threads have no known end.
opened open_module(const std::string& file) {
  opened made;
  void* const module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    made.why_not = dlerror();
    return made;
  }
  const auto* const table = static_cast<const kernel_table*>(dlsym(module, "berth_kernels"));
  if (table == nullptr) {
    made.why_not = file + ": not a module of Berth's kernels";
  } else if (std::strcmp(table->build, BERTH_KERNELS_BUILD) != 0) {
    made.why_not = file + ": of another version of Berth (" + table->build + "; this is " BERTH_KERNELS_BUILD ")";
  } else {
    dl_iterate_phdr(note_code, nullptr);
    made.table = table;
    made.name = table->name();
  }
  return made;
}

// Returns the folder of the program or shared object that this code is in. Empty in a program with more rights than its
// caller, who may have put it anywhere by a link.
std::filesystem::path own_folder() {
#ifdef __GLIBC__
  Dl_info here{};
  link_map* object = nullptr;
  if (getauxval(AT_SECURE) != 0 ||
      dladdr1(reinterpret_cast<const void*>(&own_folder), &here, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) ==
          0 ||
      object == nullptr) {
    return {};
  }
  std::error_code unknown;
  const bool is_program = object->l_name[0] == 0;
  return std::filesystem::canonical(is_program ? "/proc/self/exe" : object->l_name, unknown).parent_path();
#else
  return {};
#endif
}

opened open() {
  const char* const said = environment("BERTH_ONEDNN");
  if (said != nullptr && std::string_view{said} == "none") {
    opened none;
    none.why_not = "BERTH_ONEDNN=none";
    return none;
  }
  if (said != nullptr && *said != 0) {
    opened made = open_module(std::filesystem::absolute(said).string());
    made.refused = made.table == nullptr;
    if (made.refused) made.why_not = "BERTH_ONEDNN: " + made.why_not;
    return made;
  }
  std::vector<std::filesystem::path> places{std::filesystem::path{BERTH_KERNELS_FOLDER} / module_name};
  if (const auto own = own_folder(); !own.empty()) {
    places.insert(places.begin(), {own / module_name, own / BERTH_KERNELS_BESIDE / module_name});
  }
  for (const auto& place : places) {
    std::error_code unknown;
    if (std::filesystem::exists(place, unknown)) return open_module(place.string());
  }
  opened none;
  none.why_not = std::string{"there is no "} + module_name;
  return none;
}

const opened& library() {
  static const auto& one = *new opened{open()};
  return one;
}

constexpr std::int64_t element_bytes = sizeof(float);

bool all_at_least(const std::byte* row, std::int64_t stride, std::int64_t count, float least) {
  const auto element = [&](std::int64_t i) {
    float x;
    std::memcpy(&x, row + i * stride, sizeof x);
    return x;
  };
  if (stride != element_bytes) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (!(element(i) >= least)) return false;
    }
    return true;
  }
  const auto* const x = reinterpret_cast<const float*>(row);
  constexpr std::int64_t block = 4096;  // within which nothing is decided, so that the loop is one of vectors
  for (std::int64_t begin = 0; begin < count; begin += block) {
    int below = 0;
    for (std::int64_t i = begin; i < std::min(count, begin + block); ++i) below |= !(x[i] >= least);
    if (below != 0) return false;
  }
  return true;
}

class library_operation final : public operation {
 public:
  explicit library_operation(std::unique_ptr<library_kernel> k)
      : operation{k->operand_count(), k->workspace()}, kernel_{std::move(k)} {}

  // Copies the operand before the last to the last before the kernel runs, both of this type, unless they lie at one
  // address.
  void copy_addend(const tensor_type& type) { copied_.emplace(type.shape, std::vector<strides>(2, strides_of(type))); }
  // Sets the elements of the last operand, which is of this type, to `value` before the kernel runs.
  void fill_result(float value, const tensor_type& type) {
    filled_.emplace(type.shape, std::vector<strides>{strides(type.shape.size(), 0), strides_of(type)});
    value_ = value;
  }
  // Has Berth's own kernel for the request take the library's place in some runs. Their operand 0 holds an element that
  // is not at least `least`, as NaN never is: kernels of oneDNN pass such elements over.
  void replace_below(float least, const request& q, const tensor_type& output) {
    try {
      looked_at_ = nest{q.inputs[0]->shape, {strides_of(*q.inputs[0])}};
      instead_ = serve(q, {output}).run;
      least_ = least;
    } catch (const refusal&) {  // in a layout that only the library knows
    }
  }

  [[nodiscard]] bool sums_in_place() const noexcept { return kernel_->sums_in_place(); }
  [[nodiscard]] const char* kernel() const noexcept override { return kernel_->kernel(); }
  [[nodiscard]] bytes packed_size(std::size_t k) const noexcept override { return kernel_->packed_size(k); }
  result<void> pack(std::size_t k, const void* plain, void* packed) const override {
    return kernel_->pack(k, plain, packed);
  }

 private:
  void bind(std::span<void* const> addresses, void* workspace) noexcept override {
    addresses_ = addresses;
    kernel_->bind(addresses, workspace);
  }

  void compute() noexcept override {
    const auto at = [&](std::size_t k) { return static_cast<std::byte*>(addresses_[k]); };
    const std::size_t last = addresses_.size() - 1;
    if (instead_ != nullptr) {
      bool all = true;
      const std::array<std::byte*, 1> x{at(0)};
      looked_at_.rows(x, [&](std::byte* const* row) {
        all = all && all_at_least(row[0], looked_at_.stride(0), looked_at_.row(), least_);
      });
      if (!all) return instead_->execute(addresses_, nullptr);
    }
    if (copied_ && at(last - 1) != at(last)) {
      const std::array<std::byte*, 2> both{at(last - 1), at(last)};
      copy_elements(*copied_, both, sizeof(float));
    }
    if (filled_) {
      const std::array<std::byte*, 2> both{reinterpret_cast<std::byte*>(&value_), at(last)};
      copy_elements(*filled_, both, sizeof value_);
    }
    kernel_->compute();
  }

  std::unique_ptr<library_kernel> kernel_;
  // Walk the elements, since the bytes in a tensor's gaps are not its own; the library's sizes count them.
  std::optional<nest> copied_, filled_;
  float value_ = 0;  // of filled_
  nest looked_at_;   // operand 0 of replace_below()
  float least_ = 0;
  std::unique_ptr<operation> instead_;  // replace_below()'s; null: none
  std::span<void* const> addresses_;    // the base's
};

using made_operation = result<std::unique_ptr<library_operation>>;

// Makes an operation of the kernel that this function of the table makes.
template <class Maker, class... Arguments>
made_operation made_by(Maker kernel_table::*function, const Arguments&... arguments) {
  const kernel_table* const table = library().table;
  if (table == nullptr) return error{errc::unsupported, "op: there is no library of kernels", 0};
  created_kernel kernel = (table->*function)(arguments...);
  if (!kernel) return kernel.error();
  return std::make_unique<library_operation>(*std::move(kernel));
}

created finished(made_operation made) {
  if (!made) return made.error();
  return created{*std::move(made)};
}

constexpr float infinity = std::numeric_limits<float>::infinity();

// Keeps NaN in the functions for which oneDNN's kernels return a number.
void keep_nan(library_operation& o, const activation& a, const tensor_type& input, const tensor_type& output) {
  request q{"", 6, {input}};
  if (a.kind == activation_kind::exp) q.op = "Exp";
  if (a.kind == activation_kind::relu && a.alpha == 0) q.op = "Relu";
  if (a.kind == activation_kind::clip) {
    q.op = "Clip";
    q.attributes = {{"min", a.alpha}, {"max", a.beta}};
  }
  if (!q.op.empty()) o.replace_below(-infinity, q, output);
}

}  // namespace

const kernel_library& get_kernel_library() {
  return library();
}

created convolution(const convolution_description& d) {
  auto made = made_by(&kernel_table::convolution, d);
  if (made && (*made)->sums_in_place()) (*made)->copy_addend(d.output);
  return finished(std::move(made));
}

created transposed_convolution(const transposed_convolution_description& d) {
  return finished(made_by(&kernel_table::transposed_convolution, d));
}

created matmul(const matmul_description& d) {
  return finished(made_by(&kernel_table::matmul, d));
}

created elementwise(const tensor_type& input, const tensor_type& output, const activations& each) {
  expects(!each.empty(), "op: elementwise needs a function");
  auto made = made_by(&kernel_table::elementwise, input, output, each);
  if (made && each.size() == 1) keep_nan(**made, each[0], input, output);
  return finished(std::move(made));
}

created binary(binary_kind kind, const tensor_type& a, const tensor_type& b, const tensor_type& output,
               const activations& then) {
  auto made = made_by(&kernel_table::binary, kind, a, b, output, then);
  // NaN of the second operand passes, that of the first does not.
  const bool most = kind == binary_kind::maximum, least = kind == binary_kind::minimum;
  if (made && (most || least) && then.empty()) {
    (*made)->replace_below(-infinity, {most ? "Max" : "Min", 8, {a, b}}, output);
  }
  return finished(std::move(made));
}

created pooling(pool_kind kind, const tensor_type& input, const tensor_type& output, const window& over) {
  auto made = made_by(&kernel_table::pooling, kind, input, output, over);
  if (made && kind == pool_kind::maximum) {  // oneDNN's begins at the least number, and passes NaN and -infinity over
    std::vector<std::int64_t> pads = over.pads_begin;
    pads.insert(pads.end(), over.pads_end.begin(), over.pads_end.end());
    const attributes window{
        {"kernel_shape", over.kernel}, {"strides", over.strides}, {"dilations", over.dilations}, {"pads", pads}};
    (*made)->replace_below(std::numeric_limits<float>::lowest(), {"MaxPool", 12, {input}, {}, window}, output);
  }
  return finished(std::move(made));
}

created mean(const tensor_type& input, const tensor_type& output) {
  return finished(made_by(&kernel_table::mean, input, output));
}

created softmax(const tensor_type& input, const tensor_type& output, int axis) {
  return finished(made_by(&kernel_table::softmax, input, output, axis));
}

created layer_normalization(const tensor_type& input, const tensor_type& output, float epsilon) {
  return finished(made_by(&kernel_table::layer_normalization, input, output, epsilon));
}

created concatenation(std::span<const tensor_type> inputs, const tensor_type& output, int axis) {
  return finished(made_by(&kernel_table::concatenation, inputs, output, axis));
}

created reorder(const tensor_type& input, const tensor_type& output) {
  return finished(made_by(&kernel_table::reorder, input, output));
}

created pad(const tensor_type& input, const tensor_type& output, std::vector<std::int64_t> begin, float value) {
  auto made = made_by(&kernel_table::pad, input, output, begin);
  if (made) (*made)->fill_result(value, output);
  return finished(std::move(made));
}

}  // namespace berth::op

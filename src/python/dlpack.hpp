// The structs of a DLPack capsule, which array libraries exchange: https://dmlc.github.io/dlpack/latest/c_api.html.
// Both forms are fixed by that document. They are written down here because no header of Debian 12 has the form with a
// version (DLPack 1.0; libdlpack-dev has 0.6). tests/python/dlpack_layout.cpp compares the common parts.
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth::python::dlpack {

enum device_kind : std::int32_t { cpu = 1, cuda = 2 };  // of those that Berth's devices can be

struct device {
  std::int32_t kind = cpu;
  std::int32_t number = 0;
  friend bool operator==(const device&, const device&) = default;
};

enum type_code : std::uint8_t { whole = 0, natural = 1, floating = 2, bfloat = 4, complex = 5, boolean = 6 };

struct data_type {
  std::uint8_t code = natural;
  std::uint8_t bits = 8;
  std::uint16_t lanes = 1;
  friend bool operator==(const data_type&, const data_type&) = default;
};

struct tensor {
  void* data = nullptr;
  dlpack::device device{};
  std::int32_t dimensions = 0;
  data_type type{};
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  // in items; null: row after row
  std::uint64_t byte_offset = 0;
};

// Before 1.0: "dltensor", and "used_dltensor" once it is consumed.
struct managed {
  tensor view{};
  void* context = nullptr;
  void (*deleter)(managed*) = nullptr;

  static constexpr const char* name = "dltensor";
  static constexpr const char* used = "used_dltensor";
};

struct version {
  std::uint32_t major = 1;
  std::uint32_t minor = 0;
};

// Since 1.0.
struct managed_versioned {
  dlpack::version version{};
  void* context = nullptr;
  void (*deleter)(managed_versioned*) = nullptr;
  std::uint64_t flags = 0;
  tensor view{};

  static constexpr std::uint64_t read_only = 1;
  static constexpr const char* name = "dltensor_versioned";
  static constexpr const char* used = "used_dltensor_versioned";
};

}  // namespace berth::python::dlpack

// A struct of the C interface as its callers begin it: zeros, and its own size.
#pragma once

namespace berth::support {

template <class T>
T sized() {
  T t{};
  t.struct_size = sizeof t;
  return t;
}

}  // namespace berth::support

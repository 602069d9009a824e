#include <cstdio>

#include "berth/berth.hpp"

int main() {
  berth::scratch<float> w(1000);
  w[999] = 1.0F;
  const berth::device host = berth::device::host();
  std::printf("%s, %zu\n", host.properties().name.c_str(), w.size());
  return w.size() == 1000 ? 0 : 1;
}

// Plans CSV problems (id,lower,upper,size) and prints arena, bound and user time of each: search FILE...
// [--fast|--best]
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "plan/single.hpp"

namespace {

double user_seconds() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_utime.tv_sec) + 1e-6 * static_cast<double>(u.ru_utime.tv_usec);
}

berth::plan::problem read(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  int column[4] = {0, 1, 2, 3};
  std::stringstream header(line);
  std::string cell;
  for (int k = 0; std::getline(header, cell, ','); ++k) {
    if (cell.starts_with("lower") || cell.starts_with("start")) column[1] = k;
    if (cell.starts_with("upper") || cell.starts_with("end")) column[2] = k;
    if (cell.starts_with("size")) column[3] = k;
  }
  berth::plan::problem p;
  while (std::getline(in, line)) {
    long long value[8] = {};
    std::stringstream row(line);
    for (int k = 0; k < 8 && std::getline(row, cell, ','); ++k) value[k] = std::atoll(cell.c_str());
    p.add({.size = static_cast<berth::bytes>(value[column[3]]), .live = {value[column[1]], value[column[2]]}});
  }
  return p;
}

}  // namespace

int main(int argc, char** argv) {
  berth::plan::options options;
  std::vector<const char*> files;
  for (int k = 1; k < argc; ++k) {
    if (!std::strcmp(argv[k], "--fast")) {
      options.work = berth::plan::effort::fast;
    } else if (!std::strcmp(argv[k], "--best")) {
      options.work = berth::plan::effort::best;
    } else {
      files.push_back(argv[k]);
    }
  }
  double total = 0;
  for (const char* file : files) {
    const berth::plan::problem p = read(file);
    const double start = user_seconds();
    const berth::plan::plan got = berth::plan::solve_single(p, options);
    const double took = user_seconds() - start;
    total += took;
    const char* base = std::strrchr(file, '/');
    std::printf("%-20s n %7zu arena %12llu bound %12llu ratio %.6f %-9s %-20.*s work %9llu user %.4f s\n",
                base ? base + 1 : file, p.buffers.size(), static_cast<unsigned long long>(got.arena_bytes),
                static_cast<unsigned long long>(got.lower_bound_bytes),
                static_cast<double>(got.arena_bytes) / static_cast<double>(got.lower_bound_bytes),
                got.optimal() ? "optimal" : "", static_cast<int>(got.solver.size()), got.solver.data(),
                static_cast<unsigned long long>(got.work), took);
    std::fflush(stdout);
  }
  std::printf("total user %.3f s\n", total);
}

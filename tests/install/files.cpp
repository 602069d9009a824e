// The addition of berth::model: problems from files.
#include <cstdio>
#include <fstream>

#include "berth/berth.hpp"
#include "berth/model/problem_file.hpp"

int main() {
  std::ofstream{"outside.csv"} << "id,lower,upper,size\nx,0,2,64\ny,2,4,64\n";
  const auto file = berth::model::read_problem("outside.csv");
  const auto plan = berth::plan::solve(file.problem);
  std::printf("%d bytes\n", plan ? static_cast<int>(plan->arena()) : -1);
  return plan && plan->arena() == 64 ? 0 : 1;
}

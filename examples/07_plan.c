/* Plans four tensors from C: sizes and lifetimes in, offsets in one arena out. */
#include <berth/plan.h>
#include <inttypes.h>
#include <stdio.h>

int main(void) {
  const uint64_t size[] = {1 << 20, 2 << 20, 1 << 20, 3 << 20};
  const int64_t lower[] = {0, 1, 2, 3};
  const int64_t upper[] = {2, 3, 4, 5};
  uint64_t offset[4];
  berth_plan_summary summary = BERTH_INIT(berth_plan_summary);
  berth_problem* problem = NULL;
  berth_plan* plan = NULL;

  int ok = berth_problem_create(NULL, &problem) == BERTH_OK &&
           berth_problem_add_many(problem, 4, size, lower, upper) == BERTH_OK &&
           berth_solve(problem, NULL, &plan) == BERTH_OK && berth_plan_offsets(plan, offset, 4) == BERTH_OK &&
           berth_plan_summarize(plan, &summary) == BERTH_OK;
  if (!ok) {
    fprintf(stderr, "%s\n", berth_error_text());
  } else {
    for (int i = 0; i < 4; ++i) printf("%" PRIu64 " at %" PRIu64 "\n", size[i], offset[i]);
    printf("arena %" PRIu64 ", lower bound %" PRIu64 "\n", summary.arena, summary.lower_bound);
  }
  berth_plan_destroy(plan);
  berth_problem_destroy(problem);
  return ok ? 0 : 1;
}

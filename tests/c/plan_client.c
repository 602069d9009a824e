/* A program in C99 that knows berth/plan.h as it was in version 1, and nothing else of Berth; it uses every struct. */
#include "plan_client.h"

#include "berth/plan.h"

/* Numbers that programs were compiled with: they stay. */
typedef char status_stays[BERTH_OK == 0 && BERTH_INVALID == 1 && BERTH_NO_MEMORY == 2 && BERTH_NO_SUCH_HANDLE == 3 &&
                                  BERTH_NEWER_CALLER == 4 && BERTH_NO_OFFSETS == 5 && BERTH_REFUSED == 6 &&
                                  BERTH_INTERNAL == 7
                              ? 1
                              : -1];
typedef char
    outcome_stays[BERTH_OPTIMAL == 0 && BERTH_FEASIBLE == 1 && BERTH_INFEASIBLE == 2 && BERTH_UNKNOWN == 3 ? 1 : -1];
typedef char fields_stay[BERTH_HAS_OFFSET == 1 && BERTH_HAS_HINT == 2 && BERTH_HAS_ALIAS_GROUP == 4 ? 1 : -1];

const char* plan_client(void) {
  const char* wrong = "";
  berth_problem* problem = NULL;
  berth_plan* plan = NULL;
  uint64_t offset[2] = {0, 0};
  berth_buffer buffer = BERTH_INIT(berth_buffer);
  berth_plan_summary summary = BERTH_INIT(berth_plan_summary);
  berth_problem_options options = BERTH_INIT(berth_problem_options);
  berth_memory memory = BERTH_INIT(berth_memory);
  berth_solve_options search = BERTH_INIT(berth_solve_options);
  if (berth_problem_create(&options, &problem) != BERTH_OK) return "create";
  if (berth_problem_add_memory(problem, &memory, NULL) != BERTH_OK) wrong = "memory";
  buffer.size = 64;
  buffer.upper = 2;
  if (berth_problem_add(problem, &buffer, NULL) != BERTH_OK) wrong = "add";
  buffer.lower = 1;
  if (berth_problem_add(problem, &buffer, NULL) != BERTH_OK) wrong = "add again";
  if (berth_solve(problem, &search, &plan) != BERTH_OK) wrong = berth_error_text();
  if (berth_plan_offsets(plan, offset, 2) != BERTH_OK || offset[0] + offset[1] != 64) wrong = "offsets";
  if (berth_plan_summarize(plan, &summary) != BERTH_OK || summary.arena != 128 || summary.outcome != BERTH_OPTIMAL) {
    wrong = "summary";
  }
  if (berth_plan_check_bound(plan, problem) != BERTH_OK) wrong = "certificate";
  berth_plan_destroy(plan);
  berth_problem_destroy(problem);
  return wrong;
}

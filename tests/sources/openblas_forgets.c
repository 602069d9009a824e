/* A program that forgets STACK_FREE: once in a thread that ends, and in the main thread or in one that still runs.
 * usage: openblas_forgets thread|main|running|none */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "openblas_kernels.h"

static int ready[2];

static void* work(void* running) {
  forget(3, 100);
  if (running != NULL && write(ready[1], "r", 1) == 1) pause();
  return NULL;
}

int main(int count, char** arguments) {
  const char* where = count > 1 ? arguments[1] : "none";
  pthread_t thread;
  char one;
  printf("%d\n", forgotten_line);
  fflush(stdout);
  give_back(made_here(10));
  if (strcmp(where, "main") == 0) forget(3, 100);
  if (strcmp(where, "thread") == 0)
    if (pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, NULL) != 0) return 1;
  if (strcmp(where, "running") == 0)
    if (pipe(ready) != 0 || pthread_create(&thread, NULL, work, ready) != 0 || read(ready[0], &one, 1) != 1) return 1;
  return 0;
}

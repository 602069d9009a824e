/* A program that knows nothing of Berth: blocks of malloc and, on the simulator, of aclrtMalloc come and go, and some
 * stay. preload_test.py records it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef WITH_ASCEND
#include "acl/acl.h"
#endif

static void* kept[4];

static atomic_int libraries_wanted = 1;

static void* open_libraries(void* unused) {
  static const char* const names[] = {"libthread_db.so.1", "libresolv.so.2", "libBrokenLocale.so.1"};
  for (int i = 0; atomic_load(&libraries_wanted); i = (i + 1) % 3) {
    void* const opened = dlopen(names[i], RTLD_NOW);
    if (opened != NULL) dlclose(opened);
  }
  return unused;
}

#define TEN(x) x x x x x x x x x x
static void* allocate_in_many_places(void* unused) {
  void* volatile block;
  TEN(TEN(TEN(block = malloc(10); free(block);)))
  return unused;
}

/* Allocates in new places while libraries are opened, and forks meanwhile. Returns 0 if all children end well. */
static int crowd(void) {
  pthread_t opening, allocating;
  if (pthread_create(&opening, NULL, open_libraries, NULL) != 0) return 1;
  if (pthread_create(&allocating, NULL, allocate_in_many_places, NULL) != 0) return 1;
  int failed = 0;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    void* volatile block = malloc(10);
    free(block);
    if (child == 0) _exit(0);
    int status = 0;
    failed |= waitpid(child, &status, 0) != child || status != 0;
  }
  pthread_join(allocating, NULL);
  atomic_store(&libraries_wanted, 0);
  pthread_join(opening, NULL);
  return failed;
}

int main(void) {
  if (getenv("CROWD") != NULL) return crowd();
  char *grown = malloc(1000), *zeroed = calloc(10, 77);
  if (grown == NULL || zeroed == NULL) return 1;
  memset(grown, 1, 1000);
  grown = realloc(grown, 123456);
  if (posix_memalign(&kept[0], 256, 54321) != 0 || grown == NULL) return 1;
  free(zeroed);
  kept[1] = grown;
#ifdef WITH_ASCEND
  void *lost = NULL, *given = NULL;
  if (aclInit(NULL) != 0 || aclrtSetDevice(0) != 0) return 1;
  if (aclrtMalloc(&lost, 4097, ACL_MEM_MALLOC_HUGE_FIRST) != 0 || aclrtMallocHost(&given, 777) != 0) return 1;
  if (aclrtFreeHost(given) != 0) return 1;
  kept[2] = lost;
  if (getenv("TWICE") != NULL) (void)aclrtFree(lost), (void)aclrtFree(lost);
  if (getenv("OTHERS") != NULL) { /* a block that the library does not see, at the address of one that it saw */
    void* other = NULL;
    if (aclrtFree(lost) != 0) return 1;
    int (*const hidden)(void**, size_t, aclrtMemMallocPolicy) =
        (int (*)(void**, size_t, aclrtMemMallocPolicy))dlsym(dlopen("libascendcl.so", RTLD_NOW), "aclrtMalloc");
    for (int i = 0; i < 2; ++i) {
      if (hidden(&other, 4097 + i * 100000, ACL_MEM_MALLOC_HUGE_FIRST) != 0 || aclrtFree(other) != 0) return 1;
    }
  }
#endif
  printf("%p\n", kept[1]);
  return 0;
}

/* A program that knows nothing of Berth: blocks of malloc and, on the simulator, of aclrtMalloc come and go, and some
 * stay. preload_test.py records it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef WITH_ASCEND
#include "acl/acl.h"
#endif

static void* kept[4];

int main(void) {
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
#endif
  printf("%p\n", kept[1]);
  return 0;
}

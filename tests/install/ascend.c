/* A program for AscendCL, outside of Berth: a fill and a copy back; with an argument it frees its block too early. */
#include <acl/acl.h>
#include <stdlib.h>

static void want(int ok) {
  if (!ok) exit(1);
}

int main(int count, char** arguments) {
  enum { size = 100 };
  void *block = 0, *host = 0;
  aclrtStream stream = 0;
  (void)arguments;
  want(aclInit(0) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS);
  want(aclrtCreateStream(&stream) == ACL_SUCCESS && aclrtMallocHost(&host, size) == ACL_SUCCESS);
  want(aclrtMalloc(&block, size, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
  want(aclrtMemsetAsync(block, size, 7, size, stream) == ACL_SUCCESS);
  want(aclrtMemcpyAsync(host, size, block, size, ACL_MEMCPY_DEVICE_TO_HOST, stream) == ACL_SUCCESS);
  if (count > 1) want(aclrtFree(block) == ACL_SUCCESS);
  want(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
  if (count == 1) want(((char*)host)[size - 1] == 7 && aclrtFree(block) == ACL_SUCCESS);
  want(aclrtFreeHost(host) == ACL_SUCCESS && aclrtDestroyStream(stream) == ACL_SUCCESS);
  want(aclrtResetDevice(0) == ACL_SUCCESS && aclFinalize() == ACL_SUCCESS);
  return 0;
}

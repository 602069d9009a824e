/* A program for AscendCL, outside of Berth: a fill and a copy back, and an operator; with an argument it frees its
 * block too early. */
#include <acl/acl.h>
#include <aclnnop/aclnn_add.h>
#include <stdlib.h>

static void want(int ok) {
  if (!ok) exit(1);
}

/* x + 2 x, in place, with the workspace that was asked for. */
static void triple(void* floats, int64_t count, aclrtStream stream) {
  float two = 2;
  uint64_t size = 0;
  void* workspace = 0;
  aclOpExecutor* executor = 0;
  aclScalar* alpha = aclCreateScalar(&two, ACL_FLOAT);
  aclTensor* x = aclCreateTensor(&count, 1, ACL_FLOAT, 0, 0, ACL_FORMAT_ND, &count, 1, floats);
  want(aclnnInplaceAddGetWorkspaceSize(x, x, alpha, &size, &executor) == ACLNN_SUCCESS && size != 0);
  want(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
  want(aclnnInplaceAdd(workspace, size, executor, stream) == ACLNN_SUCCESS);
  want(aclrtSynchronizeStream(stream) == ACL_SUCCESS && aclrtFree(workspace) == ACL_SUCCESS);
  want(aclDestroyTensor(x) == ACLNN_SUCCESS && aclDestroyScalar(alpha) == ACLNN_SUCCESS);
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
  if (count == 1) {
    want(((char*)host)[size - 1] == 7);
    *(float*)host = 1.5F;
    want(aclrtMemcpy(block, size, host, sizeof(float), ACL_MEMCPY_HOST_TO_DEVICE) == ACL_SUCCESS);
    triple(block, 1, stream);
    want(aclrtMemcpy(host, size, block, sizeof(float), ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS);
    want(*(float*)host == 4.5F && aclrtFree(block) == ACL_SUCCESS);
  }
  want(aclrtFreeHost(host) == ACL_SUCCESS && aclrtDestroyStream(stream) == ACL_SUCCESS);
  want(aclrtResetDevice(0) == ACL_SUCCESS && aclFinalize() == ACL_SUCCESS);
  return 0;
}

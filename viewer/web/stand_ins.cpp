// Stands in for parts of the command that a browser lacks: calls of Linux, zlib's reading functions over plain files
// (the page unpacks gzip itself), and a device with memory in a requested place.
#include <link.h>
#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device/host/placed_device.hpp"

extern "C" {

char* secure_getenv(const char* name) {
  return std::getenv(name);
}
int memfd_create(const char*, unsigned) {
  errno = ENOSYS;
  return -1;
}
int fallocate(int, int, off_t, off_t) {
  errno = ENOSYS;
  return -1;
}
ssize_t getrandom(void* to, std::size_t n, unsigned) {
  const std::size_t some = std::min<std::size_t>(n, 256);
  return ::getentropy(to, some) == 0 ? static_cast<ssize_t>(some) : -1;
}
int dl_iterate_phdr(int (*)(dl_phdr_info*, std::size_t, void*), void*) {
  return 0;
}
int isatty(int) {  // the progress line would want a thread
  errno = ENOTTY;
  return 0;
}
int pthread_setname_np(pthread_t, const char*) {
  return 0;
}

}  // extern "C"

namespace {
std::FILE* file_of(gzFile file) {
  return reinterpret_cast<std::FILE*>(file);
}
}  // namespace

gzFile gzopen(const char* path, const char* mode) {
  return reinterpret_cast<gzFile>(std::fopen(path, mode));
}
gzFile gzdopen(int descriptor, const char* mode) {
  return reinterpret_cast<gzFile>(::fdopen(descriptor, mode));
}
int gzbuffer(gzFile, unsigned) {
  return 0;
}
int gzread(gzFile file, void* to, unsigned n) {
  const std::size_t got = std::fread(to, 1, n, file_of(file));
  return got == 0 && std::ferror(file_of(file)) != 0 ? -1 : static_cast<int>(got);
}
const char* gzerror(gzFile file, int* code) {
  *code = std::ferror(file_of(file)) != 0 ? Z_ERRNO : Z_OK;
  return std::strerror(errno);
}
int gzdirect(gzFile) {
  return 1;
}
z_off_t gzoffset(gzFile file) {
  return std::ftell(file_of(file));
}
int gzclose_r(gzFile file) {
  return file == nullptr || std::fclose(file_of(file)) == 0 ? Z_OK : Z_ERRNO;
}

namespace berth::detail {

result<std::shared_ptr<device_backend>> open_placed(std::string_view) {
  return error{errc::unsupported, "a browser places no memory"};
}

}  // namespace berth::detail

/* Memory of one memfd as a device of your own (berth/backend.h), in C99 and C++: allocate and free, or virtual memory.
 *
 * A handle of physical memory is an offset in the file, so another process that has the file maps the same bytes: send
 * `file` over a Unix socket (SCM_RIGHTS), with the offset. Offsets are never used twice. */
#ifndef MMAP_BACKEND_H
#define MMAP_BACKEND_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "berth/backend.h"

typedef struct mmap_memory {
  int file;
  uint64_t page;
  uint64_t total;
  uint64_t file_size;
  uint64_t held; /* these two: by atomic operations */
  uint64_t end;
} mmap_memory;

/* Takes bytes of the file; BERTH_NO_MEMORY beyond the machine's memory. */
static int mmap_take(mmap_memory* m, uint64_t size, uint64_t* offset) {
  if (size > m->total) return BERTH_NO_MEMORY;
  size = (size + m->page - 1) / m->page * m->page;
  if (__atomic_add_fetch(&m->held, size, __ATOMIC_RELAXED) > m->total) {
    __atomic_sub_fetch(&m->held, size, __ATOMIC_RELAXED);
    return BERTH_NO_MEMORY;
  }
  *offset = __atomic_fetch_add(&m->end, size, __ATOMIC_RELAXED);
  if (*offset + size > m->file_size) { /* offsets are not used again, and 32-bit ones end soon */
    __atomic_sub_fetch(&m->held, size, __ATOMIC_RELAXED);
    return BERTH_NO_MEMORY;
  }
  return BERTH_OK;
}

static void mmap_give(mmap_memory* m, uint64_t size) {
  size = (size + m->page - 1) / m->page * m->page;
  __atomic_sub_fetch(&m->held, size, __ATOMIC_RELAXED);
}

static int mmap_allocate(void* user, uint64_t size, int32_t kind, void** block) {
  mmap_memory* m = (mmap_memory*)user;
  uint64_t offset = 0;
  void* got;
  if (kind != BERTH_MEMORY_DEVICE) return BERTH_UNSUPPORTED;
  if (mmap_take(m, size, &offset) != BERTH_OK) return BERTH_NO_MEMORY;
  got = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, m->file, (off_t)offset);
  if (got == MAP_FAILED) {
    mmap_give(m, size);
    return BERTH_NO_MEMORY;
  }
  *block = got;
  return BERTH_OK;
}

static void mmap_free(void* user, void* block, uint64_t size, int32_t kind) {
  (void)kind;
  madvise(block, (size_t)size, MADV_REMOVE); /* the file gives up these pages */
  munmap(block, (size_t)size);
  mmap_give((mmap_memory*)user, size);
}

static int mmap_reserve(void* user, uint64_t size, void** address) {
  void* const got = mmap(NULL, (size_t)size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  (void)user;
  if (got == MAP_FAILED) return BERTH_NO_MEMORY;
  *address = got;
  return BERTH_OK;
}

static void mmap_release(void* user, void* address, uint64_t size) {
  (void)user;
  munmap(address, (size_t)size);
}

static int mmap_create(void* user, uint64_t size, int whole, uint64_t* handle) {
  (void)whole;
  return mmap_take((mmap_memory*)user, size, handle);
}

static void mmap_destroy(void* user, uint64_t handle, uint64_t size) {
  mmap_memory* m = (mmap_memory*)user;
  fallocate(m->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)handle, (off_t)size);
  mmap_give(m, size);
}

static int mmap_map(void* user, void* address, uint64_t size, uint64_t handle, uint64_t offset) {
  mmap_memory* m = (mmap_memory*)user;
  const int flags = MAP_SHARED | MAP_FIXED;
  void* got = mmap(address, (size_t)size, PROT_READ | PROT_WRITE, flags, m->file, (off_t)(handle + offset));
  return got == MAP_FAILED ? BERTH_NO_MEMORY : BERTH_OK;
}

static int mmap_unmap(void* user, void* address, uint64_t size) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  (void)user;
  return mmap(address, (size_t)size, PROT_NONE, flags, -1, 0) == MAP_FAILED ? BERTH_NO_MEMORY : BERTH_OK;
}

static int mmap_split(void* user, uint64_t handle, uint64_t size, uint64_t at, uint64_t* rest) {
  (void)user;
  (void)size;
  *rest = handle + at;
  return BERTH_OK;
}

static void mmap_closed(void* user) {
  close(((mmap_memory*)user)->file);
}

/* Returns the functions over `m`, which must live until the device has closed. BERTH_NO_MEMORY: no file. */
static inline int mmap_backend(mmap_memory* m, int virtual_memory, berth_backend* out) {
  memset(m, 0, sizeof *m);
  m->page = (uint64_t)sysconf(_SC_PAGESIZE);
  m->total = (uint64_t)sysconf(_SC_PHYS_PAGES) * m->page;
  m->file = memfd_create("pool", MFD_CLOEXEC);
  if (m->file < 0) return BERTH_NO_MEMORY;
  m->file_size = (uint64_t)1 << (sizeof(off_t) * 8 - 2);
  if (ftruncate(m->file, (off_t)m->file_size) != 0) return close(m->file), BERTH_NO_MEMORY;

  memset(out, 0, sizeof *out);
  out->struct_size = sizeof *out;
  out->user = m;
  out->name = virtual_memory ? "mmap:virtual" : "mmap";
  out->description = "pages of a memfd";
  out->total_memory = m->total;
  out->alignment = m->page;
  out->host_accessible = 1;
  out->allocate = mmap_allocate;
  out->free = mmap_free;
  out->closed = mmap_closed;
  if (!virtual_memory) return BERTH_OK;
  out->granule = m->page;
  out->max_mappings = 30000; /* below the system's limit for a process */
  out->reserve = mmap_reserve;
  out->release = mmap_release;
  out->create_physical = mmap_create;
  out->destroy_physical = mmap_destroy;
  out->map = mmap_map;
  out->unmap = mmap_unmap;
  out->split = mmap_split;
  return BERTH_OK;
}

#endif

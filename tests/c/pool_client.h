#ifndef POOL_CLIENT_H
#define POOL_CLIENT_H

#ifdef __cplusplus
extern "C" {
#endif

/* "" where everything was as expected; else what was not. */
const char* pool_client(void);
/* Leaves one block alive, so that a report can name this file. */
int leak_one(void* pool, void* stream);

#ifdef __cplusplus
}
#endif

#endif

#ifndef PLAN_CLIENT_H
#define PLAN_CLIENT_H

#ifdef __cplusplus
extern "C" {
#endif

/* "" where everything was as expected; else what was not. */
const char* plan_client(void);

#ifdef __cplusplus
}
#endif

#endif

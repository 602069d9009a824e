#ifndef GUIDED_CLIENT_H
#define GUIDED_CLIENT_H

#ifdef __cplusplus
extern "C" {
#endif

/* "" where everything was as expected; else what was not. */
const char* guided_client(void);

#ifdef __cplusplus
}
#endif

#endif

/* What op_client.c does for op_test.cpp. */
#ifndef BERTH_TESTS_OP_CLIENT_H
#define BERTH_TESTS_OP_CLIENT_H

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong; "" where nothing did. */
const char* op_client(void);

#ifdef __cplusplus
}
#endif

#endif

# Debian's cross compiler for aarch64; tests run under qemu-user. scripts/cross.sh puts libraries of the target below
# BERTH_TARGET_ROOT.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# QEMU records each page of a mapping, also a pool's spare addresses. With twelve times the memory it took 7 to 15 s and
# 2 to 6 GB a pool. A pool uses the addresses that exist: here once the memory.
cmake_host_system_information(RESULT memory_mb QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR addresses_mb "${memory_mb} + 10240")
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-R;${addresses_mb}M;-L;/usr/aarch64-linux-gnu")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES BERTH_TARGET_ROOT)
set(CMAKE_FIND_ROOT_PATH ${BERTH_TARGET_ROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# Debian's cross compiler for armhf; tests run under qemu-user. scripts/cross.sh puts libraries of the target below
# BERTH_TARGET_ROOT.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-linux-gnueabihf-gcc)
set(CMAKE_CXX_COMPILER arm-linux-gnueabihf-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-arm;-L;/usr/arm-linux-gnueabihf")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES BERTH_TARGET_ROOT)
set(CMAKE_FIND_ROOT_PATH ${BERTH_TARGET_ROOT} /usr/arm-linux-gnueabihf)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CXX_FLAGS_INIT -Wno-psabi)  # a note on each call whose convention changed in gcc 7

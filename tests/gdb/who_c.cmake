include(${CMAKE_CURRENT_LIST_DIR}/asking.cmake)
execute_process(COMMAND ${start} -ex "break look_here" -ex run -ex up -ex "berth who (char*)live + 3" ${PROGRAM}
                OUTPUT_VARIABLE said ERROR_VARIABLE said)
look_for("${said}" "byte 3 of the block of 100 bytes at 0x[0-9a-f]+, asked for at [^\n]*who_c.c:[0-9]+ by thread 0")

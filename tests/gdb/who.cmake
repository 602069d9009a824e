include(${CMAKE_CURRENT_LIST_DIR}/asking.cmake)
set(ask -ex "berth who live + 3" -ex "berth who freed + 5000 - 1" -ex "berth who &on_the_stack" -ex "berth who" -ex "berth who odd"
        -ex "berth who lengthy" -ex "berth who nobody")
set(lines "byte 3 of the block of 100 bytes at 0x[0-9a-f]+, asked for at a.cpp:7 by thread 0 for stream [0-9]+, [0-9.]+ us"
          "byte 4999 of the freed block of 5000 bytes at 0x[0-9a-f]+, asked for at b.cpp:8 by thread 1"
          "freed  at c.cpp:9 by thread 0"
          "in no block that the recorder knows"
          "bytes behind the end of the block of 100 bytes"
          "berth who ADDRESS: an expression"
          "block of 200 bytes at 0x[0-9a-f]+, asked for at caf.+\\?.31m.cpp:10 by"
          "block of 300 bytes at 0x[0-9a-f]+, asked for at nnn+:11 by"
          "berth who: No symbol .nobody")

execute_process(COMMAND ${start} -ex "break look_here" -ex run -ex up -ex "berth who 4096" -ex continue -ex continue -ex up ${ask}
                        -ex "generate-core-file ${CORE}" ${PROGRAM}
                OUTPUT_VARIABLE said ERROR_VARIABLE said)
look_for("${said}" "no recorder was started" ${lines})
if(said MATCHES "dropped|was stopped")
  message(FATAL_ERROR "nothing was dropped, nor stopped:\n${said}")
endif()
if(NOT EXISTS ${CORE})
  message(FATAL_ERROR "gdb wrote no core:\n${said}")
endif()
execute_process(COMMAND ${start} -ex "up" ${ask} ${PROGRAM} ${CORE} OUTPUT_VARIABLE said ERROR_VARIABLE said)
file(REMOVE ${CORE})
look_for("${said}" ${lines})

# Of what it no longer knows, and in languages without C's types and casts.
foreach(language ada fortran go pascal rust)
  list(APPEND languages -ex "set language ${language}" -ex "berth who 4096" -ex "show language")
  list(APPEND answers "since is not known[^a-z]+The current source language is .${language}")
endforeach()
execute_process(COMMAND ${start} -ex "break look_here if at == 0" -ex run -ex "tbreak abort" -ex "delete 1" -ex continue
                        ${languages} ${PROGRAM} OUTPUT_VARIABLE said ERROR_VARIABLE said)
look_for("${said}" ${answers} "[1-9][0-9]* events were dropped for want of room")
execute_process(COMMAND ${start} -ex "berth who 4096" OUTPUT_VARIABLE said ERROR_VARIABLE said)
look_for("${said}" "there is no recorder in this program")

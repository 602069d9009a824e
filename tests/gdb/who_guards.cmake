# usage: cmake -DGDB= -DPROGRAM= -DSCRIPT= -DCORE= -P who_guards.cmake
set(start ${GDB} -nx -batch -iex "set auto-load safe-path /" -ex "source ${SCRIPT}" -ex "set width 0")
set(ask -ex "berth who live + 3" -ex "berth who freed + 5000 - 1" -ex "berth who own + 300" -ex "berth who &on_the_stack")

function(look_for said)
  foreach(line ${ARGN})
    if(NOT said MATCHES "${line}")
      message(FATAL_ERROR "gdb does not say: ${line}\n${said}")
    endif()
  endforeach()
endfunction()
set(lines "byte 3 of the block of 100 bytes at 0x[0-9a-f]+, asked for at a.cpp:7 by thread 1 for stream 1, [0-9]+ ms after the first guard"
          "byte 4999 of the freed block of 5000 bytes at 0x[0-9a-f]+, asked for at b.cpp:8 by thread 2 for stream 1"
          "freed  at c.cpp:9"
          "[^0-9]0 bytes behind the end of the block of 300 bytes at 0x[0-9a-f]+, asked for at d.cpp:10 by thread 1"
          "in no block that the guard knows")

execute_process(COMMAND ${start} -ex "break look_here" -ex run -ex up ${ask} -ex "generate-core-file ${CORE}" ${PROGRAM}
                OUTPUT_VARIABLE said ERROR_VARIABLE said)
look_for("${said}" ${lines})
execute_process(COMMAND ${start} -ex "up" ${ask} ${PROGRAM} ${CORE} OUTPUT_VARIABLE said ERROR_VARIABLE said)
file(REMOVE ${CORE})
look_for("${said}" ${lines})

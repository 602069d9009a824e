# usage: cmake -DGDB= -DPROGRAM= -DSCRIPT= -P who_pages.cmake
function(look_for mistake line)
  foreach(by guards recorder)
    execute_process(COMMAND ${GDB} -nx -batch -iex "set auto-load safe-path /" -ex "source ${SCRIPT}" -ex "set width 0"
                            -ex "run ${mistake} ${by}" -ex "berth who $_siginfo._sifields._sigfault.si_addr" ${PROGRAM}
                    OUTPUT_VARIABLE said ERROR_VARIABLE said)
    if(NOT said MATCHES "SIGSEGV" OR NOT said MATCHES "${line}")
      message(FATAL_ERROR "gdb does not say by its ${by}: ${line}\n${said}")
    endif()
  endforeach()
endfunction()
look_for(overrun "[^0-9]0 bytes behind the end of the block of 128 bytes at 0x[0-9a-f]+, asked for at a.cpp:7")
look_for(use "byte 5 of the freed block of 128 bytes at 0x[0-9a-f]+, asked for at a.cpp:7.*freed  at c.cpp:9")

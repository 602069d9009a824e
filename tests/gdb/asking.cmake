# What the tests share: how gdb is started, and what it must say. usage: cmake -DGDB= -DPROGRAM= -DSCRIPT= [-DCORE=] -P TEST.cmake
set(start ${GDB} -nx -batch -iex "set auto-load safe-path /" -ex "source ${SCRIPT}" -ex "set width 0")

function(look_for said)
  foreach(line ${ARGN})
    if(NOT said MATCHES "${line}")
      message(FATAL_ERROR "gdb does not say: ${line}\n${said}")
    endif()
  endforeach()
endfunction()

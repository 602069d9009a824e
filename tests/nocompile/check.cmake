# Compiles SOURCE plain, which must pass, and once with each fault that a line of it names, which the compiler must
# refuse, saying what stands there:
#   #elif defined(FAULT)  // says: REGULAR EXPRESSION
# usage: cmake -DCOMPILER=... -DINCLUDE=... -DSOURCE=... -P check.cmake
set(compile ${COMPILER} -std=c++20 -fsyntax-only -I${INCLUDE} ${SOURCE})

execute_process(COMMAND ${compile} RESULT_VARIABLE status ERROR_VARIABLE said)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "without a fault the file should compile:\n${said}")
endif()

file(STRINGS ${SOURCE} faults REGEX "defined\\([A-Z_]+\\) +// says: ")
list(LENGTH faults count)
if(count EQUAL 0)
  message(FATAL_ERROR "${SOURCE} names no fault")
endif()
foreach(line IN LISTS faults)
  string(REGEX MATCH "defined\\(([A-Z_]+)\\) +// says: (.*)$" line "${line}")
  set(fault ${CMAKE_MATCH_1})
  set(expected "${CMAKE_MATCH_2}")
  execute_process(COMMAND ${compile} -D${fault} RESULT_VARIABLE status ERROR_VARIABLE said)
  if(status EQUAL 0)
    message(SEND_ERROR "${fault} compiles")
  elseif(NOT said MATCHES "${expected}")
    message(SEND_ERROR "${fault}: the compiler did not say '${expected}' but:\n${said}")
  else()
    message(STATUS "${fault}: refused")
  endif()
endforeach()

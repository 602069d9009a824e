include(${CMAKE_CURRENT_LIST_DIR}/asking.cmake)
set(shown problem plan good bad nothing g v none empty "problem.buffers")
foreach(name ${shown})
  list(APPEND prints -ex "print ${name}")
endforeach()
execute_process(COMMAND ${start} -ex "break look_here" -ex run -ex up ${prints} ${PROGRAM}
                OUTPUT_VARIABLE said ERROR_VARIABLE said)
foreach(line
    "= berth::plan::problem of 2 buffers, alignment 64"
    "= berth::plan::plan optimal, arena 328, lower bound 328, 2 offsets"
    "= berth::result, a value = {value = berth::plan::plan optimal, arena 328"
    "= berth::result, an error = {error = berth::error io: nobody is there (7)}"
    "= berth::graph of 2 values and 1 nodes"
    "= berth::value_id #0"
    "= berth::node_id none"
    "= berth::block that is empty"
    "berth::plan::buffer 'y', 200 bytes, [1, 3) [5, 6)")
  string(FIND "${said}" "${line}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "gdb does not say: ${line}\n${said}")
  endif()
endforeach()

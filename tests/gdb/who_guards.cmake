include(${CMAKE_CURRENT_LIST_DIR}/asking.cmake)
set(at "at 0x[0-9a-f]+, asked for at")
set(ms "[0-9]+ ms after the first guard began")
set(us "[0-9.]+ us after it began")
set(ask -ex "berth who live + 3" -ex "berth who freed + 5000 - 1" -ex "berth who &on_the_stack")
foreach(guard watched bare counted)
  list(APPEND ask -ex "berth who ${guard}_live - 1" -ex "berth who ${guard}_live + 5" -ex "berth who ${guard}_freed + 7")
endforeach()
list(APPEND ask -ex "berth who named_freed + 9" -ex "berth who cut_freed + 11")

set(lines "byte 5 of the block of 300 bytes ${at} d.cpp:10 "
          "[^0-9]1 bytes before the block of 300 bytes ${at} d.cpp:10 "
          "byte 5 of the block of 320 bytes ${at} e.cpp:10 "
          "[^0-9]1 bytes before the block of 320 bytes ${at} e.cpp:10 "
          "byte 5 of the block of 340 bytes ${at} f.cpp:10 "
          "[^0-9]1 bytes before the block of 340 bytes ${at} f.cpp:10 "
          "byte 7 of the freed block of 350 bytes ${at} f.cpp:12 [^\n]+\n  freed  at f.cpp:13 by thread 1, ${ms}"
          "byte 9 of the freed block of 360 bytes ${at} g.cpp:12 [^\n]+\n  freed  at g.cpp:13 by thread 1, ${ms}"
          "byte 11 of the freed block of 370 bytes ${at} h.cpp:12 [^\n]+\n  freed  at h.cpp:13 by thread 1, ${ms}")
set(guard "byte 3 of the block of 100 bytes ${at} a.cpp:7 by thread 1 for stream 1, ${ms}"
          "byte 4999 of the freed block of 5000 bytes ${at} b.cpp:8 by thread 2 for stream 1, ${ms}\n  freed  at c.cpp:9 by thread 1, ${ms}"
          "byte 7 of the freed block of 310 bytes ${at} d.cpp:12 [^\n]+\n  freed  at d.cpp:13 by thread 1, ${ms}"
          "byte 7 of the freed block of 330 bytes ${at} e.cpp:12 [^\n]+\n  freed  at e.cpp:13 by thread 1, ${ms}"
          "in no block that the guard knows")
set(recorder "byte 3 of the block of 100 bytes ${at} a.cpp:7 by thread 0 for stream 1, [0-9.]+ us after the recording began"
             "byte 4999 of the freed block of 5000 bytes ${at} b.cpp:8 by thread 1 for stream 1, [^\n]+\n  freed  at c.cpp:9 by thread 0, ${us}"
             "byte 7 of the freed block of 310 bytes ${at} d.cpp:12 [^\n]+\n  freed  at d.cpp:13 by thread 0, ${us}"
             "byte 7 of the freed block of 330 bytes ${at} e.cpp:12 [^\n]+\n  freed  at e.cpp:13 by thread 0, ${us}"
             "in no block that the recorder or a guard knows")
foreach(by guard recorder)
  execute_process(COMMAND ${start} -ex "break look_here" -ex "run ${by}" -ex up ${ask} -ex "generate-core-file ${CORE}" ${PROGRAM}
                  OUTPUT_VARIABLE said ERROR_VARIABLE said)
  execute_process(COMMAND ${start} -ex "up" ${ask} ${PROGRAM} ${CORE} OUTPUT_VARIABLE of_core ERROR_VARIABLE of_core)
  file(REMOVE ${CORE})
  foreach(text "${said}" "${of_core}")
    look_for("${text}" ${lines} ${${by}})
    # What guards ask for has two zones of 64 bytes more.
    if(text MATCHES "block of (228|428|438|448|458|468|478|488|498|556) bytes")
      message(FATAL_ERROR "gdb tells of what guards asked for:\n${text}")
    endif()
  endforeach()
endforeach()

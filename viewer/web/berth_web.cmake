# build/web/berth.html: the command as WebAssembly in one page. Included by src/tool where the compiler is emscripten.
target_sources(berth_tool PRIVATE ${PROJECT_SOURCE_DIR}/viewer/web/stand_ins.cpp)
set_target_properties(berth_tool PROPERTIES SUFFIX .js)
target_link_options(berth_tool PRIVATE -fwasm-exceptions -Os -sSINGLE_FILE=1 -sMODULARIZE=1 -sEXPORT_NAME=make_berth
                                       -sALLOW_MEMORY_GROWTH=1 -sMAXIMUM_MEMORY=4GB -sEXIT_RUNTIME=0
                                       -sENVIRONMENT=web,worker,node -sEXPORTED_RUNTIME_METHODS=FS,callMain)
add_custom_command(
  OUTPUT ${PROJECT_BINARY_DIR}/berth.html
  COMMAND ${CMAKE_COMMAND} -DENGINE=$<TARGET_FILE:berth_tool> -DPAGE=${PROJECT_SOURCE_DIR}/viewer/web/berth.html
          -DOUT=${PROJECT_BINARY_DIR}/berth.html -P ${PROJECT_SOURCE_DIR}/viewer/web/join.cmake
  DEPENDS berth_tool ${PROJECT_SOURCE_DIR}/viewer/web/berth.html ${PROJECT_SOURCE_DIR}/viewer/web/join.cmake)
add_custom_target(berth_web DEPENDS ${PROJECT_BINARY_DIR}/berth.html)

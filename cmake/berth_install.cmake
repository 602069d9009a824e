# The installation by `cmake --install` and cpack. find_package(berth) provides berth::berth, the core library, which
# needs only threads. find_package(berth COMPONENTS op model) also provides static libraries, the second of which needs
# zlib. pkg-config knows the core and `op`. The target `berth_installed` builds exactly these.
include(CMakePackageConfigHelpers)
set(BERTH_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/berth)
add_custom_target(berth_installed DEPENDS berth)

install(TARGETS berth EXPORT berth_targets LIBRARY COMPONENT berth_runtime NAMELINK_COMPONENT berth_dev)
install(EXPORT berth_targets NAMESPACE berth:: FILE berthTargets.cmake DESTINATION ${BERTH_CMAKE_DIR})
set(BERTH_COMPONENTS "")
foreach(component op model)  # in this order: the second stands on the first
  if(TARGET berth_${component})
    list(APPEND BERTH_COMPONENTS ${component})
    add_dependencies(berth_installed berth_${component})
    set_target_properties(berth_${component} PROPERTIES EXPORT_NAME ${component})
    install(TARGETS berth_${component} EXPORT berth_${component}_targets)
    install(EXPORT berth_${component}_targets NAMESPACE berth:: FILE berth_${component}Targets.cmake
            DESTINATION ${BERTH_CMAKE_DIR})
  endif()
endforeach()

# No header without its library: a folder's CMakeLists lists the headers that were not built.
get_property(absent GLOBAL PROPERTY BERTH_ABSENT_HEADERS)
set(without "")
foreach(header ${absent})
  list(APPEND without PATTERN ${header} EXCLUDE)
endforeach()
install(DIRECTORY include/berth DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${without})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/scripts/berth_gdb.py ${PROJECT_SOURCE_DIR}/src/c/torch_cpu.cpp DESTINATION ${CMAKE_INSTALL_DATADIR}/berth)

configure_package_config_file(cmake/berthConfig.cmake.in berthConfig.cmake INSTALL_DESTINATION ${BERTH_CMAKE_DIR})
write_basic_package_version_file(berthConfigVersion.cmake COMPATIBILITY SameMinorVersion)
# A static library does not name the libraries that it needs, and a C compiler does not add the C++ runtime.
get_target_property(kind berth TYPE)
set(BERTH_PC_STATIC_LIBS "")
if(kind STREQUAL "STATIC_LIBRARY")
  set(BERTH_PC_STATIC_LIBS " -lstdc++ -lm")
  foreach(library ${CMAKE_DL_LIBS})
    string(APPEND BERTH_PC_STATIC_LIBS " -l${library}")
  endforeach()
endif()
berth_pkg_config(cmake/berth.pc)
if(TARGET berth_op)
  berth_pkg_config(cmake/berth-op.pc)
endif()
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/berthConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/berthConfigVersion.cmake
        DESTINATION ${BERTH_CMAKE_DIR})

# Installed programs find the shared library relative to their own place, for any prefix.
function(berth_finds_the_library target folder)
  if(BUILD_SHARED_LIBS AND TARGET ${target})
    file(RELATIVE_PATH to_library ${CMAKE_INSTALL_PREFIX}/${folder} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/${to_library}")
  endif()
endfunction()
berth_finds_the_library(berth_tool ${CMAKE_INSTALL_BINDIR})
berth_finds_the_library(berth_python "${BERTH_PYTHON_DIR}/berth")

if(TARGET berth_tool)
  install(TARGETS berth_tool COMPONENT berth_tool)
  add_dependencies(berth_installed berth_tool)
  if(TARGET berth_manual)
    add_dependencies(berth_installed berth_manual)
  endif()
endif()
add_custom_target(berth_run)  # the command and its module of kernels, for `make run`
foreach(part berth_tool berth_onednn)
  if(TARGET ${part})
    add_dependencies(berth_run ${part})
  endif()
endforeach()
foreach(part berth_onednn berth_preload)  # their folders say where they go
  if(TARGET ${part})
    add_dependencies(berth_installed ${part})
  endif()
endforeach()
if(TARGET ascend_simulator)
  add_dependencies(berth_installed ascend_simulator ascend_simulator_old)  # its folder says where they go
endif()
if(TARGET berth_python)  # its folder says where it goes
  add_dependencies(berth_installed berth_python)
endif()

# CMake accepts only the first package: the top-level project's, if Berth is embedded.
if(PROJECT_IS_TOP_LEVEL)
  include(berth_package)
endif()

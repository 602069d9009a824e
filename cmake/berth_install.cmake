# What `cmake --install` and cpack carry away. find_package(berth) gives berth::berth, the core library, which needs nothing
# but threads; find_package(berth COMPONENTS op model) also the static libraries that stand on others (oneDNN, zlib).
# pkg-config knows the core alone. The target `berth_installed` builds all of it and nothing else.
include(CMakePackageConfigHelpers)
set(BERTH_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/berth)
add_custom_target(berth_installed DEPENDS berth)

install(TARGETS berth EXPORT berth_targets)
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

# No header without its library: a folder's CMakeLists says which of its headers were not built.
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
berth_pkg_config(cmake/berth.pc)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/berthConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/berthConfigVersion.cmake
        DESTINATION ${BERTH_CMAKE_DIR})

# What is installed finds the shared library from where it lies itself, wherever the prefix is.
function(berth_finds_the_library target folder)
  if(BUILD_SHARED_LIBS AND TARGET ${target})
    file(RELATIVE_PATH to_library ${CMAKE_INSTALL_PREFIX}/${folder} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/${to_library}")
  endif()
endfunction()
berth_finds_the_library(berth_tool ${CMAKE_INSTALL_BINDIR})
berth_finds_the_library(berth_python "${BERTH_PYTHON_DIR}/berth")

if(TARGET berth_tool)
  install(TARGETS berth_tool)
  add_dependencies(berth_installed berth_tool)
  if(TARGET berth_manual)
    add_dependencies(berth_installed berth_manual)
  endif()
endif()
if(TARGET ascend_simulator)
  add_dependencies(berth_installed ascend_simulator ascend_simulator_old)  # its folder says where they go
endif()
if(TARGET berth_python)  # its folder says where it goes
  add_dependencies(berth_installed berth_python)
endif()

# cpack: one Debian package of all that was built. CMake takes the first one alone: it is that of whoever has Berth inside.
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The Berth authors")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_STRIP_FILES ON)
include(CPack)

# The common functions of the folders' CMakeLists.

function(berth_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers)
  if(BERTH_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  # Warnings of g++ 12 after inlining are often false (bugs 105651, 105329: std::string's operator+), and vary with each
  # change of inlining. They are printed, but are no errors. Clang's builds and the sanitizers decide there.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    foreach(flow IN ITEMS array-bounds stringop-overflow stringop-overread restrict maybe-uninitialized)
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-error=${flow}>)
    endforeach()
    if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
    endif()
    # In a unity build a source's own types may hold types of its unnamed namespace, which g++ allows only in the main
    # file. A name may also hide one of the source before.
    get_target_property(together ${target} UNITY_BUILD)
    if(together)
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage -Wno-shadow>)
    endif()
  endif()
endfunction()

# The sources behind the C interface. A C program links these from the static library without the C++ runtime, which
# exceptions would call (tests/install builds one).
function(berth_for_c)
  set_source_files_properties(${ARGN} TARGET_DIRECTORY berth PROPERTIES COMPILE_OPTIONS -fno-exceptions)
endfunction()

# berth_test_program(NAME [OPTIMISED] SOURCES a.cpp ... [LIBS lib ...]): one GoogleTest program. Tests may include
# private headers of src/ by their path below it. OPTIMISED is for tests of inline code, or with an expensive oracle; -O1
# compiles a third faster than -O3. Others are not optimised.
function(berth_test_program name)
  cmake_parse_arguments(arg "OPTIMISED" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE berth::berth ${arg_LIBS} rapidcheck GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)  # nearly all have one source
  berth_warnings(${name})
  if(CMAKE_CROSSCOMPILING)
    target_compile_definitions(${name} PRIVATE BERTH_EMULATED)
  endif()
  if(arg_OPTIMISED)
    berth_optimised_less(${name})
  else()
    berth_unoptimised(${name})
  endif()
  if(TARGET berth_test_pch AND NOT arg_OPTIMISED)  # it takes the same flags
    set(in_c ${arg_SOURCES})
    list(FILTER in_c INCLUDE REGEX "[.]c$")
    set_source_files_properties(${in_c} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    target_precompile_headers(${name} REUSE_FROM berth_test_pch)
  endif()
endfunction()

# Half of a whole build's time went into optimising the tests' own code, which runs for a small part of their time. The
# tested code is optimised as the preset says.
function(berth_unoptimised target)
  target_compile_options(${target} PRIVATE -O0)
endfunction()

# For code whose own loops take little of a program's time. g++ compiles the command a third faster at -O1, and guesses
# about uninitialised values there.
function(berth_optimised_less target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>
                                           $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>)
endfunction()

# One seed for the properties, so that a failing run can be repeated; run a program by itself for fresh ones. A quarter
# of their hundred cases if support::cases gives a quarter.
set(berth_properties "RC_PARAMS=seed=20261121")
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize" OR CMAKE_CROSSCOMPILING)
  string(APPEND berth_properties " max_success=25")
endif()

# The same, run by ctest as NAME. SEES threads: the test or the tested code runs several threads. SEES machine: it may
# end differently on another processor or C library. SEES comes last. A preset whose BERTH_TESTS_THAT_SEE is one of
# these has no other tests.
function(berth_test name)
  cmake_parse_arguments(arg "" "" "SEES" ${ARGN})
  if(BERTH_TESTS_THAT_SEE AND NOT BERTH_TESTS_THAT_SEE IN_LIST arg_SEES)
    return()
  endif()
  berth_test_program(${name} ${arg_UNPARSED_ARGUMENTS})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${berth_properties}")
endfunction()

# Leaves out cases of a test where only tests that see threads run: each of these cases runs one thread, for long.
function(berth_one_thread name cases)
  if(BERTH_TESTS_THAT_SEE STREQUAL "threads" AND TEST ${name})
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "GTEST_FILTER=-${cases}")
  endif()
endfunction()

# For code whose own speed does not matter under a sanitizer: optimising it there takes longer than it saves. The preset
# `fuzz` optimises it, as fuzzing goes on for hours.
function(berth_unoptimised_where_sanitized target)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=(address|thread)")
    berth_unoptimised(${target})
  endif()
endfunction()

# berth_bench(NAME [APART] SOURCES a.cpp ... [LIBS lib ...]): one program that prints its figures; never a test. The
# target berth_benches builds all but those APART, the default target builds none.
function(berth_bench name)
  cmake_parse_arguments(arg "APART" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${arg_SOURCES})
  if(NOT arg_APART)
    add_dependencies(berth_benches ${name})
  endif()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/bench)
  target_link_libraries(${name} PRIVATE berth::berth ${arg_LIBS})
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  berth_warnings(${name})
  berth_unoptimised_where_sanitized(${name})
endfunction()

# Installs FILE.in for pkg-config. It names no prefix, so that the installed files can be moved, unless a folder is a
# whole path already.
function(berth_pkg_config file)
  foreach(dir LIBDIR INCLUDEDIR)
    if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
      set(BERTH_PC_${dir} ${CMAKE_INSTALL_${dir}})
    else()
      set(BERTH_PC_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
    endif()
  endforeach()
  if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(BERTH_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
  else()
    file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    set(BERTH_PC_PREFIX "\${pcfiledir}/${up}")
  endif()
  get_filename_component(name ${file} NAME)
  configure_file(${file}.in ${name} @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

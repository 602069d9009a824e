# ggml on Berth's plans. See berth/graph/adapters/ggml.h.
#
#   berth_ggml(TARGET)                 TARGET compiles ggml-alloc.c (ggml-base, in ggml's own build): from now on it also
#                                      has Berth's allocator, under ggml's names; ggml's is ggml_stock_gallocr_*.
#                                      ggml-backend-meta.cpp is compiled as a part of Berth's berth_ggml_meta.cpp.
#   berth_ggml_library(NAME TARGET)    a shared library NAME, to be linked or preloaded before ggml, which stays as it is.
#
# Both need Berth's target berth::berth, a compiler for C++20, and ggml's sources: ggml-alloc.c's folder has the internal
# headers that an installed ggml lacks. The result refuses a ggml of another version when it runs.

if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/ggml/berth_ggml.cpp)
  set(BERTH_GGML_SOURCES ${CMAKE_CURRENT_LIST_DIR}/ggml)
else()
  get_filename_component(BERTH_GGML_SOURCES ${CMAKE_CURRENT_LIST_DIR}/../src/graph/adapters ABSOLUTE)
endif()

# ggml's internal headers stand beside ggml-alloc.c.
function(berth_ggml_compile_with name target)
  get_target_property(folder ${target} SOURCE_DIR)
  if(NOT EXISTS ${folder}/ggml-backend-impl.h)
    message(FATAL_ERROR "berth_ggml: ${target} is not built from ggml's sources: ${folder} has no ggml-backend-impl.h")
  endif()
  target_compile_features(${name} PRIVATE cxx_std_20)
  set_target_properties(${name} PROPERTIES CXX_STANDARD 20 CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${name} SYSTEM PRIVATE ${folder} $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  # GGML_VERSION is among them: the version that the result is for.
  get_target_property(version berth::berth VERSION)
  if(NOT version)
    set(version ${berth_VERSION}) # of a package
  endif()
  target_compile_definitions(${name} PRIVATE BERTH_VERSION="${version}" $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
endfunction()

# Compiles ggml's meta backend (split mode tensor) together with two functions about its slices, if this ggml has the one
# that they call. Sets `into` to the source in ggml that it replaces.
function(berth_ggml_split name target into)
  get_target_property(folder ${target} SOURCE_DIR)
  set(meta ${folder}/ggml-backend-meta.cpp)
  set(${into} "" PARENT_SCOPE)
  if(NOT EXISTS ${meta})
    return()
  endif()
  set(signature "ggml_backend_meta_buffer_simple_tensor\\(const struct ggml_tensor \\* tensor, size_t index\\)")
  file(STRINGS ${meta} found REGEX ${signature})
  if(found)
    target_sources(${name} PRIVATE ${BERTH_GGML_SOURCES}/berth_ggml_meta.cpp)
    target_compile_definitions(${name} PRIVATE BERTH_GGML_SHARDS)
    set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
    set(${into} ${meta} PARENT_SCOPE)
  endif()
endfunction()

function(berth_ggml target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  list(FILTER sources INCLUDE REGEX "(^|/)ggml-alloc\\.c$")
  if(NOT sources)
    message(FATAL_ERROR "berth_ggml: ${target} does not compile ggml-alloc.c")
  endif()
  foreach(function new new_n free reserve reserve_n reserve_n_size alloc_graph get_buffer_size)
    list(APPEND renames ggml_gallocr_${function}=ggml_stock_gallocr_${function})
  endforeach()
  get_filename_component(allocator ${sources} ABSOLUTE BASE_DIR ${folder})
  set_property(SOURCE ${allocator} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_DEFINITIONS ${renames})

  add_library(${target}_on_berth OBJECT ${BERTH_GGML_SOURCES}/berth_ggml.cpp)
  berth_ggml_compile_with(${target}_on_berth ${target})
  target_compile_definitions(${target}_on_berth PRIVATE BERTH_GGML_STOCK)
  berth_ggml_split(${target}_on_berth ${target} replaced)
  if(replaced)
    set_property(SOURCE ${replaced} TARGET_DIRECTORY ${target} PROPERTY HEADER_FILE_ONLY ON)
  endif()
  target_link_libraries(${target}_on_berth PRIVATE berth::berth)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_on_berth>)
  target_link_libraries(${target} PRIVATE berth::berth)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()

function(berth_ggml_library name target)
  add_library(${name} SHARED ${BERTH_GGML_SOURCES}/berth_ggml.cpp)
  berth_ggml_compile_with(${name} ${target})
  target_link_libraries(${name} PRIVATE berth::berth ${target} ${CMAKE_DL_LIBS})
  berth_ggml_split(${name} ${target} replaced)
endfunction()

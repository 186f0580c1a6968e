# A floor is a folder of src/ and a static library of the same name. SEES names the lower floors that it links.
# tests/structure checks what a file may include.

# Compiles several files of a target as one (unity build). This halves their processor time, most of which goes into the
# same templates in every file. Names in anonymous namespaces must therefore be unique within the target. `most`: files
# per batch; 0: all.
function(nibble_compile_together target most)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${most})
  # Files may shadow each other's names. GCC treats the included .cpp files as headers, in which an anonymous namespace
  # would be a mistake.
  target_compile_options(${target} PRIVATE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# setup, turn, library, cli and main compute little themselves. Optimising CLI11 and JSON would take half of their
# compile time.
function(nibble_compile_quickly target)
  target_compile_options(${target} PRIVATE $<IF:$<CONFIG:Sanitized>,-O0,-O1>)
endfunction()

function(nibble_floor folder)
  cmake_parse_arguments(ARG "" "" "SEES;LIBS" ${ARGN})
  string(REPLACE "/" "_" name ${folder})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.cpp)
  if(folder STREQUAL "backend")  # its backends are floors of their own
    list(FILTER sources EXCLUDE REGEX "/backend/(cpu|cuda)/")
  endif()
  list(FILTER sources EXCLUDE REGEX "/cli/main\\.cpp$")
  if(NOT sources)  # a floor with headers only
    set(kind INTERFACE)
    add_library(nibble_${name} INTERFACE)
  else()
    set(kind PUBLIC)
    add_library(nibble_${name} STATIC ${sources})
  endif()
  target_include_directories(nibble_${name} ${kind} ${CMAKE_SOURCE_DIR}/src)
  foreach(floor ${ARG_SEES})
    string(REPLACE "/" "_" below ${floor})
    target_link_libraries(nibble_${name} ${kind} nibble_${below})
  endforeach()
  target_link_libraries(nibble_${name} ${kind} ${ARG_LIBS} Threads::Threads)
  if(NOT sources)
    return()
  endif()
  # Only floors whose functions are fuzz targets: counting edges and recording comparisons for libFuzzer makes code twice
  # as slow, and the unit tests run the same objects.
  if(NIBBLE_FUZZ AND name MATCHES "^(core|formats|text|grammar|harmony|model|nodes|engine|server)$")
    target_compile_options(nibble_${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(NIBBLE_WHOLE_FLOORS)
    nibble_compile_together(nibble_${name} 0)
  endif()
  if(name MATCHES "^(setup|turn|library|cli)$")
    nibble_compile_quickly(nibble_${name})
  endif()
endfunction()

function(nibble_program name)
  cmake_parse_arguments(ARG "" "MAIN" "SEES;LIBS" ${ARGN})
  if(NOT EXISTS ${CMAKE_SOURCE_DIR}/${ARG_MAIN})
    return()
  endif()
  add_executable(${name} ${ARG_MAIN})
  foreach(floor ${ARG_SEES})
    string(REPLACE "/" "_" below ${floor})
    target_link_libraries(${name} PRIVATE nibble_${below})
  endforeach()
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  nibble_compile_quickly(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endfunction()

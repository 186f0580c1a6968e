# Unpacks the o200k vocabulary, which is committed compressed, for tests and benchmarks. Both include this file.
if(NOT TARGET test_data)
  set(o200k ${CMAKE_BINARY_DIR}/test_data/o200k_base.tiktoken)
  set(compressed ${CMAKE_SOURCE_DIR}/tests/data/o200k_base.tiktoken.gz)
  add_custom_command(
    OUTPUT ${o200k}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/test_data
    COMMAND gzip -dc ${compressed} > ${o200k}
    DEPENDS ${compressed}
    VERBATIM)
  add_custom_target(test_data DEPENDS ${o200k})

  add_library(test_folders STATIC ${CMAKE_SOURCE_DIR}/tests/folders.cpp)
  target_include_directories(test_folders PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_definitions(test_folders PRIVATE NIBBLE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" NIBBLE_BUILD_DIR="${CMAKE_BINARY_DIR}")
endif()

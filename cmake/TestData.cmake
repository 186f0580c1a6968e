# The o200k vocabulary, committed compressed, where tests and benchmarks read it. Included by both.
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
endif()

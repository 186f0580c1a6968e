# nibble_version(TARGET...): gives targets "setup/commit.h", the text of --version. Each build reads the commit but
# rewrites the file only if it changed.

function(nibble_version)
  set(folder ${CMAKE_BINARY_DIR}/generated)
  set(compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  add_custom_target(nibble_commit
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${folder}/setup/commit.h
            -DVERSION=${PROJECT_VERSION} -DBUILD=${CMAKE_BUILD_TYPE} -DSANITIZE=${NIBBLE_SANITIZE}
            "-DCOMPILER=${compiler}" -P ${CMAKE_SOURCE_DIR}/cmake/WriteCommit.cmake
    BYPRODUCTS ${folder}/setup/commit.h
    VERBATIM)
  foreach(target ${ARGN})
    add_dependencies(${target} nibble_commit)
    target_include_directories(${target} PRIVATE ${folder})
  endforeach()
endfunction()

# libnibble.so.0: the C API of src/library/nibble.h over the same objects as the program. Exports only the symbols of
# libnibble.map. libnibble.a: the same objects as one archive, for programs that have the library in them. cmake --install
# installs the first with the headers and the files for find_package(nibble) and pkg-config, as the component "library",
# and the second as the component "static_library". Only that installation builds libnibble.a.
set(library_exports ${CMAKE_SOURCE_DIR}/src/library/libnibble.map)
add_library(nibble_shared SHARED $<TARGET_OBJECTS:nibble_library>)
target_link_libraries(nibble_shared PRIVATE nibble_library)
target_link_options(nibble_shared PRIVATE
  -Wl,--version-script=${library_exports} -Wl,--no-undefined -Wl,--gc-sections)
set_target_properties(nibble_shared PROPERTIES
  OUTPUT_NAME nibble VERSION 0.${PROJECT_VERSION_MINOR}.${PROJECT_VERSION_PATCH} SOVERSION 0 LINKER_LANGUAGE CXX
  LINK_DEPENDS ${library_exports} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

# Sets ${floors} to `target` and the floors below it that have objects.
function(nibble_floors_of target floors)
  set(found ${target})
  set(seen ${target})
  set(pending ${target})
  while(pending)
    list(POP_FRONT pending next)
    get_target_property(below ${next} INTERFACE_LINK_LIBRARIES)
    foreach(name IN LISTS below)
      if(NOT TARGET ${name} OR NOT name MATCHES "^nibble_" OR name IN_LIST seen)
        continue()
      endif()
      list(APPEND seen ${name})
      list(APPEND pending ${name})
      get_target_property(kind ${name} TYPE)
      if(kind STREQUAL STATIC_LIBRARY)
        list(APPEND found ${name})
      endif()
    endforeach()
  endwhile()
  set(${floors} ${found} PARENT_SCOPE)
endfunction()

nibble_floors_of(nibble_library library_floors)
list(TRANSFORM library_floors REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE library_objects)
add_library(nibble_static STATIC EXCLUDE_FROM_ALL ${library_objects})
set_target_properties(nibble_static PROPERTIES
  OUTPUT_NAME nibble LINKER_LANGUAGE CXX ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/static)
# The libraries that a program with libnibble.a links too: for CMake, and for pkg-config.
set(library_needs -lspdlog -lfmt -lsimdjson -lpcre2-8 -lsodium -lpthread)
list(JOIN library_needs " " library_flags)
set(library_finds "")
if(NIBBLE_CUDA)
  list(APPEND library_needs CUDA::cudart_static)
  string(APPEND library_flags " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt -ldl")
  set(library_finds "include(CMakeFindDependencyMacro)\n  find_dependency(CUDAToolkit 13)\n  ")
endif()

install(CODE "execute_process(
  COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --target nibble_static COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT static_library)
install(TARGETS nibble_static ARCHIVE DESTINATION lib COMPONENT static_library)
install(TARGETS nibble_shared LIBRARY DESTINATION lib NAMELINK_COMPONENT library COMPONENT library)
install(FILES src/library/nibble.h src/library/nibble.hpp DESTINATION include COMPONENT library)

include(CMakePackageConfigHelpers)
set(library_folder ${CMAKE_BINARY_DIR}/generated/library)
set(library_files ${CMAKE_SOURCE_DIR}/cmake/library)
configure_file(${library_files}/nibble.pc.in ${library_folder}/nibble.pc @ONLY)
configure_file(${library_files}/nibble-static.pc.in ${library_folder}/nibble-static.pc @ONLY)
configure_file(${library_files}/nibbleConfig.cmake.in ${library_folder}/nibbleConfig.cmake @ONLY)
write_basic_package_version_file(${library_folder}/nibbleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${library_folder}/nibble.pc DESTINATION lib/pkgconfig COMPONENT library)
install(FILES ${library_folder}/nibble-static.pc DESTINATION lib/pkgconfig COMPONENT static_library)
install(FILES ${library_folder}/nibbleConfig.cmake ${library_folder}/nibbleConfigVersion.cmake
        DESTINATION lib/cmake/nibble COMPONENT library)

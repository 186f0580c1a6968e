# libnibble.so.0: the C API of src/library/nibble.h over the same objects as the program. Exports only the symbols of
# libnibble.map. cmake --install installs it with its headers and its files for find_package(nibble) and pkg-config, as
# the component "library".
set(library_exports ${CMAKE_SOURCE_DIR}/src/library/libnibble.map)
add_library(nibble_shared SHARED $<TARGET_OBJECTS:nibble_library>)
target_link_libraries(nibble_shared PRIVATE nibble_library)
target_link_options(nibble_shared PRIVATE
  -Wl,--version-script=${library_exports} -Wl,--no-undefined -Wl,--gc-sections)
set_target_properties(nibble_shared PROPERTIES
  OUTPUT_NAME nibble VERSION 0.${PROJECT_VERSION_MINOR}.${PROJECT_VERSION_PATCH} SOVERSION 0 LINKER_LANGUAGE CXX
  LINK_DEPENDS ${library_exports} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

install(TARGETS nibble_shared LIBRARY DESTINATION lib NAMELINK_COMPONENT library COMPONENT library)
install(FILES src/library/nibble.h src/library/nibble.hpp DESTINATION include COMPONENT library)

include(CMakePackageConfigHelpers)
set(library_folder ${CMAKE_BINARY_DIR}/generated/library)
set(library_files ${CMAKE_SOURCE_DIR}/cmake/library)
configure_file(${library_files}/nibble.pc.in ${library_folder}/nibble.pc @ONLY)
configure_file(${library_files}/nibbleConfig.cmake.in ${library_folder}/nibbleConfig.cmake @ONLY)
write_basic_package_version_file(${library_folder}/nibbleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${library_folder}/nibble.pc DESTINATION lib/pkgconfig COMPONENT library)
install(FILES ${library_folder}/nibbleConfig.cmake ${library_folder}/nibbleConfigVersion.cmake
        DESTINATION lib/cmake/nibble COMPONENT library)

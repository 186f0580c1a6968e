# nibble_page(TARGET FOLDER): adds the files of FOLDER to TARGET as the table of src/server/page/page_files.h. The
# source file is written at configure time, and again when a file changes; if its text is unchanged, nothing is
# recompiled.

function(nibble_page target folder)
  set(source ${CMAKE_BINARY_DIR}/generated/server/page_files.cpp)
  set(rows "")
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js ${folder}/*.svg)
  foreach(file ${files})
    get_filename_component(name ${file} NAME)
    get_filename_component(ending ${file} LAST_EXT)
    string(REPLACE ".html" "text/html" type ${ending})
    string(REPLACE ".css" "text/css" type ${type})
    string(REPLACE ".js" "text/javascript" type ${type})
    string(REPLACE ".svg" "image/svg+xml" type ${type})
    file(SHA256 ${file} hash)
    string(SUBSTRING ${hash} 0 16 hash)
    file(READ ${file} text)
    string(APPEND rows "    {\"${name}\", \"${type}; charset=utf-8\", \"${hash}\", R\"page(${text})page\"},\n")
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
  file(WRITE ${source}.new "// Written by cmake/Page.cmake.
#include \"server/page/page_files.h\"

namespace nibble::server {

std::span<const PageFile> page_files() {
  static constexpr PageFile kPageFiles[] = {
${rows}  };
  return kPageFiles;
}

}  // namespace nibble::server
")
  file(COPY_FILE ${source}.new ${source} ONLY_IF_DIFFERENT)
  target_sources(${target} PRIVATE ${source})
endfunction()

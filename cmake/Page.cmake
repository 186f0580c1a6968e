# nibble_page(TARGET FOLDER): adds the files of FOLDER and the libraries of the page to TARGET as the table of
# src/server/page/page_files.h. The source file is written at configure time, and again when a file changes; if its text
# is unchanged, nothing is recompiled.

# JavaScript libraries that the page loads when it needs them. They are Debian's, and the same for every processor.
set(NIBBLE_PAGE_LIBRARIES ON CACHE BOOL "Embed KaTeX and highlight.js. Without them the page shows plain formulas and code")

# Languages of highlight.js that the page colours. All of them would take 270 KB compressed, twice the rest of the page.
set(page_languages
  apache awk bash cmake clojure cpp cs css d dart delphi diff dockerfile dos elixir elm erlang fortran fsharp glsl go
  gradle groovy haskell http ini java javascript json julia kotlin less lisp llvm lua makefile markdown
  matlab nginx nix objectivec ocaml perl php plaintext powershell prolog properties protobuf python r ruby rust scala
  scheme scss shell sql swift tcl tex typescript verilog vhdl vim xml yaml)

function(nibble_find_page_library variable name package)
  find_file(${variable} ${name} PATHS /usr/share/javascript NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
  if(NOT ${variable})
    message(FATAL_ERROR "/usr/share/javascript/${name} is missing. Install ${package}, or configure with -DNIBBLE_PAGE_LIBRARIES=OFF")
  endif()
endfunction()

# Writes highlight.js with only the languages of the page. Each begins with a call of registerLanguage().
function(nibble_write_highlight from to)
  file(READ ${from} rest)
  set(kept "")
  set(is_kept TRUE)
  set(call "hljs.registerLanguage(\"")
  string(LENGTH "${call}" width)
  while(NOT rest STREQUAL "")
    string(SUBSTRING "${rest}" ${width} -1 after)
    string(FIND "${after}" "${call}" end)
    if(end EQUAL -1)
      set(part "${rest}")
      set(rest "")
    else()
      math(EXPR end "${end} + ${width}")
      string(SUBSTRING "${rest}" 0 ${end} part)
      string(SUBSTRING "${rest}" ${end} -1 rest)
    endif()
    if(is_kept)
      string(APPEND kept "${part}")
    endif()
    string(REGEX MATCH "^hljs.registerLanguage\\(\"([^\"]*)\"" name "${rest}")
    list(FIND page_languages "${CMAKE_MATCH_1}" at)
    set(is_kept FALSE)
    if(NOT at EQUAL -1)
      set(is_kept TRUE)
    endif()
  endwhile()
  file(WRITE ${to} "${kept}")
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${from})
endfunction()

# Sets ${libraries} to the files to embed, each as NAME=FILE, and installs their licences.
function(nibble_page_libraries libraries)
  set(${libraries} "" PARENT_SCOPE)
  if(NOT NIBBLE_PAGE_LIBRARIES)
    return()
  endif()
  nibble_find_page_library(NIBBLE_KATEX katex/katex.js libjs-katex)
  nibble_find_page_library(NIBBLE_HIGHLIGHT highlight.js/highlight.min.js libjs-highlight.js)
  set(highlight ${CMAKE_BINARY_DIR}/generated/server/highlight.js)
  nibble_write_highlight(${NIBBLE_HIGHLIGHT} ${highlight})
  foreach(package libjs-katex libjs-highlight.js)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION share/doc/nibble/licences RENAME ${package})
  endforeach()
  set(${libraries} reading/katex.js=${NIBBLE_KATEX} reading/highlight.js=${highlight} PARENT_SCOPE)
endfunction()

# Sets ${row} to the service worker, which knows the names and hashes of all other files. So its text changes with any of them.
function(nibble_page_worker row folder hashes)
  file(READ ${folder}/worker.js text)
  string(SHA256 version "${hashes}")
  string(SUBSTRING ${version} 0 16 version)
  string(REPLACE "kVersion = \"\", kHashes = {}" "kVersion = \"${version}\", kHashes = {${hashes}}" text "${text}")
  string(SHA256 hash "${text}")
  string(SUBSTRING ${hash} 0 16 hash)
  set(${row} "    {\"worker.js\", \"text/javascript; charset=utf-8\", \"${hash}\", R\"page(${text})page\"sv},\n" PARENT_SCOPE)
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/worker.js)
endfunction()

function(nibble_page target folder)
  set(source ${CMAKE_BINARY_DIR}/generated/server/page_files.cpp)
  set(rows "")
  file(GLOB_RECURSE names CONFIGURE_DEPENDS RELATIVE ${folder} ${folder}/*.html ${folder}/*.css ${folder}/*.js
       ${folder}/*.svg ${folder}/*.webmanifest)
  nibble_page_libraries(libraries)
  list(REMOVE_ITEM names worker.js tools/sandbox_frame.js)
  set(hashes "")
  set(hashes_separator "")
  foreach(name ${names} ${libraries})
    set(file ${folder}/${name})
    if(name MATCHES "^([^=]*)=(.*)$")
      set(name ${CMAKE_MATCH_1})
      set(file ${CMAKE_MATCH_2})
    endif()
    get_filename_component(ending ${name} LAST_EXT)
    string(REPLACE ".html" "text/html" type ${ending})
    string(REPLACE ".css" "text/css" type ${type})
    string(REPLACE ".js" "text/javascript" type ${type})
    string(REPLACE ".webmanifest" "application/manifest+json" type ${type})
    string(REPLACE ".svg" "image/svg+xml" type ${type})
    file(SHA256 ${file} hash)
    file(READ ${file} text)
    if(name STREQUAL "tools/sandbox.html")  # with its script: requests of its opaque origin would be refused
      file(READ ${folder}/tools/sandbox_frame.js script)
      string(REPLACE " src=\"sandbox_frame.js\"></script>" ">\n${script}</script>" text "${text}")
      string(SHA256 hash "${text}")
      set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/tools/sandbox_frame.js)
    endif()
    string(SUBSTRING ${hash} 0 16 hash)
    string(APPEND rows "    {\"${name}\", \"${type}; charset=utf-8\", \"${hash}\", R\"page(${text})page\"sv},\n")
    if(name STREQUAL "chat/chat.html")  # also at /c/ID, one folder deeper
      string(REGEX REPLACE "(href|src)=\"(page/|status)" "\\1=\"../\\2" text "${text}")
      string(APPEND rows "    {\"chat/conversation.html\", \"${type}; charset=utf-8\", \"${hash}\", R\"page(${text})page\"sv},\n")
      string(APPEND hashes "${hashes_separator}\"chat/conversation.html\":\"${hash}\"")
      set(hashes_separator ",")
    endif()
    string(APPEND hashes "${hashes_separator}\"${name}\":\"${hash}\"")
    set(hashes_separator ",")
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
  nibble_page_worker(worker_row ${folder} "${hashes}")
  string(APPEND rows "${worker_row}")
  file(WRITE ${source}.new "// Written by cmake/Page.cmake.
#include \"server/page/page_files.h\"

namespace nibble::server {

std::span<const PageFile> page_files() {
  using namespace std::string_view_literals;  // their length needs no loop at compile time, which has a limit
  static constexpr PageFile kPageFiles[] = {
${rows}  };
  return kPageFiles;
}

}  // namespace nibble::server
")
  file(COPY_FILE ${source}.new ${source} ONLY_IF_DIFFERENT)
  # KaTeX has characters that change the direction of text. Compiled alone, because the page changes often.
  set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
                              COMPILE_OPTIONS $<$<CXX_COMPILER_ID:GNU>:-Wno-bidi-chars>)
  target_sources(${target} PRIVATE ${source})
endfunction()

# nibble_editline: libedit, the line editor of nibble chat, and its dependencies. Linked statically if the archives
# exist.
find_path(EDITLINE_INCLUDE histedit.h REQUIRED)
add_library(nibble_editline INTERFACE)
target_include_directories(nibble_editline SYSTEM INTERFACE ${EDITLINE_INCLUDE})
find_library(EDITLINE_LIBRARY NAMES libedit.a edit REQUIRED)
target_link_libraries(nibble_editline INTERFACE ${EDITLINE_LIBRARY})
foreach(name tinfo bsd md)  # libbsd's checksums are in libmd
  find_library(EDITLINE_${name} NAMES lib${name}.a ${name})
  if(EDITLINE_${name})  # outside Debian a shared libedit loads its own dependencies
    target_link_libraries(nibble_editline INTERFACE ${EDITLINE_${name}})
  endif()
endforeach()

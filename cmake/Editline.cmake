# nibble_editline: libedit, with which a chat edits its lines, and what it needs itself. Statically where the archives are there.
find_path(EDITLINE_INCLUDE histedit.h REQUIRED)
add_library(nibble_editline INTERFACE)
target_include_directories(nibble_editline SYSTEM INTERFACE ${EDITLINE_INCLUDE})
find_library(EDITLINE_LIBRARY NAMES libedit.a edit REQUIRED)
target_link_libraries(nibble_editline INTERFACE ${EDITLINE_LIBRARY})
foreach(name tinfo bsd md)  # libbsd's checksums are libmd's
  find_library(EDITLINE_${name} NAMES lib${name}.a ${name})
  if(EDITLINE_${name})  # elsewhere than in Debian a shared libedit brings them along
    target_link_libraries(nibble_editline INTERFACE ${EDITLINE_${name}})
  endif()
endforeach()

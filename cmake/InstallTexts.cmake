# Run by cmake --install (see Install.cmake): writes the manual pages share/man/man1/nibble.1 and nibble-COMMAND.1, and the
# completions of bash, zsh and fish. Variables: nibble, the command that runs the program; work, a folder to write to.

# Installations may run at the same time: each has a folder of its own.
string(RANDOM LENGTH 12 own)
string(APPEND work "-${own}")

function(ask variable)
  execute_process(COMMAND ${nibble} ${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE result ERROR_VARIABLE error
                  COMMAND_ERROR_IS_FATAL ANY)
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

function(install_text text destination name)
  file(WRITE "${work}/${name}" "${text}")
  file(INSTALL "${work}/${name}" DESTINATION "${CMAKE_INSTALL_PREFIX}/${destination}")
  set(CMAKE_INSTALL_MANIFEST_FILES "${CMAKE_INSTALL_MANIFEST_FILES}" PARENT_SCOPE)
endfunction()

ask(page manual)
install_text("${page}" share/man/man1 nibble.1)
ask(help --help)
string(REGEX REPLACE ".*\nSubcommands:\n" "" below "${help}")
string(REGEX REPLACE "\n\n.*" "" below "${below}")
string(REGEX MATCHALL "(^|\n)  [a-z_]+" names "${below}")
foreach(name IN LISTS names)
  string(STRIP "${name}" name)
  ask(page manual ${name})
  install_text("${page}" share/man/man1 nibble-${name}.1)
endforeach()

foreach(file bash:share/bash-completion/completions:nibble zsh:share/zsh/site-functions:_nibble
             fish:share/fish/vendor_completions.d:nibble.fish)
  string(REPLACE ":" ";" file ${file})
  list(GET file 0 shell)
  list(GET file 1 destination)
  list(GET file 2 name)
  ask(completions completions ${shell})
  install_text("${completions}" ${destination} ${name})
endforeach()
file(REMOVE_RECURSE "${work}")

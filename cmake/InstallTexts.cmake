# Run by cmake --install (see Install.cmake): writes share/man/man1/nibble.1 and the completions of bash, zsh and fish.
# Variables: nibble, the command that runs the program; version; work, a folder to write to.

function(ask variable)
  execute_process(COMMAND ${nibble} ${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE result ERROR_VARIABLE error
                  COMMAND_ERROR_IS_FATAL ANY)
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

# Appends the help of a command unchanged, then the help of its subcommands.
function(append_help)
  ask(help ${ARGN} --help)
  list(JOIN ARGN " " path)
  set(page "${page}.SH \"NIBBLE ${path}\"\n")
  string(REPLACE "\\" "\\e" text "${help}")
  string(REPLACE "-" "\\-" text "${text}")
  # Escapes a leading . or ', which would start a roff request.
  string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}")
  string(STRIP "${text}" text)
  set(page "${page}.nf\n${text}\n.fi\n")
  if(help MATCHES "\nSubcommands:\n(.*)")
    string(REGEX REPLACE "\n\n.*" "" below "${CMAKE_MATCH_1}")
    string(REGEX MATCHALL "(^|\n)  [a-z_]+" names "${below}")
    foreach(name IN LISTS names)
      string(STRIP "${name}" name)
      append_help(${ARGN} ${name})
    endforeach()
  endif()
  set(page "${page}" PARENT_SCOPE)
endfunction()

function(install_text text destination name)
  file(WRITE "${work}/${name}" "${text}")
  file(INSTALL "${work}/${name}" DESTINATION "${CMAKE_INSTALL_PREFIX}/${destination}")
  set(CMAKE_INSTALL_MANIFEST_FILES "${CMAKE_INSTALL_MANIFEST_FILES}" PARENT_SCOPE)
endfunction()

set(page ".TH NIBBLE 1 \"\" \"nibble ${version}\"
.SH NAME
nibble \\- run OpenAI's gpt\\-oss models
")
append_help()
install_text("${page}" share/man/man1 nibble.1)

foreach(file bash:share/bash-completion/completions:nibble zsh:share/zsh/site-functions:_nibble
             fish:share/fish/vendor_completions.d:nibble.fish)
  string(REPLACE ":" ";" file ${file})
  list(GET file 0 shell)
  list(GET file 1 destination)
  list(GET file 2 name)
  ask(completions completions ${shell})
  install_text("${completions}" ${destination} ${name})
endforeach()

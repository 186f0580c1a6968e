# Run by the build (see Version.cmake). Outside a git checkout the commit is "unknown".
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit unknown)
endif()
if(SANITIZE)
  string(APPEND BUILD " with ${SANITIZE} sanitizers")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
// Written by cmake/WriteCommit.cmake.
#pragma once

namespace nibble {

inline constexpr char kVersion[]{"@VERSION@"};
inline constexpr char kCommit[]{"@commit@"};
inline constexpr char kBuild[]{"@BUILD@"};
inline constexpr char kCompiler[]{"@COMPILER@"};
inline constexpr char kBuildName[]{"nibble @VERSION@, commit @commit@"};  // Settings::build

}  // namespace nibble
]] @ONLY)

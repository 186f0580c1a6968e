// Handles stdin, stdout and stderr that the parent left closed, full, or connected
// to a pipe without a reader.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::cli {

// Call this first. Opens a placeholder for each closed stream, which stays unusable. Without it the next file
// that is opened would get the stream's number, and messages for stderr would go into that file. Also
// restores the default action of SIGPIPE, even if the parent ignores it: when the reader of a pipe is gone
// (nibble ... | head), the program ends silently, like standard tools.
void prepare_standard_streams();

// Call this first in a server: from then on neither a closed pipe nor a hangup of
// the terminal ends the process.
void outlive_the_terminal();

// Writes information for people to stdout. A failure is ignored, because no program depends on it.
void announce(std::string_view text);

// Call this last: flushes stdout. Returns why the output is incomplete, or nullopt if it is complete.
std::optional<std::string> finish_output();

}  // namespace nibble::cli

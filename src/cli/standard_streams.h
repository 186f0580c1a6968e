// stdin, stdout and stderr as a parent left them: closed, full, or a pipe that nobody reads any more.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::cli {

// Called first. A closed stream stays unusable, but its number is taken: the next file that is opened would get it, and what is said
// on stderr would land in that. Where the reader of a pipe has gone (nibble ... | head) the program ends, quietly, as the system's own
// tools do, also where its parent ignores the signal.
void prepare_standard_streams();

// Called first by a server: neither a closed pipe nor a hangup of the terminal ends the process from then on.
void outlive_the_terminal();

// Writes to stdout what people like to know and no program needs. A failure changes nothing.
void announce(std::string_view text);

// Called last: writes what is still held back. Why the answer on stdout is not whole; nothing where it is.
std::optional<std::string> finish_output();

}  // namespace nibble::cli

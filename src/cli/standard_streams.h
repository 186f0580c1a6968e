// Handles stdin, stdout and stderr that are closed, full, or a pipe without a reader.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::cli {

// Call first. Opens an unusable placeholder for each closed stream; otherwise the next opened file would get
// the stream's number and receive messages for stderr. Restores the default action of SIGPIPE even if the
// parent ignores it: without a reader (nibble ... | head) the program ends silently, like standard tools.
void prepare_standard_streams();

// For servers: neither a closed pipe nor a hangup of the terminal ends the process from then on.
void outlive_the_terminal();

void announce(std::string_view text);  // for information that no program reads: ignores failures

// Call last: flushes stdout. Returns why the output is incomplete, or nullopt.
std::optional<std::string> finish_output();

}  // namespace nibble::cli

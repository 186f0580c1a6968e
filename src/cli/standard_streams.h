// Handles stdin, stdout and stderr that are closed, full, or a pipe without a reader.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::cli {

// Call this first. Opens a placeholder for each closed stream; otherwise the next opened file would get the
// stream's descriptor and receive, for instance, messages for stderr. Restores the default action of SIGPIPE
// even if the parent ignores it: `nibble ... | head` then ends silently, like standard tools.
void prepare_standard_streams();

// A server calls this function. From then on, a closed pipe or a hangup of the terminal does not end the
// process.
void outlive_the_terminal();

void announce(std::string_view text);  // prints information that no program reads; ignores failures

// Call last: flushes stdout. Returns why the output is incomplete, or nullopt.
std::optional<std::string> finish_output();

}  // namespace nibble::cli

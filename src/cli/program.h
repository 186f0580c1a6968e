// The program nibble: parses the command line and runs one command.
#pragma once

namespace nibble::cli {

// Returns the exit code. Every failure is a line on stderr.
int run_program(int argc, char** argv);

}  // namespace nibble::cli

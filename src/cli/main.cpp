// Includes no header that is slow to compile: this file is compiled again for every program that links it.
#include "cli/program.h"

int main(int argc, char** argv) { return nibble::cli::run_program(argc, argv); }

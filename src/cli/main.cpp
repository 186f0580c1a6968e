// Includes nothing that is slow to compile: each program that is linked compiles this file.
#include "cli/program.h"

int main(int argc, char** argv) { return nibble::cli::run_program(argc, argv); }

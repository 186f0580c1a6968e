// Locations of the committed test data and of this build's own files, so that tests run in any folder. Only
// folders.cpp contains the paths. As a macro for every test, they would make each object file different in
// each clone, and a compiler cache useless.
#pragma once

#include <string>
#include <string_view>

namespace nibble::test {

// Returns the absolute path of `below`, which is relative to the checkout:
// source_path("models/tiny-gpt-oss"). Empty: the checkout itself.
std::string source_path(std::string_view below = "");
// Returns a path in the folder in which this program was built.
std::string build_path(std::string_view below = "");

}  // namespace nibble::test

// Says where the committed test data and this build's own files are, so that tests run from any folder. The paths are compiled into
// folders.cpp alone: as a definition for every test they would make each of their objects different in each clone, and a
// compiler cache useless there.
#pragma once

#include <string>
#include <string_view>

namespace nibble::test {

// The absolute path of `below`, which is relative to the checkout: source_path("models/tiny-gpt-oss"). Empty: the checkout itself.
std::string source_path(std::string_view below = "");
// The same for the folder that this program was built in.
std::string build_path(std::string_view below = "");

}  // namespace nibble::test

// Random ids for requests, answers and tool calls.
#pragma once

#include <string>

namespace nibble::server {

// 96 random bits as hexadecimal digits.
std::string random_id();

}  // namespace nibble::server

#pragma once

#include <string>

namespace nibble::server {

// 96 random bits in hexadecimal, for requests, answers and tool calls.
std::string random_id();

}  // namespace nibble::server

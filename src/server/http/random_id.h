#pragma once

#include <string>

namespace nibble::server {

std::string random_id();  // 96 random bits in hexadecimal, for requests, answers and tool calls

}  // namespace nibble::server
